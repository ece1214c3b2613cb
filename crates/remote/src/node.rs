//! The storage node: serves the files of one folder to clients of other hosts.
//!
//! ```text
//!   accept ─▶ a thread for each connection: greets, receives requests
//!                │
//!                ├─ dynamic: a thread for each request           (paper 3, section 3.2)
//!                ├─ static:  a pool of threads for the connection (paper 3, section 3.2)
//!                └─ ring:    reads by io_uring, many at once, in the connection's own thread;
//!                            what may block otherwise by a pool
//!                │
//!                ▼
//!   bytes go into the client's registered memory (one-sided), and that is the answer; anything else is a message
//! ```
//!
//! Nobody gets out of the folder: names are plain, links are refused, directories are resolved by the kernel beneath it. What
//! a client sends is never trusted: a message that is none ends the connection, a request that can not be served gets its
//! reason. What all connections have in memory is bounded by [`Settings::memory`]; so is their number, and that of arrivals that
//! have not shown yet who they are.
//!
//! A write is answered when it is where it was asked to be: with the medium, or durable. Before it changes anything, all
//! clients that keep copies have let go of them (see [`watch`]). If an earlier run of the node gave leases, a write waits until
//! they have ended (see [`leases`]).
//!
//! Parts: [`export`] is what is served, [`session`] the state of one connection, [`service`] does one request, [`watch`]
//! knows who keeps copies, [`leases`] for how long; [`works`] is what a [`Worker`] does for clients; [`trace`] notes
//! what they read; [`dynamic`], [`pool`] and [`ring`] are the three ways; [`memory`] counts what connections have, and [`door`] who
//! greets.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
pub use ishigaki_device::Access;
use ishigaki_device::{Directory, Reads};
use ishigaki_fabric::{Arrival, Endpoint, Listener, Security};
use parking_lot::{Condvar, Mutex};

use crate::protocol::Status;
use crate::{Error, Result, Worker};
use door::{Door, Step};
use export::Exported;
use leases::Leases;
use memory::{Memory, Taken, Use};
use session::Session;
use trace::Trace;
use watch::Watches;

mod door;
mod dynamic;
mod export;
mod leases;
mod memory;
mod pool;
mod ring;
mod service;
mod session;
mod trace;
mod watch;
mod works;

pub use works::{Folder, Results, Stopped};

/// How a node reads and writes for its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A thread for each request.
    Dynamic,
    /// A pool of threads for each connection.
    Static,
    /// Many reads at once by `io_uring`, in the connection's thread.
    #[default]
    Ring,
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "dynamic" => Ok(Self::Dynamic),
            "static" => Ok(Self::Static),
            "ring" => Ok(Self::Ring),
            _ => {
                Err(Error::Invalid { reason: format!("`{text}` is no way of I/O; there are dynamic, static and ring") })
            }
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dynamic => "dynamic",
            Self::Static => "static",
            Self::Ring => "ring",
        })
    }
}

/// What is served.
#[derive(Clone, Debug)]
pub enum Export {
    /// A folder of this host's, with all directories below.
    Folder(PathBuf),
    /// Any directory: memory or a simulated medium, for tests. It has no directories below, and `ring` reads as `static`
    /// does.
    Directory(Arc<dyn Directory>),
}

