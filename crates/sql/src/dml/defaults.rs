//! Defaults of columns: SQL text in the catalog, expressions in a plan.

use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr as AstExpr, Ident, SelectItem, Statement as Ast, Value};

use crate::statement::Statement;
use crate::table::Column;
use crate::worker::Context;
use crate::{Error, Result, query};

/// The syntax tree of a column's default, which is NULL where it has none.
pub(crate) fn ast(column: &Column) -> Result<AstExpr> {
    let Some(text) = &column.default else { return Ok(AstExpr::Value(Value::Null.into())) };
    let corrupt = || Error::corrupt(format!("the default of column {}: {text}", column.name));
    let mut statements = Statement::parse(&format!("SELECT {text}")).map_err(|_| corrupt())?;
    if let Some(Ast::Query(query)) = statements.pop().map(|statement| statement.to_ast())
        && let Some(select) = query.body.as_select()
        && let [SelectItem::UnnamedExpr(expression)] = select.projection.as_slice()
    {
        return Ok(expression.clone());
    }
    Err(corrupt())
}

/// The query that yields a column's default once, or `None` where it has none. The default may use functions but no
/// columns and no subqueries.
pub(crate) async fn plan(context: &Context<'_>, column: &Column) -> Result<Option<LogicalPlan>> {
    let Some(text) = &column.default else { return Ok(None) };
    let refuse = || Error::unsupported(format!("DEFAULT {text}"), "use an expression without columns and subqueries");
    let statement = Statement::parse(&format!("SELECT {text}")).map_err(|_| refuse())?.pop().ok_or_else(refuse)?;
    let plan = context.guard(query::plan(context, statement.ast())).await?;
    match &plan {
        LogicalPlan::Projection(projection)
            if matches!(projection.input.as_ref(), LogicalPlan::EmptyRelation(_))
                && projection.expr.len() == 1
                && !projection.expr.iter().any(Expr::contains_scalar_subquery) =>
        {
            Ok(Some(plan))
        }
        _ => Err(refuse()),
    }
}

/// A column's default as an expression of a plan.
pub(crate) async fn expression(context: &Context<'_>, column: &Column) -> Result<Expr> {
    match plan(context, column).await? {
        Some(LogicalPlan::Projection(mut projection)) => projection
            .expr
            .pop()
            .map(Expr::unalias_nested)
            .map(|e| e.data)
            .ok_or_else(|| Error::corrupt("an empty default")),
        _ => Ok(Expr::Literal(ScalarValue::try_from(&column.sql_type.arrow())?, None)),
    }
}

/// Whether an expression is the bare word DEFAULT.
pub(crate) fn is_default(expression: &AstExpr) -> bool {
    matches!(expression, AstExpr::Identifier(Ident { value, quote_style: None, .. }) if value.eq_ignore_ascii_case("default"))
}
