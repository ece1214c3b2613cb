//! Lists of one operand that stand in one expression.
//!
//! DataFusion makes one list of two that AND or OR joins, as sets: `n IN (1, 2) AND n NOT IN (1, NULL)` becomes `n IN (2)`, and
//! `n NOT IN (1) OR n NOT IN (2)` true. A NULL, of the operand or in a list, is lost then. So such lists are out of sight while it
//! simplifies an expression, and with them the parts of `n = 1 OR n = 2`, of which it makes a list first.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::split_binary;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The name that a list has while it is out of sight.
const HIDDEN: &str = "__list_apart";

/// Whether an operator has an expression with several lists of one operand.
pub(super) fn meet(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expression| {
        found |= have_one_operand(expression)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// What the rule that simplifies makes of an operator whose lists it does not see.
pub(super) fn simplified(
    rule: &Arc<dyn OptimizerRule + Send + Sync>,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    let mut saved = Vec::new();
    let hidden = plan.map_expressions(|expression| {
        saved.push(names.save(&expression));
        if have_one_operand(&expression)? { hide(expression) } else { Ok(Transformed::no(expression)) }
    })?;
    let mut saved = saved.into_iter();
    rule.rewrite(hidden.data, config)?.transform_data(|plan| {
        plan.map_expressions(|expression| {
            let shown = show(expression)?;
            let name = saved.next();
            Ok(shown.update_data(|shown| match name {
                Some(name) => name.restore(shown),
                None => shown,
            }))
        })
    })
}

fn have_one_operand(expression: &Expr) -> Result<bool> {
    let mut operands = Vec::new();
    lists_in(expression, &mut operands)?;
    let count = operands.len();
    Ok(operands.into_iter().collect::<HashSet<_>>().len() < count)
}

/// The operands of the lists in an expression, also of those that chains of comparisons could be.
fn lists_in<'e>(expression: &'e Expr, operands: &mut Vec<&'e Expr>) -> Result<()> {
    match expression {
        Expr::InList(list) => operands.push(uncast(&list.expr)),
        // With NOT before it, one is the other.
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::Or | Operator::And), .. }) => {
            let parts = split_binary(expression, *op);
            let by = if *op == Operator::Or { Operator::Eq } else { Operator::NotEq };
            operands.extend(parts.iter().filter_map(|part| compared(part, by)).collect::<HashSet<_>>());
            return parts.into_iter().try_for_each(|part| lists_in(part, operands));
        }
        _ => {}
    }
    expression.apply_children(|child| {
        lists_in(child, operands)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The column that an expression compares with one value, as a list of one would.
fn compared(expression: &Expr, by: Operator) -> Option<&Expr> {
    let (left, op, right) = match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => (left, *op, right),
        Expr::Not(negated) => return compared(negated, by.negate()?),
        _ => return None,
    };
    let ((column @ Expr::Column(_), Expr::Literal(..)) | (Expr::Literal(..), column @ Expr::Column(_))) =
        (uncast(left), uncast(right))
    else {
        return None;
    };
    (op == by).then_some(column)
}

/// Casts of columns go to the other side of a comparison, where they can.
fn uncast(expression: &Expr) -> &Expr {
    match expression {
        Expr::Cast(cast) => uncast(&cast.expr),
        other => other,
    }
}

fn hide(expression: Expr) -> Result<Transformed<Expr>> {
    expression.transform_up(|inner| {
        let is_list = matches!(inner, Expr::InList(_))
            || [Operator::Eq, Operator::NotEq].into_iter().any(|by| compared(&inner, by).is_some());
        Ok(if is_list { Transformed::yes(inner.alias(HIDDEN)) } else { Transformed::no(inner) })
    })
}

fn show(expression: Expr) -> Result<Transformed<Expr>> {
    expression.transform_up(|inner| {
        Ok(match inner {
            Expr::Alias(Alias { expr, relation: None, name, .. }) if name == HIDDEN => Transformed::yes(*expr),
            other => Transformed::no(other),
        })
    })
}
