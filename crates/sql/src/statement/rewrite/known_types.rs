//! `pg_typeof` of a literal or a cast, which says its type itself; and `age(x)`, which is `age(current_date, x)`.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Value,
};

use super::cast;
use crate::statement::identifier;
use crate::statement::plain::plain_arguments;
use crate::types::SqlType;

pub(super) fn name(expression: &mut Expr) {
    let Some((name, _, of)) = call(expression) else { return };
    if name != "pg_typeof" {
        return;
    }
    let Some(known) = known(of) else { return };
    *expression = cast(Expr::value(Value::SingleQuotedString(known.to_owned())), DataType::Text);
}

/// What an expression says of its type, where a query has less to say: texts have one type there, whatever their limit.
fn known(expression: &Expr) -> Option<&'static str> {
    match expression {
        Expr::Nested(inner) => known(inner),
        Expr::Value(value) if matches!(value.value, Value::Null | Value::SingleQuotedString(_)) => Some("unknown"),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) if digits.parse::<i32>().is_ok() => Some("integer"),
            Value::Number(digits, _) if digits.parse::<i64>().is_ok() => Some("bigint"),
            Value::Number(..) => Some("numeric"),
            _ => None,
        },
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, data_type, array: false, .. } => {
            match (data_type, SqlType::from_sql(data_type)) {
                (DataType::Char(_) | DataType::Character(_), Ok(_)) => Some("character"),
                (DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_), Ok(_)) => {
                    Some("character varying")
                }
                (_, Ok(SqlType::Text { max_length: None })) => Some("text"),
                _ => None,
            }
        }
        _ => None,
    }
}

pub(super) fn until_today(expression: &mut Expr) {
    let Some((name, function, _)) = call(expression) else { return };
    if name != "age" {
        return;
    }
    let today = Function {
        name: ObjectName::from(vec![Ident::new("current_date")]),
        args: FunctionArguments::None,
        ..function.clone()
    };
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = expression {
        list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(today))));
    }
}

/// The name of a plain call with one argument, the call, and the argument.
fn call(expression: &Expr) -> Option<(String, &Function, &Expr)> {
    let Expr::Function(function) = expression else { return None };
    let [name] = function.name.0.as_slice() else { return None };
    match plain_arguments(function)? {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] => {
            Some((identifier(name.as_ident()?), function, argument))
        }
        _ => None,
    }
}
