//! UPDATE.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::sql::sqlparser::ast::{Assignment, AssignmentTarget, Expr, ObjectName, Update, UpdateTableFromKind};
use ishigaki_txn::Transaction;

use crate::query::Collected;
use crate::row::RowEncoder;
use crate::statement::identifier;
use crate::table::TableDefinition;
use crate::worker::Context;
use crate::{Error, Outcome, Result, query};

use super::target::Target;
use super::{Prepared, defaults};

/// Bytes that a row that was seen takes beside its key and its values.
const SEEN: usize = size_of::<(Vec<u8>, OwnedRow)>() * 2;

/// Runs an UPDATE.
pub(crate) async fn run(context: &Context<'_>, update: &Update) -> Result<Outcome> {
    let (definition, prepared) = prepare(context, update).await?;
    let mut found = query::collect(context, &prepared.plans, "rows to update").await?;
    if update.from.is_some() {
        found.batches = each_once(&definition, &found)?;
    }
    // Every new row is checked before the first is stored.
    let changes: Vec<Change> =
        found.batches.iter().map(|batch| Change::new(&definition, batch)).collect::<Result<_>>()?;
    // Where keys change, all old rows go before the first new one comes: whether two rows share a key is a question to
    // the table as it will be, not to the order in which its rows are changed.
    if !definition.has_row_id() {
        for change in &changes {
            context.shared.cancel.check()?;
            context.current.with(|transaction| change.remove(&definition, transaction))?;
        }
    }
    let mut rows = 0;
    for change in &changes {
        context.shared.cancel.check()?;
        context.current.with(|transaction| change.store(&definition, transaction))?;
        rows += change.rows.len() as u64;
    }
    Ok(Outcome::Affected { tag: "UPDATE", rows })
}

/// Plans an UPDATE.
pub(crate) async fn prepare(context: &Context<'_>, update: &Update) -> Result<(Arc<TableDefinition>, Prepared)> {
    let Update {
        update_token: _,
        optimizer_hints,
        table,
        assignments,
        from,
        selection,
        returning,
        output,
        or,
        order_by,
        limit,
    } = update;
    let others = match from {
        None => &[][..],
        Some(UpdateTableFromKind::AfterSet(others)) => others,
        Some(UpdateTableFromKind::BeforeSet(_)) => {
            return Err(Error::unsupported("UPDATE FROM before SET", "write UPDATE t SET … FROM …"));
        }
    };
    if returning.is_some() || output.is_some() {
        return Err(Error::unsupported("UPDATE … RETURNING", "SELECT the rows afterwards, in the same transaction"));
    }
    if or.is_some() || !optimizer_hints.is_empty() {
        return Err(Error::unsupported("UPDATE OR …", "write UPDATE alone"));
    }
    let target = Target::find(context, std::slice::from_ref(table), "UPDATE")?;
    let definition = &target.definition;
    let mut values: Vec<Option<Expr>> = vec![None; definition.columns().len()];
    let mut names = Vec::new();
    for (name, value) in pairs(assignments)? {
        let position = definition.position(&column_name(definition, name)?)?;
        let column = &definition.columns()[position];
        names.push(column.name.as_str());
        let value = if defaults::is_default(value) { defaults::ast(column)? } else { value.clone() };
        if values[position].replace(value).is_some() {
            return Err(Error::Definition {
                table: definition.name().to_owned(),
                reason: format!("column {} is set twice", column.name),
            });
        }
    }
    let headline = format!("IshigakiUpdate: table={}, set=[{}]", definition.name(), names.join(", "));
    let row = values
        .into_iter()
        .zip(definition.columns())
        .map(|(value, column)| value.unwrap_or_else(|| target.column(&column.name)))
        .collect();
    let ast = target.query(row, others, selection.as_ref(), order_by, limit.as_ref())?;
    let plan = context.guard(query::plan(context, &ast)).await?;
    Ok((target.definition, Prepared { headline, plans: vec![plan] }))
}

