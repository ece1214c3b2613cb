//! An append under way: rows go to a thread of its own, which fills and writes pages while the statement makes the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use datafusion::arrow::record_batch::RecordBatch;
use ishigaki_page::{RestingWriter, Settings, Writer};
use parking_lot::Mutex;

use super::sites::{self, Site};
use super::store::{Idle, at};
use crate::table::Location;
use crate::{Error, Result};

/// How many batches may wait.
const WAITING: usize = 4;

/// How long an append waits for its turn, where other programs append to the same file.
const TURN: Duration = Duration::from_secs(30);

/// How often it looks whether it is its turn.
const LOOK: Duration = Duration::from_millis(10);

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
    /// False once the append is given up.
    wanted: Arc<AtomicBool>,
}

impl Appender {
    /// Begins an append; it waits until others to the same file have ended, those of other programs for [`TURN`] at most.
    pub(super) fn begin(table: &str, location: &Location, idle: Idle) -> Result<Self> {
        let (messages, told) = sync_channel(WAITING);
        let (file, place) = (table.to_owned(), location.clone());
        let wanted = Arc::new(AtomicBool::new(true));
        let is_wanted = Arc::clone(&wanted);
        let thread = std::thread::Builder::new()
            .name("ishigaki-append".to_owned())
            .spawn(move || append(&file, &place, &idle, &told, &is_wanted))
            .map_err(|error| Error::file(&location.place, error))?;
        Ok(Self { table: table.to_owned(), messages: Some(messages), thread: Some(thread), wanted })
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
        self.wanted.store(false, Ordering::SeqCst);
        self.messages = None;
        if let Some(thread) = self.thread.take() {
            // Whoever drops it has an error already, or does not want to hear.
            let _ = thread.join();
        }
    }
}

/// What the thread does.
fn append(
    table: &str,
    location: &Location,
    idle: &Mutex<Option<RestingWriter>>,
    told: &Receiver<Message>,
    wanted: &AtomicBool,
) -> Result<()> {
    let failed = |source| at(table, location, source);
    let mut idle = idle.lock();
    let Some(mut writer) = take_turn(table, location, idle.take(), wanted)? else { return Ok(()) };
    fill(&mut writer, told).map_err(failed)?;
    // Kept for the next append, as opening it takes several syncs; but not after a failure, which opening settles. It lets go of
    // the file, so that others have their turn. A connection to a node may be lost unseen while it is idle.
    if !Site::of(table, location)?.is_node() {
        *idle = writer.rest();
    }
    Ok(())
}

/// The file for writing, when no other program has it. Nothing: the append is not wanted any more.
fn take_turn(
    table: &str,
    location: &Location,
    mut rested: Option<RestingWriter>,
    wanted: &AtomicBool,
) -> Result<Option<Writer>> {
    let begin = Instant::now();
    let mut directory = None;
    loop {
        let opened = if let Some(rested) = rested.take() {
            rested.resume()
        } else {
            let directory = match &directory {
                Some(known) => Arc::clone(known),
                None => Arc::clone(directory.insert(sites::to_write(table, location)?)),
            };
            Writer::open(directory, table, Settings::default())
        };
        match opened {
            Err(error) if error.is_locked() && begin.elapsed() < TURN => {
                if begin.elapsed() < LOOK {
                    tracing::info!(%table, place = %location.place, "an append waits for its turn");
                }
                if !wanted.load(Ordering::SeqCst) {
                    return Ok(None);
                }
                std::thread::sleep(LOOK);
            }
            Err(error) if error.is_locked() => {
                let (table, place) = (table.to_owned(), location.place.clone());
                return Err(Error::AppendBusy { table, place, waited: TURN });
            }
            opened => return opened.map(Some).map_err(|source| at(table, location, source)),
        }
    }
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
