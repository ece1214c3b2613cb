//! What a subquery takes from the query around it has the type that it has there.
//!
//! DataFusion writes the type of such a column down where it is named. When the column gets another one, as those of a UNION and of a CASE do, the subquery goes on with the
//! one that was written down: decimals of other digits are compared as if they had the same.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::analyzer::AnalyzerRule;

use ishigaki_scan::exact;

use super::has_node;
use crate::Error;

/// The rule.
#[derive(Debug)]
pub(crate) enum OuterTypes {
    /// Has values that come together get [one type](exact::MixedTypes), from the outer queries to the inner ones where these take columns from those. To be run before that rule.
    Take,
    /// Refuses what came too late. To be run behind the coercion of types.
    Check,
}

impl AnalyzerRule for OuterTypes {
    fn name(&self) -> &'static str {
        "outer_types"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        // Looking is quicker than to take every plan apart.
        if !has_node(&plan, &|node| has_outer_columns(node))? {
            return Ok(plan);
        }
        self.within(plan, &mut Vec::new()).data()
    }
}

fn has_outer_columns(node: &LogicalPlan) -> Result<bool> {
    let mut found = matches!(node, LogicalPlan::Subquery(subquery) if !subquery.outer_ref_columns.is_empty());
    node.apply_expressions(|expression| {
        found = found || expression.exists(|part| Ok(matches!(part, Expr::OuterReferenceColumn(..))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

impl OuterTypes {
    /// A plan whose subqueries have the types of their surroundings, the innermost of which comes last.
    fn within(&self, plan: LogicalPlan, around: &mut Vec<DFSchema>) -> Result<Transformed<LogicalPlan>> {
        let joins = matches!(plan, LogicalPlan::Join(_));
        let mut before: Option<DFSchema> = None;
        let below = plan.map_children(|child| {
            // A lateral subquery is on the right of what it takes columns from.
            let left = before.take().filter(|_| is_lateral(&child));
            let is_lateral = left.is_some();
            around.extend(left);
            let child = self.within(child, around)?;
            if is_lateral {
                around.pop();
            }
            before = joins.then(|| child.data.schema().as_ref().clone());
            Ok(child)
        })?;
        let own = below.transform_data(|plan| {
            around.push(merge_schema(&plan.inputs()));
            let nested = plan.map_subqueries(|subquery| self.within(subquery, around));
            around.pop();
            nested?.transform_data(|plan| self.own(plan, around))
        })?;
        // What is taken from here has its type then.
        match self {
            Self::Take => own.transform_data(exact::settle),
            Self::Check => Ok(own),
        }
    }

    /// The columns from outside that a node names itself.
    fn own(&self, plan: LogicalPlan, around: &[DFSchema]) -> Result<Transformed<LogicalPlan>> {
        let mut take = |expression: Expr| expression.transform_up(|part| self.column(part, around));
        if let LogicalPlan::Subquery(Subquery { subquery, outer_ref_columns, spans }) = plan {
            let taken = outer_ref_columns.into_iter().map(|column| take(column).data()).collect::<Result<_>>()?;
            return Ok(Transformed::yes(LogicalPlan::Subquery(Subquery { subquery, outer_ref_columns: taken, spans })));
        }
        plan.map_expressions(&mut take)
    }

    fn column(&self, part: Expr, around: &[DFSchema]) -> Result<Transformed<Expr>> {
        let Expr::OuterReferenceColumn(written, column) = part else { return Ok(Transformed::no(part)) };
        let Some(found) = around.iter().rev().find_map(|schema| field(schema, &column)) else {
            return Ok(Transformed::no(Expr::OuterReferenceColumn(written, column)));
        };
        if found.data_type() == written.data_type() {
            return Ok(Transformed::no(Expr::OuterReferenceColumn(written, column)));
        }
        let are_texts = found.data_type().is_string() && written.data_type().is_string();
        match self {
            Self::Check if !are_texts => Err(Error::unsupported(
                format!(
                    "the column {} in a subquery, which is {} where it comes from, and {} where it is named,",
                    column.name,
                    found.data_type(),
                    written.data_type()
                ),
                "CAST the values to one type in the query that gives the column",
            )
            .into()),
            _ => Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(found), column))),
        }
    }
}

/// Whether a side of a join is a lateral subquery, under the names that it was given.
fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Projection(_) => plan.inputs().into_iter().all(is_lateral),
        _ => false,
    }
}

fn field<'a>(schema: &'a DFSchema, column: &Column) -> Option<&'a FieldRef> {
    schema.maybe_index_of_column(column).map(|at| &schema.fields()[at])
}
