//! What a statement gives back.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;

use crate::interrupt::CancelHandle;
use crate::{Error, Result};

/// What a statement did.
#[derive(Debug)]
pub enum Outcome {
    /// A query: its rows, which arrive while it runs.
    Rows(Rows),
    /// A statement that changed or copied rows.
    Affected {
        /// The command, as in `INSERT`.
        tag: &'static str,
        /// How many rows.
        rows: u64,
    },
    /// A statement that has nothing to count.
    Done {
        /// The command, as in `CREATE TABLE`.
        tag: &'static str,
    },
}

impl Outcome {
    /// The rows of a query.
    pub fn into_rows(self) -> Option<Rows> {
        match self {
            Self::Rows(rows) => Some(rows),
            _ => None,
        }
    }

    /// How many rows were changed or copied.
    pub fn affected(&self) -> Option<u64> {
        match self {
            Self::Affected { rows, .. } => Some(*rows),
            _ => None,
        }
    }
}

/// The rows of a query, batch by batch: a [`Stream`], or [`Rows::next_blocking`].
///
/// The query is complete, and everything that it read is durable, only when the end was reached without an error.
/// Dropping it earlier cancels the query; an open transaction goes on.
#[derive(Debug)]
pub struct Rows {
    schema: SchemaRef,
    buffered: VecDeque<RecordBatch>,
    running: Option<Running>,
}

/// What the task that runs a query tells the one who reads its rows.
#[derive(Debug)]
pub(crate) enum Message {
    /// Some more rows.
    Batch(RecordBatch),
    /// The rows are complete, and durable. A result without this word is not.
    End,
    /// The query failed.
    Failed(Error),
}

/// The task that still produces batches.
#[derive(Debug)]
struct Running {
    messages: mpsc::Receiver<Message>,
    guard: OpenGuard,
}

/// Says whether a session's last result is still being read; when the result goes away early, so does its query.
#[derive(Debug)]
pub(crate) struct OpenGuard {
    open: Arc<AtomicBool>,
    cancel: CancelHandle,
    complete: bool,
}

impl OpenGuard {
    pub(crate) fn new(open: Arc<AtomicBool>, cancel: CancelHandle) -> Self {
        open.store(true, Ordering::Release);
        Self { open, cancel, complete: false }
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        if !self.complete {
            self.cancel.cancel();
        }
        self.open.store(false, Ordering::Release);
    }
}

impl Rows {
    /// Rows that are all there.
    pub(crate) fn complete(schema: SchemaRef, batches: impl Into<VecDeque<RecordBatch>>) -> Self {
        Self { schema, buffered: batches.into(), running: None }
    }

    /// Rows of which `buffered` are there and others will come.
    pub(crate) fn running(
        schema: SchemaRef,
        buffered: impl Into<VecDeque<RecordBatch>>,
        messages: mpsc::Receiver<Message>,
        guard: OpenGuard,
    ) -> Self {
        Self { schema, buffered: buffered.into(), running: Some(Running { messages, guard }) }
    }

    /// Names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next batch, or `None` at the end. Does not need a particular async runtime.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        StreamExt::next(self).await
    }

    /// The next batch, or `None` at the end; blocks the calling thread, so not for async code.
    pub fn next_blocking(&mut self) -> Option<Result<RecordBatch>> {
        futures::executor::block_on(self.next())
    }

    /// All batches to the end.
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }

    /// All batches to the end; blocks the calling thread, so not for async code.
    pub fn collect_blocking(self) -> Result<Vec<RecordBatch>> {
        futures::executor::block_on(self.collect())
    }

    /// Reads to the end and keeps the batches, so that the session is free for the next statement.
    pub(crate) async fn buffer(self) -> Result<Self> {
        let schema = Arc::clone(&self.schema);
        Ok(Self::complete(schema, self.collect().await?))
    }
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(batch) = self.buffered.pop_front() {
            return Poll::Ready(Some(Ok(batch)));
        }
        let Some(running) = &mut self.running else { return Poll::Ready(None) };
        let next = match std::task::ready!(running.messages.poll_recv(context)) {
            Some(Message::Batch(batch)) => return Poll::Ready(Some(Ok(batch))),
            Some(Message::End) => None,
            Some(Message::Failed(error)) => Some(Err(error)),
            None => Some(Err(lost())),
        };
        // The task has ended by itself; there is nothing left to cancel.
        running.guard.complete = true;
        self.running = None;
        Poll::Ready(next)
    }
}

/// The error of a statement whose task ended without a word, which only a defect can make it do.
pub(crate) fn lost() -> Error {
    DataFusionError::Execution("the statement ended unexpectedly; what it did was rolled back".to_owned()).into()
}

/// The error of a session whose last result is still being read.
pub(crate) fn still_open() -> Error {
    Error::unsupported(
        "a second statement while a result of this session is still open",
        "read the result to its end or drop it first",
    )
}
