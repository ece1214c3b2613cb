//! `date_part('year', x)` is what `EXTRACT(YEAR FROM x)` is, as a DOUBLE.

use datafusion::sql::sqlparser::ast::{
    DataType, DateTimeField, ExactNumberInfo, Expr, ExtractSyntax, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, Value,
};

use super::cast;
use crate::statement::function_name;

pub(super) fn of_time(expression: &mut Expr) {
    let Expr::Function(function) = expression else { return };
    let name = function_name(function);
    if !matches!(name.as_deref(), Some("date_part" | "datepart")) {
        return;
    }
    let FunctionArguments::List(list) = &function.args else { return };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(part)), FunctionArg::Unnamed(FunctionArgExpr::Expr(of))] =
        list.args.as_slice()
    else {
        return;
    };
    let Expr::Value(part) = part else { return };
    let Value::SingleQuotedString(part) = &part.value else { return };
    // What is no word is no part either, and DataFusion says so.
    if part.is_empty() || !part.chars().all(|letter| letter.is_ascii_alphabetic()) {
        return;
    }
    let extract = Expr::Extract {
        field: DateTimeField::Custom(Ident::new(part)),
        syntax: ExtractSyntax::From,
        expr: Box::new(of.clone()),
    };
    *expression = cast(extract, DataType::Double(ExactNumberInfo::None));
}
