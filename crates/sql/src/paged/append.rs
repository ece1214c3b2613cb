//! An append under way: rows go to a thread of its own, which fills and writes pages while the statement makes the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use datafusion::arrow::record_batch::RecordBatch;
use ishigaki_page::{RestingWriter, Settings, State, Writer};
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
    /// Which of the table's locations.
    position: usize,
    messages: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<Result<Option<State>>>>,
    /// False once the append is given up.
    wanted: Arc<AtomicBool>,
}

impl Appender {
    /// Begins an append; it waits until others to the same file have ended, those of other programs for [`TURN`] at most.
    /// A file that does not follow on what is `known` of it is refused.
    pub(super) fn begin(
        table: &str,
        (position, location): (usize, &Location),
        idle: Idle,
        known: Option<State>,
    ) -> Result<Self> {
        let (messages, told) = sync_channel(WAITING);
        let (file, place) = (table.to_owned(), location.clone());
        let wanted = Arc::new(AtomicBool::new(true));
        let is_wanted = Arc::clone(&wanted);
        let thread = std::thread::Builder::new()
            .name("ishigaki-append".to_owned())
            .spawn(move || append((&file, &place), known, &idle, &told, &is_wanted))
            .map_err(|error| Error::file(&location.place, error))?;
        Ok(Self { table: table.to_owned(), position, messages: Some(messages), thread: Some(thread), wanted })
    }

    /// Takes rows in, whose columns have the types of the table's.
    pub(crate) fn write(&mut self, batch: RecordBatch) -> Result<()> {
        self.tell(Message::Batch(batch))
    }

    /// Makes all rows durable, and then visible at once. Which of the table's locations has them, and what state its file is
    /// in then; nothing, if there were none to append.
    pub(crate) fn commit(mut self) -> Result<Option<(usize, State)>> {
        self.tell(Message::Commit)?;
        self.messages = None;
        Ok(self.end()?.map(|state| (self.position, state)))
    }

    fn tell(&mut self, message: Message) -> Result<()> {
        let told = self.messages.as_ref().is_some_and(|messages| messages.send(message).is_ok());
        if told {
            return Ok(());
        }
        // It has ended, so it has failed.
        self.messages = None;
        self.end().and_then(|_| Err(self.vanished()))
    }

    /// Waits for the thread's end.
    fn end(&mut self) -> Result<Option<State>> {
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

/// What the thread does. The state of the file when all of it is there.
fn append(
    (table, location): (&str, &Location),
    known: Option<State>,
    idle: &Mutex<Option<RestingWriter>>,
    told: &Receiver<Message>,
    wanted: &AtomicBool,
) -> Result<Option<State>> {
    let failed = |source| at(table, location, source);
    let mut idle = idle.lock();
    let Some(mut writer) = take_turn((table, location), known, idle.take(), wanted)? else { return Ok(None) };
    let is_there = fill(&mut writer, told).map_err(failed)?;
    let state = is_there.then(|| writer.state());
    // Kept for the next append, as opening it takes several syncs; but not after a failure, which opening settles. It lets go of
    // the file, so that others have their turn. A connection to a node may be lost unseen while it is idle.
    if !Site::of(table, location)?.is_node() {
        *idle = writer.rest();
    }
    Ok(state)
}

/// The file for writing, when no other program has it. Nothing: the append is not wanted any more.
fn take_turn(
    (table, location): (&str, &Location),
    known: Option<State>,
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
            Writer::open_known(directory, table, Settings::default(), known)
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

/// Appends what is told. The caller may not want it in the end: then nothing of it is left, and false says so.
fn fill(writer: &mut Writer, told: &Receiver<Message>) -> ishigaki_page::Result<bool> {
    let mut append = writer.append()?;
    while let Ok(message) = told.recv() {
        match message {
            Message::Batch(batch) => append.write(&batch)?,
            Message::Commit => return append.commit().map(|_| true),
        }
    }
    Ok(false)
}
