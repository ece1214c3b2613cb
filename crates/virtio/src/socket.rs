//! A device on a socket: one virtual machine after the other, and the threads of the one that is connected.

use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex as StdMutex};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use vhost::vhost_user::BackendReqHandler;

use crate::listening::{bind, is_socket};
use crate::machine::Machine;
use crate::peer::process;
use crate::queue::Chain;
use crate::refusal::Refusals;
use crate::worker::Worker;
use crate::{Error, Result};

/// After no machine could be served.
const PAUSE: Duration = Duration::from_millis(100);

/// What a device does with requests. One is made for each machine that connects.
pub trait Requests: Send + Sync + 'static {
    /// Queues that it has.
    fn queues(&self) -> u16;

    /// Features beside those of queues, by their bits.
    fn features(&self) -> u64;

    /// The guest has taken these.
    fn taken_features(&self, _: u64) {}

    /// Its configuration space.
    fn config(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Answers a request: bytes that were written into the guest's memory. `None` if there is no room for an answer; the guest gets no more answers then.
    fn answer(&self, chain: &Chain, when: When) -> Option<u32>;

    /// Whether a request waits for nothing but memory or the quickest of drives, as far as that is known: the thread that takes it may answer it then.
    fn is_quick(&self, _: &Chain) -> bool {
        false
    }

    /// How long a machine that stops the device waits for what it has asked for. After that it gets no more answers. Without an end where an answer that comes later
    /// must not be lost.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// For how long what it has answered is not lost, as a number: a machine that goes on from another session than this one is refused. 0 where all that was answered
    /// is safe for ever.
    fn session(&self) -> u64 {
        0
    }

    /// Whether its hypervisors come back when the connection ends, and make their requests again. Then a socket that ends hangs up; else it refuses what
    /// a guest still asks for.
    fn is_asked_again(&self) -> bool;
}

/// When a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// While the device is served.
    Serving,
    /// When it is served no more, or a request has panicked: it is to be refused.
    Refusing,
}

