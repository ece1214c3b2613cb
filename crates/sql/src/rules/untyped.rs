//! A text that is written down has no type of its own in `PostgreSQL`: beside something of another type it is of that one, as in
//! `b = 't'`, `n * '2.5'`, `t + '1 day'`.
//!
//! DataFusion reads it so where it is compared with a whole number or a time, rounds it to the digits of a decimal, and fails at the rest. A text that is
//! cast to one, or computed, stays a text.

mod columns;

use std::cell::Cell;

use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Case, InList, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, LogicalPlan, Operator, cast, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;
use ishigaki_scan::exact;

use super::in_expressions;

/// Functions that give one of their arguments.
const TAKING_ONE: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// What stands beside an operator, a text of no type among it as what it is there.
pub(super) fn operands(operator: Operator, left: Expr, right: Expr, schema: &DFSchema) -> (Expr, Expr) {
    // The left one may be thousands of operators deep, so its type is asked for only beside a text.
    match (text(&left).map(str::to_owned), text(&right).map(str::to_owned)) {
        (None, Some(written)) => {
            let typed = exact::type_of(&left, schema).and_then(|of| beside(operator, &of, &written));
            (left, typed.unwrap_or(right))
        }
        (Some(written), None) => {
            let typed = exact::type_of(&right, schema).and_then(|of| beside(operator, &of, &written));
            (typed.unwrap_or(left), right)
        }
        _ => (left, right),
    }
}

/// A text of no type.
fn text(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// What a text is beside an operand of a type; nothing where it stays as it is.
fn beside(operator: Operator, other: &DataType, written: &str) -> Option<Expr> {
    use Operator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Plus};
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    let of = match (operator, other) {
        (Eq | NotEq | Lt | LtEq | Gt | GtEq, DataType::Boolean) => DataType::Boolean,
        (Eq | NotEq | Lt | LtEq | Gt | GtEq | Plus | Minus | Multiply | Divide | Modulo, DataType::Decimal128(..)) => {
            return decimal(written);
        }
        (Plus | Minus | Multiply | Divide | Modulo, number) if number.is_integer() || number.is_floating() => {
            number.clone()
        }
        (Plus, DataType::Timestamp(_, None)) | (Plus | Minus, DataType::Interval(_)) => interval,
        (Minus, DataType::Date32) => DataType::Date32,
        _ => return None,
    };
    Some(cast(lit(written), of))
}

/// A decimal with the digits that are written.
fn decimal(written: &str) -> Option<Expr> {
    let (digits, precision, scale) = exact::written(written)?;
    Some(cast(lit(digits), DataType::Decimal128(precision, scale)))
}

/// Has truths and decimals that are written as texts among others read as such: in lists, between others, in CASE, as arguments of functions that take one
/// of several values, and in columns of UNION, INTERSECT and EXCEPT. To be run before the coercion of types.
#[derive(Debug)]
pub(crate) struct UntypedTexts;

impl AnalyzerRule for UntypedTexts {
    fn name(&self) -> &'static str {
        "untyped_texts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changes = Cell::new(false);
        let plan = in_expressions(plan, has_siblings, |expression, schema| {
            let rewritten = expression.transform_up(|inner| {
                Ok(if has_siblings(&inner) { read(inner, schema) } else { Transformed::no(inner) })
            })?;
            changes.set(changes.get() || rewritten.transformed);
            Ok(rewritten)
        })?;
        columns::read(if changes.get() { with_types_of_below(plan)? } else { plan })
    }
}

/// The plan with the types that its expressions have now. A UNION finds its own later.
fn with_types_of_below(plan: LogicalPlan) -> Result<LogicalPlan> {
    let recomputed = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Union(_) => Ok(Transformed::no(node)),
        node => node.recompute_schema().map(Transformed::yes),
    });
    recomputed.data()
}

