//! The default of `lag` and `lead` has a type in common with the values, as in `PostgreSQL`: `lead(a, 1, -1.4)` over whole numbers
//! gives decimals. DataFusion casts the default to the type of the values.

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, UnaryOperator, Value,
};

use ishigaki_scan::exact::COMMON_TYPE;

use super::{called, cast};
use crate::statement::{function_name, has_no_type};

pub(super) fn with_common_type(expression: &mut Expr) {
    let Expr::Function(function) = expression else { return };
    let name = function_name(function);
    if !matches!(name.as_deref(), Some("lag" | "lead")) || function.over.is_none() {
        return;
    }
    let FunctionArguments::List(list) = &mut function.args else { return };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(of)), _, FunctionArg::Unnamed(FunctionArgExpr::Expr(default))] =
        list.args.as_mut_slice()
    else {
        return;
    };
    if has_no_type(default) {
        return;
    }
    if is_integer(default) {
        *default = cast(default.clone(), DataType::Int(None));
    }
    *of = called(Ident::with_quote('"', COMMON_TYPE), [of.clone(), default.clone()]);
}

/// Whether a number that is written down is an INTEGER.
fn is_integer(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            is_integer(inner)
        }
        Expr::Value(value) => matches!(&value.value, Value::Number(digits, _) if digits.parse::<i32>().is_ok()),
        _ => false,
    }
}