/// How a node is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `host:port` to listen at; port 0 takes one that is free.
    pub listen: String,
    /// Whether clients may write.
    pub access: Access,
    /// How it reads and writes.
    pub mode: Mode,
    /// Threads of each connection's pool.
    pub threads: usize,
    /// Connections at a time.
    pub connections: usize,
    /// Arrivals at a time that have not shown yet who they are. When one more comes, the node closes the one that has taken the
    /// longest; each has [`fabric.connect`](ishigaki_fabric::Settings::connect) at most.
    pub arrivals: usize,
    /// What all connections may have in memory together: their own buffers, bytes that are being read or are to be written, and
    /// results of work that their clients have not asked for. A quarter of it is for each of these; at least 16 MiB.
    pub memory: ByteSize,
    /// Bytes that are being read for one connection at a time.
    pub connection_memory: ByteSize,
    /// How long a client may use copies after it was last heard of, and so how long a write waits for one that is gone; also
    /// after a restart. At most an hour.
    pub lease: Duration,
    /// A file in which every read of clients is noted, to do the same reads again: a line each, with the file's name, offset
    /// and length. Made anew.
    pub trace: Option<PathBuf>,
    /// Windows and deadlines.
    pub fabric: ishigaki_fabric::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7117".to_owned(),
            access: Access::ReadWrite,
            mode: Mode::default(),
            threads: 4,
            connections: 1024,
            arrivals: 64,
            memory: ByteSize::gib(1),
            connection_memory: ByteSize::mib(16),
            lease: Duration::from_secs(2),
            trace: None,
            fabric: ishigaki_fabric::Settings::default(),
        }
    }
}

/// How long a client may take to close its side when the node stops.
const FAREWELL: Duration = Duration::from_millis(300);

/// A running node. Dropping it ends all its connections and waits for what is being written.
///
/// ```
/// # let place = tempfile::tempdir().expect("a place");
/// use ishigaki_device::{AlignedBuffer, Device, Directory};
/// use ishigaki_fabric::Security;
/// use ishigaki_remote::{Client, ClientSettings, Export, NodeSettings, StorageNode};
///
/// let settings = NodeSettings { listen: "127.0.0.1:0".to_owned(), ..NodeSettings::default() };
/// let node = StorageNode::start(&Export::Folder(place.path().to_owned()), settings, Security::Open)?;
///
/// let client = Client::connect(&node.address().to_string(), &ClientSettings::default(), &Security::Open)?;
/// let directory = client.directory("tables");
/// let device = directory.create("lineitem", 1 << 20)?;
/// device.write_durable(0, &AlignedBuffer::zeroed(4096))?;
/// directory.sync()?;
/// # Ok::<(), ishigaki_remote::Error>(())
/// ```
#[derive(Debug)]
pub struct StorageNode {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    listener: Listener,
    exported: Exported,
    watches: Watches,
    leases: Leases,
    worker: Option<Arc<dyn Worker>>,
    settings: Settings,
    /// Which run of the node this is.
    instance: u64,
    started: Instant,
    stopping: AtomicBool,
    /// It stops, and clients are to get all their answers.
    softly: AtomicBool,
    /// Who greets.
    door: Arc<Door>,
    /// What connections have in memory.
    memory: Arc<Memory>,
    /// What a connection has in any case.
    connection_bytes: usize,
    /// Connections whose clients have shown who they are.
    seats: AtomicUsize,
    /// The open connections and arrivals; waited for when the node stops.
    open: Mutex<HashMap<u64, Option<Arc<dyn Endpoint>>>>,
    closed: Condvar,
    next_connection: AtomicU64,
    next_handle: AtomicU32,
    requests: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    bytes_of_results: AtomicU64,
    /// Where reads are noted, if they are to be.
    trace: Option<Trace>,
}

impl StorageNode {
    /// Listens and serves until it is stopped or dropped.
    pub fn start(export: &Export, settings: Settings, security: Security) -> Result<Self> {
        Self::start_with(export, settings, security, None)
    }

