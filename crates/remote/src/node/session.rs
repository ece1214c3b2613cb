//! One connection: what its client has opened, locked and may write into.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_device::{AlignedBuffer, DirectoryLock, Error as DeviceError};
use ishigaki_fabric::{Endpoint, Event, Message, Outgoing, Region, Target, Wait};
use parking_lot::{Mutex, RwLock};

use super::Shared;
use super::export::OpenFile;
use super::memory::{Buffer, Taken, Use};
use super::works::Works;
use crate::protocol::{Answer, MAX_WRITTEN};
use crate::{Error, Result};

/// Files and locks that a connection may have at a time.
const MOST_HANDLES: usize = 4096;
const MOST_LOCKS: usize = 64;

/// Slots that a client may put bytes to be written into.
///
/// A node that is short of memory gives a connection fewer of them, so that it can still write.
const SLOTS: [usize; 3] = [32, 8, 2];

/// Longer requests do not wait in a queue. Names and numbers are shorter.
const LONG: usize = 4 << 10;

/// How often an idle connection looks whether the node stops.
const LOOK: Duration = Duration::from_secs(1);

/// The state of one connection. Its locks and files go with it, when nothing is being done for it any more.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) node: Arc<Shared>,
    pub(super) endpoint: Arc<dyn Endpoint>,
    handles: RwLock<HashMap<u32, Arc<OpenFile>>>,
    locks: Mutex<HashMap<u32, DirectoryLock>>,
    staging: OnceLock<Staged>,
    pub(super) works: Works,
    /// The client's own watch: what is written here need not be told there. 0: none.
    pub(super) own_watch: AtomicU64,
    /// The connection was given to a watch.
    pub(super) watching: AtomicBool,
}

/// Memory that a client may put bytes to be written into.
#[derive(Debug)]
struct Staged {
    slots: Vec<Region>,
    _share: Taken,
}

/// What a request came to.
#[derive(Debug)]
pub(super) enum Done {
    /// A message.
    Said(Answer),
    /// Somebody answers when there is something to answer.
    Noted,
    /// Bytes for the client's memory.
    Read { buffer: Buffer, length: usize, target: Target },
}

impl Session {
    pub(super) fn new(node: Arc<Shared>, endpoint: Arc<dyn Endpoint>) -> Arc<Self> {
        Arc::new(Self {
            node,
            endpoint,
            handles: RwLock::default(),
            locks: Mutex::default(),
            staging: OnceLock::new(),
            works: Works::new(),
            own_watch: AtomicU64::new(0),
            watching: AtomicBool::new(false),
        })
    }

