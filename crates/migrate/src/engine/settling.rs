//! Makes durable, and then takes marks away.
//!
//! ```text
//!   listed directories ──▶ log ─▶ a sync that orders names before marks ─▶ remove the marks, parents first
//!   complete files ───────────▶ syncfs, many files at once ─▶ remove the marks          behind those of directories
//! ```
//!
//! Names, records and marks are metadata. A file system that keeps their order needs a mere `fsync` of the log between them, so a
//! client that must not go on without it does not wait for the data that the crawler has written. Another one gets a `syncfs` before
//! and one after.
//!
//! A round is made for many objects at once: from time to time by the crawler, or for a client. While one thread settles directories, others
//! wait for it and then look whether theirs was among them.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ishigaki_base::ErrorKind;
use parking_lot::Mutex;

use super::node::Node;
use super::progress::Counters;
use super::{Doing, Engine, Result};
use crate::destination::{Destination, NodeId};
use crate::record::Reference;

/// So many complete files and listed directories are worth a round: each keeps a descriptor open until then.
const MANY: usize = 4096;

pub(super) struct Settling<D: Destination> {
    waiting: Mutex<Waiting<D>>,
    /// Objects that no round has settled, so that most calls need no lock.
    unsettled: AtomicUsize,
    round: Mutex<()>,
    /// Held by the thread that settles because there is much.
    many: Mutex<()>,
}

struct Waiting<D: Destination> {
    /// The number of the next listing.
    next: u64,
    /// All listings below are settled.
    done: u64,
    directories: Vec<Listed<D>>,
    files: Vec<Arc<Node<D>>>,
    /// Directories that are listed and what was made in them, with the number of the listing.
    born: HashMap<NodeId, u64>,
}

/// A directory whose children are all there.
pub(super) struct Listed<D: Destination> {
    pub(super) node: NodeId,
    pub(super) object: D::Object,
    pub(super) reference: Option<Reference>,
}

impl<D: Destination> Default for Settling<D> {
    fn default() -> Self {
        let waiting = Waiting { next: 1, done: 1, directories: Vec::new(), files: Vec::new(), born: HashMap::new() };
        Self {
            waiting: Mutex::new(waiting),
            unsettled: AtomicUsize::new(0),
            round: Mutex::default(),
            many: Mutex::default(),
        }
    }
}

impl<D: Destination> Settling<D> {
    /// A directory is listed, and these objects were made in it. Before any other thread can see them.
    pub(super) fn listed(&self, directory: Listed<D>, children: Vec<NodeId>) {
        let waiting = &mut *self.waiting.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.born.entry(directory.node).or_insert(number);
        for child in children {
            waiting.born.insert(child, number);
        }
        waiting.directories.push(directory);
        self.unsettled.store(waiting.born.len() + waiting.files.len(), Ordering::Release);
    }

    /// A file is complete.
    pub(super) fn complete(&self, node: Arc<Node<D>>) {
        let waiting = &mut *self.waiting.lock();
        waiting.files.push(node);
        self.unsettled.store(waiting.born.len() + waiting.files.len(), Ordering::Release);
    }

    fn are_many(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.files.len() + waiting.directories.len() >= MANY
    }

    fn waits(&self, node: NodeId) -> bool {
        self.unsettled.load(Ordering::Acquire) > 0 && self.waiting.lock().born.contains_key(&node)
    }
}

impl<D: Destination> Engine<D> {
    /// Returns when the listing in which the object was made can not be lost any more, nor its own if it is a directory.
    pub(super) fn settled(&self, node: NodeId) -> Result<()> {
        while self.settling.waits(node) {
            let _round = self.settling.round.lock();
            // It may have been in the round that this thread has waited for.
            if self.settling.waits(node) {
                self.make_round()?;
            }
        }
        Ok(())
    }

    /// Returns when no listing that is made by now can be lost any more.
    pub(super) fn settle_listed(&self) -> Result<()> {
        let number = {
            let waiting = self.settling.waiting.lock();
            if waiting.done >= waiting.next {
                return Ok(());
            }
            waiting.next
        };
        let _round = self.settling.round.lock();
        if self.settling.waiting.lock().done >= number { Ok(()) } else { self.make_round() }
    }

