//! COPY t FROM file.

use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatchOptions, StringBuilder};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DFSchema;
use datafusion::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{CopySource, ObjectName};
use tokio::task::block_in_place;

use crate::database::BATCH_ROWS;
use crate::dml::defaults;
use crate::dml::insert::{Inserter, positions};
use crate::row::RowEncoder;
use crate::statement::table_name;
use crate::table::TableDefinition;
use crate::types::SqlType;
use crate::worker::Context;
use crate::{Error, Result};

use super::csv::{Broken, Reader, Record};
use super::options::{CsvOptions, Format, Options};

/// How much of a file is read at once.
const BUFFER: usize = 1 << 20;

/// Loads a file; the number of rows.
pub(super) async fn run(context: &Context<'_>, source: &CopySource, path: &Path, options: &Options) -> Result<u64> {
    let CopySource::Table { table_name: name, columns } = source else {
        return Err(Error::unsupported("COPY (query) FROM", "name a table"));
    };
    let definition = context.current.definition(&table_name(name)?, "COPY … FROM")?;
    let named: Vec<ObjectName> = columns.iter().map(|column| ObjectName::from(vec![column.clone()])).collect();
    let positions = positions(&definition, &named)?;
    let mut load = Load { context, path, definition, positions, named: !columns.is_empty(), rest: Vec::new() };
    let file = block_in_place(|| File::open(path)).map_err(|error| Error::file(path, error))?;
    let known = file.metadata().map_err(|error| Error::file(path, error))?;
    if !known.is_file() {
        context.current.reads_once(path);
    }
    let size = known.len();
    context.shared.progress.begin(size);
    match &options.format {
        Format::Csv(options) => load.csv(file, options).await,
        Format::Parquet => load.parquet(file, size).await,
    }
}

/// A load under way.
struct Load<'a> {
    context: &'a Context<'a>,
    path: &'a Path,
    definition: Arc<TableDefinition>,
    /// The positions of the columns that the file has, in the file's order.
    positions: Vec<usize>,
    /// Whether the statement named the columns.
    named: bool,
    /// The columns that the file does not have, and what they get.
    rest: Vec<(usize, Option<Arc<dyn PhysicalExpr>>)>,
}

