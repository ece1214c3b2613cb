//! An append under way: rows go to a thread of its own, which fills and writes pages while the statement makes the next.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use datafusion::arrow::record_batch::RecordBatch;
use ishigaki_page::{Settings, Writer};
use parking_lot::Mutex;

use super::sites::{self, Site};
use super::store::{Idle, at};
use crate::table::Location;
use crate::{Error, Result};

/// How many batches may wait.
const WAITING: usize = 4;

/// What the thread is told.
enum Message {
    Batch(RecordBatch),
    Commit,
}

/// Rows on their way into one page file. Nothing of them is to be seen before [`commit`](Self::commit), and nothing is left
/// of one that was dropped. Its calls may block.
#[derive(Debug)]
pub(crate) struct Appender {
    table: String,
    messages: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Appender {
    /// Begins an append; it waits until another one of this program to the same file has ended.
    pub(super) fn begin(table: &str, location: &Location, idle: Idle) -> Result<Self> {
        let (messages, told) = sync_channel(WAITING);
        let (file, place) = (table.to_owned(), location.clone());
        let thread = std::thread::Builder::new()
            .name("ishigaki-append".to_owned())
            .spawn(move || append(&file, &place, &idle, &told))
            .map_err(|error| Error::file(&location.place, error))?;
        Ok(Self { table: table.to_owned(), messages: Some(messages), thread: Some(thread) })
    }

    /// Takes rows in, whose columns have the types of the table's.
    pub(crate) fn write(&mut self, batch: RecordBatch) -> Result<()> {
        self.tell(Message::Batch(batch))
    }

    /// Makes all rows durable, and then visible at once.
    pub(crate) fn commit(mut self) -> Result<()> {
        self.tell(Message::Commit)?;
        self.messages = None;
        self.end()
    }

    fn tell(&mut self, message: Message) -> Result<()> {
        let told = self.messages.as_ref().is_some_and(|messages| messages.send(message).is_ok());
        if told {
            return Ok(());
        }
        // It has ended, so it has failed.
        self.messages = None;
        self.end().and_then(|()| Err(self.vanished()))
    }

    /// Waits for the thread's end.
    fn end(&mut self) -> Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) | None => Err(self.vanished()),
        }
    }

    fn vanished(&self) -> Error {
        let what = format!("the append to table {} has ended before its time", self.table);
        datafusion::error::DataFusionError::Internal(what).into()
    }
}

impl Drop for Appender {
    /// Waits until what was written is removed again, so that the next one finds the file free.
    fn drop(&mut self) {
        self.messages = None;
        if let Some(thread) = self.thread.take() {
            // Whoever drops it has an error already, or does not want to hear.
            let _ = thread.join();
        }
    }
}

/// What the thread does.
fn append(table: &str, location: &Location, idle: &Mutex<Option<Writer>>, told: &Receiver<Message>) -> Result<()> {
    let failed = |source| at(table, location, source);
    let mut idle = idle.lock();
    // Kept for the next append, as opening it takes several syncs; but not after a failure, which opening settles.
    let mut writer = if let Some(writer) = idle.take() {
        writer
    } else {
        let directory = sites::to_write(table, location)?;
        Writer::open(directory, table, Settings::default()).map_err(failed)?
    };
    fill(&mut writer, told).map_err(failed)?;
    // At a node others append, too, and a connection that is idle may be lost unseen.
    if !Site::of(table, location)?.is_node() {
        *idle = Some(writer);
    }
    Ok(())
}

/// Appends what is told. Nobody may want it in the end: then nothing of it is left.
fn fill(writer: &mut Writer, told: &Receiver<Message>) -> ishigaki_page::Result<()> {
    let mut append = writer.append()?;
    while let Ok(message) = told.recv() {
        match message {
            Message::Batch(batch) => append.write(&batch)?,
            Message::Commit => return append.commit().map(drop),
        }
    }
    Ok(())
}
