//! What can go wrong with a statement.
//!
//! An [`Error`] often travels through DataFusion on its way to the caller: it goes in as a [`DataFusionError::External`]
//! and comes out wrapped, perhaps several times, perhaps shared between tasks. `Error::from(DataFusionError)` unwraps it
//! again, so that a duplicate key is a duplicate key wherever it was found.

mod kinds;
mod texts;

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::parquet::errors::ParquetError;
use datafusion::sql::sqlparser::parser::ParserError;
use ishigaki_base::ErrorKind;

use self::kinds::{kind_of, why_not_spilled};
use self::texts::{mismatched, takes_column_for_table, text_of, text_of_parser, unplanned};

/// The result of SQL work.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a statement failed. A failed statement has no effect.
///
/// The transaction around it goes on, unless [`Error::breaks_transaction`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The transactions or the log below.
    #[error(transparent)]
    Txn(#[from] ishigaki_txn::Error),
    /// A page file, while it is read.
    #[error(transparent)]
    Page(#[from] ishigaki_page::Error),
    /// A page file of a table, where it is made, opened or appended to.
    #[error("table {table}, location {place}: {source}{}", remedy_of(source))]
    Location {
        /// The table.
        table: String,
        /// The directory of the page file.
        place: String,
        /// What is wrong with the file.
        source: ishigaki_page::Error,
    },
    /// A storage node that is a location of a table, where it is connected to or has work to do.
    #[error("table {table}, location {place}: {source}")]
    Node {
        /// The table.
        table: String,
        /// The node's directory.
        place: String,
        /// What is wrong.
        source: ishigaki_remote::Error,
    },
    /// Another session makes or drops a page file of that name in that place, and it is not known yet what becomes of it.
    #[error(
        "table {table}, location {place}: another session is making or dropping its page file; try again when that has ended"
    )]
    Unsettled {
        /// The table.
        table: String,
        /// The directory of the page file.
        place: String,
    },
    /// Others append to a page file, one after the other, for longer than an append waits.
    #[error(
        "table {table}, location {place}: other writers have appended to it for {waited:?}; try again when they have ended"
    )]
    AppendBusy {
        /// The table.
        table: String,
        /// The directory of the page file.
        place: String,
        /// How long it waited for its turn.
        waited: std::time::Duration,
    },
    /// Another session has made another table of that name while the statement began.
    #[error("another session has replaced the table meanwhile; run the statement again")]
    TableReplaced,
    /// A statement met a conflict after it had read from what can not be read again.
    #[error(
        "{source}; nothing was loaded, and what was read of {} is lost, since it is no file that can be read again: give COPY a file, or what is to be loaded once more",
        path.display()
    )]
    ReadOnce {
        /// A pipe or a device.
        path: PathBuf,
        /// The conflict.
        source: Box<Error>,
    },
    /// A statement has more rows than fit in memory, and they can not be spilled to disk.
    #[error(
        "the rows of this statement do not fit in `Settings::query_memory`, and no more can be spilled to disk: {reason}; make \
         room there, or raise `Settings::spill_limit` or `Settings::query_memory`"
    )]
    SpillFull {
        /// Why not.
        reason: String,
    },
    /// A change of rows that a paged table does not know.
    #[error(
        "{verb} of table {table} is not possible: it is paged, and rows can only be appended to it; CREATE a new TABLE, INSERT INTO it … SELECT what is to stay, and DROP the old one"
    )]
    AppendOnly {
        /// The table.
        table: String,
        /// What was to be done.
        verb: String,
    },
    /// The text is not SQL.
    #[error("syntax error: {message}")]
    Syntax {
        /// What the parser says, with the place.
        message: String,
    },
    /// The statement is SQL but cannot be planned: an unknown name, types that do not go together.
    #[error("{}", text_of(source))]
    Plan {
        /// DataFusion's error.
        source: Box<DataFusionError>,
    },
    /// The statement failed while it ran: a division by zero, a cast that does not fit, memory.
    #[error("{}", text_of(source))]
    Execution {
        /// DataFusion's error.
        source: Box<DataFusionError>,
    },
    /// An error of this crate that cannot be taken out of its wrapping, for one because several tasks got it at once.
    /// [`Error::root`] sees through it.
    #[error("{}", text_of(source))]
    Shared {
        /// DataFusion's error; there may be an [`Error`] inside.
        source: Arc<DataFusionError>,
    },
    /// `CREATE TABLE` of a name that is taken.
    #[error("table {table} exists already")]
    TableExists {
        /// The table.
        table: String,
    },
    /// A name is taken by a view.
    #[error("view {view} exists already")]
    ViewExists {
        /// The view.
        view: String,
    },
    /// There is no view of that name.
    #[error("no such view: {view}")]
    NoSuchView {
        /// The name asked for.
        view: String,
    },
    /// A view where a table is wanted.
    #[error("{verb} does not work on {view}, which is a view; {}", remedy_on_view(verb, view))]
    IsView {
        /// The view.
        view: String,
        /// What was to be done.
        verb: String,
    },
    /// A table where a view is wanted.
    #[error("{verb} does not work on {table}, which is a table; {}", remedy_on_table(verb, table))]
    IsTable {
        /// The table.
        table: String,
        /// What was to be done.
        verb: String,
    },
    /// `DROP` of what a view reads.
    #[error("{}", still_read(what, views))]
    StillRead {
        /// What was to be dropped.
        what: Vec<String>,
        /// The views, those that read it by others among them.
        views: Vec<String>,
    },
    /// A view whose definition makes no sense, or does not fit what it reads any more.
    #[error("view {view}: {reason}")]
    View {
        /// The view.
        view: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no table of that name.
    #[error("no such table: {table}")]
    NoSuchTable {
        /// The name asked for.
        table: String,
    },
    /// The table has no column of that name.
    #[error("table {table} has no column {column}")]
    NoSuchColumn {
        /// The table.
        table: String,
        /// The name asked for.
        column: String,
    },
    /// A table definition that makes no sense.
    #[error("table {table}: {reason}")]
    Definition {
        /// The table.
        table: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A row with this primary key is there already.
    #[error("table {table}: duplicate key ({}) = {value}", columns.join(", "))]
    DuplicateKey {
        /// The table.
        table: String,
        /// The columns of its primary key.
        columns: Vec<String>,
        /// The key's values, in parentheses.
        value: String,
    },
    /// NULL, or nothing, for a NOT NULL column.
    #[error("table {table}: column {column} must not be NULL")]
    NotNull {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A value that is not of the column's type and cannot be made so.
    #[error("table {table}: column {column} is {expected}, it cannot take {value}")]
    Type {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The value or its type.
        value: String,
        /// The column's type.
        expected: String,
    },
    /// A value of the right type that is too large or too long for the column.
    #[error("table {table}: {value} does not fit column {column} of type {expected}")]
    OutOfRange {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The value.
        value: String,
        /// The column's type.
        expected: String,
    },
    /// SQL that this database does not do.
    #[error("{what} is not supported; {remedy}")]
    Unsupported {
        /// What was asked for.
        what: String,
        /// What to do instead.
        remedy: String,
    },
    /// `COMMIT` or `ROLLBACK` without `BEGIN`.
    #[error("no transaction is open; BEGIN opens one")]
    NoTransaction,
    /// `ROLLBACK TO` or `RELEASE` of a savepoint that the transaction does not have.
    #[error("no such savepoint: {name}; SAVEPOINT {name} sets one")]
    NoSuchSavepoint {
        /// The name asked for.
        name: String,
    },
    /// `BEGIN` inside a transaction, or a statement that must run outside of one.
    #[error("a transaction is open already; COMMIT or ROLLBACK it first")]
    InTransaction,
    /// The transaction was broken by a conflict in an earlier statement; nothing of it will be kept.
    #[error("the transaction was aborted by a conflict in an earlier statement; ROLLBACK and run it again")]
    Aborted,
    /// A file of `COPY` cannot be read or written, or does not hold what was said.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// The operating system's word for it, where it was the operating system.
        source: Option<std::io::Error>,
    },
    /// The caller cancelled the statement.
    #[error("cancelled")]
    Cancelled,
    /// Stored bytes are not what was written.
    #[error(
        "corrupt: {what}; `ishigaki verify DIR` shows every damage, `ishigaki salvage DIR --to DIR2` gets all rows out that can be read; or restore the database from a copy that `ishigaki backup` has made"
    )]
    Corrupt {
        /// Which bytes, and what is wrong with them.
        what: String,
    },
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self.root() {
            Self::Txn(error) => error.kind(),
            // A transaction can not conflict with an append: it would only be told so again.
            Self::Page(source) | Self::Location { source, .. } => match source.kind() {
                ErrorKind::Conflict | ErrorKind::Closed => ErrorKind::Unavailable,
                kind => kind,
            },
            Self::Node { source, .. } => source.kind(),
            Self::Plan { source } | Self::Execution { source } => kind_of(source),
            Self::Shared { source } => kind_of(source),
            Self::Aborted | Self::Unsettled { .. } | Self::TableReplaced | Self::ReadOnce { .. } => ErrorKind::Conflict,
            Self::AppendBusy { .. } | Self::File { source: Some(_), .. } => ErrorKind::Unavailable,
            Self::SpillFull { .. } => ErrorKind::Exhausted,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Syntax { .. }
            | Self::TableExists { .. }
            | Self::ViewExists { .. }
            | Self::NoSuchView { .. }
            | Self::IsView { .. }
            | Self::IsTable { .. }
            | Self::StillRead { .. }
            | Self::View { .. }
            | Self::NoSuchTable { .. }
            | Self::NoSuchColumn { .. }
            | Self::Definition { .. }
            | Self::DuplicateKey { .. }
            | Self::NotNull { .. }
            | Self::Type { .. }
            | Self::OutOfRange { .. }
            | Self::Unsupported { .. }
            | Self::AppendOnly { .. }
            | Self::NoTransaction
            | Self::NoSuchSavepoint { .. }
            | Self::InTransaction
            | Self::File { source: None, .. } => ErrorKind::Invalid,
        }
    }

    /// Whether its words name the commands that help a damaged database.
    pub fn names_remedy(&self) -> bool {
        match self.root() {
            Self::Txn(error) => error.names_remedy(),
            Self::Page(source) | Self::Location { source, .. } => {
                matches!(source, ishigaki_page::Error::Damaged { .. })
            }
            Self::Corrupt { .. } => true,
            _ => false,
        }
    }

    /// This error, or the one of this crate that it carries inside a sharing wrapper.
    pub fn root(&self) -> &Self {
        match self {
            Self::Shared { source } => Self::inside(source.as_ref()).map_or(self, Self::root),
            _ => self,
        }
    }

    /// True when the transaction that the statement ran in is lost with it: after a conflict its locks are gone, and
    /// after the log closed nothing more can be committed. All other errors undo the statement alone.
    pub fn breaks_transaction(&self) -> bool {
        matches!(self.kind(), ErrorKind::Conflict | ErrorKind::Closed)
    }

    /// Shorthand for [`Error::Unsupported`].
    pub fn unsupported(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unsupported { what: what.into(), remedy: remedy.into() }
    }

    /// Shorthand for [`Error::Corrupt`].
    pub fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into() }
    }

    /// An operating system's error about a file.
    pub fn file(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::File { path: path.into(), reason: source.to_string(), source: Some(source) }
    }

    /// The error of this crate in a chain of causes, if there is one.
    pub fn inside<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(own) = error.downcast_ref::<Self>() {
                return Some(own);
            }
            next = match error.downcast_ref::<Arc<DataFusionError>>() {
                Some(shared) => Some(shared.as_ref()),
                None => error.source(),
            };
        }
        None
    }

    /// Takes the error of this crate out of `error`, or gives it back.
    fn take_out(error: DataFusionError) -> Result<Self, DataFusionError> {
        match error {
            DataFusionError::External(inner) => Self::take_out_of_box(inner).map_err(DataFusionError::External),
            DataFusionError::ArrowError(inner, backtrace) => match *inner {
                ArrowError::ExternalError(inner) => Self::take_out_of_box(inner).map_err(ArrowError::ExternalError),
                other => Err(other),
            }
            .map_err(|inner| DataFusionError::ArrowError(Box::new(inner), backtrace)),
            DataFusionError::ParquetError(inner) => match *inner {
                ParquetError::External(inner) => Self::take_out_of_box(inner).map_err(ParquetError::External),
                other => Err(other),
            }
            .map_err(|inner| DataFusionError::ParquetError(Box::new(inner))),
            DataFusionError::Context(text, inner) => {
                Self::take_out(*inner).map_err(|inner| DataFusionError::Context(text, Box::new(inner)))
            }
            DataFusionError::Diagnostic(diagnostic, inner) => {
                Self::take_out(*inner).map_err(|inner| DataFusionError::Diagnostic(diagnostic, Box::new(inner)))
            }
            DataFusionError::Shared(shared) => match Arc::try_unwrap(shared) {
                Ok(inner) => Self::take_out(inner),
                Err(shared) => Err(DataFusionError::Shared(shared)),
            },
            DataFusionError::Collection(mut errors) => {
                match errors.iter().position(|error| Self::inside(error).is_some()) {
                    Some(at) => Self::take_out(errors.swap_remove(at)),
                    None => Err(DataFusionError::Collection(errors)),
                }
            }
            DataFusionError::IoError(inner) => inner.downcast::<Self>().map_err(DataFusionError::IoError),
            other => Err(other),
        }
    }

    fn take_out_of_box(
        error: Box<dyn std::error::Error + Send + Sync>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let error = match error.downcast::<Self>() {
            Ok(own) => return Ok(*own),
            Err(other) => other,
        };
        let error = match error.downcast::<ishigaki_txn::Error>() {
            Ok(own) => return Ok(Self::Txn(*own)),
            Err(other) => other,
        };
        let error = match error.downcast::<ishigaki_page::Error>() {
            Ok(own) => return Ok(Self::Page(*own)),
            Err(other) => other,
        };
        let error = match error.downcast::<ishigaki_scan::PushFailed>() {
            Ok(failed) => {
                let ishigaki_scan::PushFailed { table, place, source } = *failed;
                return Ok(Self::Node { table, place, source });
            }
            Err(other) => other,
        };
        let error = match error.downcast::<DataFusionError>() {
            Ok(inner) => return Self::take_out(*inner).map_err(|inner| Box::new(inner) as _),
            Err(other) => other,
        };
        let error = match error.downcast::<Arc<DataFusionError>>() {
            Ok(shared) => {
                return Self::take_out(DataFusionError::Shared(*shared)).map_err(|inner| Box::new(inner) as _);
            }
            Err(other) => other,
        };
        match error.downcast::<ArrowError>() {
            Ok(inner) => Self::take_out(DataFusionError::from(*inner)).map_err(|inner| Box::new(inner) as _),
            Err(other) => Err(other),
        }
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        let error = match Self::take_out(error) {
            Ok(own) => return own,
            Err(other) if Self::inside(&other).is_some() => return Self::Shared { source: Arc::new(other) },
            Err(other) => other,
        };
        if let Some(reason) = why_not_spilled(&error) {
            return Self::SpillFull { reason };
        }
        match error.find_root() {
            DataFusionError::SQL(parser, _) => Self::Syntax { message: text_of_parser(parser) },
            DataFusionError::NotImplemented(text) | DataFusionError::Internal(text) => unplanned(text),
            DataFusionError::Plan(text) if text.contains("Internal error") => unplanned(text),
            DataFusionError::Plan(text) | DataFusionError::Execution(text) if takes_column_for_table(text) => {
                unplanned(text)
            }
            // Columns that are not what the plan said that they would be.
            DataFusionError::ArrowError(inner, _) if mismatched(inner).is_some() => {
                unplanned(mismatched(inner).unwrap_or_default())
            }
            DataFusionError::Plan(_) | DataFusionError::SchemaError(..) | DataFusionError::Configuration(_) => {
                Self::Plan { source: Box::new(error) }
            }
            _ => Self::Execution { source: Box::new(error) },
        }
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        DataFusionError::from(error).into()
    }
}

