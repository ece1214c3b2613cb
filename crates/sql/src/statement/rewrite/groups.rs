//! What a statement groups by, marked off from what DataFusion adds to it.
//!
//! DataFusion groups by all columns that those of GROUP BY determine, so that they can be selected. Where a join has made rows of a
//! key occur several times, it finds such columns where there are none ([`planning`](crate::planning)), and adds them all the same. Behind
//! [`END_OF_GROUPS`] in a plan is what was added.

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Ident, Select};

use super::called;
use crate::functions::END_OF_GROUPS;

pub(super) fn mark_end(select: &mut Select) {
    let GroupByExpr::Expressions(groups, modifiers) = &mut select.group_by else { return };
    let is_set = |group: &Expr| matches!(group, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_));
    // Nothing is added to grouping sets alone, and to no groups.
    if modifiers.is_empty() && !groups.iter().all(is_set) {
        groups.push(called(Ident::with_quote('"', END_OF_GROUPS), []));
    }
}
