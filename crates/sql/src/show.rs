//! SHOW TABLES, SHOW VIEWS, SHOW COLUMNS and DESCRIBE, in SQL's own words. `information_schema` has the same in the standard's.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, StringArray, UInt32Array};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::{ObjectName, ShowStatementOptions};

use crate::catalog::Relation;
use crate::outcome::Rows;
use crate::statement::table_name;
use crate::table::TableDefinition;
use crate::view::ViewDefinition;
use crate::worker::Context;
use crate::{Error, Outcome, Result};

/// All tables.
pub(crate) fn tables(context: &Context<'_>) -> Result<Outcome> {
    let tables = context.current.read(|catalog, from| catalog.list(from))?;
    let names = tables.iter().map(|table| Some(table.name())).collect::<StringArray>();
    let counts = UInt32Array::from_iter_values(tables.iter().map(|table| table.columns().len() as u32));
    let keys = tables.iter().map(|table| key(table)).collect::<StringArray>();
    // As WITH (…) of CREATE TABLE has it; nothing for tables that keep rows as usual.
    let storage = tables.iter().map(|table| table.pages().map(ToString::to_string)).collect::<StringArray>();
    rows(vec![
        ("table_name", Arc::new(names)),
        ("columns", Arc::new(counts)),
        ("primary_key", Arc::new(keys)),
        ("storage", Arc::new(storage)),
    ])
}

/// All views, each behind those that it reads.
pub(crate) fn views(context: &Context<'_>) -> Result<Outcome> {
    let views = in_order(context.current.views()?);
    let names = views.iter().map(|view| Some(view.name())).collect::<StringArray>();
    let counts = UInt32Array::from_iter_values(views.iter().map(|view| view.columns().len() as u32));
    let queries = views.iter().map(|view| Some(view.query())).collect::<StringArray>();
    rows(vec![("view_name", Arc::new(names)), ("columns", Arc::new(counts)), ("query", Arc::new(queries))])
}

/// Views in an order in which they can be made, and by name as far as that leaves a choice.
fn in_order(views: Vec<Arc<ViewDefinition>>) -> Vec<Arc<ViewDefinition>> {
    let mut left: BTreeMap<String, Arc<ViewDefinition>> =
        views.into_iter().map(|view| (view.name().to_owned(), view)).collect();
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let is_next = |view: &ViewDefinition| !view.bases().iter().any(|base| left.contains_key(&base.name));
        // Should damage have made a circle, its views come as they are.
        let next = left.values().find(|view| is_next(view)).or_else(|| left.values().next()).cloned();
        ordered.extend(next.and_then(|next| left.remove(next.name())));
    }
    ordered
}

/// The columns of a table or view.
pub(crate) fn columns(context: &Context<'_>, name: &ObjectName) -> Result<Outcome> {
    let name = table_name(name)?;
    let relation = context.current.find(&name)?.ok_or(Error::NoSuchTable { table: name })?;
    let columns = relation.columns();
    let primary_key = match &relation {
        Relation::Table(table) => table.primary_key(),
        Relation::View(_) => &[],
    };
    let names = columns.iter().map(|column| Some(column.name.as_str())).collect::<StringArray>();
    let types = columns.iter().map(|column| Some(column.sql_type.to_string())).collect::<StringArray>();
    let nullable = columns.iter().map(|column| Some(column.nullable)).collect::<BooleanArray>();
    let defaults = columns.iter().map(|column| column.default.as_deref()).collect::<StringArray>();
    let places = (0..columns.len()).map(|position| {
        let place = primary_key.iter().position(|&key| key == position);
        place.map(|place| place as u32 + 1)
    });
    rows(vec![
        ("column_name", Arc::new(names)),
        ("type", Arc::new(types)),
        ("nullable", Arc::new(nullable)),
        ("default", Arc::new(defaults)),
        ("primary_key", Arc::new(places.collect::<UInt32Array>())),
    ])
}

/// Refuses `LIKE`, `LIMIT` and the like; what `IN` or `FROM` names, if anything.
pub(crate) fn plain<'a>(options: &'a ShowStatementOptions, what: &str) -> Result<Option<&'a ObjectName>> {
    let ShowStatementOptions { show_in, starts_with, limit, limit_from, filter_position } = options;
    if starts_with.is_some() || limit.is_some() || limit_from.is_some() || filter_position.is_some() {
        return Err(Error::unsupported(
            format!("{what} with a filter"),
            "SELECT from information_schema.tables or information_schema.columns",
        ));
    }
    Ok(show_in.as_ref().and_then(|show_in| show_in.parent_name.as_ref()))
}

fn key(table: &TableDefinition) -> Option<String> {
    (!table.primary_key().is_empty()).then(|| table.primary_key_names().join(", "))
}

fn rows(columns: Vec<(&str, ArrayRef)>) -> Result<Outcome> {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns)?;
    Ok(Outcome::Rows(Rows::complete(batch.schema(), vec![batch])))
}
