//! One client: the region that it shares with us, what it has open, and the workers that serve it.
//!
//! Several workers sleep on the bell, and it wakes one of them. Each takes a slot, copies the request and what it carries, and
//! only then looks at it; whatever the client writes there meanwhile changes nothing. What it asks for can fail or make no
//! sense, and is answered so; it reaches nothing but the directory and what it has opened in it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use ishigaki_device::{AlignedBuffer, Device, Directory, DirectoryLock, Error, Result, check_name};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

use super::ServerSettings;
use super::board::Board;
use crate::layout::PAYLOAD;
use crate::message::{Answer, Opened, Operation, Request, invalid};
use crate::region::Region;
use crate::spin::Spin;

/// Devices that a client may have open.
const MOST_OPEN: usize = 4096;

/// What the two things that a worker sleeps on are called.
const BELL: u64 = 0;
const SOCKET: u64 = 1;

/// A client that is in. *Drop* ends its workers, each with what it has in hand, and then gives the directory free.
#[derive(Debug)]
pub(super) struct Session {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Last, so that nobody finds a request still under way.
    _lock: DirectoryLock,
}

/// What the workers share.
#[derive(Debug)]
struct Shared {
    region: Region,
    bell: OwnedFd,
    /// The client's, on which nothing is said any more.
    socket: OwnedFd,
    directory: Arc<dyn Directory>,
    open: Mutex<Open>,
    board: Board,
    spin: Spin,
    began: Instant,
    /// When the last request was done with, in nanoseconds from the beginning.
    idle_since: AtomicU64,
    ending: AtomicBool,
}

/// Devices that the client has open.
#[derive(Debug, Default)]
struct Open {
    next: u32,
    devices: HashMap<u32, Arc<dyn Device>>,
}

impl Session {
    pub(super) fn new(
        client: BorrowedFd<'_>,
        directory: &Arc<dyn Directory>,
        settings: &ServerSettings,
    ) -> Result<Self> {
        let failed = |source: io::Error| Error::Io { name: "ring".to_owned(), operation: "session", source };
        let lock = directory.lock()?;
        let shared = Arc::new(Shared {
            region: Region::create().map_err(failed)?,
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| failed(error.into()))?,
            socket: client.try_clone_to_owned().map_err(failed)?,
            directory: directory.clone(),
            open: Mutex::default(),
            board: Board::default(),
            spin: Spin::new(),
            began: Instant::now(),
            idle_since: AtomicU64::new(0),
            ending: AtomicBool::new(false),
        });
        let mut session = Self { shared, workers: Vec::new(), _lock: lock };
        for number in 0..settings.threads.max(1) {
            let shared = session.shared.clone();
            let sleeps_on = shared.bed().map_err(|error| failed(error.into()))?;
            let body = move || shared.work(&sleeps_on);
            session.workers.push(Builder::new().name(format!("ring-{number}")).spawn(body).map_err(failed)?);
        }
        Ok(session)
    }

    /// The region's file, and the bell.
    pub(super) fn to_hand_over(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        (self.shared.region.file(), self.shared.bell.as_fd())
    }

    /// The client's end is seen by it.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        // Workers that sleep see it, and so does the client.
        if let Err(error) = rustix::net::shutdown(&self.shared.socket, rustix::net::Shutdown::Both) {
            tracing::debug!(%error, "the client has gone already");
        }
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                tracing::error!("a worker of a ring panicked");
            }
        }
    }
}

impl Shared {
    /// What a worker sleeps on: the bell, which wakes one of them, and the socket, whose end wakes all.
    fn bed(&self) -> Result<OwnedFd, Errno> {
        let bed = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        epoll::add(&bed, &self.bell, epoll::EventData::new_u64(BELL), flags)?;
        epoll::add(&bed, &self.socket, epoll::EventData::new_u64(SOCKET), epoll::EventFlags::RDHUP)?;
        Ok(bed)
    }

