//! What is done behind a scan: columns are computed, rows aggregated in part, or the first ones of an order kept.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;

use super::constants::Constants;
use super::expression::Expression;
use super::wire::{self, Cursor, MOST};
use super::{NotPushable, Refused};
use crate::exact;

/// An expression and what its column is called.
type Named = (Expression, String);

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Columns that are computed of a row.
    Project(Vec<Named>),
    /// Groups, and for each the states of aggregates.
    Aggregate { groups: Vec<Named>, aggregates: Vec<Aggregate> },
    /// The first rows of an order.
    Top { keys: Vec<Key>, rows: u64 },
}

/// An aggregate, of which the states travel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    function: Function,
    arguments: Vec<Expression>,
    /// Only of rows that pass.
    filter: Option<Expression>,
    name: String,
}

/// What rows are ordered by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    value: Expression,
    descending: bool,
    nulls_first: bool,
}

/// The aggregates that can travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Count,
    Sum,
    Avg,
    Min,
    Max,
}

impl Function {
    const ALL: [Self; 5] = [Self::Count, Self::Sum, Self::Avg, Self::Min, Self::Max];

    fn implementation(self) -> Arc<AggregateUDF> {
        match self {
            Self::Count => count_udaf(),
            Self::Sum => exact::sum(),
            Self::Avg => exact::average(),
            Self::Min => exact::least(),
            Self::Max => exact::greatest(),
        }
    }
}

impl Aggregate {
    /// Whether it counts or sums all rows, which as a rule is done on their pages.
    pub(crate) fn is_of_numbers(&self) -> bool {
        self.filter.is_none() && !matches!(self.function, Function::Min | Function::Max)
    }

    fn of(
        aggregate: &AggregateFunctionExpr,
        filter: Option<&Arc<dyn datafusion::physical_expr::PhysicalExpr>>,
    ) -> Result<Self, NotPushable> {
        let known = Function::ALL.into_iter().find(|function| function.implementation().as_ref() == aggregate.fun());
        let odd = aggregate.is_distinct()
            || aggregate.ignore_nulls()
            || aggregate.is_reversed()
            || !aggregate.order_bys().is_empty();
        let function = known.filter(|_| !odd).ok_or_else(|| NotPushable(format!("`{}`", aggregate.name())))?;
        Ok(Self {
            function,
            arguments: aggregate.expressions().iter().map(Expression::of).collect::<Result<_, _>>()?,
            filter: filter.map(Expression::of).transpose()?,
            name: aggregate.name().to_owned(),
        })
    }
}

impl Step {
    pub(crate) fn of_projection(projection: &ProjectionExec) -> Result<Self, NotPushable> {
        let named = |column: &ProjectionExpr| Ok((Expression::of(&column.expr)?, column.alias.clone()));
        Ok(Self::Project(projection.expr().iter().map(named).collect::<Result<_, _>>()?))
    }

