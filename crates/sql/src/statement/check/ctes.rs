//! A query of a WITH that calls a volatile function and is named several times. DataFusion computes it for each name;
//! `PostgreSQL` once, so that all of them show the same values.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::functions::all_default_functions;
use datafusion::logical_expr::Volatility;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Visit, visit_expressions, visit_relations};

use super::{Found, refuse};
use crate::statement::identifier;

/// The names of all functions that give another value at each call.
static VOLATILE: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let functions = all_default_functions();
    let volatile = functions.iter().filter(|function| function.signature().volatility == Volatility::Volatile);
    volatile
        .flat_map(|function| std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str)))
        .map(str::to_owned)
        .collect()
});

pub(super) fn check(query: &Query) -> Found {
    let Some(with) = &query.with else { return ControlFlow::Continue(()) };
    let mut volatile: HashSet<String> = HashSet::new();
    for (at, cte) in with.cte_tables.iter().enumerate() {
        let is_volatile = calls_volatile(&cte.query) || volatile.iter().any(|name| named(&cte.query, name) > 0);
        if !is_volatile {
            continue;
        }
        let name = identifier(&cte.alias.name);
        let later: usize = with.cte_tables[at + 1..].iter().map(|later| named(&later.query, &name)).sum();
        if later + named(&query.body, &name) + named(&query.order_by, &name) > 1 {
            let shown = name.split('\u{2063}').next().unwrap_or_default();
            return refuse(
                &format!(
                    "WITH {shown}, which calls a function that gives another value each time, named more than once"
                ),
                "name it once, or keep its rows in a table first: CREATE TABLE … AS",
            );
        }
        volatile.insert(name);
    }
    ControlFlow::Continue(())
}

fn calls_volatile(query: &Query) -> bool {
    let found = visit_expressions(query, |expression: &Expr| match expression {
        Expr::Function(function)
            if function
                .name
                .0
                .last()
                .and_then(|part| part.as_ident())
                .is_some_and(|name| VOLATILE.contains(&identifier(name))) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// How often a name stands for a table.
fn named(within: &impl Visit, name: &str) -> usize {
    let mut count = 0;
    let _ = visit_relations(within, |relation: &ObjectName| {
        if let [part] = relation.0.as_slice()
            && part.as_ident().is_some_and(|part| identifier(part) == name)
        {
            count += 1;
        }
        ControlFlow::<()>::Continue(())
    });
    count
}