    /// The body of a worker.
    fn work(&self, bed: &OwnedFd) {
        let mut memory = AlignedBuffer::zeroed(PAYLOAD);
        while !self.ending.load(Ordering::SeqCst) {
            Board::disarm(&self.region);
            self.spin.poll(|| Board::has_posted(&self.region) || self.ending.load(Ordering::SeqCst));
            while !self.ending.load(Ordering::SeqCst)
                && let Some(slot) = self.board.take(&self.region)
            {
                self.spin
                    .took(self.now().saturating_sub(Duration::from_nanos(self.idle_since.load(Ordering::Relaxed))));
                // What comes meanwhile is somebody else's.
                if Board::arm(&self.region) {
                    self.ring();
                }
                self.serve(slot, &mut memory);
                self.idle_since.store(self.now().as_nanos() as u64, Ordering::Relaxed);
            }
            if !Board::arm(&self.region) && !self.sleep(bed) {
                return;
            }
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Sleeps until the bell is rung. False if the client has gone.
    fn sleep(&self, bed: &OwnedFd) -> bool {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 2];
        let seen = match epoll::wait(bed, &mut events, None) {
            Ok(seen) => seen,
            Err(Errno::INTR) => return true,
            Err(error) => {
                tracing::error!(%error, "a worker of a ring can not sleep, and ends");
                return false;
            }
        };
        let is_there = |what: u64| events[..seen].iter().any(|event| { event.data }.u64() == what);
        if is_there(BELL) {
            // Others may have been quicker.
            let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        }
        !is_there(SOCKET)
    }

    /// Wakes another worker.
    fn ring(&self) {
        // It fails when the bell has been rung 2^64 times and nobody has heard it.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Does what a slot asks for, and answers.
    fn serve(&self, slot: usize, memory: &mut AlignedBuffer) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let request = Request::decode(&self.region.request(slot))?;
            self.perform(slot, &request, memory)
        }));
        let outcome = outcome.unwrap_or_else(|_| Err(invalid("the server could not do it, and its log says why")));
        let answer = outcome.unwrap_or_else(|error| {
            let (answer, text) = Answer::of(&error);
            let length = text.floor_char_boundary(1000);
            self.region.copy_in(slot, 0, &text.as_bytes()[..length]);
            Answer { length, ..answer }
        });
        self.region.put_answer(slot, &answer.encode());
        Board::finish(&self.region, slot);
    }

    fn perform(&self, slot: usize, request: &Request, memory: &mut AlignedBuffer) -> Result<Answer> {
        let &Request { operation, offset, length, number, .. } = request;
        match operation {
            Operation::Open => self.opened(slot, |name| self.directory.open(name), length),
            Operation::Create => self.opened(slot, |name| self.directory.create(name, number), length),
            Operation::Close => {
                drop(self.open.lock().devices.remove(&request.handle));
                Ok(Answer::DONE)
            }
            Operation::Read => {
                let bytes = &mut memory[..length];
                self.device(request)?.read_at(offset, bytes)?;
                self.region.copy_in(slot, 0, bytes);
                Ok(Answer { length, ..Answer::DONE })
            }
            Operation::Write | Operation::WriteDurable => {
                let device = self.device(request)?;
                let bytes = &mut memory[..length];
                self.region.copy_out(slot, 0, bytes);
                match operation {
                    Operation::Write => device.write_at(offset, bytes)?,
                    _ => device.write_durable(offset, bytes)?,
                }
                Ok(Answer::DONE)
            }
            Operation::WriteAll => {
                let device = self.device(request)?;
                self.region.copy_out(slot, 0, &mut memory[..length]);
                device.write_all_durable(&runs(&memory[..length], number)?)?;
                Ok(Answer::DONE)
            }
            Operation::Sync => self.device(request)?.sync().map(|()| Answer::DONE),
            Operation::Trim => self.device(request)?.trim(offset, number).map(|()| Answer::DONE),
            Operation::List => self.list(slot, &self.text(slot, length)?),
            Operation::Rename => {
                let names = self.text(slot, length)?;
                let (from, to) = names.split_once('\n').ok_or_else(|| invalid("a rename has two names"))?;
                check_name(from).and_then(|()| check_name(to))?;
                self.directory.rename(from, to).map(|()| Answer::DONE)
            }
            Operation::Remove => {
                let name = self.text(slot, length)?;
                check_name(&name)?;
                self.directory.remove(&name).map(|()| Answer::DONE)
            }
            Operation::SyncNames => self.directory.sync().map(|()| Answer::DONE),
        }
    }

    fn opened(&self, slot: usize, open: impl FnOnce(&str) -> Result<Arc<dyn Device>>, length: usize) -> Result<Answer> {
        let name = self.text(slot, length)?;
        check_name(&name)?;
        if self.open.lock().devices.len() >= MOST_OPEN {
            return Err(invalid(format!("{MOST_OPEN} devices are open already; let go of some")));
        }
        let device = open(&name)?;
        let opened = Opened { promise: device.promise(), writes_through: device.writes_through() };
        let size = device.len();
        let mut open = self.open.lock();
        let mut handle = open.next;
        while open.devices.contains_key(&handle) {
            handle = handle.wrapping_add(1);
        }
        open.next = handle.wrapping_add(1);
        open.devices.insert(handle, device);
        drop(open);
        self.region.copy_in(slot, 0, &opened.encode());
        Ok(Answer { length: Opened::BYTES, number: handle.into(), size, ..Answer::DONE })
    }

    fn device(&self, request: &Request) -> Result<Arc<dyn Device>> {
        let device = self.open.lock().devices.get(&request.handle).cloned();
        device.ok_or_else(|| invalid(format!("no device is open as {}", request.handle)))
    }

    /// As many names behind that one as there is room for.
    fn list(&self, slot: usize, after: &str) -> Result<Answer> {
        let (mut text, mut more) = (String::new(), false);
        for name in self.directory.list()?.iter().filter(|name| after.is_empty() || name.as_str() > after) {
            if text.len() + name.len() + 1 > PAYLOAD {
                more = true;
                break;
            }
            text.push_str(name);
            text.push('\n');
        }
        self.region.copy_in(slot, 0, text.as_bytes());
        Ok(Answer { length: text.len(), number: more.into(), ..Answer::DONE })
    }

    /// A text that the slot carries.
    fn text(&self, slot: usize, length: usize) -> Result<String> {
        if length > 256 {
            return Err(invalid("a name is longer than 100 bytes"));
        }
        let mut bytes = vec![0; length];
        self.region.copy_out(slot, 0, &mut bytes);
        String::from_utf8(bytes).map_err(|_| invalid("a name is no text"))
    }
}

/// The runs of a write of several: their bytes one behind the other, then 16 bytes for each with its offset and its length.
pub(crate) fn runs(carried: &[u8], count: u64) -> Result<Vec<(u64, &[u8])>> {
    let nonsense = || invalid("runs of a write that are not as its length says");
    let table = usize::try_from(count).ok().and_then(|count| count.checked_mul(16)).ok_or_else(nonsense)?;
    let (mut bytes, table) = carried.len().checked_sub(table).map(|at| carried.split_at(at)).ok_or_else(nonsense)?;
    let mut runs = Vec::with_capacity(table.len() / 16);
    for run in table.chunks_exact(16) {
        let fields = ishigaki_base::Fields(run);
        let length = usize::try_from(fields.u64(8)).map_err(|_| nonsense())?;
        let (run, rest) = bytes.split_at_checked(length).ok_or_else(nonsense)?;
        runs.push((fields.u64(0), run));
        bytes = rest;
    }
    if bytes.is_empty() { Ok(runs) } else { Err(nonsense()) }
}