impl Load<'_> {
    async fn csv(&mut self, file: File, options: &CsvOptions) -> Result<u64> {
        let mut reader = Reader::new(BufReader::with_capacity(BUFFER, file), options);
        let mut record = Record::default();
        let mut more = block_in_place(|| self.read(&mut reader, &mut record))?;
        if more && self.take_header(&record, options)? {
            more = block_in_place(|| self.read(&mut reader, &mut record))?;
        }
        self.prepare_rest().await?;
        let mut inserter = Inserter::new(self.context, Arc::clone(&self.definition))?;
        let mut page = Page::new(self.positions.len());
        while more {
            more = block_in_place(|| {
                // The first record of a page is read already.
                while page.lines.len() < BATCH_ROWS {
                    self.push(&mut page, &record, options)?;
                    if !self.read(&mut reader, &mut record)? {
                        return Ok(false);
                    }
                }
                Ok::<_, Error>(true)
            })?;
            let lines = std::mem::take(&mut page.lines);
            self.insert(&mut inserter, page.finish(), Some(&lines))?;
            self.context.shared.progress.set(reader.bytes(), inserter.rows);
        }
        inserter.finish(self.context)
    }

    async fn parquet(&mut self, file: File, size: u64) -> Result<u64> {
        let builder = self.reading(|| ParquetRecordBatchReaderBuilder::try_new(file))?;
        let total = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0).max(1);
        let reader: ParquetRecordBatchReader = self.reading(|| builder.with_batch_size(BATCH_ROWS).build())?;
        let names: Vec<String> = datafusion::arrow::array::RecordBatchReader::schema(&reader)
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect();
        let columns = self.match_columns(&names)?;
        self.prepare_rest().await?;
        let mut inserter = Inserter::new(self.context, Arc::clone(&self.definition))?;
        let mut batches = reader;
        while let Some(batch) = self.reading(|| batches.next().transpose())? {
            let arrays = columns.iter().map(|&column| Arc::clone(batch.column(column))).collect();
            self.insert(&mut inserter, arrays, None)?;
            let done = u128::from(size) * u128::from(inserter.rows) / u128::from(total);
            self.context.shared.progress.set(u64::try_from(done).unwrap_or(size), inserter.rows);
        }
        inserter.finish(self.context)
    }

    /// Reads from a Parquet file. Its reader panics on some damaged files; that is the file's fault, not the statement's.
    fn reading<T, E: Display>(&self, read: impl FnOnce() -> std::result::Result<T, E>) -> Result<T> {
        match catch_unwind(AssertUnwindSafe(|| block_in_place(read))) {
            Ok(read) => read.map_err(|error| self.invalid(error.to_string())),
            Err(_) => Err(self.invalid("it is damaged: its Parquet can not be read".to_owned())),
        }
    }

    /// Finds the file's columns by their names, and sets `positions` to their places in the table.
    fn match_columns(&mut self, names: &[String]) -> Result<Vec<usize>> {
        let find = |column: &str| {
            let exact = names.iter().position(|name| name == column);
            exact.or_else(|| names.iter().position(|name| name.eq_ignore_ascii_case(column)))
        };
        let mut columns = Vec::new();
        let mut found = Vec::new();
        for &position in &self.positions {
            let column = &self.definition.columns()[position].name;
            match find(column) {
                Some(place) => {
                    columns.push(place);
                    found.push(position);
                }
                None if self.named => return Err(self.invalid(format!("there is no column {column} in it"))),
                None => {}
            }
        }
        let stranger = (0..names.len()).find(|place| !columns.contains(place));
        if let Some(place) = stranger
            && !self.named
        {
            return Err(self.invalid(format!(
                "its column {} is not in table {}; name the columns to load: COPY {} (a, b) FROM …",
                names[place],
                self.definition.name(),
                self.definition.name()
            )));
        }
        self.positions = found;
        Ok(columns)
    }

    /// Whether the first record is a header. Without a list of columns in the statement it says which columns follow.
    fn take_header(&mut self, record: &Record, options: &CsvOptions) -> Result<bool> {
        let names: Vec<String> =
            record.fields().map_err(|reason| self.invalid(reason))?.map(|(name, _)| name.trim().to_owned()).collect();
        let position = |name: &String| {
            let columns = self.definition.columns();
            let exact = columns.iter().position(|column| column.name == *name);
            exact.or_else(|| columns.iter().position(|column| column.name.eq_ignore_ascii_case(name)))
        };
        let positions: Option<Vec<usize>> = names.iter().map(position).collect();
        let distinct = |positions: &[usize]| (1..positions.len()).all(|at| !positions[..at].contains(&positions[at]));
        match (options.header, positions) {
            (Some(false), _) => return Ok(false),
            (_, Some(positions)) if distinct(&positions) && positions.len() <= self.positions.len() => {
                if options.header.is_none() && self.may_be_a_row(&names) {
                    return Err(Error::unsupported(
                        format!(
                            "COPY of {} without HEADER: line {} may name the columns or be a row of texts",
                            self.path.display(),
                            record.line
                        ),
                        "say WITH (HEADER true) or WITH (HEADER false)",
                    ));
                }
                if !self.named {
                    self.positions = positions;
                }
            }
            (None, _) => return Ok(false),
            (Some(true), _) if self.named => {}
            (Some(true), _) => {
                return Err(self.invalid(format!(
                    "line {}: the header does not name columns of table {}; name them in the order of the file: COPY {} (a, b) FROM …",
                    record.line,
                    self.definition.name(),
                    self.definition.name()
                )));
            }
        }
        Ok(true)
    }

    /// Whether what a line says that has names of columns could be values of the columns in its places.
    fn may_be_a_row(&self, fields: &[String]) -> bool {
        let may_be = |(position, text): (&usize, &String)| match self.definition.columns()[*position].sql_type {
            SqlType::Text { .. } | SqlType::Bytea => true,
            // Any beginning of a word is one.
            SqlType::Boolean => {
                let text = text.to_lowercase();
                !text.is_empty()
                    && ["true", "false", "yes", "no", "on", "off", "1", "0"].iter().any(|word| word.starts_with(&text))
            }
            SqlType::Date | SqlType::Timestamp => {
                let known = ["epoch", "infinity", "now", "today", "tomorrow", "yesterday"];
                known.contains(&text.to_lowercase().as_str()) || text.chars().any(|letter| letter.is_ascii_digit())
            }
            _ => text.parse::<f64>().is_ok(),
        };
        fields.len() == self.positions.len() && self.positions.iter().zip(fields).all(may_be)
    }

    /// Plans the defaults of the columns that the file does not have.
    async fn prepare_rest(&mut self) -> Result<()> {
        for (position, column) in self.definition.columns().iter().enumerate() {
            if self.positions.contains(&position) {
                continue;
            }
            let default = if column.default.is_some() {
                let expression = defaults::expression(self.context, column).await?;
                Some(self.context.state.create_physical_expr(expression, &DFSchema::empty())?)
            } else {
                None
            };
            self.rest.push((position, default));
        }
        Ok(())
    }

    /// The next record that is not a blank line.
    fn read(&self, reader: &mut Reader<BufReader<File>>, record: &mut Record) -> Result<bool> {
        loop {
            match reader.read(record) {
                Ok(true) if self.positions.len() > 1 && record.is_blank() => {}
                Ok(more) => return Ok(more),
                Err(Broken::Io(error)) => return Err(Error::file(self.path, error)),
                Err(Broken::Text(reason)) => return Err(self.invalid(reason)),
            }
        }
    }

    fn push(&self, page: &mut Page, record: &Record, options: &CsvOptions) -> Result<()> {
        if record.len() != self.positions.len() {
            return Err(self.invalid(format!(
                "line {}: {} fields, expected {}",
                record.line,
                record.len(),
                self.positions.len()
            )));
        }
        let fields = record.fields().map_err(|reason| self.invalid(reason))?;
        for (builder, (text, quoted)) in page.columns.iter_mut().zip(fields) {
            if !quoted && text == options.null {
                builder.append_null();
            } else {
                builder.append_value(text);
            }
        }
        page.lines.push(record.line);
        Ok(())
    }

    /// Stores rows; an error about one of them says where in the file it is.
    fn insert(&self, inserter: &mut Inserter, given: Vec<ArrayRef>, lines: Option<&[u64]>) -> Result<()> {
        let rows = given.first().map_or(lines.map_or(0, <[u64]>::len), Array::len);
        let batch = self.whole(given, rows)?;
        let first = inserter.rows;
        inserter.insert(self.context, &batch).map_err(|error| {
            if !is_about_a_row(&error) {
                return error;
            }
            let row = inserter.failed.unwrap_or_else(|| self.first_bad(&batch));
            let place = match lines.and_then(|lines| lines.get(row)) {
                Some(line) => format!("line {line}"),
                None => format!("row {}", first + row as u64 + 1),
            };
            self.invalid(format!("{place}: {error}"))
        })
    }

    /// All columns of the table, those of the file and defaults.
    fn whole(&self, given: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let nothing = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
        let mut columns: Vec<Option<ArrayRef>> = vec![None; self.definition.columns().len()];
        for (&position, array) in self.positions.iter().zip(given) {
            columns[position] = Some(array);
        }
        for (position, default) in &self.rest {
            columns[*position] = Some(match default {
                Some(default) => default.evaluate(&nothing)?.into_array(rows)?,
                None => datafusion::arrow::array::new_null_array(
                    &self.definition.columns()[*position].sql_type.arrow(),
                    rows,
                ),
            });
        }
        let columns: Vec<ArrayRef> = columns.into_iter().flatten().collect();
        let fields: Vec<Field> = columns
            .iter()
            .zip(self.definition.columns())
            .map(|(array, column)| Field::new(&column.name, array.data_type().clone(), true))
            .collect();
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
    }

    /// The first row that the table does not take.
    fn first_bad(&self, batch: &RecordBatch) -> usize {
        let is_bad = |row: &usize| RowEncoder::new(Arc::clone(&self.definition), &batch.slice(*row, 1)).is_err();
        (0..batch.num_rows()).find(is_bad).unwrap_or_default()
    }

    fn invalid(&self, reason: String) -> Error {
        Error::File { path: self.path.to_owned(), reason, source: None }
    }
}

/// Whether an error says something about a value of the file.
fn is_about_a_row(error: &Error) -> bool {
    matches!(error, Error::Type { .. } | Error::OutOfRange { .. } | Error::NotNull { .. } | Error::DuplicateKey { .. })
}

/// Some records, column by column.
struct Page {
    columns: Vec<StringBuilder>,
    lines: Vec<u64>,
}

impl Page {
    fn new(columns: usize) -> Self {
        Self { columns: (0..columns).map(|_| StringBuilder::new()).collect(), lines: Vec::new() }
    }

    /// The columns as text, which reads as a column's type when it is stored.
    fn finish(&mut self) -> Vec<ArrayRef> {
        self.columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef).collect()
    }
}
