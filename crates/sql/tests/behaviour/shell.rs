//! A small SQL shell for tests: a database in a directory of its own, and results as text.

use ishigaki_base::ErrorKind;
use ishigaki_sql::arrow::array::RecordBatch;
use ishigaki_sql::arrow::util::display::{ArrayFormatter, FormatOptions};
use ishigaki_sql::{Database, Error, Outcome, Session, Settings};
use ishigaki_txn::ProtocolKind;
use tempfile::TempDir;

/// A database and a session on it.
pub(crate) struct Shell {
    pub(crate) directory: TempDir,
    pub(crate) database: Database,
    pub(crate) session: Session,
}

impl Shell {
    /// A new database.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let database = open(&directory);
        let session = database.session();
        Self { directory, database, session }
    }

    /// A new database whose transactions are kept apart that way.
    pub(crate) fn under(protocol: ProtocolKind) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut settings = settings();
        settings.txn.protocol = protocol;
        let database = Database::open(directory.path().join("data"), settings).expect("opens");
        let session = database.session();
        Self { directory, database, session }
    }

    /// A new database on which some statements were run.
    pub(crate) fn with(sql: &str) -> Self {
        let shell = Self::new();
        shell.run(sql);
        shell
    }

    /// Closes the database and opens it again.
    pub(crate) fn reopen(self) -> Self {
        let Self { directory, database, session } = self;
        drop(session);
        drop(database);
        let database = open(&directory);
        let session = database.session();
        Self { directory, database, session }
    }

    /// Another session on the same database.
    pub(crate) fn other(&self) -> Session {
        self.database.session()
    }

    /// The path of a file in the database's directory, for a statement.
    pub(crate) fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Runs statements that must succeed; how many rows the last one changed.
    pub(crate) fn run(&self, sql: &str) -> u64 {
        run(&self.session, sql)
    }

    /// The rows of a query: columns joined by `|`, in the order of the query.
    pub(crate) fn rows(&self, sql: &str) -> Vec<String> {
        rows(&self.session, sql)
    }

    /// The error of statements that must fail.
    pub(crate) fn error(&self, sql: &str) -> Error {
        error(&self.session, sql)
    }

    /// Expects an error whose text holds all of some words and which is the caller's fault.
    pub(crate) fn refuses(&self, sql: &str, words: &[&str]) {
        let error = self.error(sql);
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{sql}: no {word:?} in {text:?}");
        }
        assert_eq!(error.kind(), ErrorKind::Invalid, "{sql}: {text}");
    }

    /// The physical plan of a statement as text.
    pub(crate) fn plan(&self, sql: &str) -> String {
        let text = self.rows(&format!("EXPLAIN {sql}")).join("\n");
        text.split_once("physical_plan|").map(|(_, plan)| plan.to_owned()).expect("a physical plan")
    }
}

fn open(directory: &TempDir) -> Database {
    Database::open(directory.path().join("data"), settings()).expect("opens")
}

/// Small, so that a test needs little.
pub(crate) fn settings() -> Settings {
    Settings { query_memory: ishigaki_base::ByteSize::mib(256), ..Settings::default() }
}

pub(crate) fn run(session: &Session, sql: &str) -> u64 {
    match session.execute_blocking(sql) {
        Ok(outcomes) => outcomes.last().and_then(Outcome::affected).unwrap_or_default(),
        Err(error) => panic!("{sql}: {error}"),
    }
}

pub(crate) fn rows(session: &Session, sql: &str) -> Vec<String> {
    match session.query_blocking(sql) {
        Ok(batches) => batches.iter().flat_map(text).collect(),
        Err(error) => panic!("{sql}: {error}"),
    }
}

pub(crate) fn error(session: &Session, sql: &str) -> Error {
    match session.execute_blocking(sql) {
        Ok(_) => panic!("{sql}: succeeds"),
        Err(error) => error,
    }
}

pub(crate) fn text(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("a type that can be shown"))
        .collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|"))
        .collect()
}

/// A row whose numbers have no zeros behind their last digits: how many there are, each side chooses.
pub(crate) fn without_zeros(row: &str) -> String {
    let values = row.split('|').map(|value| match value.parse::<f64>() {
        Ok(_) if value.contains('.') && !value.contains('e') => value.trim_end_matches('0').trim_end_matches('.'),
        _ => value,
    });
    values.collect::<Vec<_>>().join("|")
}
