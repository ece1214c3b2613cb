//! COPY … TO file.
//!
//! The rows go into a temporary file beside the one that is asked for, which takes its place when it is complete: whoever
//! reads the file meanwhile, or after a failure, reads what was there before.

use std::ffi::OsStr;
use std::fs::File;
use std::io::BufWriter;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::sql::sqlparser::ast::{CopySource, Ident, Statement as Ast};
use ishigaki_base::random::Seed;
use tokio::task::block_in_place;

use crate::dml::insert::positions;
use crate::statement::{Statement, table_name};
use crate::worker::Context;
use crate::{Error, Result, query};

use super::csv::{Broken, Writer};
use super::options::{Format, Options};

/// Writes a file; the number of rows.
pub(super) async fn run(context: &Context<'_>, source: &CopySource, path: &Path, options: &Options) -> Result<u64> {
    let plan = context.guard(query::plan(context, &select(context, source)?)).await?;
    context.shared.progress.begin(0);
    let mut rows = context.guard(query::start(context.state, &plan)).await?;
    let schema = query::shown(&rows.schema());
    let mut target = block_in_place(|| Target::create(path, options, &schema))?;
    let mut count = 0;
    while let Some(batch) = query::next(context, &mut rows).await? {
        count += batch.num_rows() as u64;
        let bytes = block_in_place(|| target.write(&query::under_shown_names(batch)?))?;
        context.shared.progress.set(bytes, count);
    }
    block_in_place(|| target.finish())?;
    Ok(count)
}

/// The query whose rows are written.
fn select(context: &Context<'_>, source: &CopySource) -> Result<Ast> {
    match source {
        CopySource::Query(query) => Ok(Ast::Query(query.clone())),
        CopySource::Table { table_name: name, columns } => {
            let definition = context.current.definition(&table_name(name)?, "COPY … TO")?;
            let named: Vec<_> = columns.iter().map(|column| vec![column.clone()].into()).collect();
            let columns: Vec<String> = positions(&definition, &named)?
                .into_iter()
                .map(|position| Ident::with_quote('"', &definition.columns()[position].name).to_string())
                .collect();
            let table = Ident::with_quote('"', definition.name());
            let mut select = Statement::parse(&format!("SELECT {} FROM {table}", columns.join(", ")))?;
            select.pop().map(|statement| statement.to_ast()).ok_or_else(crate::outcome::lost)
        }
    }
}

/// The file under construction.
struct Target<'a> {
    path: &'a Path,
    /// The file that is written and the place it goes to; `None` when `path` itself is written.
    temporary: Option<(Temporary, PathBuf)>,
    writer: FileWriter,
}

/// The writer of a format.
enum FileWriter {
    Csv(Writer<BufWriter<File>>),
    Parquet(Box<ArrowWriter<File>>),
}

impl<'a> Target<'a> {
    fn create(path: &'a Path, options: &Options, schema: &SchemaRef) -> Result<Self> {
        let name = path.file_name().ok_or_else(|| Error::File {
            path: path.to_owned(),
            reason: "this is not the name of a file".to_owned(),
            source: None,
        })?;
        let failed = |error| Error::file(path, error);
        // A link keeps pointing where it does, and what is no plain file (a device, a pipe) is written into, not replaced.
        let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let known = place.metadata().ok();
        let (file, temporary) = if known.as_ref().is_some_and(|known| !known.is_file() && !known.is_dir()) {
            (File::options().write(true).open(&place).map_err(failed)?, None)
        } else {
            let (file, temporary) = Temporary::beside(&place, name, known.is_some()).map_err(failed)?;
            if let Some(known) = known {
                // Only a privileged user may give files away; for anybody else the file is theirs already.
                let _ = fchown(&file, Some(known.uid()), Some(known.gid()));
                file.set_permissions(known.permissions()).map_err(failed)?;
            }
            (file, Some((temporary, place)))
        };
        let writer = match &options.format {
            Format::Csv(options) => {
                let mut writer = Writer::new(BufWriter::new(file), options.clone());
                if options.header.unwrap_or(true) {
                    writer.header(schema.fields().iter().map(|field| field.name().as_str())).map_err(failed)?;
                }
                FileWriter::Csv(writer)
            }
            Format::Parquet => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties))
                    .map_err(|error| invalid(path, &error))?;
                FileWriter::Parquet(Box::new(writer))
            }
        };
        Ok(Self { path, temporary, writer })
    }

    /// Writes rows; how many bytes there are now.
    fn write(&mut self, batch: &RecordBatch) -> Result<u64> {
        match &mut self.writer {
            FileWriter::Csv(writer) => match writer.batch(batch) {
                Ok(()) => Ok(writer.bytes()),
                Err(Broken::Io(error)) => Err(Error::file(self.path, error)),
                Err(Broken::Text(reason)) => Err(Error::File { path: self.path.to_owned(), reason, source: None }),
            },
            FileWriter::Parquet(writer) => {
                writer.write(batch).map_err(|error| invalid(self.path, &error))?;
                Ok(writer.bytes_written() as u64)
            }
        }
    }

    /// Completes the file and puts it in its place.
    fn finish(self) -> Result<()> {
        let Self { path, temporary, writer } = self;
        let failed = |error| Error::file(path, error);
        let file = match writer {
            FileWriter::Csv(writer) => writer.finish().and_then(|file| Ok(file.into_inner()?)).map_err(failed)?,
            FileWriter::Parquet(writer) => writer.into_inner().map_err(|error| invalid(path, &error))?,
        };
        if let Some((mut temporary, place)) = temporary {
            file.sync_all().map_err(failed)?;
            std::fs::rename(&temporary.0, place).map_err(failed)?;
            temporary.0.clear();
        }
        Ok(())
    }
}

fn invalid(path: &Path, error: &datafusion::parquet::errors::ParquetError) -> Error {
    Error::File { path: path.to_owned(), reason: error.to_string(), source: None }
}

/// A file that goes away unless its name is cleared.
struct Temporary(PathBuf);

impl Temporary {
    /// A new file beside that one, whose name no other program can foretell. What is there already, a link too, is never opened. `closed`: it
    /// is to have the rights of another file, and until then is for this user alone.
    fn beside(place: &Path, name: &OsStr, closed: bool) -> std::io::Result<(File, Self)> {
        let mut temporary = place.file_name().unwrap_or(name).to_owned();
        temporary.push(format!(".{:016x}.tmp", Seed::from_entropy().0));
        let temporary = place.with_file_name(temporary);
        let mode = if closed { 0o600 } else { 0o666 };
        let file = File::options().write(true).create_new(true).mode(mode).open(&temporary)?;
        Ok((file, Self(temporary)))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}
