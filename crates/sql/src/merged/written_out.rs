//! Writing out what `*` stands for in a query that is kept as text.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Query, Select, VisitMut, VisitorMut, With};

use super::{Frame, Resolver, Step, is_wildcard, step, written_out};
use crate::Result;
use crate::current::Current;
use crate::statement::identifier;

/// Puts columns in the place of every `*` whose columns are known, and leaves all else as it is written.
pub(crate) fn write_out(current: &Current, query: &mut Query) -> Result<()> {
    let mut writer = Writer { resolver: Resolver::new(current, None), withs: Vec::new() };
    match VisitMut::visit(query, &mut writer) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Writer<'a> {
    resolver: Resolver<'a>,
    /// The CTEs of the queries around, which are visited before all else of a query.
    withs: Vec<Option<With>>,
}

impl VisitorMut for Writer<'_> {
    type Break = Box<crate::Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> Step {
        self.resolver.queries.push(Frame::default());
        let mut with = query.with.take();
        let is_recursive = with.as_ref().is_some_and(|with| with.recursive);
        for cte in with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            // Each sees those before it, and a recursive one itself.
            if is_recursive {
                self.resolver.frame().ctes.push((identifier(&cte.alias.name), None));
            }
            VisitMut::visit(&mut cte.query, self)?;
            let columns = step(self.resolver.cte_columns(cte))?;
            self.resolver.frame().ctes.push((identifier(&cte.alias.name), columns));
        }
        self.withs.push(with);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> Step {
        query.with = self.withs.pop().flatten();
        self.resolver.queries.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Step {
        if select.projection.iter().any(is_wildcard)
            && let Some(side) = step(self.resolver.side(&mut select.from.clone()))?
            && let Ok(items) = written_out(&select.projection, &side)
        {
            select.projection = items;
        }
        ControlFlow::Continue(())
    }
}
