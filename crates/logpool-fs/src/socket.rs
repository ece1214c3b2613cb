//! A member's file system on a socket, for a virtual machine: virtio-fs, over vhost-user.
//!
//! ```text
//!  guest ── virtqueue in its memory ──▶ queue thread ── a descriptor chain each ──▶ workers ──▶ PoolFs ──▶ a Member
//!           kick (eventfd)              takes all there are                          answer in the guest's memory, call (eventfd)
//! ```
//!
//! The hypervisor connects, hands over the guest's memory, and is then not asked any more: requests and answers go through
//! that. The guest is not trusted: what its queues say is checked, and a request that makes no sense is answered with `EIO`.
//! One without room for that is not answered at all: an answer of no bytes is a success for the guest's kernel.
//!
//! A guest that is reset leaves requests behind. The next start of the device waits for them, and answers none of them.

#![allow(unsafe_code, reason = "a descriptor that a library has given up is closed by its number")]

#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use fuse_backend_rs::api::server::Server;
use fuse_backend_rs::transport::{Reader, VirtioFsWriter};
use ishigaki_logpool::Member;
use parking_lot::{Condvar, Mutex, RwLock};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use vhost::vhost_user::Listener;
use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost_user_backend::{VhostUserBackend, VhostUserDaemon, VringMutex, VringT};
use virtio_queue::{DescriptorChain, QueueOwnedT, QueueT};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryLoadGuard, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier};

use crate::listening::{bind, clear, is_socket};
use crate::{Access, Calendar, Error, PoolFs, Result};

type Memory = GuestMemoryAtomic<GuestMemoryMmap>;
type Vring = VringMutex<Memory>;
type Chain = DescriptorChain<GuestMemoryLoadGuard<GuestMemoryMmap>>;

/// Queues of a device: one for what the guest forgets, and one for everything else.
const QUEUES: usize = 2;

/// For how long the next start of a device waits for what the one before has left.
const LEFT_BEHIND: Duration = Duration::from_secs(30);

/// After nobody could be served.
const PAUSE: Duration = Duration::from_millis(100);

/// What an answer begins with: length, error, and the number of the request.
const ANSWER: usize = 16;

/// What a request begins with: length, what is asked for, and its number.
const REQUEST: usize = 16;

/// Requests that get no answer: `FUSE_FORGET` and `FUSE_BATCH_FORGET`.
const UNANSWERED: [u32; 2] = [2, 42];

/// Requests that a queue has room for at most.
const QUEUE_SIZE: usize = 1024;

/// `VIRTIO_F_VERSION_1`, `VIRTIO_RING_F_INDIRECT_DESC`, `VIRTIO_RING_F_EVENT_IDX` and `VHOST_USER_F_PROTOCOL_FEATURES`, by
/// their bits.
const FEATURES: u64 = 1 << 32 | 1 << 28 | 1 << 29 | 1 << 30;

/// How a member is served on a socket.
#[derive(Clone, Debug)]
pub struct SocketSettings {
    /// Whose the files are, in the guest.
    pub access: Access,
    /// Requests that are worked on at a time; each takes a thread.
    pub threads: usize,
    /// For the times of files.
    pub calendar: Calendar,
}

