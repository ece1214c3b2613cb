//! What is to be counted, and how the states of it come out.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Decimal128Array, Int64Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::InputOrderMode;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::projection::ProjectionExec;

use super::keys::Keys;
use super::program::Program;
use super::sums::{SUMS, Sums};
use crate::exact;
use crate::table::PageScan;

/// What is to be counted of pages.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) program: Program,
    pub(super) keys: Keys,
    /// The steps of the program whose values are summed.
    pub(super) sums: Vec<usize>,
    states: Vec<State>,
}

/// A column of an aggregate's state.
#[derive(Clone, Copy, Debug)]
enum State {
    Count,
    /// One of the sums.
    Sum(usize),
}

/// A recipe, the operators that it is for, the innermost first, and the scan below them.
type Found = (Recipe, Vec<Arc<dyn ExecutionPlan>>, Arc<dyn ExecutionPlan>);

impl Recipe {
    /// How the work of an aggregate is done on pages. Nothing if it can not be.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>, aggregate: &AggregateExec) -> Option<Found> {
        let groups = aggregate.group_expr();
        let is_simple = *aggregate.mode() == AggregateMode::Partial
            && aggregate.limit_options().is_none()
            && *aggregate.input_order_mode() == InputOrderMode::Linear
            && aggregate.filter_expr().iter().all(Option::is_none)
            && !groups.has_grouping_set()
            && groups.null_expr().is_empty();
        if !is_simple {
            return None;
        }
        let (mut instead_of, mut node) = (vec![Arc::clone(plan)], aggregate.input());
        while let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            instead_of.push(Arc::clone(node));
            node = projection.input();
        }
        let scan = node.downcast_ref::<PageScan>().filter(|scan| scan.limit.is_none())?;
        // From the aggregate's expressions to those over the scan.
        let projections: Vec<&ProjectionExec> = instead_of.iter().filter_map(|node| node.downcast_ref()).collect();
        let over_scan = |expression: &Arc<dyn PhysicalExpr>| {
            projections
                .iter()
                .try_fold(Arc::clone(expression), |expression, projection| inlined(expression, projection))
                .ok()
        };
        let key = |(value, _): &(Arc<dyn PhysicalExpr>, String)| {
            let value = over_scan(value)?;
            scan.projection.get(value.downcast_ref::<Column>()?.index()).copied()
        };
        let keys = Keys::new(&groups.expr().iter().map(key).collect::<Option<Vec<_>>>()?, &scan.table)?;
        let mut recipe = Self { program: Program::default(), keys, sums: Vec::new(), states: Vec::new() };
        for of in aggregate.aggr_expr() {
            recipe.add(of, &over_scan, scan)?;
        }
        let fits = recipe.sums.len() <= SUMS && recipe.fits(&aggregate.schema(), groups.expr().len());
        instead_of.reverse();
        fits.then(|| (recipe, instead_of, Arc::clone(node)))
    }

    fn add(
        &mut self,
        aggregate: &AggregateFunctionExpr,
        over_scan: &impl Fn(&Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>>,
        scan: &PageScan,
    ) -> Option<()> {
        if aggregate.is_distinct() || aggregate.is_reversed() || !aggregate.order_bys().is_empty() {
            return None;
        }
        let arguments = aggregate.expressions();
        let [argument] = arguments.as_slice() else { return None };
        let argument = over_scan(argument)?;
        let counts_all = argument.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null());
        let is = |other: Arc<datafusion::logical_expr::AggregateUDF>| *aggregate.fun() == *other;
        if is(count_udaf()) && counts_all {
            self.states.push(State::Count);
            return Some(());
        }
        let step = self.program.add(&argument, &scan.projection, &scan.schema)?;
        if is(count_udaf()) {
            // Computed, and so known to have no nulls.
            self.states.push(State::Count);
            return Some(());
        }
        let sum = self.sums.iter().position(|known| *known == step).unwrap_or_else(|| {
            self.sums.push(step);
            self.sums.len() - 1
        });
        if is(exact::sum()) {
            self.states.push(State::Sum(sum));
        } else if is(exact::average()) {
            self.states.extend([State::Count, State::Sum(sum)]);
        } else {
            return None;
        }
        Some(())
    }

    /// Whether the states are of types that are made here.
    fn fits(&self, schema: &Schema, groups: usize) -> bool {
        let columns = schema.fields().get(groups..).unwrap_or_default();
        columns.len() == self.states.len()
            && columns.iter().zip(&self.states).all(|(field, state)| match state {
                State::Count => matches!(field.data_type(), DataType::Int64 | DataType::UInt64),
                State::Sum(_) => matches!(field.data_type(), DataType::Decimal128(..)),
            })
    }

    /// The states of slots, as columns.
    pub(super) fn states(&self, sums: &Sums, slots: &[usize], schema: &Schema) -> Result<Vec<ArrayRef>> {
        let types =
            schema.fields().iter().skip(schema.fields().len() - self.states.len()).map(|field| field.data_type());
        let column = |(state, data_type): (&State, &DataType)| -> Result<ArrayRef> {
            let values = slots.iter().map(|&slot| match state {
                State::Count => sums.count(slot),
                State::Sum(sum) => sums.sum(slot, *sum),
            });
            Ok(match data_type {
                DataType::Int64 => Arc::new(Int64Array::from_iter_values(values.map(|value| value as i64))),
                DataType::UInt64 => Arc::new(UInt64Array::from_iter_values(values.map(|value| value as u64))),
                DataType::Decimal128(precision, scale) => {
                    Arc::new(Decimal128Array::from_iter_values(values).with_precision_and_scale(*precision, *scale)?)
                }
                other => return Err(DataFusionError::Internal(format!("a state of {other} is not counted on pages"))),
            })
        };
        self.states.iter().zip(types).map(column).collect()
    }
}

/// An expression over what a projection gives, as one over what it takes.
fn inlined(expression: Arc<dyn PhysicalExpr>, projection: &ProjectionExec) -> Result<Arc<dyn PhysicalExpr>> {
    expression
        .transform_down(|expression| {
            let Some(column) = expression.downcast_ref::<Column>() else { return Ok(Transformed::no(expression)) };
            let Some(column) = projection.expr().get(column.index()) else {
                return Err(DataFusionError::Internal(format!("a projection has no column {}", column.index())));
            };
            let (inner, jump) = (Arc::clone(&column.expr), datafusion::common::tree_node::TreeNodeRecursion::Jump);
            Ok(Transformed::new(inner, true, jump))
        })
        .data()
}
