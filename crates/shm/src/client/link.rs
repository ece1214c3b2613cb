//! The connection: slots, how an answer is waited for, and who notices that there will be none.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use ishigaki_device::{Error, Result};
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown, recvmsg, shutdown};
use rustix::thread::futex;

use crate::layout::{Greeting, PAYLOAD, SLOTS, states};
use crate::message::{Answer, Operation, Outcome, Request};
use crate::region::Region;
use crate::spin::Spin;

/// For how long a server may take to let us in: it may have to be through with a client that has died.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection. *Drop* lets go of the server.
#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
    /// Held by somebody of this process.
    pub(super) is_locked: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    /// The socket's path, for errors.
    name: String,
    region: Region,
    bell: OwnedFd,
    socket: UnixStream,
    /// The server has.
    is_gone: AtomicBool,
    free: Mutex<Vec<usize>>,
    given_back: Condvar,
    spin: Spin,
}

impl Link {
    pub(crate) fn connect(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let failed = |source: io::Error| Error::Io { name: name.clone(), operation: "connect", source };
        let invalid = |reason: String| Error::Invalid { name: name.clone(), reason };
        let socket = UnixStream::connect(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => failed(io::Error::new(
                source.kind(),
                format!("nobody serves there ({source}); start the service whose socket it is"),
            )),
            _ => failed(source),
        })?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let (greeting, descriptors) = hear(&socket).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => failed(io::Error::new(
                io::ErrorKind::TimedOut,
                "the service does not answer; it may still be busy with what a client before has left",
            )),
            _ => failed(error),
        })?;
        match Greeting::decode(&greeting).map_err(invalid)? {
            Greeting::Welcome => {}
            Greeting::Busy(holder) => {
                return Err(Error::Locked { directory: name, holder: holder.map(|pid| format!("pid {pid}")) });
            }
            Greeting::Refused(reason) => return Err(failed(io::Error::other(reason))),
        }
        let Ok([region, bell]) = <[OwnedFd; 2]>::try_from(descriptors) else {
            return Err(invalid("it hands nothing over".to_owned()));
        };
        let shared = Arc::new(Shared {
            region: Region::adopt(region).map_err(|error| invalid(error.to_string()))?,
            name: name.clone(),
            bell,
            socket,
            is_gone: AtomicBool::new(false),
            free: Mutex::new((0..SLOTS).rev().collect()),
            given_back: Condvar::new(),
            spin: Spin::new(),
        });
        let of_watcher = shared.clone();
        let watcher = Builder::new().name("ring-watch".to_owned()).spawn(move || of_watcher.watch()).map_err(failed)?;
        Ok(Self { shared, watcher: Some(watcher), is_locked: AtomicBool::new(false) })
    }

    /// What it is called in errors.
    pub(super) fn name(&self) -> &str {
        &self.shared.name
    }

    /// A slot, for a request about something of that name; waits for one.
    pub(crate) fn claim<'a>(&'a self, name: &'a str, operation: Operation) -> Result<Claim<'a>> {
        let mut free = self.shared.free.lock();
        loop {
            if self.shared.is_gone.load(Ordering::SeqCst) {
                return Err(self.shared.gone(name, operation));
            }
            if let Some(slot) = free.pop() {
                return Ok(Claim { shared: &self.shared, slot, name, operation });
            }
            self.shared.given_back.wait(&mut free);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The watcher sees it, and so does the server.
        let ended = shutdown(&self.shared.socket, Shutdown::Both);
        if let Some(watcher) = self.watcher.take()
            && (ended.is_ok() || self.shared.is_gone.load(Ordering::SeqCst))
        {
            let _ = watcher.join();
        }
    }
}

/// What the server says first, and the descriptors that come with it.
pub(crate) fn hear(socket: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; Greeting::LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let heard = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            heard => break heard?,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    bytes.truncate(heard.bytes);
    if bytes.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the service has hung up; see its log"));
    }
    Ok((bytes, descriptors))
}

