//! INSERT, and the storing of new rows, which COPY shares.

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Column as PlanColumn;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Insert, ObjectName, Statement as Ast, TableObject};
use tokio::task::block_in_place;

use crate::paged::Appender;
use crate::row::{RowEncoder, row_key};
use crate::rules::reads;
use crate::statement::{identifier, table_name};
use crate::table::TableDefinition;
use crate::worker::Context;
use crate::{Error, Outcome, Result, query};

use super::{Prepared, defaults, values};

/// How many rows are stored between two looks at the cancel flag.
const ROWS_PER_LOOK: usize = 1024;

/// Runs an INSERT.
pub(crate) async fn run(context: &Context<'_>, insert: &Insert) -> Result<Outcome> {
    let (definition, prepared) = prepare(context, insert).await?;
    let mut inserter = Inserter::new(context, Arc::clone(&definition))?;
    let mut reads_itself = false;
    for plan in &prepared.plans {
        // What a paged table shows stays as it is.
        reads_itself |= definition.pages().is_none() && reads(plan, definition.name())?;
    }
    if reads_itself {
        // The source must not meet the rows that it makes.
        let source = query::collect(context, &prepared.plans, "rows to insert").await?;
        for batch in &source.batches {
            inserter.insert(context, batch)?;
        }
    } else {
        for plan in &prepared.plans {
            let mut source = context.guard(query::start(context.state, plan)).await?;
            while let Some(batch) = query::next(context, &mut source).await? {
                inserter.insert(context, &batch)?;
            }
        }
    }
    Ok(Outcome::Affected { tag: "INSERT", rows: inserter.finish(context)? })
}

/// Plans an INSERT: a query whose columns are the table's.
pub(crate) async fn prepare(context: &Context<'_>, insert: &Insert) -> Result<(Arc<TableDefinition>, Prepared)> {
    check(insert)?;
    let TableObject::TableName(name) = &insert.table else {
        return Err(Error::unsupported("INSERT into something that is not a table", "name a table"));
    };
    let definition = context.current.definition(&table_name(name)?, "INSERT")?;
    let headline = format!("IshigakiInsert: table={}", definition.name());
    let Some(source) = &insert.source else {
        // DEFAULT VALUES: one row of defaults.
        let plan = fill(context, &definition, LogicalPlanBuilder::empty(true).build()?, &[]).await?;
        return Ok((definition, Prepared { headline, plans: vec![plan] }));
    };
    let mut positions = positions(&definition, &insert.columns)?;
    let are_named = !insert.columns.is_empty();
    if !are_named && let Some(width) = values::width(source) {
        // The columns that are left get their defaults.
        positions.truncate(width.max(1));
    }
    let mut plans = Vec::new();
    for source in values::split(&definition, &positions, source)? {
        let source = context.guard(query::plan(context, &Ast::Query(Box::new(source)))).await?;
        let given = source.schema().fields().len();
        if !are_named && (1..positions.len()).contains(&given) {
            positions.truncate(given);
        }
        if given != positions.len() {
            return Err(wrong_count(&definition, given, positions.len()));
        }
        plans.push(fill(context, &definition, source, &positions).await?);
    }
    Ok((definition, Prepared { headline, plans }))
}

fn check(insert: &Insert) -> Result<()> {
    let refuse = |what: &str, remedy: &str| Err(Error::unsupported(what, remedy));
    if insert.on.is_some() || insert.or.is_some() || insert.ignore || insert.replace_into {
        return refuse("INSERT … ON CONFLICT", "UPDATE first and INSERT when no row was there, in one transaction");
    }
    if insert.returning.is_some() || insert.output.is_some() {
        return refuse("INSERT … RETURNING", "SELECT the rows afterwards, in the same transaction");
    }
    if insert.overwrite {
        return refuse("INSERT OVERWRITE", "DELETE first, in the same transaction");
    }
    if insert.source.is_none() && !insert.columns.is_empty() {
        return refuse("INSERT without VALUES or a query", "write VALUES or SELECT behind the columns");
    }
    if insert.table_alias.is_some()
        || insert.insert_alias.is_some()
        || insert.partitioned.is_some()
        || insert.priority.is_some()
        || insert.settings.is_some()
        || insert.format_clause.is_some()
        || insert.multi_table_insert_type.is_some()
        || !insert.assignments.is_empty()
        || !insert.after_columns.is_empty()
        || !insert.optimizer_hints.is_empty()
        || !insert.multi_table_into_clauses.is_empty()
    {
        return refuse("an option of this INSERT", "write INSERT INTO t (columns) VALUES … or SELECT …");
    }
    Ok(())
}