/// A device that one virtual machine after the other can use.
///
/// *Drop* removes the socket. A machine that is connected then is hung up on after what it has asked for is answered, or is refused whatever it asks, as
/// [`Requests::is_asked_again`] says. *A crash* of the process leaves the socket, and the next one on its path takes its place.
pub struct Socket {
    path: PathBuf,
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

/// Tells the thread of a socket, and those of a machine that is connected, to end.
#[derive(Debug)]
struct Ending {
    /// Changed under the lock.
    flag: AtomicBool,
    bell: OwnedFd,
    connected: Mutex<Option<Connected>>,
}

/// A machine that is connected.
#[derive(Debug)]
struct Connected {
    stream: UnixStream,
    is_asked_again: bool,
}

impl Ending {
    fn has_begun(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    /// A machine may be served, unless it is too late for that.
    fn connect(&self, connected: Connected) -> bool {
        let mut slot = self.connected.lock();
        let may = !self.has_begun();
        *slot = may.then_some(connected);
        may
    }

    /// Ends. Whether the thread will, too.
    fn begin(&self) -> bool {
        let connected = self.connected.lock();
        self.flag.store(true, Ordering::SeqCst);
        match &*connected {
            Some(Connected { stream, is_asked_again: true }) => {
                // What comes later is not heard; the answer to what was heard still goes out.
                stream.shutdown(Shutdown::Read).is_ok()
            }
            Some(_) => false,
            None => true,
        }
    }
}

impl Socket {
    /// Serves a device on a socket of that path, which only this process' user may connect to. Requests are worked on by so many threads. `device` makes
    /// it for each machine.
    ///
    /// # Errors
    ///
    /// When there is something else at the path, or the socket can not be made.
    pub fn new(
        path: impl AsRef<Path>,
        threads: usize,
        device: impl Fn() -> Arc<dyn Requests> + Send + 'static,
    ) -> Result<Self> {
        let path = path.as_ref();
        let refuse = |cause: io::Error| Error::Socket { path: path.to_owned(), cause };
        let listener = bind(path).map_err(refuse)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| refuse(error.into()))?;
        let ending = Arc::new(Ending { flag: AtomicBool::new(false), bell, connected: Mutex::new(None) });
        let work = {
            let (ending, path) = (ending.clone(), path.to_owned());
            move || serve(&listener, threads, &device, &path, &ending)
        };
        let thread = Builder::new().name("virtio-socket".to_owned()).spawn(work);
        let thread = thread.map_err(|cause| Error::Thread { path: path.to_owned(), cause })?;
        tracing::info!(path = %path.display(), "waiting for a virtual machine");
        Ok(Self { path: path.to_owned(), ending, thread: Some(thread) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a virtual machine that comes is served. Another process may have removed the socket.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && is_socket(&self.path)
    }

    /// Whether a virtual machine is connected.
    pub fn is_connected(&self) -> bool {
        self.ending.connected.lock().is_some()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let ends = self.ending.begin();
        if let Err(error) = rustix::io::write(&self.ending.bell, &1_u64.to_ne_bytes()) {
            tracing::warn!(path = %self.path.display(), %error, "its thread could not be told to end");
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the socket could not be removed");
        }
        // The thread of a machine that is refused ends with that.
        if ends && self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(path = %self.path.display(), "the thread of the socket panicked");
        }
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socket").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Serves one machine after the other.
fn serve(
    listener: &UnixListener,
    threads: usize,
    device: &dyn Fn() -> Arc<dyn Requests>,
    path: &Path,
    ending: &Arc<Ending>,
) {
    let mut refusals = Refusals::default();
    while !ending.has_begun() {
        let mut either = [
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(ending.bell.as_fd(), PollFlags::IN),
        ];
        match poll(&mut either, None) {
            Err(Errno::INTR) => continue,
            Err(error) => return tracing::error!(path = %path.display(), %error, "no machine can connect any more"),
            Ok(_) if ending.has_begun() => return,
            Ok(_) => {}
        }
        let mut machine = None;
        let served = listener.accept().map_err(|error| error.to_string()).and_then(|(stream, _)| {
            machine = process(&stream);
            let requests = device();
            let other = stream.try_clone().map_err(|error| error.to_string())?;
            let connected = Connected { stream: other, is_asked_again: requests.is_asked_again() };
            if ending.connect(connected) { serve_one(stream, threads, &requests, path, ending) } else { Ok(()) }
        });
        match served {
            Ok(()) => {
                refusals.is_over(machine);
                tracing::info!(path = %path.display(), "the virtual machine has gone");
            }
            Err(error) => {
                if refusals.is_new(machine, &error) {
                    tracing::warn!(path = %path.display(), error, process = machine, "a virtual machine is refused; as long as it comes again and the reason is the same, this is not told again");
                } else {
                    tracing::debug!(path = %path.display(), error, process = machine, "a virtual machine is refused again");
                }
                std::thread::sleep(PAUSE);
            }
        }
        ending.connected.lock().take();
    }
}

/// Serves the machine that is connected, until it goes, and has answered what it has asked for.
fn serve_one(
    stream: UnixStream,
    threads: usize,
    requests: &Arc<dyn Requests>,
    path: &Path,
    ending: &Arc<Ending>,
) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let is_broken = Arc::new(AtomicBool::new(false));
    let machine = Machine::new(requests.clone(), &is_broken).map_err(|error| told(&error))?;
    let queues = machine.queues().to_vec();
    let refuses = {
        let (ending, is_asked_again) = (ending.clone(), requests.is_asked_again());
        move || ending.has_begun() && !is_asked_again
    };
    let worker = Arc::new(Worker::new(requests.clone(), is_broken, refuses));
    let (jobs, receiver) = channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let mut started = Vec::new();
    let span = tracing::warn_span!("machine", path = %path.display());
    let mut start = |name: String, work: Box<dyn FnOnce() + Send>| -> Result<(), String> {
        let span = span.clone();
        let work = move || span.in_scope(work);
        started.push(Builder::new().name(name).spawn(work).map_err(|error| told(&error))?);
        Ok(())
    };
    let began = (0..threads.max(1))
        .try_for_each(|number| {
            let (worker, jobs) = (worker.clone(), receiver.clone());
            start(format!("virtio-{number}"), Box::new(move || worker.run(&jobs)))
        })
        .and_then(|()| {
            queues.iter().zip(0..).try_for_each(|(queue, number): (_, usize)| {
                let (queue, jobs, worker) = (queue.clone(), jobs.clone(), worker.clone());
                start(format!("virtio-queue-{number}"), Box::new(move || queue.run(&jobs, &worker)))
            })
        });
    drop(jobs);
    let served = began.and_then(|()| listen(stream, machine));
    for queue in &queues {
        queue.end();
    }
    for thread in started {
        if thread.join().is_err() {
            tracing::error!("a thread for a virtual machine panicked");
        }
    }
    // The connection lasts until all that was taken is answered: only then does the hypervisor ask again.
    served.map(drop)
}

/// Hears what the hypervisor says until it hangs up. The connection is still open then from this side.
fn listen(stream: UnixStream, machine: Machine) -> Result<BackendReqHandler<StdMutex<Machine>>, String> {
    let mut handler = BackendReqHandler::from_stream(stream, Arc::new(StdMutex::new(machine)));
    let heard = catch_unwind(AssertUnwindSafe(|| {
        loop {
            if let Err(error) = handler.handle_request() {
                return error;
            }
        }
    }));
    // A hypervisor that ends, or is killed, hangs up wherever it is.
    let error = heard.map_err(|_| "a message panicked".to_owned())?;
    if let vhost::vhost_user::Error::ReqHandlerError(cause) = &error {
        return Err(cause.to_string());
    }
    tracing::debug!(%error, "the connection has ended");
    Ok(handler)
}