    /// The same, with somebody who does clients' work beside the files.
    pub fn start_with(
        export: &Export,
        mut settings: Settings,
        security: Security,
        worker: Option<Arc<dyn Worker>>,
    ) -> Result<Self> {
        let counts = [settings.threads, settings.connections, settings.arrivals];
        if counts.contains(&0) || settings.connection_memory.0 == 0 || settings.lease.is_zero() {
            let reason =
                "a node needs at least one thread, one connection, one arrival, some memory and a lease".to_owned();
            return Err(Error::Invalid { reason });
        }
        let most = usize::try_from(settings.memory.0).unwrap_or(usize::MAX);
        if most < memory::LEAST {
            let reason =
                format!("a node needs at least {} of memory for its connections", ByteSize(memory::LEAST as u64));
            return Err(Error::Invalid { reason });
        }
        if settings.lease > leases::LONGEST {
            return Err(Error::Invalid { reason: "a lease lasts an hour at most".to_owned() });
        }
        if let Export::Folder(path) = export {
            check_folder(path)?;
        }
        if settings.mode == Mode::Ring
            && let Err(error) = Reads::<()>::new(1)
        {
            tracing::warn!(%error, "all connections are served by pools of threads (static)");
            settings.mode = Mode::Static;
        }
        let trace = settings.trace.as_deref().map(Trace::create).transpose()?;
        let exported = Exported::open(export, settings.access)?;
        let leases = Leases::open(export, settings.access, settings.lease)?;
        let connection_bytes = connection_bytes(&security);
        let listener = Listener::bind(&settings.listen, settings.fabric.clone(), security)?;
        let shared = Arc::new(Shared {
            listener,
            exported,
            watches: Watches::new(settings.lease),
            leases,
            worker,
            door: Door::new(settings.arrivals),
            memory: Memory::new(most),
            connection_bytes,
            seats: AtomicUsize::new(0),
            settings,
            instance: Seed::from_entropy().0,
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            softly: AtomicBool::new(false),
            open: Mutex::default(),
            closed: Condvar::new(),
            next_connection: AtomicU64::new(0),
            next_handle: AtomicU32::new(1),
            requests: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            bytes_of_results: AtomicU64::new(0),
            trace,
        });
        let own = Arc::clone(&shared);
        let accepting = std::thread::Builder::new()
            .name("node-accept".to_owned())
            .spawn(move || own.accept())
            .map_err(|error| Error::Invalid { reason: format!("no thread can be started: {error}") })?;
        Ok(Self { shared, accepting: Some(accepting) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.shared.listener.address()
    }

    /// How it reads and writes: as it was told, or where there is no `io_uring` by pools of threads.
    pub fn mode(&self) -> Mode {
        self.shared.settings.mode
    }

    /// How it is doing.
    pub fn status(&self) -> Status {
        self.shared.status()
    }
}

/// What the buffers of one connection take: for what it receives, and with TLS for records as well.
fn connection_bytes(security: &Security) -> usize {
    match security {
        Security::Open | Security::Token(_) => 128 << 10,
        Security::Tls(_) => 256 << 10,
    }
}

/// Tells what is wrong before the operating system does.
fn check_folder(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(attributes) if attributes.is_dir() => Ok(()),
        Ok(_) => Err(Error::NotAFolder { path: path.to_owned() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::NoFolder { path: path.to_owned() }),
        // Opening it says what.
        Err(_) => Ok(()),
    }
}

impl StorageNode {
    /// Ends it as softly as can be: nobody is let in and nothing more is taken, and what was taken is done and answered. What
    /// takes longer than `patience` is cut off, as when the node is dropped. How it was doing at the end.
    pub fn stop(mut self, patience: Duration) -> Status {
        self.end(patience);
        if let Some(trace) = &self.shared.trace {
            trace.flush();
        }
        self.shared.status()
    }

    fn end(&mut self, patience: Duration) {
        self.shared.softly.store(!patience.is_zero(), Ordering::SeqCst);
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.listener.close();
        if let Some(accepting) = self.accepting.take() {
            // A panic there has been reported already.
            let _ = accepting.join();
        }
        self.shared.watches.close();
        self.shared.door.close();
        let deadline = Instant::now() + patience;
        let mut open = self.shared.open.lock();
        open.values().flatten().for_each(|endpoint| endpoint.close_incoming());
        while !open.is_empty() && Instant::now() < deadline {
            self.shared.closed.wait_until(&mut open, deadline);
        }
        open.values().flatten().for_each(|endpoint| endpoint.close());
        while !open.is_empty() {
            self.shared.closed.wait(&mut open);
        }
        drop(open);
        self.shared.leases.close();
    }
}

impl Drop for StorageNode {
    fn drop(&mut self) {
        if !self.shared.stopping.load(Ordering::SeqCst) {
            self.end(Duration::ZERO);
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>) {
        loop {
            match self.listener.accept() {
                Ok(Some(arrival)) => self.admit(arrival),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "an arrival was lost");
                    // Mostly too many open files: others have to close some first.
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    /// Gives an arrival a thread of its own, where it keeps no other arrival waiting.
    fn admit(self: &Arc<Self>, arrival: Arrival) {
        let number = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let closer = match arrival.closer() {
            Ok(closer) => closer,
            Err(error) => {
                tracing::warn!(%error, "an arrival was lost");
                return;
            }
        };
        let Some(step) = self.door.enter(number, closer) else { return };
        self.open.lock().insert(number, None);
        let own = Arc::clone(self);
        let thread = std::thread::Builder::new().name("node-connection".to_owned());
        let spawned = thread.spawn(move || {
            // Also after a panic, or the node would never stop.
            let _leave = Leave { shared: &own, number };
            own.serve(number, arrival, step);
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread for a connection");
            self.open.lock().remove(&number);
            self.closed.notify_all();
        }
    }

    fn serve(self: &Arc<Self>, number: u64, arrival: Arrival, step: Step) {
        let peer = arrival.peer();
        let mut seat = None;
        let greeted = arrival.greet(|| {
            seat = Seat::take(self);
            // From here on it is no arrival any more.
            seat.is_some() && step.let_in()
        });
        drop(step);
        let endpoint = match greeted {
            Ok(endpoint) => endpoint,
            Err(error) => {
                tracing::debug!(%peer, %error, "not let in");
                return;
            }
        };
        let _seat = seat;
        self.open.lock().insert(number, Some(Arc::clone(&endpoint)));
        if self.stopping.load(Ordering::SeqCst) {
            return;
        }
        let session = Session::new(Arc::clone(self), endpoint);
        let outcome = match self.settings.mode {
            Mode::Dynamic => dynamic::serve(&session),
            Mode::Static => pool::serve(&session),
            Mode::Ring => ring::serve(&session),
        };
        session.works.close();
        if let Err(error) = outcome {
            tracing::debug!(%peer, %error, "the connection has ended");
        }
        if self.softly.load(Ordering::SeqCst) {
            session.endpoint.close_outgoing(FAREWELL);
        }
    }

    fn status(&self) -> Status {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let processor =
            u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0);
        Status {
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            connections: self.seats.load(Ordering::SeqCst) as u32,
            requests: self.requests.load(Ordering::Relaxed),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            bytes_of_results: self.bytes_of_results.load(Ordering::Relaxed),
            processor_nanos: processor,
            uptime_nanos: self.started.elapsed().as_nanos() as u64,
        }
    }
}

/// A connection among those that there may be, and the memory that it has in any case.
struct Seat<'a> {
    shared: &'a Shared,
    _memory: Taken,
}

impl<'a> Seat<'a> {
    /// Nothing: there is no room for one more.
    fn take(shared: &'a Shared) -> Option<Self> {
        let memory = shared.memory.take(Use::Connection, shared.connection_bytes)?;
        let most = shared.settings.connections;
        let taken =
            shared.seats.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |seats| (seats < most).then_some(seats + 1));
        taken.is_ok().then_some(Self { shared, _memory: memory })
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.shared.seats.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes a connection off the list when its thread ends.
struct Leave<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let endpoint = self.shared.open.lock().remove(&self.number);
        if let Some(Some(endpoint)) = endpoint {
            endpoint.close();
        }
        self.shared.closed.notify_all();
    }
}
