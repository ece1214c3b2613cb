//! Who keeps copies of which file, and how a change waits until they have let go of them.
//!
//! A client that caches has one connection more, its *watch*, by which the node tells it of changes; and a *lease*: it may
//! use copies only for so long after the node has last heard of it. A change goes
//!
//! ```text
//!   tell all keepers "begin" ─▶ each lets go of its copies, makes no new ones, and says so
//!                               (whoever does not say so in time is given up: wait until its lease has run out)
//!   change the file
//!   tell all keepers "end"   ─▶ each may make copies again
//!   answer the writer
//! ```
//!
//! So nobody reads an old copy after anybody can have read what is new (Gray and Cheriton, SOSP 1989: leases). Changes by
//! others than this node's clients are not seen.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_device::Result;
use ishigaki_fabric::{Call, Caller, Pending};
use parking_lot::{Condvar, Mutex, RwLock};

use super::session::{Done, Session, invalid};
use crate::protocol::{Answer, Failure, Notice, Request};

/// All watches of a node.
#[derive(Debug)]
pub(super) struct Watches {
    lease: Duration,
    open: Mutex<HashMap<u64, Arc<Watch>>>,
    next: AtomicU64,
    /// Set when the node stops.
    closed: Mutex<bool>,
    closing: Condvar,
}

/// A client that caches.
#[derive(Debug)]
pub(super) struct Watch {
    id: u64,
    caller: Arc<Caller>,
    lease: Duration,
    /// When its lease ends; nothing once it was given up.
    until: Mutex<Option<Instant>>,
    /// When the lease of one that was given up ended or ends.
    ended: Mutex<Option<Instant>>,
}

impl Watches {
    pub(super) fn new(lease: Duration) -> Self {
        let (open, next) = (Mutex::default(), AtomicU64::new(1));
        Self { lease, open, next, closed: Mutex::new(false), closing: Condvar::new() }
    }

    pub(super) fn find(&self, id: u64) -> Result<Arc<Watch>> {
        self.open.lock().get(&id).cloned().ok_or_else(|| invalid("there is no such watch"))
    }

    /// The node stops.
    pub(super) fn close(&self) {
        *self.closed.lock() = true;
        self.closing.notify_all();
    }

    /// Keeps a watch until its client has not been heard of for a lease, or the node stops.
    fn keep(&self, watch: &Watch) {
        let mut closed = self.closed.lock();
        while !*closed && watch.is_alive() {
            self.closing.wait_for(&mut closed, self.lease / 2);
        }
        drop(closed);
        self.open.lock().remove(&watch.id);
        watch.give_up();
    }
}

impl Watch {
    /// The client was heard of.
    pub(super) fn renew(&self) -> Result<()> {
        match &mut *self.until.lock() {
            Some(until) => {
                *until = Instant::now() + self.lease;
                Ok(())
            }
            None => Err(invalid("this watch was given up")),
        }
    }

    fn is_alive(&self) -> bool {
        self.until.lock().is_some_and(|until| Instant::now() < until) && !self.caller.is_lost()
    }

    /// The client may have copies and use them, now or after it renews its lease: it is not given up, or its last lease has
    /// not ended.
    fn may_use_copies(&self) -> bool {
        self.until.lock().is_some() || self.ended.lock().is_some_and(|ended| Instant::now() < ended)
    }

    /// No lease is given any more; when the last one ends.
    fn give_up(&self) -> Instant {
        let mut until = self.until.lock();
        let end = until.take();
        let mut ended = self.ended.lock();
        if let Some(end) = end {
            *ended = Some(end);
            self.caller.close();
        }
        ended.unwrap_or_else(Instant::now)
    }
}

/// Who keeps copies of one file.
#[derive(Debug, Default)]
pub(super) struct Keepers {
    /// Held for reading by changes, for writing to become a keeper: nobody becomes one in the middle of a change.
    keepers: RwLock<Vec<Arc<Watch>>>,
}

impl Keepers {
    /// From now on that client is told of changes.
    pub(super) fn add(&self, watch: Arc<Watch>) {
        let mut keepers = self.keepers.write();
        keepers.retain(|keeper| keeper.may_use_copies() && keeper.id != watch.id);
        keepers.push(watch);
    }

    /// Changes bytes of the file when nobody but `own` keeps copies of them.
    pub(super) fn change(
        &self,
        file: u64,
        own: u64,
        offset: u64,
        length: u64,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let keepers = self.keepers.read();
        let others: Vec<_> = keepers.iter().filter(|keeper| keeper.id != own).collect();
        if others.is_empty() {
            return change();
        }
        let begin = Notice::Begin { file, offset, length }.encode();
        let told: Vec<_> = others.iter().map(|keeper| (keeper, tell(keeper, &begin))).collect();
        for (keeper, pending) in told {
            if pending.and_then(|pending| pending.wait().ok()).is_none() {
                let end = keeper.give_up();
                std::thread::sleep(end.saturating_duration_since(Instant::now()));
            }
        }
        let outcome = change();
        let end = Notice::End { file, offset, length }.encode();
        for keeper in others {
            // Whoever does not hear of it makes no copies, which is safe. The answers are not waited for.
            drop(tell(keeper, &end));
        }
        outcome
    }
}

/// Sends a notice, if the client is still there.
fn tell(keeper: &Watch, notice: &[u8]) -> Option<Pending> {
    if keeper.until.lock().is_none() {
        return None;
    }
    keeper.caller.submit(&[Call::message(notice)]).ok()?.pop()
}

impl Session {
    /// If this asks for a watch: makes the connection one and keeps it as long as it lasts. True: it was one.
    pub(super) fn take_watch(&self, id: u32, message: &[u8]) -> crate::Result<bool> {
        if Request::decode(message) != Some(Request::Watch) {
            return Ok(false);
        }
        let watches = &self.node.watches;
        if let Err(error) = self.node.leases.begin() {
            self.reply(id, Done::Said(Answer::Failed(Failure::of(&error))))?;
            return Ok(true);
        }
        let number = watches.next.fetch_add(1, Ordering::Relaxed);
        let watch = Arc::new(Watch {
            id: number,
            caller: Caller::new(Arc::clone(&self.endpoint), watches.lease),
            lease: watches.lease,
            until: Mutex::new(Some(Instant::now() + watches.lease)),
            ended: Mutex::new(None),
        });
        watches.open.lock().insert(number, Arc::clone(&watch));
        let lease = watches.lease.as_millis() as u32;
        self.reply(id, Done::Said(Answer::Watching { watch: number, lease }))?;
        watches.keep(&watch);
        Ok(true)
    }
}
