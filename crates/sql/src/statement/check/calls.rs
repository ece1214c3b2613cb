//! Calls of functions of which a part would be ignored, or which mean something else here than in `PostgreSQL`.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::sql::sqlparser::ast::{
    DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value,
    WindowType,
};

use crate::functions;
use crate::statement::{function_name, has_no_type, identifier};

use super::{Found, refuse};

/// The names of all aggregate functions.
static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let functions = all_default_aggregate_functions();
    let names = functions.iter().flat_map(|function| {
        std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str)).map(str::to_owned)
    });
    names.chain(functions::aggregates().iter().map(|function| function.name().to_owned())).collect()
});

/// Functions whose format strings are not those of `PostgreSQL`.
const FORMATS: [&str; 3] = ["to_char", "date_format", "to_date"];

/// Functions whose second argument DataFusion takes from a literal, and for 1 if that is NULL.
const OFFSETS: [&str; 3] = ["lag", "lead", "nth_value"];

pub(super) fn check(function: &Function) -> Found {
    let name = function_name(function).unwrap_or_default();
    match &function.over {
        Some(WindowType::NamedWindow(window)) => return no_window(&identifier(window)),
        Some(WindowType::WindowSpec(spec)) => {
            if let Some(window) = &spec.window_name {
                return no_window(&identifier(window));
            }
        }
        None => {}
    }
    if function.filter.is_some() && !AGGREGATES.contains(&name) {
        return refuse(
            &format!("FILTER on {name}, which is no aggregate function"),
            "put the condition into CASE WHEN … THEN … END",
        );
    }
    if FORMATS.contains(&name.as_str()) || name == "to_timestamp" && arguments(function).count() > 1 {
        return refuse(
            &format!("{name} with a format"),
            "take the parts with EXTRACT, or CAST to TEXT, DATE or TIMESTAMP",
        );
    }
    let FunctionArguments::List(list) = &function.args else { return ControlFlow::Continue(()) };
    if !AGGREGATES.contains(&name) {
        if list.duplicate_treatment.is_some() && function.over.is_none() {
            return refuse(&format!("DISTINCT or ALL in {name}, which is no aggregate function"), "leave it out");
        }
        if !function.within_group.is_empty() {
            return refuse(&format!("WITHIN GROUP of {name}, which is no aggregate function"), "leave it out");
        }
    }
    if name == "mode"
        && (function.within_group.len() != 1 || !list.args.is_empty() || list.duplicate_treatment.is_some())
    {
        return refuse("mode other than that of one value", "write mode() WITHIN GROUP (ORDER BY value)");
    }
    if name == "mode" && function.within_group.iter().any(|by| has_no_type(&by.expr)) {
        return refuse("mode of a NULL or a text without a type", "CAST it to the type that it is of");
    }
    if name == "pg_typeof"
        && let Some(FunctionArgExpr::Expr(of)) = arguments(function).next()
        && !says_its_type(of)
    {
        return refuse(
            &format!("pg_typeof of {of}"),
            "give it a column, a literal, a CAST, or what operators make of these",
        );
    }
    if arguments(function).any(|argument| !matches!(argument, FunctionArgExpr::Expr(_) | FunctionArgExpr::Wildcard)) {
        return refuse(&format!("{name} of all columns of a table"), "name the columns, or write count(*)");
    }
    if name == "generate_series" || name == "range" {
        return refuse(&format!("{name} where one value is wanted"), "write it in FROM: a row for each value");
    }
    let offset = arguments(function).nth(1);
    if let Some(FunctionArgExpr::Expr(offset)) = offset
        && OFFSETS.contains(&name.as_str())
        && !is_whole_number(offset)
    {
        return refuse(&format!("{name} with an offset that is not a whole number"), "write the number itself");
    }
    if let Some(FunctionArgExpr::Expr(offset)) = offset
        && name == "nth_value"
        && !is_positive(offset)
    {
        return refuse("nth_value of a row before the first one", "the first row has number 1");
    }
    ControlFlow::Continue(())
}

fn no_window(window: &str) -> Found {
    refuse(
        &format!("a window named {window}, which no WINDOW of this SELECT defines so that it could be used here,"),
        "define it before its use; what extends it may add ORDER BY and a frame that it has not",
    )
}

fn arguments(function: &Function) -> impl Iterator<Item = &FunctionArgExpr> {
    let list = match &function.args {
        FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    list.iter().map(|argument| match argument {
        FunctionArg::Named { arg, .. } | FunctionArg::ExprNamed { arg, .. } | FunctionArg::Unnamed(arg) => arg,
    })
}

/// Whether the type of an expression here is the one that it has in `PostgreSQL`. Some functions give another number type.
fn says_its_type(expression: &Expr) -> bool {
    match expression {
        // A number beyond every decimal, which is read as a DOUBLE.
        Expr::Cast { expr, data_type: DataType::Double(ExactNumberInfo::None), .. } => {
            !matches!(**expr, Expr::Value(_))
        }
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Value(_)
        | Expr::Cast { .. }
        | Expr::TypedString { .. }
        | Expr::Interval(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_) => true,
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => says_its_type(inner),
        Expr::BinaryOp { left, op: _, right } => says_its_type(left) && says_its_type(right),
        Expr::Function(function) => {
            let name = function_name(function).unwrap_or_default();
            let of = |argument: &FunctionArgExpr| match argument {
                FunctionArgExpr::Expr(of) => says_its_type(of),
                _ => true,
            };
            matches!(name.as_str(), "count" | "sum" | "avg" | "min" | "max" | "age") && arguments(function).all(of)
        }
        _ => false,
    }
}

/// Whether a whole number that is written down has no sign and is not 0.
fn is_positive(number: &Expr) -> bool {
    match number {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } => is_positive(inner),
        Expr::Value(value) => {
            matches!(&value.value, Value::Number(digits, _) if digits.bytes().any(|digit| digit != b'0'))
        }
        _ => false,
    }
}

fn is_whole_number(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            is_whole_number(inner)
        }
        Expr::Value(value) => {
            matches!(&value.value, Value::Number(digits, _) if digits.bytes().all(|byte| byte.is_ascii_digit()))
        }
        _ => false,
    }
}
