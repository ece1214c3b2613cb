//! A member's file system on a socket, for a virtual machine: virtio-fs, over vhost-user.
//!
//! ```text
//!  guest ── virtqueue in its memory ──▶ queue thread ── a descriptor chain each ──▶ workers ──▶ PoolFs ──▶ a Member
//!           kick (eventfd)              takes all there are                          answer in the guest's memory, call (eventfd)
//! ```
//!
//! The hypervisor connects, hands over the guest's memory, and is then not asked any more: requests and answers go through
//! that. The guest is not trusted: what its queues say is checked, and a request that makes no sense is answered with
//! nothing, which its kernel takes for an I/O error.

#![allow(unsafe_code, reason = "a descriptor that a library has given up is closed by its number")]

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

use fuse_backend_rs::api::server::Server;
use fuse_backend_rs::transport::{Reader, VirtioFsWriter};
use ishigaki_logpool::Member;
use parking_lot::{Mutex, RwLock};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use vhost::vhost_user::Listener;
use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost_user_backend::{VhostUserBackend, VhostUserDaemon, VringMutex, VringT};
use virtio_queue::{DescriptorChain, QueueOwnedT};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryLoadGuard, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier};

use crate::{Access, Calendar, Error, PoolFs, Result};

type Memory = GuestMemoryAtomic<GuestMemoryMmap>;
type Vring = VringMutex<Memory>;
type Chain = DescriptorChain<GuestMemoryLoadGuard<GuestMemoryMmap>>;

/// Queues of a device: one for what may not wait behind others, and one for everything else.
const QUEUES: usize = 2;

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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
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

/// Makes the socket, in place of one that nobody listens on.
fn bind(path: &Path) -> io::Result<UnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket()) {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens there already"));
        }
        fs::remove_file(path)?;
    }
    // Nobody else may connect between its making and the change of its mode: it gets its name when it has its mode, and
    // never that of something else.
    let mut unborn = path.as_os_str().to_owned();
    unborn.push(format!(".{}", std::process::id()));
    let listener = UnixListener::bind(&unborn)?;
    let named =
        fs::set_permissions(&unborn, fs::Permissions::from_mode(0o600)).and_then(|()| fs::hard_link(&unborn, path));
    fs::remove_file(&unborn)?;
    named?;
    Ok(listener)
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
            Err(error) => tracing::warn!(path = %path.display(), %error, "the virtual machine was given up"),
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
    device.close_given_up();
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
    /// A request has panicked: nobody knows what it has left.
    is_broken: AtomicBool,
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
            ending,
        };
        Ok((device, receiver))
    }

    /// No more requests are taken.
    fn end(&self) {
        self.jobs.lock().take();
        let _ = self.exit.1.notify();
    }

    /// Closes what nobody uses any more, when there is no daemon.
    fn close_given_up(&self) {
        if let Some(&descriptor) = self.given_up.get() {
            // SAFETY: it was made for the daemon, which has taken its number and closes nothing; and that is gone.
            drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
    }

    /// Hands over everything that is in a queue.
    fn take_all(&self, vring: &Vring) -> io::Result<()> {
        let Some(memory) = self.memory.read().as_ref().map(GuestAddressSpace::memory) else { return Ok(()) };
        let jobs = self.jobs.lock();
        let Some(jobs) = jobs.as_ref() else { return Ok(()) };
        let mut state = vring.get_mut();
        let chains: Vec<Chain> = state.get_queue_mut().iter(memory).map_err(io::Error::other)?.collect();
        drop(state);
        for chain in chains {
            // There is a worker as long as there are requests.
            let _ = jobs.send(Job { chain, vring: vring.clone() });
        }
        Ok(())
    }

    /// Answers a request.
    fn work(&self, Job { chain, vring }: Job) {
        let head = chain.head_index();
        let refuses = || self.is_broken.load(Ordering::Relaxed) || self.ending.has_begun();
        let answered = if refuses() { Ok(0) } else { catch_unwind(AssertUnwindSafe(|| self.answer(&chain))) };
        let used = answered.unwrap_or_else(|_| {
            tracing::error!("a request panicked; the virtual machine gets no more answers");
            self.is_broken.store(true, Ordering::Relaxed);
            0
        });
        let told = vring.add_used(head, used).map_err(|error| error.to_string()).and_then(|()| {
            let needs = vring.needs_notification().map_err(|error| error.to_string())?;
            if needs { vring.signal_used_queue().map_err(|error| error.to_string()) } else { Ok(()) }
        });
        if let Err(error) = told {
            tracing::debug!(error, "an answer did not arrive");
        }
    }

    /// Bytes of the answer; 0 when the request can not be understood.
    fn answer(&self, chain: &Chain) -> u32 {
        let memory = chain.memory();
        let Ok(reader) = Reader::from_descriptor_chain(memory, chain.clone()) else { return 0 };
        let Ok(writer) = VirtioFsWriter::new(memory, chain.clone()) else { return 0 };
        match self.server.handle_message(reader, writer.into(), None, None) {
            Ok(bytes) => u32::try_from(bytes).unwrap_or(0),
            Err(error) => {
                tracing::debug!(%error, "a request was not answered");
                0
            }
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
        loop {
            vring.disable_notification().map_err(io::Error::other)?;
            self.take_all(vring)?;
            if !vring.enable_notification().map_err(io::Error::other)? {
                return Ok(());
            }
        }
    }
}