/// Whether texts of no type are among what an expression is made of, and are of the type of their siblings there.
fn has_siblings(expression: &Expr) -> bool {
    let may_have = match expression {
        Expr::InList(_) | Expr::Between(_) | Expr::Case(_) => true,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_comparison(*op),
        Expr::ScalarFunction(ScalarFunction { func, .. }) => TAKING_ONE.contains(&func.name()),
        _ => false,
    };
    let mut has_text = false;
    let look = |sibling: &Expr| {
        has_text = text(sibling).is_some();
        Ok(if has_text { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    };
    may_have && expression.apply_children(look).is_ok() && has_text
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn read(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let alike_by = |all: Vec<Expr>, common: &dyn Fn(&mut dyn Iterator<Item = DataType>) -> Option<DataType>| {
        let mut types = all.iter().filter(|one| text(one).is_none()).filter_map(|one| exact::type_of(one, schema));
        let of = all.iter().any(|one| text(one).is_some()).then(|| common(&mut types)).flatten();
        match of {
            Some(of) => Transformed::yes(all.into_iter().map(|one| typed(one, &of)).collect::<Vec<_>>()),
            None => Transformed::no(all),
        }
    };
    let alike = |all: Vec<Expr>| alike_by(all, &|types| common_type(types));
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => alike(vec![*left, *right])
            .update_data(|all| {
                let [left, right] = exactly(all);
                Expr::BinaryExpr(BinaryExpr { left, op, right })
            }),
        Expr::InList(InList { expr, mut list, negated }) => {
            list.push(*expr);
            alike(list).update_data(|mut list| {
                let expr = Box::new(list.pop().unwrap_or_default());
                Expr::InList(InList { expr, list, negated })
            })
        }
        Expr::Between(Between { expr, negated, low, high }) => alike(vec![*expr, *low, *high]).update_data(|all| {
            let [expr, low, high] = exactly(all);
            Expr::Between(Between { expr, negated, low, high })
        }),
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let (whens, thens): (Vec<_>, Vec<_>) =
                when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
            let (has_operand, has_else) = (expr.is_some(), else_expr.is_some());
            let mut compared = expr.map_or_else(Vec::new, |expr| vec![*expr]);
            compared.extend(whens);
            let compared = if has_operand { alike(compared) } else { Transformed::no(compared) };
            let results = thens.into_iter().chain(else_expr.map(|last| *last)).collect();
            let results = alike_by(results, &|types| common_type_of_all(types));
            let is_changed = compared.transformed || results.transformed;
            let (mut compared, mut results) = (compared.data.into_iter(), results.data);
            let expr = if has_operand { compared.next().map(Box::new) } else { None };
            let else_expr = if has_else { results.pop().map(Box::new) } else { None };
            let when_then_expr = compared.zip(results).map(|(when, then)| (Box::new(when), Box::new(then))).collect();
            let case = Expr::Case(Case { expr, when_then_expr, else_expr });
            if is_changed { Transformed::yes(case) } else { Transformed::no(case) }
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if TAKING_ONE.contains(&func.name()) => {
            let args = alike_by(args, &|types| common_type_of_all(types));
            args.update_data(|args| Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        other => Transformed::no(other),
    }
}

fn exactly<const N: usize>(all: Vec<Expr>) -> [Box<Expr>; N] {
    let mut all = all.into_iter();
    std::array::from_fn(|_| Box::new(all.next().unwrap_or_default()))
}

/// The type that texts among others have, where DataFusion makes texts of the others, or finds no type for them.
fn common_type_of_all(types: impl Iterator<Item = DataType>) -> Option<DataType> {
    let mut types = types.filter(|of| !of.is_null());
    let first = types.next()?;
    match first {
        DataType::Boolean | DataType::Interval(_) => types.all(|of| of == first).then_some(first),
        _ => types.try_fold(exact::alternatives(&first, &first)?, |common, of| exact::alternatives(&common, &of)),
    }
}

/// The type that texts among others have, if DataFusion does not see it.
fn common_type(types: impl Iterator<Item = DataType>) -> Option<DataType> {
    let mut found = None;
    for of in types {
        match of {
            DataType::Boolean | DataType::Decimal128(..) => found = found.or(Some(of)),
            of if of.is_string() => return None,
            _ => {}
        }
    }
    found
}

/// A text of no type as one of a type; anything else as it is.
fn typed(expression: Expr, of: &DataType) -> Expr {
    let typed = text(&expression).and_then(|written| match of {
        DataType::Decimal128(..) => decimal(written),
        _ => Some(cast(lit(written), of.clone())),
    });
    typed.unwrap_or(expression)
}