/// A member that one virtual machine after the other can mount.
///
/// *Drop* removes the socket. A machine that is connected then gets `EIO` for whatever it asks; so end it first. *A crash* of the
/// process leaves the socket, and the next one on its path takes its place.
pub struct Socket {
    path: PathBuf,
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

/// Tells the thread of a socket, and those of a machine that is connected, to end.
#[derive(Debug)]
struct Ending {
    /// Changed by whoever has the lock.
    flag: AtomicBool,
    bell: rustix::fd::OwnedFd,
    is_connected: Mutex<bool>,
}

impl Ending {
    fn has_begun(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    /// A machine may be served, unless it is too late for that.
    fn connect(&self) -> bool {
        let mut is_connected = self.is_connected.lock();
        *is_connected = !self.has_begun();
        *is_connected
    }

    /// Ends; true if a machine is connected.
    fn begin(&self) -> bool {
        let is_connected = self.is_connected.lock();
        self.flag.store(true, Ordering::SeqCst);
        *is_connected
    }
}

impl Socket {
    /// Serves a member on a socket of that path, which only this process' user may connect to.
    ///
    /// # Errors
    ///
    /// When there is something else at the path, or the socket can not be made.
    pub fn new(member: Member, path: impl AsRef<Path>, settings: &SocketSettings) -> Result<Self> {
        let path = path.as_ref();
        let refuse = |cause: io::Error| Error::Socket { path: path.to_owned(), cause };
        let listener = bind(path).map_err(refuse)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| refuse(error.into()))?;
        let ending = Arc::new(Ending { flag: AtomicBool::new(false), bell, is_connected: Mutex::new(false) });
        let work = {
            let (ending, settings, path) = (ending.clone(), settings.clone(), path.to_owned());
            move || serve(&listener, &member, &settings, &path, &ending)
        };
        let thread = Builder::new().name("log-socket".to_owned()).spawn(work);
        let thread = thread.map_err(|cause| Error::Thread { path: path.to_owned(), cause })?;
        tracing::info!(path = %path.display(), "waiting for a virtual machine");
        Ok(Self { path: path.to_owned(), ending, thread: Some(thread) })
    }

    /// Sees whether a socket can be made there, and takes away one that nobody listens on.
    pub(crate) fn prepare(path: &Path) -> Result<()> {
        clear(path).map_err(|cause| Error::Socket { path: path.to_owned(), cause })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a virtual machine that comes is served. Somebody else may have removed the socket.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && is_socket(&self.path)
    }

    /// Whether a virtual machine is connected.
    pub fn is_connected(&self) -> bool {
        *self.ending.is_connected.lock()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let is_connected = self.ending.begin();
        if let Err(error) = rustix::io::write(&self.ending.bell, &1_u64.to_ne_bytes()) {
            tracing::warn!(path = %self.path.display(), %error, "its thread could not be told to end");
        }
        // The thread of a machine that is connected ends with that.
        if !is_connected && self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(path = %self.path.display(), "the thread of the socket panicked");
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the socket could not be removed");
        }
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socket").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Serves one machine after the other.
fn serve(listener: &UnixListener, member: &Member, settings: &SocketSettings, path: &Path, ending: &Arc<Ending>) {
    loop {
        let mut either = [
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(ending.bell.as_fd(), PollFlags::IN),
        ];
        match poll(&mut either, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "nobody can connect any more");
                return;
            }
            Ok(_) if !ending.connect() => return,
            Ok(_) => {}
        }
        match serve_one(listener, member, settings, ending) {
            Ok(()) => tracing::info!(path = %path.display(), "the virtual machine has gone"),
            Err(error) => {
                tracing::warn!(path = %path.display(), error, "a virtual machine could not be served");
                std::thread::sleep(PAUSE);
            }
        }
        *ending.is_connected.lock() = false;
    }
}

/// Serves the machine that connects, until it goes.
fn serve_one(
    listener: &UnixListener,
    member: &Member,
    settings: &SocketSettings,
    ending: &Arc<Ending>,
) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let fs = PoolFs::new(member.clone(), settings.access, settings.calendar.clone());
    let (device, jobs) = Device::new(fs, ending.clone()).map_err(|error| told(&error))?;
    let device = Arc::new(device);
    let jobs = Arc::new(Mutex::new(jobs));
    let mut workers = Vec::new();
    for number in 0..settings.threads.max(1) {
        let (device, jobs) = (Arc::downgrade(&device), jobs.clone());
        let work = move || {
            loop {
                let next = jobs.lock().recv();
                let (Ok(job), Some(device)) = (next, device.upgrade()) else { return };
                device.work(job);
            }
        };
        let started = Builder::new().name(format!("log-socket-{number}")).spawn(work);
        workers.push(started.map_err(|error| told(&error))?);
    }
    let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
    let mut daemon =
        VhostUserDaemon::new("log-socket-vmm".to_owned(), device.clone(), memory).map_err(|error| told(&error))?;
    let listener = listener.try_clone().map_err(|error| told(&error))?;
    let mut listener = Listener::from(listener);
    let served = daemon.start(&mut listener).and_then(|()| daemon.wait());
    // A guest that is killed hangs up wherever it is.
    if let Err(error) = &served {
        tracing::debug!(%error, "the connection has ended");
    }
    device.end();
    drop(daemon);
    drop(device);
    for worker in workers {
        if worker.join().is_err() {
            return Err("a worker panicked".to_owned());
        }
    }
    Ok(())
}

