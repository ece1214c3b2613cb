//! The tree: keys to payloads, which mean nothing to it.
//!
//! What the parts do: [`descent`] goes from the root to a leaf, this module finds, adds and removes there, [`each`] finds
//! several keys side by side, [`restructure`] splits and merges nodes, and [`walk`] goes through a range leaf by leaf. An operation that meets a change begins again
//! from the root ([`Restart`]).

mod descent;
mod each;
mod restructure;
mod walk;

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use ishigaki_base::sync::atomic::{Ordering, fence};
use ishigaki_base::sync::thread;
use sdd::Guard;

use crate::node::{Item, Node, take_change};
use crate::pool::{Pool, address};
use crate::probe::{KeyBytes, Probe};
use crate::seen::{Change, Leaves, Seen, Sight};
use crate::shelter::{Bare, Shelter};
use crate::version::{Restart, Stamp};

/// Slots of a group in a leaf: 28 slots in 512 bytes. A group is one cache line, and a whole leaf can be under way at once.
/// With a million keys of eight bytes, leaves and inner nodes of these sizes are found to be the fastest for searches; leaves
/// of 56 slots are a little better for walks alone.
const LEAF: usize = if cfg!(loom) { 1 } else { 4 };
/// Slots of a group in an inner node: 56 slots in 960 bytes.
const INNER: usize = if cfg!(loom) { 1 } else { 8 };

/// Keys and payloads.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Above the root: an inner node with one slot, the root's. Never split, never given up.
    anchor: Box<Node<INNER>>,
    inners: Pool<INNER>,
    leaves: Pool<LEAF>,
    /// Bytes of keys that lie beside their nodes.
    longs: AtomicI64,
}

impl Default for Tree {
    fn default() -> Self {
        let leaves = Pool::default();
        let root = leaves.take(0, 0);
        let payload = address(root.node());
        root.publish();
        let anchor = Box::new(Node::default());
        let mut top = anchor.revive(0, 0, 1);
        top.fill([Item::new(KeyBytes::new(), payload)]);
        top.publish();
        Self { anchor, inners: Pool::default(), leaves, longs: AtomicI64::new(0) }
    }
}

/// A leaf, and how it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf<'t> {
    node: &'t Node<LEAF>,
    stamp: Stamp,
}

impl Leaf<'_> {
    /// True if it holds the same keys as it did.
    #[inline]
    pub(crate) fn is_unchanged(&self) -> bool {
        self.node.version().is(self.stamp)
    }

    pub(crate) fn sight(&self) -> Sight {
        sight(self.node, self.stamp)
    }
}

/// Runs an attempt until nothing comes in between.
#[inline]
fn insist<T>(mut attempt: impl FnMut() -> Result<T, Restart>) -> T {
    let mut tries = 0;
    loop {
        if let Ok(done) = attempt() {
            return done;
        }
        give_way(&mut tries);
    }
}