impl Shared {
    /// The body of the watcher: waits until the server goes, and tells everybody.
    fn watch(&self) {
        loop {
            let mut socket = [PollFd::new(&self.socket, PollFlags::RDHUP)];
            match poll(&mut socket, None) {
                Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(ring = self.name, %error, "the server can not be watched, and is given up");
                    break;
                }
                Ok(_) => break,
            }
        }
        self.is_gone.store(true, Ordering::SeqCst);
        for slot in 0..SLOTS {
            let state = self.region.state(slot);
            state.store(states::GONE, Ordering::SeqCst);
            let _ = futex::wake(state, futex::Flags::empty(), i32::MAX as u32);
        }
        // Whoever looked before, and is about to wait, has the lock.
        drop(self.free.lock());
        self.given_back.notify_all();
    }

    fn gone(&self, name: &str, operation: Operation) -> Error {
        let reason =
            format!("{} is not served any more; its service has ended, so open it again when it runs", self.name);
        let source = io::Error::new(io::ErrorKind::ConnectionReset, reason);
        Error::Io { name: name.to_owned(), operation: operation.name(), source }
    }
}

/// A slot that is ours, until it is dropped.
pub(crate) struct Claim<'a> {
    shared: &'a Shared,
    slot: usize,
    name: &'a str,
    operation: Operation,
}

impl Claim<'_> {
    /// Puts bytes into what it carries.
    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        self.shared.region.copy_in(self.slot, at, bytes);
    }

    /// Takes bytes out of it.
    pub(super) fn get(&self, at: usize, bytes: &mut [u8]) {
        self.shared.region.copy_out(self.slot, at, bytes);
    }

    /// A text that it carries.
    pub(super) fn text(&self, length: usize) -> String {
        let mut bytes = vec![0; length.min(PAYLOAD)];
        self.get(0, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&self, request: &Request) -> Result<Answer> {
        let Shared { region, .. } = self.shared;
        region.put_request(self.slot, &request.encode());
        region.state(self.slot).store(states::ASKED, Ordering::SeqCst);
        region.posted().fetch_or(1 << self.slot, Ordering::SeqCst);
        if region.armed().swap(0, Ordering::SeqCst) == 1 {
            // It fails when the bell has been rung 2^64 times and nobody has heard it.
            let _ = rustix::io::write(&self.shared.bell, &1_u64.to_ne_bytes());
        }
        // The order matters: the watcher says it before it changes the states.
        if self.shared.is_gone.load(Ordering::SeqCst) || !self.wait() {
            return Err(self.shared.gone(self.name, self.operation));
        }
        let answer = Answer::decode(&region.answer(self.slot)).ok_or_else(|| self.nonsense())?;
        if answer.outcome == Outcome::Done {
            return Ok(answer);
        }
        Err(answer.error(self.text(answer.length), self.name, self.operation))
    }

    /// Waits for the answer. False if there will be none.
    fn wait(&self) -> bool {
        let state = self.shared.region.state(self.slot);
        let began = Instant::now();
        self.shared.spin.poll(|| state.load(Ordering::SeqCst) != states::ASKED);
        loop {
            match state.compare_exchange(states::ASKED, states::AWAITED, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) | Err(states::AWAITED) => {
                    // However it returns, the state is looked at again.
                    let _ = futex::wait(state, futex::Flags::empty(), states::AWAITED, None);
                }
                Err(states::ANSWERED) => {
                    self.shared.spin.took(began.elapsed());
                    return true;
                }
                Err(_) => return false,
            }
        }
    }

    /// The server says what no server says.
    pub(super) fn nonsense(&self) -> Error {
        let source = io::Error::new(io::ErrorKind::InvalidData, "the service's answer makes no sense");
        Error::Io { name: self.name.to_owned(), operation: self.operation.name(), source }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.shared.free.lock().push(self.slot);
        self.shared.given_back.notify_one();
    }
}
