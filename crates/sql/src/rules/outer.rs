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

use super::has_node;
use crate::Error;

/// The rule. To be run whenever columns have got other types, before anything goes by those of a subquery; and once behind the coercion of types, where it refuses what
/// came too late.
#[derive(Debug)]
pub(crate) enum OuterTypes {
    Take,
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
            let is_right = before.as_ref().filter(|_| joins).is_some_and(|left| {
                around.push(left.clone());
                true
            });
            let child = self.within(child, around)?;
            if is_right {
                around.pop();
            }
            before = Some(child.data.schema().as_ref().clone());
            Ok(child)
        })?;
        let own = below.transform_data(|plan| {
            around.push(merge_schema(&plan.inputs()));
            let nested = plan.map_subqueries(|subquery| self.within(subquery, around));
            around.pop();
            nested?.transform_data(|plan| self.own(plan, around))
        })?;
        // A UNION finds its own types.
        Ok(if own.transformed && !matches!(own.data, LogicalPlan::Union(_)) {
            own.map_data(LogicalPlan::recompute_schema)?
        } else {
            own
        })
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
        match self {
            Self::Take => Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(found), column))),
            Self::Check => Err(Error::unsupported(
                format!("the column {} of values of several types in a subquery", column.name),
                "CAST the values to one type in the query that gives the column",
            )
            .into()),
        }
    }
}

fn field<'a>(schema: &'a DFSchema, column: &Column) -> Option<&'a FieldRef> {
    schema.maybe_index_of_column(column).map(|at| &schema.fields()[at])
}
