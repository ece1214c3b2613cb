//! Columns of a SELECT that have the same name.
//!
//! `PostgreSQL` lets several columns of a result have one name; a subquery's may, too, as long as no one asks for one of them by
//! it. DataFusion wants all names to be different. So all but the first get a mark and a number behind their name, and in a
//! subquery of FROM the first one as well: a name that means several columns there means none here. What is shown to the client
//! is without the mark: [`shown`].

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, SetExpr, visit_expressions_mut};

use crate::statement::identifier;

/// What stands between a name and the number that tells it apart. The first of its characters is not one to be seen.
pub(super) const MARK: &str = "\u{2063}:";

/// A column's name without what tells it apart from others.
pub(crate) fn shown(name: &str) -> Option<&str> {
    let (name, number) = name.rsplit_once(MARK)?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}

/// A name with a number that tells it apart and is not shown.
pub(crate) fn marked(name: &str, number: usize) -> String {
    format!("{name}{MARK}{number}")
}

/// A text without what tells columns' names apart in it.
pub(crate) fn without_marks(text: &str) -> Cow<'_, str> {
    if !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split(MARK);
    let first = parts.next().unwrap_or_default().to_owned();
    let plain = parts.fold(first, |mut plain, part| {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        if rest.len() == part.len() {
            // Something else than a number stands behind it: it is not of here.
            plain.push_str(MARK);
        }
        plain.push_str(rest);
        plain
    });
    Cow::Owned(plain)
}

/// An item's name, and the table that it is said with.
struct Name {
    name: String,
    table: Option<String>,
}

impl Name {
    fn of(item: &SelectItem) -> Option<Self> {
        let plain = |name| Some(Self { name, table: None });
        match item {
            SelectItem::ExprWithAlias { alias, .. } => plain(identifier(alias)),
            SelectItem::UnnamedExpr(expression) => {
                let bare = without_casts(expression);
                match &bare {
                    Expr::Identifier(name) => plain(identifier(name)),
                    Expr::CompoundIdentifier(parts) => {
                        let (last, before) = parts.split_last()?;
                        let table = before.last().map(identifier);
                        // A cast of a column has the column's name alone.
                        let table = table.filter(|_| matches!(expression, Expr::CompoundIdentifier(_)));
                        Some(Self { name: identifier(last), table })
                    }
                    // A subquery is called as what it selects.
                    Expr::Subquery(query) => plain(Self::of(first_item(&query.body)?)?.name),
                    other => plain(other.to_string()),
                }
            }
            _ => None,
        }
    }
}

/// What gives the first column of a query its name.
fn first_item(body: &SetExpr) -> Option<&SelectItem> {
    match body {
        SetExpr::Select(select) => select.projection.first(),
        SetExpr::SetOperation { left, .. } => first_item(left),
        SetExpr::Query(query) => first_item(&query.body),
        _ => None,
    }
}

