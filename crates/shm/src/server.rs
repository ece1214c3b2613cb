//! The server: lets one client in after the other.
//!
//! ```text
//!  accept thread   somebody connects ─ nobody else is in? ─▶ a session: lock, region, workers ─▶ greeting
//!                  the client's end of the socket is gone ─▶ workers end with what they have in hand ─▶ lock free
//! ```
//!
//! A second client is told at once that somebody is in. The one who comes after a client's death waits until that one's requests
//! are done with.

mod board;
mod session;

use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ishigaki_device::{Directory, Error};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt::socket_peercred};

use crate::layout::Greeting;
use session::Session;
#[cfg(fuzzing)]
pub(crate) use session::runs;

/// How a directory is served.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Requests that are worked on at a time; each takes a thread and 256 KiB while a client is in.
    pub threads: usize,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self { threads: 4 }
    }
}

/// After nobody could be let in.
const PAUSE: Duration = Duration::from_millis(100);

/// A directory that one client of this host after the other can use.
///
/// *Drop* ends a client's session: its requests are finished, or get errors, and it sees that nobody serves it any more. *A
/// crash* of this process does the same to it, at once. While a client is in, the directory is locked.
pub struct Server {
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

/// What the accept thread looks at.
#[derive(Debug)]
struct Ending {
    has_begun: AtomicBool,
    is_connected: AtomicBool,
    bell: OwnedFd,
}

impl Server {
    /// Serves a directory on a socket that listens; its name is the caller's business, and who may connect.
    pub fn new(listener: UnixListener, directory: Arc<dyn Directory>, settings: &ServerSettings) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
        let ending = Arc::new(Ending { has_begun: AtomicBool::new(false), is_connected: AtomicBool::new(false), bell });
        let work = {
            let (ending, settings) = (ending.clone(), settings.clone());
            move || serve(&listener, &directory, &settings, &ending)
        };
        let thread = Builder::new().name("ring-accept".to_owned()).spawn(work)?;
        Ok(Self { ending, thread: Some(thread) })
    }

    /// Whether somebody who connects is answered.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Whether a client is in.
    pub fn is_connected(&self) -> bool {
        self.ending.is_connected.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.has_begun.store(true, Ordering::SeqCst);
        if let Err(error) = rustix::io::write(&self.ending.bell, &1_u64.to_ne_bytes()) {
            tracing::warn!(%error, "the thread of a ring could not be told to end");
        } else if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of a ring panicked");
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("is_connected", &self.is_connected()).finish_non_exhaustive()
    }
}

/// Lets one client in after the other.
fn serve(listener: &UnixListener, directory: &Arc<dyn Directory>, settings: &ServerSettings, ending: &Ending) {
    let mut session: Option<Session> = None;
    loop {
        let (comes, goes) = match look(listener, ending, session.as_ref().map(Session::socket)) {
            Ok(seen) => seen,
            Err(error) => {
                tracing::error!(%error, "nobody can use the ring any more");
                return;
            }
        };
        if goes || ending.has_begun.load(Ordering::SeqCst) {
            drop(session.take());
            ending.is_connected.store(false, Ordering::SeqCst);
        }
        if ending.has_begun.load(Ordering::SeqCst) {
            return;
        }
        if !comes {
            continue;
        }
        let visitor = match listener.accept() {
            Ok((visitor, _)) => visitor,
            Err(error) => {
                tracing::warn!(%error, "a client could not be let in");
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        if let Some(session) = &session {
            let holder = socket_peercred(session.socket()).ok().map(|holder| holder.pid.as_raw_nonzero().get() as u32);
            greet(visitor.as_fd(), &Greeting::Busy(holder), &[]);
            continue;
        }
        // Before the client is greeted: who has heard the greeting can be seen.
        ending.is_connected.store(true, Ordering::SeqCst);
        session = begin(&visitor, directory, settings);
        ending.is_connected.store(session.is_some(), Ordering::SeqCst);
    }
}

/// Waits until somebody connects, or the client goes.
fn look(listener: &UnixListener, ending: &Ending, client: Option<BorrowedFd<'_>>) -> io::Result<(bool, bool)> {
    let mut seen = vec![
        PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(ending.bell.as_fd(), PollFlags::IN),
    ];
    seen.extend(client.map(|client| PollFd::from_borrowed_fd(client, PollFlags::RDHUP)));
    match poll(&mut seen, None) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok((false, false)),
        Err(error) => return Err(error.into()),
    }
    Ok((!seen[0].revents().is_empty(), seen.get(2).is_some_and(|client| !client.revents().is_empty())))
}

/// Lets a client in, or tells it why not.
fn begin(client: &UnixStream, directory: &Arc<dyn Directory>, settings: &ServerSettings) -> Option<Session> {
    let refused = match Session::new(client.as_fd(), directory, settings) {
        Ok(session) => {
            let (region, bell) = session.to_hand_over();
            if greet(client.as_fd(), &Greeting::Welcome, &[region, bell]) {
                return Some(session);
            }
            return None;
        }
        Err(Error::Locked { .. }) => Greeting::Busy(None),
        Err(error) => Greeting::Refused(error.to_string()),
    };
    tracing::warn!(?refused, "a client could not be let in");
    greet(client.as_fd(), &refused, &[]);
    None
}

/// Says a greeting, with descriptors. False if nobody has heard it.
fn greet(client: BorrowedFd<'_>, greeting: &Greeting, handed_over: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !handed_over.is_empty() && !control.push(SendAncillaryMessage::ScmRights(handed_over)) {
        return false;
    }
    let bytes = greeting.encode();
    // A greeting fits into an empty socket's buffer, so this waits for nobody.
    let sent = sendmsg(client, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    sent.is_ok_and(|sent| sent == bytes.len())
}
