//! A session: one conversation with the database, with a transaction of its own.
//!
//! `run` sends the statement to a task on the database's threads and waits for its answer. The task owns the session's
//! [`Worker`] while it runs, so there is never more than one; it ends when the statement has ended, not when the caller
//! stops listening, and a caller who goes away cancels it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use datafusion::arrow::record_batch::RecordBatch;
use futures::executor::block_on;
use tokio::sync::{Mutex, oneshot};

use crate::database::Inner;
use crate::interrupt::{CancelHandle, Progress};
use crate::outcome::{lost, still_open};
use crate::worker::{Reply, Worker};
use crate::{Outcome, Result, Statement};

/// Where a session is between `BEGIN` and `COMMIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction is open; each statement is one by itself.
    None,
    /// A transaction is open.
    Open,
    /// A transaction is open, but a conflict broke it: only `ROLLBACK` (or `COMMIT`, which fails) ends it.
    Aborted,
}

/// One conversation with a database. `Send` and `Sync`; one statement runs at a time.
///
/// Outside of `BEGIN … COMMIT` every statement is a transaction: run again by itself when another transaction was in the
/// way, and durable when its result is complete. Inside, a statement that fails has no effect and the transaction goes
/// on, except after a conflict ([`ishigaki_base::ErrorKind::Conflict`]): then the whole transaction is to be rolled back
/// and run again.
///
/// Dropping a session rolls an open transaction back.
#[derive(Debug)]
pub struct Session {
    database: Arc<Inner>,
    worker: Arc<Mutex<Worker>>,
    shared: Shared,
}

/// What the session, its worker and its open result look at together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    pub(crate) cancel: CancelHandle,
    pub(crate) progress: Progress,
    /// Whether a result is still being read.
    pub(crate) open: Arc<AtomicBool>,
    /// A [`TransactionStatus`].
    status: Arc<AtomicU8>,
}

impl Shared {
    pub(crate) fn set_status(&self, status: TransactionStatus) {
        self.status.store(status as u8, Ordering::Release);
    }

    pub(crate) fn status(&self) -> TransactionStatus {
        match self.status.load(Ordering::Acquire) {
            0 => TransactionStatus::None,
            1 => TransactionStatus::Open,
            _ => TransactionStatus::Aborted,
        }
    }
}

impl Session {
    pub(crate) fn new(database: Arc<Inner>) -> Self {
        let shared = Shared::default();
        let worker = Arc::new(Mutex::new(Worker::new(&database, shared.clone())));
        Self { database, worker, shared }
    }

    /// Runs one statement. The rows of a query arrive while it runs: the session takes its next statement when they were
    /// read to the end or dropped.
    ///
    /// Cancelled when the future is dropped.
    pub async fn run(&self, statement: &Statement) -> Result<Outcome> {
        if self.shared.open.load(Ordering::Acquire) {
            return Err(still_open());
        }
        let mut worker = Arc::clone(&self.worker).lock_owned().await;
        self.shared.cancel.reset();
        let (answer, answered) = oneshot::channel();
        let mut reply = Reply::new(answer, &self.shared);
        let statement = statement.clone();
        let abandoned = CancelOnDrop(Some(&self.shared.cancel));
        self.database.runtime().spawn(async move {
            let result = worker.run(&statement, &mut reply).await;
            // Whoever hears the last word may drop the session and open the database anew: let go first.
            drop(worker);
            reply.finish(result).await;
        });
        let outcome = answered.await.unwrap_or_else(|_| Err(lost()));
        abandoned.disarm();
        outcome
    }

    /// Runs statements separated by semicolons, one after the other up to the first that fails. The rows of queries are
    /// collected in memory; [`Session::run`] streams them.
    pub async fn execute(&self, sql: &str) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        for statement in Statement::parse(sql)? {
            outcomes.push(match self.run(&statement).await? {
                Outcome::Rows(rows) => Outcome::Rows(rows.buffer().await?),
                other => other,
            });
        }
        Ok(outcomes)
    }

    /// The rows of the last query in `sql`, and the effects of what comes before it.
    pub async fn query(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        match self.execute(sql).await?.pop().and_then(Outcome::into_rows) {
            Some(rows) => rows.collect().await,
            None => Ok(Vec::new()),
        }
    }

    /// [`Session::run`] for code that is not async; blocks the calling thread.
    pub fn run_blocking(&self, statement: &Statement) -> Result<Outcome> {
        block_on(self.run(statement))
    }

    /// [`Session::execute`] for code that is not async; blocks the calling thread.
    pub fn execute_blocking(&self, sql: &str) -> Result<Vec<Outcome>> {
        block_on(self.execute(sql))
    }

    /// [`Session::query`] for code that is not async; blocks the calling thread.
    pub fn query_blocking(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        block_on(self.query(sql))
    }

    /// A handle that cancels whatever statement this session runs when it is used.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.shared.cancel.clone()
    }

    /// Counters that tell how far this session's `COPY` is.
    pub fn progress(&self) -> Progress {
        self.shared.progress.clone()
    }

    /// Whether a transaction is open.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.shared.status()
    }
}

/// Cancels the statement when the one who waits for it goes away.
struct CancelOnDrop<'a>(Option<&'a CancelHandle>);

impl CancelOnDrop<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(cancel) = self.0 {
            cancel.cancel();
        }
    }
}