/// Gives columns of one name names of their own.
pub(crate) fn tell_apart(items: &mut [SelectItem], is_derived: bool) {
    if items.len() < 2 {
        return;
    }
    let names: Vec<Option<Name>> = items.iter().map(Name::of).collect();
    let mut alike: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, name) in names.iter().enumerate() {
        if let Some(Name { name, .. }) = name {
            alike.entry(name).or_default().push(at);
        }
    }
    for (name, places) in &alike {
        let tables = || places.iter().map(|at| names[*at].as_ref().and_then(|name| name.table.as_ref()));
        // DataFusion tells columns of several tables apart.
        let told = !is_derived && tables().all(|table| table.is_some());
        if places.len() < 2 || told && tables().collect::<HashSet<_>>().len() == places.len() {
            continue;
        }
        for (number, at) in places.iter().enumerate().skip(usize::from(!is_derived)) {
            let expr = match &items[*at] {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr.clone(),
                _ => continue,
            };
            let alias = Ident::with_quote('"', format!("{name}{MARK}{}", number + 1));
            items[*at] = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// Gives expressions on the right sides of UNION, INTERSECT and EXCEPT names that nothing else has. The names of the result are
/// those on the left; DataFusion gives the right sides the same, and fails where one of them has one of these at another place.
pub(super) fn in_right_sides(body: &mut SetExpr) {
    let SetExpr::SetOperation { left, right, .. } = body else { return };
    in_right_sides(left);
    in_right_sides(right);
    name_expressions(right);
}

fn name_expressions(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, .. } => name_expressions(left),
        SetExpr::Query(query) => name_expressions(&mut query.body),
        SetExpr::Select(select) => {
            for (at, item) in select.projection.iter_mut().enumerate() {
                if let SelectItem::UnnamedExpr(expr) = item
                    && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                {
                    let alias = Ident::with_quote('"', format!("{MARK}{}", at + 1));
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
        }
        _ => {}
    }
}

/// An expression as DataFusion sees it when it looks for names.
fn without_casts(expression: &Expr) -> Expr {
    let mut plain = expression.clone();
    let _ = visit_expressions_mut(&mut plain, |inner: &mut Expr| {
        while let Expr::Cast { expr, .. } | Expr::Nested(expr) = inner {
            *inner = (**expr).clone();
        }
        ControlFlow::<()>::Continue(())
    });
    plain
}

#[cfg(test)]
mod tests {
    use super::{shown, without_marks};
    use crate::statement::rewritten;

    fn plain(sql: &str) -> String {
        rewritten(sql).replace('\u{2063}', "")
    }

    #[test]
    fn columns_that_would_share_a_name_get_their_own() {
        assert_eq!(
            plain("SELECT 0, 0, 0"),
            r#"SELECT CAST(0 AS INT), CAST(0 AS INT) AS "0:2", CAST(0 AS INT) AS "0:3""#
        );
        assert_eq!(plain("SELECT x, x::TEXT, y FROM t"), r#"SELECT x, x::TEXT AS "x:2", y FROM t"#);
        assert_eq!(
            plain("INSERT INTO t SELECT (SELECT max(a) FROM u), b, b FROM u"),
            r#"INSERT INTO t SELECT (SELECT max(a) FROM u), b, b AS "b:2" FROM u"#
        );
        assert_eq!(plain("SELECT t.a, u.a FROM t, u"), "SELECT t.a, u.a FROM t, u");
        assert_eq!(plain("SELECT t.a, a FROM t"), r#"SELECT t.a, a AS "a:2" FROM t"#);
        assert_eq!(plain("SELECT a AS x, b AS X FROM t"), r#"SELECT a AS x, b AS "x:2" FROM t"#);
    }

    #[test]
    fn a_subquery_of_from_has_no_column_of_a_name_that_means_several() {
        assert_eq!(
            plain("SELECT * FROM (SELECT t.a, u.a, b FROM t, u) AS d"),
            r#"SELECT * FROM (SELECT t.a AS "a:1", u.a AS "a:2", b FROM t, u) AS d"#
        );
    }

    #[test]
    fn expressions_on_the_right_of_union_have_names_of_their_own() {
        assert_eq!(
            plain("SELECT count(a), count(*) FROM t UNION SELECT count(*), b FROM u"),
            r#"SELECT count(a), count(*) FROM t UNION SELECT count(*) AS ":1", b FROM u"#
        );
        assert_eq!(
            plain("(SELECT 1) EXCEPT (SELECT 2)"),
            r#"(SELECT CAST(1 AS INT)) EXCEPT (SELECT CAST(2 AS INT) AS ":1")"#
        );
    }

    #[test]
    fn what_tells_names_apart_is_not_shown() {
        assert_eq!(shown("a\u{2063}:12"), Some("a"));
        assert_eq!(shown("a:12"), None);
        assert_eq!(shown("a\u{2063}:"), None);
    }

    #[test]
    fn a_text_loses_its_marks_and_nothing_else() {
        assert_eq!(without_marks("sum(a\u{2063}:12) + a\u{2063}:3"), "sum(a) + a");
        assert_eq!(without_marks("\u{2063}:1"), "");
        assert_eq!(without_marks("a\u{2063}: b\u{2063}"), "a\u{2063}: b\u{2063}");
    }
}
