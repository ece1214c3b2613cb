//! DELETE.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::sql::sqlparser::ast::{Delete, FromTable};

use crate::table::TableDefinition;
use crate::worker::Context;
use crate::{Error, Outcome, Result, query};

use super::Prepared;
use super::target::Target;

/// Bytes that a key that was seen takes beside its own.
const SEEN: usize = size_of::<Vec<u8>>() * 2;

/// Runs a DELETE.
pub(crate) async fn run(context: &Context<'_>, delete: &Delete) -> Result<Outcome> {
    let (definition, prepared) = prepare(context, delete).await?;
    let found = query::collect(context, &prepared.plans, "rows to delete").await?;
    let mut rows = 0;
    // The other tables of USING may match a row several times.
    let mut seen = HashSet::new();
    for batch in &found.batches {
        let keys = batch.column(0).as_binary_view();
        context.shared.cancel.check()?;
        context.current.with(|transaction| {
            for key in keys.iter().flatten() {
                if delete.using.is_some() {
                    if !seen.insert(key.to_vec()) {
                        continue;
                    }
                    found.set_aside(key.len() + SEEN)?;
                }
                transaction.delete(definition.id(), key)?;
                rows += 1;
            }
            Ok(())
        })?;
    }
    Ok(Outcome::Affected { tag: "DELETE", rows })
}

/// Plans a DELETE.
pub(crate) async fn prepare(context: &Context<'_>, delete: &Delete) -> Result<(Arc<TableDefinition>, Prepared)> {
    let Delete { delete_token: _, optimizer_hints, tables, from, using, selection, returning, output, order_by, limit } =
        delete;
    if returning.is_some() || output.is_some() {
        return Err(Error::unsupported("DELETE … RETURNING", "SELECT the rows first, in the same transaction"));
    }
    if !tables.is_empty() || !optimizer_hints.is_empty() {
        return Err(Error::unsupported("DELETE of several tables", "write one DELETE for each table"));
    }
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
    let target = Target::find(context, from, "DELETE")?;
    let ast =
        target.query(Vec::new(), using.as_deref().unwrap_or_default(), selection.as_ref(), order_by, limit.as_ref())?;
    let plan = context.guard(query::plan(context, &ast)).await?;
    let headline = format!("IshigakiDelete: table={}", target.definition.name());
    Ok((target.definition, Prepared { headline, plans: vec![plan] }))
}
