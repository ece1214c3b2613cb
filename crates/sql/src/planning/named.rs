//! Keys of joins have names of their own.
//!
//! A function that stands for a cast has the name of what is cast, as DataFusion's casts have, so that the columns of a result keep
//! theirs. A join computes its keys beside the columns of its side, where two of one name are an error; DataFusion renames casts there.
//!
//! Nor are literals keys that are the same on both sides, as what is left of `a IS NULL = b IS NULL` where neither can be NULL: both sides would have a column of that name.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rule. To be run as the last one.
#[derive(Debug)]
pub(super) struct NamedKeys;

impl OptimizerRule for NamedKeys {
    fn name(&self) -> &'static str {
        "named_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        let keys = join.on.len();
        if !join.on.iter().all(are_one_literal) {
            join.on.retain(|pair| !are_one_literal(pair));
        }
        let (left, right) = (join.left.schema().as_ref(), join.right.schema().as_ref());
        if !join.on.iter().any(|(of, other)| has_taken_name(of, left) || has_taken_name(other, right)) {
            let is_shorter = join.on.len() < keys;
            return Ok(Transformed::new_transformed(LogicalPlan::Join(join), is_shorter));
        }
        let on = join.on.iter().map(|(of, other)| (named(of, left), named(other, right))).collect();
        Ok(Transformed::yes(LogicalPlan::Join(Join { on, ..join })))
    }
}

fn are_one_literal((left, right): &(Expr, Expr)) -> bool {
    matches!((left, right), (Expr::Literal(left, _), Expr::Literal(right, _)) if left == right && !left.is_null())
}

fn has_taken_name(key: &Expr, schema: &DFSchema) -> bool {
    if !matches!(key, Expr::ScalarFunction(_)) {
        return false;
    }
    let name = key.schema_name().to_string();
    schema.columns().iter().any(|column| column.flat_name() == name || column.name == name)
}

fn named(key: &Expr, schema: &DFSchema) -> Expr {
    if has_taken_name(key, schema) { key.clone().alias(format!("key {key}")) } else { key.clone() }
}
