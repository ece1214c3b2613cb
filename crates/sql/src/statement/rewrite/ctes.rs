//! Queries of a WITH that have the name of one around them. DataFusion takes each name once; so the inner one gets another, and a
//! table of FROM that means it the old one as its alias.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query, TableAlias, TableFactor};

use crate::statement::identifier;

/// What stands in front of the number of a name, which no name that is written has.
const MARK: &str = "\u{2063}with:";

/// The names that a table of FROM may mean where the visitor is.
#[derive(Default)]
pub(super) struct Names {
    queries: Vec<Frame>,
    last: usize,
}

/// A query around the place.
#[derive(Default)]
struct Frame {
    /// The names of its WITH, and those that they have got.
    all: Vec<(String, String)>,
    /// How many of them can be seen by now.
    visible: usize,
    /// How many of its WITH are still to be visited.
    ahead: usize,
}

impl Names {
    pub(super) fn enter_query(&mut self, query: &mut Query) {
        let mut frame = Frame::default();
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                let name = identifier(&cte.alias.name);
                let taken = self.queries.iter().flat_map(|query| &query.all).any(|(known, _)| *known == name);
                if taken {
                    self.last += 1;
                    cte.alias.name = Ident::with_quote('"', format!("{name}{MARK}{}", self.last));
                }
                frame.all.push((name, identifier(&cte.alias.name)));
            }
            frame.ahead = frame.all.len();
            // A recursive one sees itself, and those behind it, which it must not refer to.
            frame.visible = if with.recursive { frame.all.len() } else { 0 };
        }
        self.queries.push(frame);
    }

    pub(super) fn leave_query(&mut self) {
        self.queries.pop();
        // If it was one of a WITH, what follows may refer to it.
        if let Some(around) = self.queries.last_mut()
            && around.ahead > 0
        {
            around.ahead -= 1;
            around.visible = around.visible.max(around.all.len() - around.ahead);
        }
    }

    /// Gives a table the name that what it means has got.
    pub(super) fn resolve(&self, table: &mut TableFactor) {
        let TableFactor::Table { name, alias, args: None, .. } = table else { return };
        let [ObjectNamePart::Identifier(written)] = name.0.as_slice() else { return };
        let of = identifier(written);
        let known = self.queries.iter().rev().find_map(|query| {
            let visible = &query.all[..query.visible];
            visible.iter().rev().find(|(known, _)| *known == of)
        });
        let Some((_, made)) = known.filter(|(old, made)| old != made) else { return };
        if alias.is_none() {
            *alias =
                Some(TableAlias { explicit: true, name: Ident::with_quote('"', of), columns: Vec::new(), at: None });
        }
        *name = ObjectName::from(vec![Ident::with_quote('"', made)]);
    }
}

#[cfg(test)]
mod tests {
    use crate::statement::rewritten;

    #[test]
    fn an_inner_name_hides_an_outer_one_where_it_can_be_seen() {
        let plain = |sql: &str| rewritten(sql).replace('\u{2063}', "");
        assert_eq!(
            plain("WITH w AS (SELECT 1) SELECT * FROM (WITH w AS (SELECT * FROM w) SELECT w.a FROM w) AS s, w"),
            "WITH w AS (SELECT CAST(1 AS INT)) SELECT * FROM \
             (WITH \"wwith:1\" AS (SELECT * FROM w) SELECT w.a FROM \"wwith:1\" AS \"w\") AS s, w"
        );
        let apart = "SELECT * FROM (WITH w AS (SELECT a FROM t) SELECT * FROM w) AS s, (WITH w AS (SELECT b FROM t) SELECT * FROM w) AS q";
        assert_eq!(plain(apart), apart);
    }
}