/// The positions of the columns that get values, in the order of the values.
pub(crate) fn positions(definition: &TableDefinition, columns: &[ObjectName]) -> Result<Vec<usize>> {
    if columns.is_empty() {
        return Ok((0..definition.columns().len()).collect());
    }
    let mut positions = Vec::with_capacity(columns.len());
    for name in columns {
        let column = match name.0.as_slice() {
            [part] => part.as_ident().map_or_else(|| part.to_string(), identifier),
            _ => name.to_string(),
        };
        let position = definition.position(&column)?;
        if positions.contains(&position) {
            return Err(Error::Definition {
                table: definition.name().to_owned(),
                reason: format!("column {column} is named twice"),
            });
        }
        positions.push(position);
    }
    Ok(positions)
}

/// The error of a row that has more or fewer values than there are columns for.
pub(super) fn wrong_count(definition: &TableDefinition, given: usize, expected: usize) -> Error {
    Error::Definition {
        table: definition.name().to_owned(),
        reason: format!(
            "{given} values for {expected} columns; name the columns that get values: INSERT INTO t (a, b) …"
        ),
    }
}

/// The source's columns at their places, and defaults at the others.
async fn fill(
    context: &Context<'_>,
    definition: &TableDefinition,
    source: LogicalPlan,
    positions: &[usize],
) -> Result<LogicalPlan> {
    let mut row = Vec::with_capacity(definition.columns().len());
    for (position, column) in definition.columns().iter().enumerate() {
        let value = match positions.iter().position(|&given| given == position) {
            Some(given) => Expr::Column(PlanColumn::from(source.schema().qualified_field(given))),
            None => defaults::expression(context, column).await?,
        };
        row.push(value.alias(format!("__new_{position}")));
    }
    Ok(LogicalPlanBuilder::from(source).project(row)?.build()?)
}

/// Stores new rows batch by batch.
pub(crate) struct Inserter {
    definition: Arc<TableDefinition>,
    /// How many were stored.
    pub(crate) rows: u64,
    /// The row of the last batch at which storing failed; `None` when the batch was refused as a whole.
    pub(crate) failed: Option<usize>,
    /// Of a paged table.
    appender: Option<Appender>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Inserter {
    pub(crate) fn new(context: &Context<'_>, definition: Arc<TableDefinition>) -> Result<Self> {
        let appender = definition.pages().map(|paged| context.current.append(&definition, paged)).transpose()?;
        Ok(Self { definition, rows: 0, failed: None, appender, key: Vec::new(), value: Vec::new() })
    }

    /// Makes what went to page files durable, and then to be seen; other rows are the transaction's. How many rows there were.
    pub(crate) fn finish(self, context: &Context<'_>) -> Result<u64> {
        if let Some(appender) = self.appender {
            // What was read for it comes first.
            context.current.settle()?;
            context.shared.cancel.check()?;
            if let Some((position, state)) = block_in_place(|| appender.commit())? {
                context.current.appended(&self.definition, position, state);
            }
        }
        Ok(self.rows)
    }

    /// Checks and stores the rows of a batch that has all columns of the table in the table's order.
    pub(crate) fn insert(&mut self, context: &Context<'_>, batch: &RecordBatch) -> Result<()> {
        let rows = RowEncoder::new(Arc::clone(&self.definition), batch)?;
        if let Some(appender) = &mut self.appender {
            context.shared.cancel.check()?;
            let batch = RecordBatch::try_new(Arc::clone(self.definition.schema()), rows.columns())?;
            block_in_place(|| appender.write(batch))?;
            self.rows += rows.len() as u64;
            return Ok(());
        }
        let table = self.definition.id();
        context.current.with_catalog(|catalog, transaction| {
            let ids = if self.definition.has_row_id() { catalog.row_ids(rows.len() as u64)? } else { 0..0 };
            let mut ids = ids.into_iter();
            for row in 0..rows.len() {
                self.failed = Some(row);
                if row % ROWS_PER_LOOK == 0 {
                    context.shared.cancel.check()?;
                }
                rows.value(row, &mut self.value)?;
                if let Some(id) = ids.next() {
                    transaction.insert(table, &row_key(id), &self.value)?;
                    continue;
                }
                rows.key(row, &mut self.key);
                match transaction.insert(table, &self.key, &self.value) {
                    Err(ishigaki_txn::Error::DuplicateKey { .. }) => return Err(rows.duplicate(row)),
                    stored => stored?,
                }
            }
            Ok(())
        })?;
        self.failed = None;
        self.rows += rows.len() as u64;
        Ok(())
    }
}