/// A request of the guest.
struct Job {
    chain: Chain,
    vring: Vring,
    /// The start of the device in which it was made.
    start: u64,
}

/// What a virtual machine sees.
struct Device {
    server: Server<PoolFs>,
    memory: RwLock<Option<Memory>>,
    /// To the workers; `None` when it ends.
    jobs: Mutex<Option<Sender<Job>>>,
    /// Of each thread that looks at queues.
    exit: (EventConsumer, EventNotifier),
    /// What `vhost-user-backend` 0.22 was given to hear of the exit, and does not close.
    given_up: OnceLock<RawFd>,
    /// A request has panicked, and nobody knows what it has left; or the guest does not keep to the rules.
    is_broken: AtomicBool,
    /// How often the guest has started it.
    start: AtomicU64,
    /// Requests that were taken and not yet worked off.
    taken: Mutex<usize>,
    worked_off: Condvar,
    ending: Arc<Ending>,
}

impl Device {
    fn new(fs: PoolFs, ending: Arc<Ending>) -> io::Result<(Self, Receiver<Job>)> {
        let (jobs, receiver) = channel();
        let device = Self {
            server: Server::new(fs),
            memory: RwLock::new(None),
            jobs: Mutex::new(Some(jobs)),
            exit: new_event_consumer_and_notifier(EventFlag::NONBLOCK)?,
            given_up: OnceLock::new(),
            is_broken: AtomicBool::new(false),
            start: AtomicU64::new(0),
            taken: Mutex::new(0),
            worked_off: Condvar::new(),
            ending,
        };
        Ok((device, receiver))
    }

    /// No more requests are taken.
    fn end(&self) {
        self.jobs.lock().take();
        let _ = self.exit.1.notify();
    }

    /// Hands over everything that is in a queue.
    fn take_all(&self, vring: &Vring) -> Result<(), virtio_queue::Error> {
        let Some(memory) = self.memory.read().as_ref().map(GuestAddressSpace::memory) else { return Ok(()) };
        let jobs = self.jobs.lock();
        let Some(jobs) = jobs.as_ref() else { return Ok(()) };
        let chains: Vec<Chain> = vring.get_mut().get_queue_mut().iter(memory)?.collect();
        let mut taken = self.taken.lock();
        *taken += chains.len();
        if *taken > QUEUES * QUEUE_SIZE {
            *taken -= chains.len();
            self.is_broken.store(true, Ordering::SeqCst);
            tracing::warn!("the virtual machine asks for more than its queues can hold; it gets no more answers");
            return Ok(());
        }
        let start = self.start.load(Ordering::SeqCst);
        for chain in chains {
            // There is a worker as long as there are requests.
            let _ = jobs.send(Job { chain, vring: vring.clone(), start });
        }
        Ok(())
    }

    /// Answers a request.
    fn work(&self, Job { chain, vring, start }: Job) {
        let is_of_now = || self.start.load(Ordering::SeqCst) == start && vring.get_ref().get_queue().ready();
        if is_of_now()
            && let Some(used) = self.answer(&chain)
            && is_of_now()
        {
            let told = vring.add_used(chain.head_index(), used).map_err(|error| error.to_string()).and_then(|()| {
                let needs = vring.needs_notification().map_err(|error| error.to_string())?;
                if needs { vring.signal_used_queue().map_err(|error| error.to_string()) } else { Ok(()) }
            });
            if let Err(error) = told {
                tracing::debug!(error, "an answer did not arrive");
            }
        }
        *self.taken.lock() -= 1;
        self.worked_off.notify_all();
    }

