//! The client of a storage node: connections that come back, and what stands on them.
//!
//! Parts: [`link`] is one connection, made anew when it was lost; [`regions`] the memory that the node writes into;
//! [`staging`] the node's memory that we write into; [`device`], [`directory`] and [`queue`] are what users see;
//! [`copies`] are pages that the client keeps, and [`cached`] reads through them; [`unsynced`] knows which run of the node took writes that are not durable yet;
//! [`work`] is what the node does for us beside its files.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ishigaki_fabric::{Call, Security};
use parking_lot::Mutex;

use crate::protocol::{Answer, Request, Status};
use crate::{Error, Result};
use copies::{Copies, Watcher};
use link::{Link, Live};
use unsynced::Unsynced;

mod cached;
mod copies;
mod device;
mod directory;
mod link;
mod queue;
mod regions;
mod staging;
mod unsynced;
mod work;

pub use copies::{CacheSettings, CacheStatistics};
pub use device::RemoteDevice;
pub use directory::RemoteDirectory;
pub use queue::ReadQueue;
pub use work::RemoteWork;

/// How a client is set up.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Connections to the node; requests take turns.
    pub connections: usize,
    /// How long an answer may take. A durable write may have to wait for the lease of another client that has died.
    pub timeout: Duration,
    /// Copies of pages that were read are kept; `None`: none are.
    pub cache: Option<CacheSettings>,
    /// Windows and deadlines.
    pub fabric: ishigaki_fabric::Settings,
}

impl Default for ClientSettings {
    fn default() -> Self {
        let fabric = ishigaki_fabric::Settings::default();
        Self { connections: 1, timeout: Duration::from_secs(30), cache: None, fabric }
    }
}

/// A client of one node. Clones share its connections. Safe to share between threads.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

/// What all devices and directories of a client share.
#[derive(Debug)]
struct Shared {
    address: String,
    links: Vec<Link>,
    turn: AtomicUsize,
    next_device: AtomicU64,
    /// Changes of names that are not durable yet, by directory.
    names: Mutex<HashMap<String, Arc<Unsynced>>>,
    copies: Option<Arc<Copies>>,
    /// Keeps them right.
    _watcher: Option<Watcher>,
}

impl Client {
    /// Connects to `host:port`. Later, connections that were lost are made again by whoever needs one.
    pub fn connect(address: &str, settings: &ClientSettings, security: &Security) -> Result<Self> {
        if settings.connections == 0 || settings.timeout.is_zero() {
            let reason = "a client needs at least one connection, and time for an answer".to_owned();
            return Err(Error::Invalid { reason });
        }
        let copies = settings.cache.map(Copies::new).transpose()?.map(Arc::new);
        let watch = |copies| Watcher::start(copies, address, settings, security);
        let watcher = copies.as_ref().map(watch).transpose()?;
        let links = (0..settings.connections).map(|_| Link::new(address, settings, security)).collect();
        let shared = Arc::new(Shared {
            address: address.to_owned(),
            links,
            turn: AtomicUsize::new(0),
            next_device: AtomicU64::new(0),
            names: Mutex::default(),
            copies,
            _watcher: watcher,
        });
        shared.links.iter().try_for_each(|link| link.live().map(drop))?;
        Ok(Self { shared })
    }

    /// A directory below the node's folder; empty for the folder itself. It is made with the first file in it.
    pub fn directory(&self, path: &str) -> RemoteDirectory {
        RemoteDirectory::new(&self.shared, path)
    }

    /// How the node is doing.
    pub fn status(&self) -> Result<Status> {
        match self.shared.live()?.ask(&Request::Load)? {
            Answer::Load(status) => Ok(status),
            other => Err(self.shared.unexpected(&other)),
        }
    }

    /// Has the node do an order, of at most [`MAX_ORDER`](crate::MAX_ORDER) bytes.
    pub fn work(&self, order: &[u8]) -> Result<RemoteWork> {
        RemoteWork::begin(&self.shared, order)
    }

    /// What the cache has done; `None` without one.
    pub fn cache_statistics(&self) -> Option<CacheStatistics> {
        self.shared.copies.as_ref().map(|copies| copies.statistics())
    }

    /// Has the node send so many bytes from its memory, and waits for them: the network's share of a read.
    pub fn blank(&self, length: usize) -> Result<Duration> {
        let begin = Instant::now();
        let live = self.shared.live()?;
        let region = live.regions.take(&live.caller, length)?;
        let message = Request::Blank { length: length as u32, target: region.target() }.encode();
        let call = Call { region: Some(region.clone()), ..Call::message(&message) };
        match live.caller.call(&call)? {
            ishigaki_fabric::Answer::Written(_) => {
                live.regions.put(region);
                Ok(begin.elapsed())
            }
            ishigaki_fabric::Answer::Message(message) => Err(self.shared.failed(&message, "", "read").into()),
        }
    }
}

impl Shared {
    /// A connection that works. While a lock is held it is the one that holds it, since the lock lasts only as long.
    fn live(&self) -> Result<Arc<Live>> {
        let link = match &self.links[..] {
            [first, ..] if first.is_locked() => first,
            links => &links[self.turn.fetch_add(1, Ordering::Relaxed) % links.len()],
        };
        link.live()
    }

    /// The failure in a message that should have been bytes.
    fn failed(&self, message: &[u8], name: &str, operation: &'static str) -> ishigaki_device::Error {
        match Answer::decode(message) {
            Some(Answer::Failed(failure)) => failure.into_error(name),
            Some(other) => self.unexpected(&other).of_device(name, operation),
            None => self.nonsense().of_device(name, operation),
        }
    }

    fn unexpected(&self, answer: &Answer) -> Error {
        match answer {
            Answer::Failed(failure) => failure.clone().of_node(&self.address),
            _ => Error::Protocol { peer: self.address.clone(), reason: "an answer to something else".to_owned() },
        }
    }

    fn nonsense(&self) -> Error {
        Error::Protocol { peer: self.address.clone(), reason: "an answer that is none".to_owned() }
    }

    fn names_of(&self, directory: &str) -> Arc<Unsynced> {
        Arc::clone(self.names.lock().entry(directory.to_owned()).or_default())
    }
}