    /// Waits for requests. Nothing came: an empty list.
    pub(super) fn receive(&self, requests: &mut Vec<(u32, Message)>) -> Result<()> {
        let mut events = Vec::new();
        match self.endpoint.receive(&mut events, Wait::Until(Instant::now() + LOOK)) {
            Ok(()) | Err(ishigaki_fabric::Error::Timeout { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.requests(&mut events, requests)
    }

    /// Gives each request away as it comes, until the connection ends or only watches.
    pub(super) fn each_request(&self, mut give: impl FnMut(u32, Message) -> Result<()>) -> Result<()> {
        let mut requests = Vec::new();
        while !self.is_over() {
            self.receive(&mut requests)?;
            for (id, message) in requests.drain(..) {
                if self.take_watch(id, &message)? {
                    return Ok(());
                }
                give(id, message)?;
            }
        }
        Ok(())
    }

    /// Takes what came for requests; nothing else may come.
    pub(super) fn requests(&self, events: &mut Vec<Event>, requests: &mut Vec<(u32, Message)>) -> Result<()> {
        self.works.console();
        for event in events.drain(..) {
            let Event::Request { id, bytes } = event else { return Err(self.nonsense("an answer to no request")) };
            self.node.requests.fetch_add(1, Ordering::Relaxed);
            if bytes.len() > LONG {
                // An order for work, which is soon taken in. A queue of them would be as long as the client likes.
                self.perform(id, &bytes);
            } else {
                requests.push((id, bytes));
            }
        }
        Ok(())
    }

    /// True when the connection is to end.
    pub(super) fn is_over(&self) -> bool {
        self.node.stopping.load(Ordering::SeqCst) || self.watching.load(Ordering::SeqCst)
    }

    /// Answers a request.
    pub(super) fn reply(&self, id: u32, done: Done) -> Result<()> {
        match done {
            Done::Said(answer) => {
                self.endpoint.send(&[Outgoing::Reply { id, credits: 1, bytes: &answer.encode() }])?;
            }
            Done::Noted => {}
            Done::Read { buffer, length, target } => {
                let bytes = &buffer.bytes[..length];
                self.endpoint.send(&[Outgoing::Write { id, target, bytes, completes: Some(1) }])?;
                self.node.memory.put(buffer);
            }
        }
        Ok(())
    }

    /// The end of a connection whose client says what nobody may say.
    pub(super) fn nonsense(&self, reason: &str) -> Error {
        self.endpoint.close();
        Error::Protocol { peer: self.endpoint.peer().to_owned(), reason: reason.to_owned() }
    }

    pub(super) fn file(&self, handle: u32) -> Result<Arc<OpenFile>, ishigaki_device::Error> {
        self.handles.read().get(&handle).cloned().ok_or_else(|| invalid("there is no such handle"))
    }

    /// A file of which so much is about to be read; it is noted if reads are to be.
    pub(super) fn file_to_read(
        &self,
        handle: u32,
        offset: u64,
        length: u32,
    ) -> Result<Arc<OpenFile>, ishigaki_device::Error> {
        let file = self.file(handle)?;
        if let Some(trace) = &self.node.trace {
            trace.note(&file.name, offset, length);
        }
        Ok(file)
    }

    pub(super) fn add_file(&self, file: Arc<OpenFile>) -> Result<u32, ishigaki_device::Error> {
        let mut handles = self.handles.write();
        if handles.len() >= MOST_HANDLES {
            return Err(invalid("too many open files; close some"));
        }
        let handle = self.node.next_handle.fetch_add(1, Ordering::Relaxed);
        handles.insert(handle, file);
        Ok(handle)
    }

    pub(super) fn remove_file(&self, handle: u32) {
        let file = self.handles.write().remove(&handle);
        // Closing may take its time; not under the lock.
        drop(file);
    }

    pub(super) fn add_lock(&self, lock: DirectoryLock) -> Result<u32, ishigaki_device::Error> {
        let mut locks = self.locks.lock();
        if locks.len() >= MOST_LOCKS {
            return Err(invalid("too many locks; give some free"));
        }
        let number = self.node.next_handle.fetch_add(1, Ordering::Relaxed);
        locks.insert(number, lock);
        Ok(number)
    }

    pub(super) fn remove_lock(&self, lock: u32) {
        let lock = self.locks.lock().remove(&lock);
        drop(lock);
    }

    /// The slots that the client may write into, made when it first asks.
    pub(super) fn staging(&self) -> Result<&[Region], ishigaki_device::Error> {
        if let Some(staged) = self.staging.get() {
            return Ok(&staged.slots);
        }
        let memory = &self.node.memory;
        let fits = |&count: &usize| Some((count, memory.take(Use::Staging, count * MAX_WRITTEN)?));
        let (count, share) = SLOTS.iter().find_map(fits).ok_or_else(|| self.no_memory("write"))?;
        let register = |_| self.endpoint.register(AlignedBuffer::zeroed(MAX_WRITTEN));
        let slots: Result<Vec<_>, _> = (0..count).map(register).collect();
        let slots = slots.map_err(|error| invalid(&error.to_string()))?;
        Ok(&self.staging.get_or_init(|| Staged { slots, _share: share }).slots)
    }

    /// A buffer for one read. Waits for others to give back theirs, for as long as a client may take none of its bytes: after
    /// that the node has given it up.
    pub(super) fn buffer(&self, length: usize) -> Result<Buffer, DeviceError> {
        let until = Instant::now() + self.node.settings.fabric.stall;
        self.node.memory.buffer_until(length, until).ok_or_else(|| self.no_memory("read"))
    }

    fn no_memory(&self, operation: &'static str) -> DeviceError {
        let reason = format!(
            "the node has no memory for it: a quarter of its {} for all connections (--memory) is taken by others; try again, or give it more",
            ByteSize(self.node.memory.most() as u64)
        );
        DeviceError::Io { name: String::new(), operation, source: std::io::Error::other(reason) }
    }
}

/// A request that can not be served.
pub(super) fn invalid(reason: &str) -> ishigaki_device::Error {
    ishigaki_device::Error::Invalid { name: String::new(), reason: reason.to_owned() }
}
