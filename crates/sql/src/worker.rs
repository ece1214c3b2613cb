//! Running one statement: in the session's open transaction, or in one of its own that is tried until it commits.
//!
//! ```text
//! statement ── Command::of ── BEGIN, COMMIT, ROLLBACK: here
//!                          └─ a transaction: the open one (savepoint first) or a new one (again on conflict);
//!                             or a snapshot, if it only reads and none is open
//!                               └─ perform: ddl, dml, copy, query ── commit ── durable ── answer
//! ```

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::SessionState;
use ishigaki_base::ErrorKind;
use tokio::sync::{mpsc, oneshot};

use crate::catalog::{Catalog, Relation};
use crate::current::Current;
use crate::database::Inner;
use crate::names::{self, Slot};
use crate::outcome::{Message, OpenGuard, Rows};
use crate::paged::Store;
use crate::savepoints::Savepoints;
use crate::session::{Shared, TransactionStatus};
use crate::statement::{Command, Statement, identifier, table_name};
use crate::{Error, Outcome, Result, copy, ddl, dml, explain, planning, query, setting, show};

/// The first and the longest pause before a statement is run again after a conflict.
const PAUSE: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// The part of a session that runs statements.
#[derive(Debug)]
pub(crate) struct Worker {
    engine: ishigaki_txn::Session,
    catalog: Catalog,
    store: Arc<Store>,
    /// DataFusion's state, whose catalog looks into the transaction in `slot`.
    pub(crate) state: SessionState,
    slot: Slot,
    /// The transaction between `BEGIN` and its end.
    open: Option<Open>,
    pub(crate) shared: Shared,
}

#[derive(Debug)]
enum Open {
    Transaction(Arc<Current>, Savepoints),
    /// A conflict broke it; its locks and writes are gone already.
    Aborted,
}

/// Where the answer goes: first the outcome, then, for a query, its further rows.
#[derive(Debug)]
pub(crate) struct Reply {
    outcome: Option<oneshot::Sender<Result<Outcome>>>,
    rows: Option<mpsc::Sender<Message>>,
    shared: Shared,
}

impl Reply {
    pub(crate) fn new(outcome: oneshot::Sender<Result<Outcome>>, shared: &Shared) -> Self {
        Self { outcome: Some(outcome), rows: None, shared: shared.clone() }
    }

    /// True when rows were handed out, so that the statement can no longer be run again unseen.
    fn handed_out(&self) -> bool {
        self.rows.is_some()
    }

    /// Hands out the rows so far; from here on, others follow by [`Reply::send`].
    pub(crate) fn hand_out(&mut self, rows: impl FnOnce(mpsc::Receiver<Message>, OpenGuard) -> Rows) -> Result<()> {
        let (sender, receiver) = mpsc::channel(4);
        let guard = OpenGuard::new(Arc::clone(&self.shared.open), self.shared.cancel.clone());
        self.rows = Some(sender);
        let rows = rows(receiver, guard);
        match self.outcome.take().map(|outcome| outcome.send(Ok(Outcome::Rows(rows)))) {
            Some(Ok(())) => Ok(()),
            _ => Err(Error::Cancelled),
        }
    }

    /// One more batch for the reader, as fast as it reads.
    pub(crate) async fn send(&self, batch: RecordBatch) -> Result<()> {
        let rows = self.rows.as_ref().ok_or(Error::Cancelled)?;
        rows.send(Message::Batch(batch)).await.map_err(|_| Error::Cancelled)
    }

    /// The last word. A caller who went away does not hear it.
    pub(crate) async fn finish(mut self, result: Result<Option<Outcome>>) {
        if let Some(rows) = self.rows.take() {
            let message = match result {
                Ok(_) => Message::End,
                Err(error) => Message::Failed(error),
            };
            let _ = rows.send(message).await;
        } else if let Some(outcome) = self.outcome.take() {
            let result = result.and_then(|done| done.ok_or_else(crate::outcome::lost));
            let _ = outcome.send(result);
        }
    }
}

impl Worker {
    pub(crate) fn new(database: &Inner, shared: Shared) -> Self {
        let slot = Slot::default();
        Self {
            engine: database.engine().session(),
            catalog: database.catalog().clone(),
            store: Arc::clone(database.store()),
            state: names::with_catalog(database.state(), &slot),
            slot,
            open: None,
            shared,
        }
    }

    /// Runs a statement. Rows may be handed out by the way; the last word is the caller's to say.
    pub(crate) async fn run(&mut self, statement: &Statement, reply: &mut Reply) -> Result<Option<Outcome>> {
        let result = match Command::of(statement.ast()) {
            Ok(command) => self.command(&command, reply).await,
            Err(error) => Err(error),
        };
        self.shared.set_status(match &self.open {
            None => TransactionStatus::None,
            Some(Open::Transaction(..)) => TransactionStatus::Open,
            Some(Open::Aborted) => TransactionStatus::Aborted,
        });
        result
    }

