//! Our side: a database in this process, and one session of it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_fabric::Security;
use ishigaki_remote::{Access, Export, NodeSettings, StorageNode};
use ishigaki_scan::{FragmentWorker, WorkerSettings};
use ishigaki_sql::{CancelHandle, Database, Outcome, Session, Settings, Statement};
use tempfile::TempDir;

use crate::tree::Places;
use crate::value::{Answer, Class};
use crate::{Error, Result, arrow};

/// What a statement may take. Where nothing is optimized, one takes fifteen times as long.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 300 } else { 20 });

/// A database of its own in a folder of its own.
#[derive(Debug)]
pub struct Ours {
    session: Session,
    watch: Arc<Mutex<Option<Instant>>>,
    folder: TempDir,
    /// Tables that may be there.
    tables: BTreeSet<String>,
    /// Views that may be there.
    views: BTreeSet<String>,
    /// How often it was cleared; paged tables get a folder that no earlier one had.
    times: u64,
    _database: Database,
    /// Where the pages of some tables are, and work is done beside them.
    node: StorageNode,
}

impl Ours {
    /// Opens an empty one.
    pub fn open() -> Result<Self> {
        let folder = crate::folder()?;
        let node = node(&folder.path().join("node"))?;
        let mut settings = Settings { query_memory: ByteSize::mib(512), ..Settings::default() };
        settings.txn.memory = ByteSize::mib(256);
        let database = Database::open(folder.path().join("data"), settings)?;
        let session = database.session();
        let watch: Arc<Mutex<Option<Instant>>> = Arc::default();
        cancel_late(session.cancel_handle(), &watch);
        Ok(Self {
            session,
            watch,
            folder,
            tables: BTreeSet::new(),
            views: BTreeSet::new(),
            times: 0,
            _database: database,
            node,
        })
    }

    /// Where paged tables keep their pages.
    pub(crate) fn places(&self) -> Places {
        let folder = format!("pages{}", self.times);
        Places {
            here: self.folder.path().join(&folder).display().to_string(),
            node: format!("node://{}/{folder}", self.node.address()),
        }
    }

    /// No transaction, and no tables.
    pub(crate) fn clear(&mut self) -> Result<()> {
        if self.session.transaction_status() != ishigaki_sql::TransactionStatus::None {
            self.session.execute_blocking("ROLLBACK")?;
        }
        self.times += 1;
        for view in std::mem::take(&mut self.views) {
            self.session.execute_blocking(&format!("DROP VIEW IF EXISTS {view} CASCADE"))?;
        }
        for table in std::mem::take(&mut self.tables) {
            self.session.execute_blocking(&format!("DROP TABLE IF EXISTS {table}"))?;
        }
        Ok(())
    }

    /// Runs a statement. A table or view that it makes goes with the next [`Ours::clear`].
    pub(crate) fn run(&mut self, statement: &str) -> Answer {
        if let Some(table) = statement.strip_prefix("CREATE TABLE ").and_then(|rest| rest.split_whitespace().next()) {
            self.tables.insert(table.to_owned());
        }
        if let Some(view) = statement.strip_prefix("CREATE VIEW ").and_then(|rest| rest.split_whitespace().next()) {
            self.views.insert(view.to_owned());
        }
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let answer = self.answer(statement);
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = None;
        answer.unwrap_or_else(|error| failure(&error))
    }

    fn answer(&self, statement: &str) -> ishigaki_sql::Result<Answer> {
        let statements = Statement::parse(statement)?;
        let [statement] = statements.as_slice() else {
            return Ok(Answer::Failed(Class::Statement, "not one statement".to_owned()));
        };
        Ok(match self.session.run_blocking(statement)? {
            Outcome::Rows(rows) => Answer::Rows(arrow::rows(&rows.collect_blocking()?)),
            outcome => Answer::Changed(outcome.affected()),
        })
    }
}

/// A storage node in this process, over a folder of its own.
fn node(folder: &Path) -> Result<StorageNode> {
    std::fs::create_dir(folder).map_err(Error::Io)?;
    let worker = FragmentWorker::new(WorkerSettings::default()).map_err(|error| Error::Node(error.to_string()))?;
    let settings =
        NodeSettings { listen: "127.0.0.1:0".to_owned(), access: Access::ReadWrite, ..NodeSettings::default() };
    let export = Export::Folder(folder.to_owned());
    let started = StorageNode::start_with(&export, settings, Security::Open, Some(Arc::new(worker)));
    started.map_err(|error| Error::Node(error.to_string()))
}

/// Cancels a statement that takes too long, for as long as the session is there.
fn cancel_late(cancel: CancelHandle, watch: &Arc<Mutex<Option<Instant>>>) {
    let watch = Arc::downgrade(watch);
    std::thread::spawn(move || {
        while let Some(watch) = watch.upgrade() {
            let since = *watch.lock().unwrap_or_else(PoisonError::into_inner);
            if since.is_some_and(|since| since.elapsed() > PATIENCE) {
                cancel.cancel();
            }
            drop(watch);
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

fn failure(error: &ishigaki_sql::Error) -> Answer {
    use ishigaki_sql::Error as Sql;
    let message = error.to_string();
    let root = error.root();
    // Of a transaction that is open: an append to a paged table, which is a transaction by itself.
    let is_change = matches!(root, Sql::IsView { verb, .. } if matches!(verb.as_str(), "INSERT" | "UPDATE" | "DELETE"));
    if is_change
        || matches!(root, Sql::Unsupported { .. } | Sql::AppendOnly { .. } | Sql::InTransaction)
        || is_refusal(&message)
    {
        return Answer::Refused(message);
    }
    let class = match root {
        Sql::DuplicateKey { .. } => Class::DuplicateKey,
        Sql::NotNull { .. } => Class::NotNull,
        Sql::OutOfRange { expected, .. } if expected.starts_with("VARCHAR") => Class::TooLong,
        Sql::OutOfRange { .. } => Class::Overflow,
        Sql::Cancelled => Class::Time,
        Sql::Type { .. } => Class::Conversion,
        Sql::Syntax { .. }
        | Sql::TableExists { .. }
        | Sql::ViewExists { .. }
        | Sql::NoSuchTable { .. }
        | Sql::NoSuchView { .. }
        | Sql::NoSuchColumn { .. }
        | Sql::IsView { .. }
        | Sql::IsTable { .. }
        | Sql::StillRead { .. }
        | Sql::View { .. }
        | Sql::Definition { .. } => Class::Statement,
        _ => by_words(&message, matches!(root, Sql::Plan { .. })),
    };
    Answer::Failed(class, message)
}

/// DataFusion's own refusals, which name what they refuse.
fn is_refusal(message: &str) -> bool {
    message.contains("not supported") || message.contains("not implemented") || message.contains("not yet implemented")
}

/// What kind of error DataFusion means.
fn by_words(message: &str, planned: bool) -> Class {
    let lower = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["divide by zero", "division by zero", "divided by zero"]) {
        Class::DivisionByZero
    } else if has(&["internal error", "bug in datafusion", "ended unexpectedly"]) {
        Class::Other
    } else if has(&["overflow", "out of range", "can't cast value", "too large", "too small", "does not fit", "exceed"])
    {
        Class::Overflow
    } else if has(&["more than one row", "single row", "scalar subquery"]) {
        Class::Cardinality
    } else if has(&[
        "cannot cast string",
        "cannot cast value",
        "error parsing",
        "can not parse",
        "cannot parse",
        "invalid input",
    ]) {
        Class::Conversion
    } else if planned {
        Class::Statement
    } else {
        Class::Other
    }
}