impl From<ParserError> for Error {
    fn from(error: ParserError) -> Self {
        Self::Syntax { message: text_of_parser(&error) }
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

/// Which views read what is to be dropped, and what to write instead.
fn still_read(what: &[String], views: &[String]) -> String {
    let (noun, verb, object) = if views.len() == 1 { ("view", "reads", "it") } else { ("views", "read", "them") };
    let (what, views) = (what.join(", "), views.join(", "));
    format!(
        "{noun} {views} {verb} {what}; drop {object} as well, or write CASCADE at the end of the DROP, which does that"
    )
}

/// What does to a view what was to be done to a table.
fn remedy_on_view(verb: &str, view: &str) -> String {
    match verb {
        "DROP TABLE" => format!("write DROP VIEW {view}"),
        "COPY … TO" => format!("write COPY (SELECT * FROM {view}) TO …"),
        _ => "change the tables that it reads".to_owned(),
    }
}

/// The same the other way around.
fn remedy_on_table(verb: &str, table: &str) -> String {
    match verb {
        "DROP VIEW" => format!("write DROP TABLE {table}"),
        _ => "give the view another name".to_owned(),
    }
}

/// What helps where the file's own error can not know.
fn remedy_of(source: &ishigaki_page::Error) -> &'static str {
    match source {
        ishigaki_page::Error::AlreadyExists { .. } => {
            "; add existing = true to use it as it is, or choose another location"
        }
        ishigaki_page::Error::NotFound { .. } => "; is the medium there? If the file is lost, DROP the table",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
