//! Times as microseconds, which is what columns have. DataFusion compares a time with a day or a text in nanoseconds, which
//! reach from 1677 to 2262 only.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, cast};

use super::not_lost;
use super::plan::type_of;

/// A comparison of times with days and texts in microseconds, and a `date_bin` that fails where it has no room.
pub(super) fn in_microseconds(expression: &Expr, schema: &DFSchema) -> Option<Expr> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
            let [left, right] = <[Expr; 2]>::try_from(alike([&**left, &**right].into_iter(), schema)?).ok()?;
            Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right))))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let all = alike([&**expr, &**low, &**high].into_iter(), schema)?;
            let [expr, low, high] = <[Expr; 3]>::try_from(all).ok()?.map(Box::new);
            Some(Expr::Between(Between { expr, negated: *negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let mut all = alike(std::iter::once(&**expr).chain(list), schema)?;
            let list = all.split_off(1);
            Some(Expr::InList(InList { expr: Box::new(all.pop()?), list, negated: *negated }))
        }
        // It gives NULL for a time that nanoseconds do not reach.
        Expr::ScalarFunction(call) if call.func.name() == "date_bin" && !call.args.iter().any(is_null) => {
            let args = vec![expression.clone(), call.args.get(1)?.clone()];
            Some(Expr::ScalarFunction(ScalarFunction::new_udf(not_lost(), args)))
        }
        // Once is enough.
        Expr::ScalarFunction(call) if call.func == not_lost() => match call.args.first() {
            Some(Expr::ScalarFunction(inner)) if inner.func == not_lost() => call.args.first().cloned(),
            _ => None,
        },
        _ => None,
    }
}

/// All of them as times, if one of them is a time and another one a day or a text.
fn alike<'a>(all: impl Iterator<Item = &'a Expr> + Clone, schema: &DFSchema) -> Option<Vec<Expr>> {
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    let is_other = |found: &DataType| {
        matches!(found, DataType::Date32 | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    };
    let types = all.clone().map(|expression| type_of(expression, schema)).collect::<Option<Vec<_>>>()?;
    if !types.contains(&time) || !types.iter().any(is_other) {
        return None;
    }
    let made = |(expression, found): (&Expr, &DataType)| {
        if is_other(found) { cast(expression.clone(), time.clone()) } else { expression.clone() }
    };
    Some(all.zip(&types).map(made).collect())
}

fn is_null(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}