    /// Makes everything durable that is here, and takes the marks away of what is whole.
    ///
    /// # Errors
    ///
    /// Of the destination. Nothing is lost then; the next call tries again.
    pub fn settle(&self) -> Result<()> {
        // Files first: the directory of a file that is complete by now is listed by now. So none is normal before its directory.
        let files = mem::take(&mut self.settling.waiting.lock().files);
        let done = self.settle_directories().and_then(|()| self.settle_files(&files));
        let waiting = &mut *self.settling.waiting.lock();
        if done.is_err() {
            waiting.files.splice(0..0, files);
        }
        self.settling.unsettled.store(waiting.born.len() + waiting.files.len(), Ordering::Release);
        done
    }

    /// Settles, if there is much to settle. While one thread does so, others make as much again, and then wait for it: they would hold all descriptors
    /// that there are.
    pub(super) fn settle_many(&self) -> Result<()> {
        if !self.settling.are_many() {
            return Ok(());
        }
        let _many = self.settling.many.lock();
        if self.settling.are_many() { self.settle() } else { Ok(()) }
    }

    fn settle_directories(&self) -> Result<()> {
        let _round = self.settling.round.lock();
        self.make_round()
    }

    fn make_round(&self) -> Result<()> {
        let (directories, number) = {
            let waiting = &mut *self.settling.waiting.lock();
            (mem::take(&mut waiting.directories), waiting.next)
        };
        // Events come before the listing that they tell of is seen here, so that no settled directory misses in the log.
        let anew = self.hidden.log_is_long(self.settings.log);
        let events = if anew { self.queue.snapshot() } else { self.queue.take_events() };
        if directories.is_empty() && events.is_empty() {
            return Ok(());
        }
        match self.round(&directories, &events, anew) {
            Ok(true) => {}
            Ok(false) => self.queue.put_back_events(events),
            Err(error) => {
                self.queue.put_back_events(events);
                self.settling.waiting.lock().directories.splice(0..0, directories);
                return Err(error);
            }
        }
        {
            let waiting = &mut *self.settling.waiting.lock();
            waiting.born.retain(|_, born| *born >= number);
            waiting.done = waiting.done.max(number);
            self.settling.unsettled.store(waiting.born.len() + waiting.files.len(), Ordering::Release);
        }
        // What is copied ahead keeps its mark: memory alone knows that it is listed.
        if self.settings.ahead.is_none() {
            self.directories.settled(directories.iter().map(|directory| directory.node));
        }
        Ok(())
    }

    /// One round; whether the log has the events. Where no room is left, a round goes without: clients could not even remove files else. The next process
    /// sweeps in any case, and so finds what the log does not tell of.
    fn round(&self, directories: &[Listed<D>], events: &[u8], anew: bool) -> Result<bool> {
        const DOING: &str = "making names durable";
        let written = if anew {
            self.hidden.replace_log(&self.destination, events)
        } else {
            self.hidden.write_log(&self.destination, events)
        };
        let is_written = match written {
            Err(error) if error.kind() == ErrorKind::Exhausted => {
                tracing::debug!(%error, "the log is written when there is room");
                false
            }
            written => written.map(|()| true)?,
        };
        if self.destination.is_ordered() && !self.hidden.takes_long_records() && !anew && is_written {
            self.destination.sync(&self.hidden.log()).doing(DOING)?;
        } else {
            self.destination.sync_all().doing(DOING)?;
        }
        if self.settings.ahead.is_some() {
            return Ok(is_written);
        }
        for directory in directories {
            self.drop_record(&directory.object, directory.reference)?;
        }
        if !self.destination.is_ordered() {
            self.destination.sync_all().doing(DOING)?;
        }
        Ok(is_written)
    }

    fn settle_files(&self, files: &[Arc<Node<D>>]) -> Result<()> {
        const DOING: &str = "making data durable";
        if files.is_empty() {
            return Ok(());
        }
        self.destination.sync_all().doing(DOING)?;
        for node in files {
            let mut stub = node.lock();
            if self.settings.ahead.is_some() {
                self.keep_ahead(node, &mut stub)?;
            } else {
                self.drop_record(&node.object, stub.reference)?;
                stub.reference = None;
            }
            stub.settled = true;
        }
        if !self.destination.is_ordered() {
            self.destination.sync_all().doing(DOING)?;
        }
        for node in files {
            node.became_normal();
        }
        Counters::add(&self.counters.whole, files.len() as u64);
        Ok(())
    }
}
