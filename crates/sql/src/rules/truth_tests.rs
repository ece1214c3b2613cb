//! `x IS TRUE` is `x IS NOT DISTINCT FROM true`. DataFusion's physical plans make that of it, and take that it may be NULL, as the logical ones do not: an
//! aggregate over such a column is refused for it.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Union, binary_expr, lit};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use ishigaki_scan::exact;

/// The rule. To be run behind all that know the tests as such.
#[derive(Debug)]
pub(crate) struct TruthTests;

impl OptimizerRule for TruthTests {
    fn name(&self) -> &'static str {
        "truth_tests"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let is_changed = Cell::new(false);
        plan.transform_up_with_subqueries(|node| {
            // A scan has filters of its own, which it knows as they are.
            let node = match node {
                LogicalPlan::TableScan(_) => Transformed::no(node),
                node => exact::rewrite_in(node, is_test, |expression, _| {
                    expression.transform_up(|inner| Ok(compared(inner)))
                })?,
            };
            is_changed.set(is_changed.get() || node.transformed);
            if is_changed.get() { node.map_data(with_nullability) } else { Ok(node) }
        })
    }
}

fn is_test(expression: &Expr) -> bool {
    matches!(expression, Expr::IsTrue(_) | Expr::IsNotTrue(_) | Expr::IsFalse(_) | Expr::IsNotFalse(_))
}

fn compared(expression: Expr) -> Transformed<Expr> {
    let (of, op, truth) = match expression {
        Expr::IsTrue(of) => (of, Operator::IsNotDistinctFrom, true),
        Expr::IsNotTrue(of) => (of, Operator::IsDistinctFrom, true),
        Expr::IsFalse(of) => (of, Operator::IsNotDistinctFrom, false),
        Expr::IsNotFalse(of) => (of, Operator::IsDistinctFrom, false),
        other => return Transformed::no(other),
    };
    Transformed::yes(binary_expr(*of, op, lit(truth)))
}

/// A node that knows which of its inputs' columns may be NULL now.
fn with_nullability(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Union(Union { inputs, schema }) = node else { return node.recompute_schema() };
    let may_be_null = |at: usize| inputs.iter().any(|input| input.schema().field(at).is_nullable());
    let fields = schema.iter().enumerate().map(|(at, (qualifier, field))| {
        let nullable = field.is_nullable() || may_be_null(at);
        (qualifier.cloned(), Arc::new(field.as_ref().clone().with_nullable(nullable)))
    });
    let schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?);
    Ok(LogicalPlan::Union(Union { inputs, schema }))
}