    /// Bytes of the answer; `None` when there is no room for one.
    fn answer(&self, chain: &Chain) -> Option<u32> {
        let memory = chain.memory();
        let mut head = [0; REQUEST];
        Reader::from_descriptor_chain(memory, chain.clone()).ok()?.read_exact(&mut head).ok()?;
        let asks = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let needs_answer = !UNANSWERED.contains(&asks);
        if !self.is_broken.load(Ordering::SeqCst) && !self.ending.has_begun() {
            let reader = Reader::from_descriptor_chain(memory, chain.clone()).ok()?;
            let writer = VirtioFsWriter::new(memory, chain.clone()).ok()?;
            let answered =
                catch_unwind(AssertUnwindSafe(|| self.server.handle_message(reader, writer.into(), None, None)));
            match answered {
                Ok(Ok(bytes)) if bytes >= ANSWER || !needs_answer => return u32::try_from(bytes).ok(),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a request was not understood"),
                Err(_) => {
                    tracing::error!("a request panicked; the virtual machine gets nothing any more");
                    self.is_broken.store(true, Ordering::SeqCst);
                }
            }
        }
        if !needs_answer {
            return Some(0);
        }
        // The length, the error, and the number of the request.
        let mut refusal = [0; ANSWER];
        refusal[..4].copy_from_slice(&(ANSWER as u32).to_le_bytes());
        refusal[4..8].copy_from_slice(&(-Errno::IO.raw_os_error()).to_le_bytes());
        refusal[8..].copy_from_slice(&head[8..]);
        VirtioFsWriter::new(memory, chain.clone()).ok()?.write_all(&refusal).ok()?;
        Some(ANSWER as u32)
    }

    /// The guest starts the device, perhaps once more: nothing of before is answered from now on.
    fn begin_again(&self) {
        self.start.fetch_add(1, Ordering::SeqCst);
        let until = Instant::now() + LEFT_BEHIND;
        let mut taken = self.taken.lock();
        while *taken > 0 {
            if self.worked_off.wait_until(&mut taken, until).timed_out() {
                tracing::warn!(
                    requests = *taken,
                    "what a virtual machine has left behind takes long; it gets no answers"
                );
                self.is_broken.store(true, Ordering::SeqCst);
                return;
            }
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Some(&descriptor) = self.given_up.get() {
            // SAFETY: it was made for the thread that looks at queues, which has taken its number and closes nothing; and
            // that thread, which had this device, is gone.
            drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
    }
}

impl VhostUserBackend for Device {
    type Bitmap = ();
    type Vring = Vring;

    fn num_queues(&self) -> usize {
        QUEUES
    }

    fn max_queue_size(&self) -> usize {
        QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        FEATURES
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK
    }

    fn set_event_idx(&self, _: bool) {
        // The queues know it themselves.
    }

    fn acked_features(&self, _: u64) {
        self.begin_again();
    }

    fn update_memory(&self, memory: Memory) -> io::Result<()> {
        *self.memory.write() = Some(memory);
        Ok(())
    }

    fn exit_event(&self, _: usize) -> Option<(EventConsumer, EventNotifier)> {
        let (consumer, notifier) = (self.exit.0.try_clone().ok()?, self.exit.1.try_clone().ok()?);
        // There is one thread that looks at queues, so this is asked once.
        self.given_up.set(consumer.as_raw_fd()).ok()?;
        Some((consumer, notifier))
    }

    fn handle_event(&self, queue: u16, _: EventSet, vrings: &[Vring], _: usize) -> io::Result<()> {
        let Some(vring) = vrings.get(usize::from(queue)) else { return Ok(()) };
        let taken = loop {
            let taken = vring.disable_notification().and_then(|()| self.take_all(vring));
            match taken.and_then(|()| vring.enable_notification()) {
                Ok(true) if !self.is_broken.load(Ordering::SeqCst) => {}
                other => break other,
            }
        };
        // An error here would end the thread, and the guest may only be starting again.
        if let Err(error) = taken {
            tracing::debug!(%error, "a queue could not be read");
        }
        Ok(())
    }
}
