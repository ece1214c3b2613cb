//! The directories that page files lie in: of this machine, or of storage nodes.
//!
//! Who reads at a node does so by one client for each place, kept as long as the database is open. Who writes there
//! connects by itself: a lock at a node belongs to its connection, and whatever goes by that connection fails once it
//! was lost. Readers have no part in that.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_device::{Access, Directory, FileDirectory};
use ishigaki_remote::RemoteDirectory;
use ishigaki_scan::NodeSide;
use parking_lot::Mutex;

use super::store::at;
use crate::table::Location;
use crate::{Error, Result};

/// What a place is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Site {
    /// A directory of this machine's.
    Here,
    /// A storage node's.
    Node(Box<ishigaki_remote::Location>),
}

impl Site {
    pub(super) fn of(table: &str, location: &Location) -> Result<Self> {
        if !location.place.starts_with("node:") {
            return Ok(Self::Here);
        }
        let node = location.place.parse().map_err(|source| unreachable(table, location, source))?;
        Ok(Self::Node(Box::new(node)))
    }

    pub(super) fn is_node(&self) -> bool {
        matches!(self, Self::Node(_))
    }
}

/// A directory of a node's, and the node as scans see it.
type Reached = (RemoteDirectory, Arc<NodeSide>);

/// Connections to storage nodes for those who read.
#[derive(Debug, Default)]
pub(super) struct Sites {
    readers: Mutex<HashMap<String, Reached>>,
    /// What nodes refused whose connections were given up.
    refused_before: AtomicU64,
}

impl Sites {
    /// A directory that is there, to read in.
    pub(super) fn to_read(&self, table: &str, location: &Location) -> Result<Arc<dyn Directory>> {
        match self.reach(table, location)? {
            Some((directory, _)) => Ok(Arc::new(directory)),
            None => to_write(table, location),
        }
    }

    /// The node that has a place, if one has it.
    pub(super) fn node(&self, table: &str, location: &Location) -> Result<Option<Arc<NodeSide>>> {
        Ok(self.reach(table, location)?.map(|(_, node)| node))
    }

    /// A connection for those who read, made if there is none.
    fn reach(&self, table: &str, location: &Location) -> Result<Option<Reached>> {
        let Site::Node(node) = Site::of(table, location)? else { return Ok(None) };
        if let Some(known) = self.readers.lock().get(&location.place) {
            return Ok(Some(known.clone()));
        }
        // Not under the lock: a node that does not answer is in nobody else's way.
        let connected = node.connect().map_err(|source| unreachable(table, location, source))?;
        let side = Arc::new(NodeSide::new(&location.place, connected.clone()));
        Ok(Some(self.readers.lock().entry(location.place.clone()).or_insert((connected, side)).clone()))
    }

    /// Whether there is a connection for those who read: one of a node's, which may be lost by now.
    pub(super) fn is_known(&self, location: &Location) -> bool {
        self.readers.lock().contains_key(&location.place)
    }

    /// Gives a connection up; the next one who reads makes another.
    pub(super) fn forget(&self, location: &Location) {
        let mut readers = self.readers.lock();
        if let Some((_, node)) = readers.remove(&location.place) {
            self.refused_before.fetch_add(node.refused(), Ordering::Relaxed);
        }
    }

    /// How many pieces of work nodes have refused.
    pub(super) fn refused(&self) -> u64 {
        let readers = self.readers.lock();
        let now: u64 = readers.values().map(|(_, node)| node.refused()).sum();
        self.refused_before.load(Ordering::Relaxed) + now
    }
}

/// A directory that is there, to write in.
pub(super) fn to_write(table: &str, location: &Location) -> Result<Arc<dyn Directory>> {
    open(table, location, Access::ReadWrite)
}

/// A directory that is there, in which nothing is changed. A node opens its files as it does for others.
pub(super) fn to_copy(table: &str, location: &Location) -> Result<Arc<dyn Directory>> {
    open(table, location, Access::ReadOnly)
}

fn open(table: &str, location: &Location, access: Access) -> Result<Arc<dyn Directory>> {
    match Site::of(table, location)? {
        Site::Here => {
            let directory = FileDirectory::confined(&location.place, access);
            Ok(Arc::new(directory.map_err(|source| at(table, location, source.into()))?))
        }
        Site::Node(node) => Ok(Arc::new(node.connect().map_err(|source| unreachable(table, location, source))?)),
    }
}

/// The same, made if it is not there.
pub(super) fn to_make_in(table: &str, location: &Location) -> Result<Arc<dyn Directory>> {
    match Site::of(table, location)? {
        Site::Here => {
            let directory = FileDirectory::open(&location.place);
            Ok(Arc::new(directory.map_err(|source| at(table, location, source.into()))?))
        }
        // A node makes it with the first file in it.
        Site::Node(_) => to_write(table, location),
    }
}

fn unreachable(table: &str, location: &Location, source: ishigaki_remote::Error) -> Error {
    Error::Node { table: table.to_owned(), place: location.place.clone(), source }
}
