//! What a statement groups by, spelled out, and marked off from what DataFusion adds to it.
//!
//! A position in ROLLUP, CUBE and GROUPING SETS stands for the item of the select list, where DataFusion takes the number for a constant. And
//! it knows ROLLUP and CUBE of single expressions alone, each named once.
//!
//! DataFusion groups by all columns that those of GROUP BY determine, so that they can be selected. Where a join has made rows of a
//! key occur several times, it finds such columns where there are none ([`planning`](crate::planning)), and adds them all the same. Behind
//! [`END_OF_GROUPS`] in a plan is what was added.

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Ident, Select, SelectItem};

use super::called;
use crate::duplicates::drop_duplicates;
use crate::functions::END_OF_GROUPS;
use crate::statement::plain;

/// From how many parts on a CUBE is left as it is: it has two sets for each one more.
const LARGE_CUBE: usize = 8;

pub(super) fn spell_sets_out(select: &mut Select) {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return };
    for group in groups {
        let (Expr::GroupingSets(parts) | Expr::Cube(parts) | Expr::Rollup(parts)) = &mut *group else { continue };
        for expression in parts.iter_mut().flatten() {
            let item = plain::item_at(&select.projection, expression).map(|at| &select.projection[at]);
            if let Some(SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) = item {
                *expression = item.clone();
            }
        }
        let is_plain = |parts: &[Vec<Expr>]| {
            parts.iter().enumerate().all(|(at, part)| part.len() == 1 && !parts[..at].contains(part))
        };
        let sets: Vec<Vec<&[Expr]>> = match &*group {
            Expr::Rollup(parts) if !is_plain(parts) => {
                (0..=parts.len()).rev().map(|kept| parts[..kept].iter().map(Vec::as_slice).collect()).collect()
            }
            Expr::Cube(parts) if !is_plain(parts) && parts.len() < LARGE_CUBE => {
                let kept = |set: usize| (0..parts.len()).filter(move |part| set >> (parts.len() - 1 - part) & 1 == 1);
                (0..1 << parts.len()).rev().map(|set| kept(set).map(|part| parts[part].as_slice()).collect()).collect()
            }
            _ => continue,
        };
        let once_each = |set: Vec<&[Expr]>| {
            let mut set = set.concat();
            drop_duplicates(&mut set, |expression| expression);
            set
        };
        *group = Expr::GroupingSets(sets.into_iter().map(once_each).collect());
    }
}

pub(super) fn mark_end(select: &mut Select) {
    let GroupByExpr::Expressions(groups, modifiers) = &mut select.group_by else { return };
    let is_set = |group: &Expr| matches!(group, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_));
    // Nothing is added to grouping sets alone, and to no groups.
    if modifiers.is_empty() && !groups.iter().all(is_set) {
        groups.push(called(Ident::with_quote('"', END_OF_GROUPS), []));
    }
}

#[cfg(test)]
mod tests {
    use crate::statement::rewritten;

    #[test]
    fn grouping_sets_are_spelled_out() {
        for (sql, groups) in [
            ("SELECT a, 5 FROM t GROUP BY ROLLUP (1, 2)", "ROLLUP (a, 5)"),
            ("SELECT a + 1 AS b FROM t GROUP BY GROUPING SETS ((1), ())", "GROUPING SETS ((a + 1), ())"),
            ("SELECT a FROM t GROUP BY ROLLUP (a, (b, c))", "GROUPING SETS ((a, b, c), (a), ())"),
            ("SELECT a FROM t GROUP BY ROLLUP (a, a)", "GROUPING SETS ((a), (a), ())"),
            ("SELECT a FROM t GROUP BY CUBE ((a, b), c)", "GROUPING SETS ((a, b, c), (a, b), (c), ())"),
            ("SELECT a FROM t GROUP BY CUBE (a, b)", "CUBE (a, b)"),
        ] {
            let rewritten = rewritten(sql);
            assert!(rewritten.ends_with(groups), "{rewritten}");
        }
    }
}