    async fn command(&mut self, command: &Command<'_>, reply: &mut Reply) -> Result<Option<Outcome>> {
        match command {
            Command::Begin => {
                if self.open.is_some() {
                    return Err(Error::InTransaction);
                }
                let transaction = self.engine.begin()?;
                self.open = Some(Open::Transaction(Arc::new(self.current(transaction)), Savepoints::default()));
                Ok(Some(Outcome::Done { tag: "BEGIN" }))
            }
            Command::Commit => match self.open.take() {
                None => Err(Error::NoTransaction),
                Some(Open::Aborted) => Err(Error::Aborted),
                Some(Open::Transaction(current, _)) => {
                    current.commit()?;
                    Ok(Some(Outcome::Done { tag: "COMMIT" }))
                }
            },
            Command::Rollback => match self.open.take() {
                None => Err(Error::NoTransaction),
                Some(Open::Aborted) => Ok(Some(Outcome::Done { tag: "ROLLBACK" })),
                Some(Open::Transaction(current, _)) => {
                    current.rollback();
                    Ok(Some(Outcome::Done { tag: "ROLLBACK" }))
                }
            },
            Command::Savepoint(_) | Command::RollbackTo(_) | Command::Release(_) => self.savepoint(command).map(Some),
            Command::Checkpoint => self.checkpoint().await,
            Command::Set(wish) => Ok(Some(setting::set(&mut self.state, *wish))),
            work => match self.open.take() {
                // Taken out while the statement runs: should it panic, the transaction is gone, not half done.
                Some(Open::Transaction(current, savepoints)) => {
                    self.in_transaction(current, savepoints, work, reply).await
                }
                Some(Open::Aborted) => {
                    self.open = Some(Open::Aborted);
                    Err(Error::Aborted)
                }
                None if work.only_reads() => self.on_snapshot(work, reply).await,
                None => self.by_itself(work, reply).await,
            },
        }
    }

    /// `SAVEPOINT`, `ROLLBACK TO` and `RELEASE`. One that fails changes nothing.
    fn savepoint(&mut self, command: &Command<'_>) -> Result<Outcome> {
        let (current, savepoints) = match &mut self.open {
            None => return Err(Error::NoTransaction),
            Some(Open::Aborted) => return Err(Error::Aborted),
            Some(Open::Transaction(current, savepoints)) => (current, savepoints),
        };
        let tag = match command {
            Command::Savepoint(name) => {
                savepoints.set(identifier(name), current.mark()?);
                "SAVEPOINT"
            }
            Command::RollbackTo(name) => {
                current.rollback_to(savepoints.rewind(&identifier(name))?)?;
                "ROLLBACK"
            }
            Command::Release(name) => {
                savepoints.release(&identifier(name))?;
                "RELEASE"
            }
            _ => return Err(crate::outcome::lost()),
        };
        Ok(Outcome::Done { tag })
    }

    /// Writes all tables down, so that the log before that is not needed any more. The open transaction, if there is one,
    /// has no part in it: nothing of it is in the tables.
    async fn checkpoint(&self) -> Result<Option<Outcome>> {
        let engine = self.engine.clone();
        let made = tokio::task::spawn_blocking(move || engine.database().checkpoint());
        made.await.map_err(|_| crate::outcome::lost())??;
        Ok(Some(Outcome::Done { tag: "CHECKPOINT" }))
    }

    /// A statement of the open transaction. When it fails, what it wrote is undone, and the transaction goes on unless
    /// the error broke it.
    async fn in_transaction(
        &mut self,
        current: Arc<Current>,
        savepoints: Savepoints,
        command: &Command<'_>,
        reply: &mut Reply,
    ) -> Result<Option<Outcome>> {
        let mark = current.mark()?;
        let result = self.perform(&current, command, reply).await;
        match &result {
            Err(error) if error.breaks_transaction() => {
                current.rollback();
                self.open = Some(Open::Aborted);
                return result;
            }
            Err(_) => current.rollback_to(&mark)?,
            Ok(_) => {}
        }
        self.open = Some(Open::Transaction(current, savepoints));
        result
    }

    /// A statement that only reads, by itself: it meets no conflict.
    async fn on_snapshot(&mut self, command: &Command<'_>, reply: &mut Reply) -> Result<Option<Outcome>> {
        let snapshot = self.engine.snapshot()?;
        let current = Arc::new(Current::on_snapshot(&self.catalog, &self.store, snapshot, &self.shared.cancel));
        match self.perform(&current, command, reply).await {
            Ok(outcome) => current.commit().map(|()| outcome),
            Err(error) => {
                current.rollback();
                Err(error)
            }
        }
    }