#[cold]
fn give_way(tries: &mut u32) {
    *tries += 1;
    if cfg!(loom) || *tries > 16 {
        thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

#[inline]
fn sight(leaf: &Node<LEAF>, stamp: Stamp) -> Sight {
    Sight { leaf: leaf.meta().id(), stamp }
}

impl Tree {
    /// The payload of a key. If there is none, the leaf where it would be goes to `seen`.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], seen: Option<&mut Seen>, guard: &Guard) -> Option<u64> {
        let mut probe = Probe::new(key);
        let (leaf, payload) = insist(|| self.look(&mut probe, guard));
        if payload.is_none()
            && let Some(seen) = seen
        {
            // The number of a node is the same in all its lives.
            seen.add(leaf.sight());
        }
        payload
    }

    /// What one attempt finds without a guard; it fails where a key lies outside of its node.
    #[inline]
    pub(crate) fn glance(&self, key: &[u8]) -> Result<(Leaf<'_>, Option<u64>), Restart> {
        self.look(&mut Probe::new(key), &Bare)
    }

    /// One attempt to find the leaf where a key is or would be, how it was, and the key's payload.
    #[inline]
    fn look(&self, probe: &mut Probe<'_>, shelter: &impl Shelter) -> Result<(Leaf<'_>, Option<u64>), Restart> {
        let (node, stamp) = self.leaf(probe, shelter)?;
        let found = node.find(probe, stamp, shelter)?;
        node.check(stamp)?;
        Ok((Leaf { node, stamp }, found.payload))
    }

    /// Adds a key, or returns the payload that it has.
    pub(crate) fn insert(&self, key: &[u8], payload: u64, guard: &Guard) -> Result<Change, u64> {
        let mut change = Change::default();
        let mut probe = Probe::new(key);
        let inserted = insist(|| {
            let (leaf, stamp) = self.leaf(&mut probe, guard)?;
            let found = leaf.find(&probe, stamp, guard)?;
            let full = leaf.meta().count() == Node::<LEAF>::SLOTS;
            if found.payload.is_some() || full {
                leaf.check(stamp)?;
            }
            if let Some(present) = found.payload {
                return Ok(Err(present));
            }
            if full {
                self.split(key, 0, found.at == Node::<LEAF>::SLOTS, &mut change, guard)?;
                return Err(Restart);
            }
            let mut locked = leaf.lock(stamp)?;
            locked.put_probe(found.at, &probe, payload);
            let after = locked.publish();
            change.note(Leaves(sight(leaf, stamp), None), Leaves(sight(leaf, after), None));
            Ok(Ok(()))
        });
        // A node may have been split for a key that is there after all.
        self.count_longs();
        inserted.map(|()| change)
    }

    /// Removes a key if `wanted` says so of its payload, which may be asked again. Returns the payload.
    pub(crate) fn remove_if(
        &self,
        key: &[u8],
        mut wanted: impl FnMut(u64) -> bool,
        guard: &Guard,
    ) -> Option<(u64, Change)> {
        let mut change = Change::default();
        let mut probe = Probe::new(key);
        let (payload, left) = insist(|| {
            let (leaf, stamp) = self.leaf(&mut probe, guard)?;
            let found = leaf.find(&probe, stamp, guard)?;
            leaf.check(stamp)?;
            let Some(payload) = found.payload.filter(|payload| wanted(*payload)) else { return Ok(None) };
            let mut locked = leaf.lock(stamp)?;
            locked.take(found.at, guard);
            let left = locked.count();
            let after = locked.publish();
            change.note(Leaves(sight(leaf, stamp), None), Leaves(sight(leaf, after), None));
            Ok(Some((payload, left)))
        })?;
        if left <= Node::<LEAF>::FEW {
            self.merge(key, 0, &mut change, guard);
        }
        self.count_longs();
        Some((payload, change))
    }

    /// Counts the long keys that this thread has made and given up. Whatever does either asks for it before it returns: the next
    /// tree of this thread would be charged else.
    #[inline]
    fn count_longs(&self) {
        let change = take_change();
        if change != 0 {
            self.longs.fetch_add(change, Relaxed);
        }
    }

    /// True if no leaf in the set has changed.
    ///
    /// Of two threads that each change what the other one has seen and then ask, at least one is told so: the fence orders
    /// the change of one before the question of the other.
    pub(crate) fn unchanged(&self, seen: &Seen) -> bool {
        fence(Ordering::SeqCst);
        seen.sights().iter().all(|sight| self.leaves.get(sight.leaf).is_some_and(|leaf| leaf.version().is(sight.stamp)))
    }

    /// Bytes of nodes and of the keys beside them.
    pub(crate) fn bytes(&self) -> u64 {
        // Another thread may have counted first what it gives up of this one's.
        let longs = self.longs.load(Relaxed).max(0);
        size_of::<Node<INNER>>() as u64 + self.inners.bytes() + self.leaves.bytes() + longs.cast_unsigned()
    }

    /// Bytes of nodes that are not in use now.
    pub(crate) fn spare(&self) -> u64 {
        self.inners.spare() + self.leaves.spare()
    }
}
