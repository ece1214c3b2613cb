//! DROP TABLE and DROP VIEW: all that is named, or nothing.

use std::collections::HashSet;

use crate::catalog::Relation;
use crate::statement::{Drop, Dropped, table_name};
use crate::worker::Context;
use crate::{Error, Outcome, Result};

/// `DROP TABLE` or `DROP VIEW` of one or several.
pub(crate) fn drop(context: &Context<'_>, drop: &Drop<'_>) -> Result<Outcome> {
    let verb = drop.kind.verb();
    let mut names: Vec<String> = Vec::new();
    for name in drop.names {
        let name = table_name(name)?;
        match (context.current.find(&name)?, drop.kind) {
            (Some(Relation::Table(_)), Dropped::Table) | (Some(Relation::View(_)), Dropped::View) => {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            (Some(Relation::View(_)), Dropped::Table) => {
                return Err(Error::IsView { view: name, verb: verb.to_owned() });
            }
            (Some(Relation::Table(_)), Dropped::View) => {
                return Err(Error::IsTable { table: name, verb: verb.to_owned() });
            }
            (None, _) if drop.if_exists => {}
            (None, Dropped::Table) => return Err(Error::NoSuchTable { table: name }),
            (None, Dropped::View) => return Err(Error::NoSuchView { view: name }),
        }
    }
    let readers = if names.is_empty() { Vec::new() } else { readers(context, &names)? };
    if !readers.is_empty() && !drop.cascade {
        return Err(Error::StillRead { what: names, views: readers });
    }
    if drop.kind == Dropped::View {
        names.extend(readers);
        names.iter().try_for_each(|name| drop_view(context, name))?;
    } else {
        readers.iter().try_for_each(|name| drop_view(context, name))?;
        names.iter().try_for_each(|name| drop_table(context, name))?;
    }
    Ok(Outcome::Done { tag: verb })
}

/// The views that read any of these, by other views or not, and are not among them.
fn readers(context: &Context<'_>, names: &[String]) -> Result<Vec<String>> {
    let views = context.current.views()?;
    let mut all: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut readers = Vec::new();
    loop {
        let reads = |bases: &[crate::view::Base]| bases.iter().any(|base| all.contains(base.name.as_str()));
        let next = views.iter().find(|view| !all.contains(view.name()) && reads(view.bases()));
        let Some(view) = next else { return Ok(readers) };
        all.insert(view.name());
        readers.push(view.name().to_owned());
    }
}

fn drop_view(context: &Context<'_>, name: &str) -> Result<()> {
    context.current.with_catalog(|catalog, transaction| catalog.drop_view(transaction, name))
}

fn drop_table(context: &Context<'_>, name: &str) -> Result<()> {
    let dropped = context.current.with_catalog(|catalog, transaction| catalog.drop(transaction, name))?;
    match dropped.pages() {
        Some(paged) => context.current.drop_files(&dropped, paged),
        None => Ok(()),
    }
}