    pub(crate) fn of_aggregate(aggregate: &AggregateExec) -> Result<Self, NotPushable> {
        let groups = aggregate.group_expr();
        if groups.has_grouping_set() || !groups.null_expr().is_empty() {
            return Err(NotPushable("GROUPING SETS".to_owned()));
        }
        let named = |(value, name): &(_, String)| Ok((Expression::of(value)?, name.clone()));
        let aggregates = aggregate.aggr_expr().iter().zip(aggregate.filter_expr());
        Ok(Self::Aggregate {
            groups: groups.expr().iter().map(named).collect::<Result<_, NotPushable>>()?,
            aggregates: aggregates
                .map(|(aggregate, filter)| Aggregate::of(aggregate, filter.as_ref()))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Nothing if it sorts all rows, which saves nobody any work.
    pub(crate) fn of_sort(sort: &SortExec) -> Result<Option<Self>, NotPushable> {
        let Some(rows) = sort.fetch() else { return Ok(None) };
        let key = |key: &PhysicalSortExpr| {
            let SortOptions { descending, nulls_first } = key.options;
            Ok(Key { value: Expression::of(&key.expr)?, descending, nulls_first })
        };
        let keys = sort.expr().iter().map(key).collect::<Result<_, NotPushable>>()?;
        Ok(Some(Self::Top { keys, rows: rows as u64 }))
    }

    /// The operator that does it to the rows of `input`.
    pub(crate) fn over(&self, input: Arc<dyn ExecutionPlan>) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let schema = input.schema();
        match self {
            Self::Project(columns) => {
                let column =
                    |(value, name): &Named| Ok(ProjectionExpr { expr: value.over(&schema)?, alias: name.clone() });
                let columns = columns.iter().map(column).collect::<DataFusionResult<Vec<_>>>()?;
                Ok(Arc::new(ProjectionExec::try_new(columns, input)?))
            }
            Self::Aggregate { groups, aggregates } => {
                let group = |(value, name): &Named| Ok((value.over(&schema)?, name.clone()));
                let groups = groups.iter().map(group).collect::<DataFusionResult<Vec<_>>>()?;
                let (mut functions, mut filters) = (Vec::new(), Vec::new());
                for Aggregate { function, arguments, filter, name } in aggregates {
                    let arguments = arguments.iter().map(|argument| argument.over(&schema));
                    let made = AggregateExprBuilder::new(
                        function.implementation(),
                        arguments.collect::<DataFusionResult<_>>()?,
                    );
                    functions.push(Arc::new(made.schema(Arc::clone(&schema)).alias(name).build()?));
                    filters.push(filter.as_ref().map(|filter| filter.over(&schema)).transpose()?);
                }
                let (mode, groups) = (AggregateMode::Partial, PhysicalGroupBy::new_single(groups));
                Ok(Arc::new(AggregateExec::try_new(mode, groups, functions, filters, input, schema)?))
            }
            Self::Top { keys, rows } => {
                let key = |key: &Key| {
                    let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
                    Ok(PhysicalSortExpr { expr: key.value.over(&schema)?, options })
                };
                let keys = keys.iter().map(key).collect::<DataFusionResult<Vec<_>>>()?;
                match LexOrdering::new(keys) {
                    Some(order) => {
                        let sort = SortExec::new(order, input).with_preserve_partitioning(true);
                        Ok(Arc::new(sort.with_fetch(Some(*rows as usize))))
                    }
                    None => Ok(input),
                }
            }
        }
    }

    pub(super) fn encode(&self, to: &mut Vec<u8>, constants: &mut Constants) {
        let put_named = |to: &mut Vec<u8>, constants: &mut Constants, named: &[Named]| {
            wire::put_count(to, named.len());
            for (value, name) in named {
                value.encode(to, constants);
                wire::put_text(to, name);
            }
        };
        match self {
            Self::Project(columns) => {
                to.push(0);
                put_named(to, constants, columns);
            }
            Self::Aggregate { groups, aggregates } => {
                to.push(1);
                put_named(to, constants, groups);
                wire::put_count(to, aggregates.len());
                for Aggregate { function, arguments, filter, name } in aggregates {
                    to.push(*function as u8);
                    wire::put_count(to, arguments.len());
                    for argument in arguments {
                        argument.encode(to, constants);
                    }
                    wire::put_option(to, filter.as_ref(), |to, filter| filter.encode(to, constants));
                    wire::put_text(to, name);
                }
            }
            Self::Top { keys, rows } => {
                to.push(2);
                wire::put_count(to, keys.len());
                for key in keys {
                    key.value.encode(to, constants);
                    to.extend_from_slice(&[u8::from(key.descending), u8::from(key.nulls_first)]);
                }
                to.extend_from_slice(&rows.to_le_bytes());
            }
        }
    }

    pub(super) fn decode(from: &mut Cursor<'_>, constants: &Constants) -> Result<Self, Refused> {
        let value = |from: &mut Cursor<'_>| Expression::decode(from, constants);
        let named = |from: &mut Cursor<'_>| Ok((value(from)?, from.text()?.to_owned()));
        let aggregate = |from: &mut Cursor<'_>| {
            let function = Function::ALL.get(usize::from(from.u8()?)).copied();
            Ok(Aggregate {
                function: function.ok_or_else(|| Refused::because("there is no such aggregate"))?,
                arguments: from.list(MOST, value)?,
                filter: from.option(value)?,
                name: from.text()?.to_owned(),
            })
        };
        let key = |from: &mut Cursor<'_>| {
            Ok(Key { value: value(from)?, descending: from.flag()?, nulls_first: from.flag()? })
        };
        Ok(match from.u8()? {
            0 => Self::Project(from.list(MOST, named)?),
            1 => Self::Aggregate { groups: from.list(MOST, named)?, aggregates: from.list(MOST, aggregate)? },
            2 => Self::Top { keys: from.list(MOST, key)?, rows: from.u64()? },
            _ => return Err(Refused::because("there is no such step")),
        })
    }
}

/// As `EXPLAIN` shows it.
impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = |named: &[Named]| named.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ");
        match self {
            Self::Project(columns) => write!(f, "columns [{}]", names(columns)),
            Self::Aggregate { groups, aggregates } => {
                let aggregates: Vec<&str> = aggregates.iter().map(|aggregate| aggregate.name.as_str()).collect();
                write!(f, "partial aggregates [{}] by [{}]", aggregates.join(", "), names(groups))
            }
            Self::Top { rows, .. } => write!(f, "first {rows}"),
        }
    }
}
