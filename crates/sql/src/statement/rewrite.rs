//! What is changed in a syntax tree before it is planned, because DataFusion takes some plain SQL amiss.

mod negations;
mod quantified;
mod rows;
mod similar;
mod windows;

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Ident, Query, Select, SelectItem, Statement, Value, VisitMut,
    VisitorMut, visit_expressions_mut,
};

use super::plain;
use crate::row::unhex;

/// Applies all changes.
pub(super) fn rewrite(statement: &mut Statement) {
    let _: ControlFlow<()> = statement.visit(&mut Rewrite::default());
}

#[derive(Default)]
struct Rewrite {
    windows: windows::Scopes,
}

impl VisitorMut for Rewrite {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        plain::limit(query);
        self.windows.enter_query(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.windows.leave_query(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.windows.enter_select(select);
        rows::in_group_by(select);
        tell_apart(select);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.windows.leave_select();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        keep_exponent(expression);
        read_bytes(expression);
        plain::escape(expression);
        plain::unknown(expression);
        plain::call(expression);
        plain::coalesce(expression);
        self.windows.resolve(expression);
        negations::outside(expression);
        rows::compare(expression);
        quantified::to_memberships(expression);
        quantified::to_existence(expression);
        similar::to_regex(expression);
        ControlFlow::Continue(())
    }
}

/// Numbers without an exponent are exact decimals here, as in `PostgreSQL`. Those with one (`1e308`) may lie far beyond
/// every decimal, so they are made doubles.
fn keep_exponent(expression: &mut Expr) {
    if let Expr::Value(value) = expression
        && let Value::Number(digits, _) = &value.value
        && digits.contains(['e', 'E'])
    {
        let text = Value::SingleQuotedString(digits.clone()).with_span(value.span);
        *expression = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(Expr::Value(text)),
            data_type: DataType::Double(ExactNumberInfo::None),
            array: false,
            format: None,
        };
    }
}

/// `'\x00ff'::BYTEA` is two bytes, not the bytes of six characters.
fn read_bytes(expression: &mut Expr) {
    if let Expr::Cast { expr, data_type: DataType::Bytea, .. } = expression
        && let Expr::Value(value) = expr.as_mut()
        && let Value::SingleQuotedString(text) = &value.value
        && let Some(digits) = text.strip_prefix("\\x")
        && unhex(digits).is_some()
    {
        // The cast stays: the literal's own type is not the one that columns of bytes have, and VALUES, COALESCE and CASE mix them.
        value.value = Value::HexStringLiteral(digits.to_owned());
    }
}

/// DataFusion wants the columns of a SELECT to have different names, and names an expression without its casts. Of
/// expressions that would get one name (`SELECT 0, 0`, `SELECT x, x::TEXT`), all but the first are given one of their own.
fn tell_apart(select: &mut Select) {
    if select.projection.len() < 2 {
        return;
    }
    let mut taken: HashSet<String> = select
        .projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
            _ => None,
        })
        .collect();
    let mut seen = HashSet::new();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expression) = item
            && !seen.insert(without_casts(expression))
        {
            let text = expression.to_string();
            let mut name = text.clone();
            for number in 2.. {
                if !seen.contains(&name) && taken.insert(name.clone()) {
                    break;
                }
                name = format!("{text}:{number}");
            }
            *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias: Ident::with_quote('"', name) };
        }
    }
}

/// An expression's text as DataFusion sees it when it looks for names.
fn without_casts(expression: &Expr) -> String {
    let mut plain = expression.clone();
    let _ = visit_expressions_mut(&mut plain, |inner: &mut Expr| {
        while let Expr::Cast { expr, .. } | Expr::Nested(expr) = inner {
            *inner = (**expr).clone();
        }
        ControlFlow::<()>::Continue(())
    });
    plain.to_string()
}

#[cfg(test)]
mod tests {
    use crate::statement::rewritten;

    #[test]
    fn a_number_with_an_exponent_becomes_a_double() {
        assert_eq!(rewritten("SELECT 1e300, 1.5"), "SELECT CAST('1e300' AS DOUBLE), 1.5");
    }

    #[test]
    fn bytes_written_as_text_become_bytes() {
        assert_eq!(
            rewritten(r"SELECT '\x00fF'::BYTEA, '\x0'::BYTEA, 'x00'::BYTEA"),
            r"SELECT X'00fF'::BYTEA, '\x0'::BYTEA, 'x00'::BYTEA"
        );
    }

    #[test]
    fn columns_that_would_share_a_name_get_their_own() {
        assert_eq!(rewritten("SELECT 0, 0, 0"), r#"SELECT 0, 0 AS "0:2", 0 AS "0:3""#);
        assert_eq!(rewritten("SELECT x, x::TEXT, y FROM t"), r#"SELECT x, x::TEXT AS "x::TEXT", y FROM t"#);
        assert_eq!(
            rewritten("INSERT INTO t SELECT (SELECT max(a) FROM u), b, b FROM u"),
            r#"INSERT INTO t SELECT (SELECT max(a) FROM u), b, b AS "b:2" FROM u"#
        );
    }
}
