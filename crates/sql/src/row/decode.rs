//! From keys and values to batches.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BinaryViewBuilder, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::key;
use crate::table::TableDefinition;
use crate::types::SqlType;
use crate::{Error, Result};

use super::layout::{Layout, Slot};
use super::{Flaw, Sink};

/// The name of the column that [`RowDecoder::with_key`] appends.
pub const KEY_COLUMN: &str = "__key";

/// Gathers stored rows of one table into batches of the columns asked for.
///
/// Not for use by several threads at once; each scan has its own. Dropping it loses the rows not yet taken.
///
/// ```
/// use std::sync::Arc;
/// use datafusion::arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch};
/// use datafusion::arrow::datatypes::Int32Type;
/// use ishigaki_sql::row::{RowDecoder, RowEncoder};
/// use ishigaki_sql::table::{Column, TableDefinition};
/// use ishigaki_sql::types::SqlType;
///
/// # fn main() -> ishigaki_sql::Result<()> {
/// let column = |name: &str| Column { name: name.to_owned(), sql_type: SqlType::Integer, nullable: true, default: None };
/// let columns = vec![column("id"), column("amount")];
/// let table = Arc::new(TableDefinition::new(ishigaki_txn::TableId(1), "t".to_owned(), columns, vec![0])?);
///
/// let numbers = |from: i32| Arc::new(Int32Array::from_iter_values(from..from + 3)) as ArrayRef;
/// let batch = RecordBatch::try_new(table.schema().clone(), vec![numbers(1), numbers(10)])?;
/// let rows = RowEncoder::new(table.clone(), &batch)?;
/// let (mut key, mut value) = (Vec::new(), Vec::new());
///
/// let mut amounts = RowDecoder::new(table, Some(&[1]));
/// for row in 0..rows.len() {
///     rows.key(row, &mut key);
///     rows.value(row, &mut value)?;
///     amounts.push(&key, &value)?;
/// }
/// assert_eq!(amounts.finish()?.column(0).as_primitive::<Int32Type>().values(), &[10, 11, 12]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RowDecoder {
    table: Arc<TableDefinition>,
    layout: Layout,
    schema: SchemaRef,
    /// One for each column asked for, in the order asked for.
    sinks: Vec<Sink>,
    /// Columns from the value: their sink and their place.
    values: Vec<(usize, Slot)>,
    /// The columns of the key up to the last one asked for, and their sinks.
    keys: Vec<(SqlType, Option<usize>)>,
    /// Whether `keys` are all columns of the key, so that nothing may follow them.
    whole_key: bool,
    /// The keys themselves.
    key_bytes: Option<BinaryViewBuilder>,
    rows: usize,
}

impl RowDecoder {
    /// A decoder of the columns at these positions, each named at most once, in this order; all columns without a
    /// projection.
    pub fn new(table: Arc<TableDefinition>, projection: Option<&[usize]>) -> Self {
        let layout = Layout::new(&table);
        let all: Vec<usize>;
        let projection = if let Some(positions) = projection {
            positions
        } else {
            all = (0..table.columns().len()).collect();
            &all
        };
        let mut values = Vec::new();
        let mut keys: Vec<_> =
            table.primary_key().iter().map(|&position| (table.columns()[position].sql_type, None)).collect();
        for (sink, &position) in projection.iter().enumerate() {
            match layout.slot(position) {
                Slot::Key(place) => keys[place].1 = Some(sink),
                slot => values.push((sink, slot)),
            }
        }
        let needed = keys.iter().rposition(|(_, sink)| sink.is_some()).map_or(0, |last| last + 1);
        keys.truncate(needed);
        Self {
            schema: Arc::new(Schema::new(
                projection.iter().map(|&position| table.schema().fields()[position].clone()).collect::<Vec<_>>(),
            )),
            sinks: projection.iter().map(|&position| Sink::new(table.columns()[position].sql_type)).collect(),
            values,
            whole_key: needed > 0 && needed == table.primary_key().len(),
            keys,
            key_bytes: None,
            rows: 0,
            layout,
            table,
        }
    }

    /// The same with a last column [`KEY_COLUMN`] of type `BinaryView`: the engine's key of each row, by which an UPDATE
    /// or DELETE finds it again.
    #[must_use]
    pub fn with_key(mut self) -> Self {
        let mut fields: Vec<_> = self.schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(KEY_COLUMN, DataType::BinaryView, false)));
        self.schema = Arc::new(Schema::new(fields));
        self.key_bytes = Some(BinaryViewBuilder::new());
        self
    }

    /// The schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Appends a row. After an error the decoder is of no use any more.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.append(key, value).map_err(|flaw| corrupt(&self.table, key, flaw))
    }

    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<(), Flaw> {
        let stored = self.layout.open(value)?;
        for &(sink, slot) in &self.values {
            let sink = &mut self.sinks[sink];
            match slot {
                Slot::Fixed { bit, .. } | Slot::Variable { bit, .. } if stored.is_null(bit) => sink.null(),
                Slot::Fixed { at, width, .. } => sink.stored(stored.fixed(at, width))?,
                Slot::Variable { entry, .. } => sink.stored(stored.variable(entry)?)?,
                Slot::Key(_) => {}
            }
        }
        let mut rest = key;
        for &(sql_type, sink) in &self.keys {
            key::take(sql_type, &mut rest, sink.map(|sink| &mut self.sinks[sink]))?;
        }
        if self.whole_key && !rest.is_empty() {
            return Err("a key that goes on behind its columns");
        }
        if let Some(keys) = &mut self.key_bytes {
            keys.try_append_value(key).map_err(|_| "a key of more than two gigabytes")?;
        }
        self.rows += 1;
        Ok(())
    }

    /// How many rows there are since the last [`finish`](Self::finish).
    pub fn len(&self) -> usize {
        self.rows
    }

    /// True when there is no row since the last [`finish`](Self::finish).
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The rows so far as a batch. The decoder goes on with none.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = self.sinks.iter_mut().map(Sink::finish).collect();
        if let Some(keys) = &mut self.key_bytes {
            columns.push(Arc::new(keys.finish()));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        // What can fail here is a NULL in a column that takes none.
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| Error::corrupt(format!("rows of table {}: {error}", self.table.name())))
    }
}

/// The error of a stored row whose bytes make no sense.
fn corrupt(table: &TableDefinition, key: &[u8], flaw: Flaw) -> Error {
    let mut hex = String::new();
    for byte in key.iter().take(32) {
        let _ = write!(hex, "{byte:02x}");
    }
    let dots = if key.len() > 32 { "…" } else { "" };
    Error::corrupt(format!("the row of table {} under key {hex}{dots}: {flaw}", table.name()))
}