    /// A statement that is a transaction by itself. It keeps its age over its attempts, so it cannot be passed over for
    /// ever.
    async fn by_itself(&mut self, command: &Command<'_>, reply: &mut Reply) -> Result<Option<Outcome>> {
        let mut transaction = self.engine.begin()?;
        let age = transaction.age();
        let mut pause = PAUSE.0;
        loop {
            let current = Arc::new(self.current(transaction));
            let performed = match appends(&current, command) {
                Ok(true) => {
                    // What is appended is durable by itself; what is read for it must be, too, and meet no conflict.
                    current.rollback();
                    match self.on_snapshot(command, reply).await {
                        Err(error) if matches!(error.root(), Error::TableReplaced) => Err(error),
                        other => return other,
                    }
                }
                Ok(false) => self.perform(&current, command, reply).await,
                Err(error) => Err(error),
            };
            let result = match performed {
                Ok(outcome) => current.commit().map(|()| outcome),
                Err(error) => {
                    current.rollback();
                    Err(error)
                }
            };
            match result {
                Err(error)
                    if error.kind() == ErrorKind::Conflict
                        && let Some(path) = current.was_read_once() =>
                {
                    return Err(Error::ReadOnce { path, source: Box::new(error) });
                }
                Err(error) if error.kind() == ErrorKind::Conflict && !reply.handed_out() => {
                    tracing::debug!(%error, "a statement is run again after a conflict");
                }
                other => return other,
            }
            let paused = async {
                tokio::time::sleep(pause).await;
                Ok(())
            };
            self.shared.cancel.guard(paused).await?;
            pause = (pause * 2).min(PAUSE.1);
            transaction = self.engine.begin_with_age(age)?;
        }
    }

    fn current(&self, transaction: ishigaki_txn::Transaction) -> Current {
        Current::new(&self.catalog, &self.store, transaction, &self.shared.cancel)
    }

    /// What the statement does, within a transaction. `None` when the answer was handed out by the way.
    async fn perform(
        &mut self,
        current: &Arc<Current>,
        command: &Command<'_>,
        reply: &mut Reply,
    ) -> Result<Option<Outcome>> {
        self.state.mark_start_execution();
        self.slot.set(Some(Arc::clone(current)));
        let result = self.dispatch(current, command, reply).await;
        self.slot.set(None);
        // An error that could not be told where it happened, because DataFusion's signature has no place for one.
        let result = match current.take_deferred() {
            Some(error) => Err(error),
            None => result,
        };
        match result {
            // Where reads do not lock, it may come from a state that never was; then it is a conflict, and no error.
            Err(error) if !error.breaks_transaction() => current.validate().and(Err(error)),
            other => other,
        }
    }

    async fn dispatch(
        &self,
        current: &Arc<Current>,
        command: &Command<'_>,
        reply: &mut Reply,
    ) -> Result<Option<Outcome>> {
        let context = Context { state: &self.state, current, shared: &self.shared };
        match command {
            Command::Begin
            | Command::Commit
            | Command::Rollback
            | Command::Savepoint(_)
            | Command::RollbackTo(_)
            | Command::Release(_)
            | Command::Checkpoint
            // These are handled before a transaction is chosen.
            | Command::Set(_) => Err(crate::outcome::lost()),
            Command::Query(ast) => query::run(&context, ast, reply).await,
            Command::Explain { ast, statement } => explain::run(&context, ast, statement, reply).await,
            Command::ShowTables => show::tables(&context).map(Some),
            Command::ShowViews => show::views(&context).map(Some),
            Command::ShowSetting => setting::show(&self.state).map(Some),
            Command::ShowColumns(name) => show::columns(&context, name).map(Some),
            Command::CreateTable(create) => ddl::create_table(&context, create).await.map(Some),
            Command::Truncate(tables) => ddl::truncate(&context, tables).map(Some),
            Command::CreateView(create) => ddl::create_view(&context, create).await.map(Some),
            Command::Drop(drop) => ddl::drop(&context, drop).map(Some),
            Command::Insert(insert) => dml::insert::run(&context, insert).await.map(Some),
            Command::Update(update) => dml::update::run(&context, update).await.map(Some),
            Command::Delete(delete) => dml::delete::run(&context, delete).await.map(Some),
            Command::Copy(copy) => copy::run(&context, copy).await.map(Some),
        }
    }
}

/// Whether a statement appends to a paged table.
fn appends(current: &Current, command: &Command<'_>) -> Result<bool> {
    let Some(name) = command.grows() else { return Ok(false) };
    // A name that means no table is refused where it is used.
    let Ok(name) = table_name(name) else { return Ok(false) };
    Ok(matches!(current.find(&name)?, Some(Relation::Table(table)) if table.pages().is_some()))
}

/// What every statement needs while it runs.
pub(crate) struct Context<'a> {
    pub(crate) state: &'a SessionState,
    pub(crate) current: &'a Arc<Current>,
    pub(crate) shared: &'a Shared,
}

impl Context<'_> {
    /// Waits for `work` unless the statement is cancelled first.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.shared.cancel.guard(planning::watched(&self.shared.cancel, work)).await
    }
}