/// The rows of `UPDATE … FROM`, each once: the other tables may match a row several times, as long as it becomes the same.
/// (`PostgreSQL` takes any match, and says that it can not be told which.)
fn each_once(definition: &TableDefinition, found: &Collected) -> Result<Vec<RecordBatch>> {
    let Some(first) = found.batches.first() else { return Ok(Vec::new()) };
    let fields = first.schema().fields()[1..].iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let converter = RowConverter::new(fields)?;
    let mut seen: HashMap<Vec<u8>, OwnedRow> = HashMap::new();
    let mut once = Vec::with_capacity(found.batches.len());
    for batch in &found.batches {
        let keys = batch.column(0).as_binary_view();
        let rows = converter.convert_columns(&batch.columns()[1..])?;
        let mut is_first = Vec::with_capacity(batch.num_rows());
        for (at, row) in rows.iter().enumerate() {
            let earlier = seen.get(keys.value(at));
            if earlier.is_some_and(|earlier| earlier.row() != row) {
                return Err(Error::Definition {
                    table: definition.name().to_owned(),
                    reason: "a row is matched several times by FROM, with different new values; \
                             make the match unique, or SET to an aggregate: SET a = (SELECT max(…) …)"
                        .to_owned(),
                });
            }
            is_first.push(earlier.is_none());
            if earlier.is_none() {
                found.set_aside(keys.value(at).len() + row.data().len() + SEEN)?;
                seen.insert(keys.value(at).to_vec(), row.owned());
            }
        }
        once.push(filter_record_batch(batch, &BooleanArray::from(is_first))?);
    }
    Ok(once)
}

/// Columns and their values, `(a, b) = (1, 2)` taken apart.
fn pairs(assignments: &[Assignment]) -> Result<Vec<(&ObjectName, &Expr)>> {
    let mut pairs = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(name), value) => pairs.push((name, value)),
            (AssignmentTarget::Tuple(names), Expr::Tuple(values)) if names.len() == values.len() => {
                pairs.extend(names.iter().zip(values));
            }
            _ => return Err(Error::unsupported("SET (…) = …", "set each column by itself: SET a = 1, b = 2")),
        }
    }
    Ok(pairs)
}

fn column_name(definition: &TableDefinition, name: &ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [part] if part.as_ident().is_some() => Ok(part.as_ident().map(identifier).unwrap_or_default()),
        _ => Err(Error::NoSuchColumn { table: definition.name().to_owned(), column: name.to_string() }),
    }
}

/// Some rows: the keys that they have, and what they will be.
struct Change<'a> {
    found: &'a RecordBatch,
    rows: RowEncoder,
}

impl<'a> Change<'a> {
    fn new(definition: &Arc<TableDefinition>, found: &'a RecordBatch) -> Result<Self> {
        let columns: Vec<usize> = (1..found.num_columns()).collect();
        Ok(Self { found, rows: RowEncoder::new(Arc::clone(definition), &found.project(&columns)?)? })
    }

    /// Removes those rows whose key changes.
    fn remove(&self, definition: &TableDefinition, transaction: &mut Transaction) -> Result<()> {
        let keys = self.found.column(0).as_binary_view();
        let mut new = Vec::new();
        for row in 0..self.rows.len() {
            self.rows.key(row, &mut new);
            if keys.value(row) != new.as_slice() {
                transaction.delete(definition.id(), keys.value(row))?;
            }
        }
        Ok(())
    }

    /// Stores the new rows.
    fn store(&self, definition: &TableDefinition, transaction: &mut Transaction) -> Result<()> {
        let keys = self.found.column(0).as_binary_view();
        let (mut new, mut value) = (Vec::new(), Vec::new());
        for row in 0..self.rows.len() {
            self.rows.key(row, &mut new);
            self.rows.value(row, &mut value)?;
            let old = keys.value(row);
            if definition.has_row_id() || old == new.as_slice() {
                transaction.put(definition.id(), old, &value)?;
                continue;
            }
            match transaction.insert(definition.id(), &new, &value) {
                Err(ishigaki_txn::Error::DuplicateKey { .. }) => return Err(self.rows.duplicate(row)),
                stored => stored?,
            }
        }
        Ok(())
    }
}
