//! Splitting and merging nodes.
//!
//! A node's fences never change while it is in the tree. So a node is not split by moving half of it out: both halves are
//! new nodes, made while the parent and the node are locked; then the parent's slots lead to them, and the old node is
//! void. Two neighbours become one new node in the same way. That lets every new node leave out as long a prefix as its
//! fences allow.
//!
//! Locks are taken from the top down and, within a level, from left to right; and never waited for: whoever does not get
//! one begins again.

#![allow(unsafe_code, reason = "slots may hold addresses of long keys")]

use sdd::Guard;

use super::descent::{Fence, Path};
use super::{INNER, Tree, insist};
use crate::node::{Item, Locked, Node};
use crate::pool::{Pool, address};
use crate::probe::{KeyBytes, Probe, between, common};
use crate::seen::{Change, Leaves, Sight};
use crate::version::{Restart, Stamp};

/// How often a merge is tried. It only saves room: the next removal tries again.
const MERGE_TRIES: usize = 3;

impl Tree {
    /// Splits the full node of a level on the way to `key`, and full ones above it first. If `at_end` nearly all stays on
    /// the left: keys that grow leave full nodes behind.
    pub(super) fn split(
        &self,
        key: &[u8],
        level: u8,
        at_end: bool,
        change: &mut Change,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let Some(path) = self.path(&mut Probe::new(key), level, guard)? else { return Err(Restart) };
        let count = path.parent.meta().count();
        if count == Node::<INNER>::SLOTS {
            path.parent.check(path.stamp)?;
            return self.split(key, level + 1, path.at + 1 == count, change, guard);
        }
        let payload = path.parent.payload(path.at, path.stamp, guard)?;
        if level == 0 {
            let (before, after) = self.split_node(&self.leaves, &path, self.leaf_at(payload), key, at_end, guard)?;
            change.note(Leaves(before, None), after);
        } else {
            self.split_node(&self.inners, &path, self.inner_at(payload), key, at_end, guard)?;
        }
        Ok(())
    }

    fn split_node<'t, const G: usize>(
        &'t self,
        pool: &'t Pool<G>,
        path: &Path<'t>,
        node: &'t Node<G>,
        key: &[u8],
        at_end: bool,
        guard: &Guard,
    ) -> Result<(Sight, Leaves), Restart> {
        let stamp = node.version().read()?;
        let mut parent = path.parent.lock(path.stamp)?;
        let node = node.lock(stamp)?;
        if !node.is_full() {
            return Err(Restart);
        }
        let (level, id) = (node.meta().level(), node.meta().id());
        let (low, high) = fences(path, path.at, path.at + 1, key, guard);
        let prefix = key.get(..node.meta().prefix()).unwrap_or_default();
        let mut left = node.drain(prefix, None, guard);
        let right = left.split_off(if at_end { left.len() - 1 } else { left.len() / 2 });
        let separator = match (left.last(), right.first()) {
            (Some(below), Some(above)) if level == 0 => KeyBytes::from_slice(between(&below.key, &above.key)),
            (_, Some(above)) => above.key.clone(),
            (_, None) => KeyBytes::new(),
        };
        let left = build(pool, left, level, low.as_deref(), Some(&separator));
        let right = build(pool, right, level, Some(&separator), high.as_deref());
        let addresses = [address(left.node()), address(right.node())];
        let after = Leaves(publish(left), Some(publish(right)));
        if path.is_anchor(&self.anchor) {
            let mut root = self.inners.take(0, level + 1);
            root.fill([Item::new(KeyBytes::new(), addresses[0]), Item::new(separator, addresses[1])]);
            parent.turn(0, address(root.node()), guard);
            parent.set_level(level + 2);
            root.publish();
        } else {
            parent.turn(path.at, addresses[0], guard);
            parent.put(path.at + 1, Item::new(separator, addresses[1]));
        }
        parent.publish();
        pool.give(id);
        Ok((Sight { leaf: id, stamp }, after))
    }

    /// Merges the node of a level on the way to `key` with a neighbour, if they are small enough; then those above it.
    pub(super) fn merge(&self, key: &[u8], level: u8, change: &mut Change, guard: &Guard) {
        let mut tries = 0;
        let merged = insist(|| {
            tries += 1;
            let merged = self.try_merge(key, level, change, guard);
            if tries < MERGE_TRIES { merged } else { Ok(merged.unwrap_or(false)) }
        });
        if merged {
            self.merge(key, level + 1, change, guard);
        }
    }

    /// True if the parent has become so small that it should be merged itself.
    fn try_merge(&self, key: &[u8], level: u8, change: &mut Change, guard: &Guard) -> Result<bool, Restart> {
        let Some(path) = self.path(&mut Probe::new(key), level, guard)? else { return Ok(false) };
        if path.is_anchor(&self.anchor) {
            if level > 0 {
                self.shorten(&path, guard)?;
            }
            return Ok(false);
        }
        let count = path.parent.meta().count();
        if count < 2 {
            path.parent.check(path.stamp)?;
            return Ok(true);
        }
        let at = path.at.min(count - 2);
        let left = path.parent.payload(at, path.stamp, guard)?;
        let right = path.parent.payload(at + 1, path.stamp, guard)?;
        if level > 0 {
            let nodes = [self.inner_at(left), self.inner_at(right)];
            let merged = Self::merge_nodes(&self.inners, &path, at, nodes, key, guard)?;
            return Ok(merged.is_some_and(|merged| merged.small));
        }
        let merged = Self::merge_nodes(&self.leaves, &path, at, [self.leaf_at(left), self.leaf_at(right)], key, guard)?;
        let Some(merged) = merged else { return Ok(false) };
        change.note(merged.before, Leaves(merged.after, None));
        Ok(merged.small)
    }

    fn merge_nodes<'t, const G: usize>(
        pool: &'t Pool<G>,
        path: &Path<'t>,
        at: usize,
        nodes: [&'t Node<G>; 2],
        key: &[u8],
        guard: &Guard,
    ) -> Result<Option<Merged>, Restart> {
        let stamps = [nodes[0].version().read()?, nodes[1].version().read()?];
        if !fit::<G>(nodes.map(|node| node.meta().count())) {
            path.parent.check(path.stamp)?;
            return Ok(None);
        }
        let mut parent = path.parent.lock(path.stamp)?;
        let left = nodes[0].lock(stamps[0])?;
        let right = nodes[1].lock(stamps[1])?;
        if !fit::<G>([left.count(), right.count()]) {
            return Err(Restart);
        }
        let (level, ids) = (left.meta().level(), [left.meta().id(), right.meta().id()]);
        let (low, high) = fences(path, at, at + 2, key, guard);
        // SAFETY: the parent is locked.
        let middle = unsafe { path.fence(at + 1).key(key, guard) };
        let low_key = low.clone().unwrap_or_default();
        let prefixes = [left.meta().prefix(), right.meta().prefix()];
        let mut items = left.drain(low_key.get(..prefixes[0]).unwrap_or_default(), None, guard);
        let first = (level > 0).then(|| middle.clone());
        items.append(&mut right.drain(middle.get(..prefixes[1]).unwrap_or_default(), first, guard));
        let merged = build(pool, items, level, low.as_deref(), high.as_deref());
        parent.turn(at, address(merged.node()), guard);
        parent.take(at + 1, guard);
        let small = parent.count() <= Node::<INNER>::FEW;
        let after = publish(merged);
        parent.publish();
        for id in ids {
            pool.give(id);
        }
        let sight = |of: usize| Sight { leaf: ids[of], stamp: stamps[of] };
        Ok(Some(Merged { before: Leaves(sight(0), Some(sight(1))), after, small }))
    }

    /// Gives up all long keys, since nobody will use the tree any more.
    fn dissolve(&mut self) {
        let guard = Guard::new();
        // Nobody else is there, so all stamps fit.
        let _: Result<(), Restart> = (|| {
            let stamp = self.anchor.version().read()?;
            let mut below = vec![(self.anchor.payload(0, stamp, &guard)?, self.anchor.meta().level() - 1)];
            while let Some((payload, level)) = below.pop() {
                if level == 0 {
                    let leaf = self.leaf_at(payload);
                    drop(leaf.lock(leaf.version().read()?)?.drain(b"", None, &guard));
                } else {
                    let inner = self.inner_at(payload);
                    let items = inner.lock(inner.version().read()?)?.drain(b"", None, &guard);
                    below.extend(items.iter().map(|item| (item.payload, level - 1)));
                }
            }
            Ok(())
        })();
    }

    /// Takes the root away if it has one child.
    fn shorten(&self, path: &Path<'_>, guard: &Guard) -> Result<(), Restart> {
        let root = self.inner_at(path.parent.payload(0, path.stamp, guard)?);
        let stamp = root.version().read()?;
        if root.meta().count() != 1 {
            return root.check(stamp);
        }
        let mut anchor = path.parent.lock(path.stamp)?;
        let root = root.lock(stamp)?;
        if root.count() != 1 {
            return Err(Restart);
        }
        let (level, id) = (root.meta().level(), root.meta().id());
        for item in root.drain(b"", None, guard) {
            anchor.turn(0, item.payload, guard);
        }
        anchor.set_level(level);
        anchor.publish();
        self.inners.give(id);
        Ok(())
    }
}

/// What became of two leaves.
struct Merged {
    before: Leaves,
    after: Sight,
    /// The parent has few children left.
    small: bool,
}

/// Whether two nodes should be one: one of them has few keys, and the new one has room for more. A node without keys goes
/// in any case.
fn fit<const G: usize>(counts: [usize; 2]) -> bool {
    let (small, total) = (counts[0].min(counts[1]), counts[0] + counts[1]);
    small == 0 || (small <= Node::<G>::FEW && total <= Node::<G>::SLOTS - Node::<G>::FEW)
}

/// The keys that bound the children from slot `from` to before slot `to` of the parent, which is locked.
fn fences(path: &Path, from: usize, to: usize, key: &[u8], guard: &Guard) -> (Option<KeyBytes>, Option<KeyBytes>) {
    let low = if from > 0 { Some(path.fence(from)) } else { path.low };
    let high = if to < path.parent.meta().count() { Some(path.fence(to)) } else { path.high };
    // SAFETY: the parent is locked, and the nodes above have passed their checks since their fences were read.
    let key = |fence: Fence| unsafe { fence.key(key, guard) };
    (low.map(key), high.map(key))
}

/// A new node between two fences. It leaves out as much of its keys as both fences begin with, and no more than it must for
/// the longest of them to fit in a slot.
fn build<'t, const G: usize>(
    pool: &'t Pool<G>,
    items: Vec<Item>,
    level: u8,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
) -> Locked<'t, G> {
    // The first key of an inner node is not kept.
    let kept = items.get(usize::from(level > 0)..).unwrap_or_default();
    let longest = kept.iter().map(|item| item.key.len()).max().unwrap_or(0);
    let shared = low.zip(high).map_or(0, |(low, high)| common(low, high));
    let mut node = pool.take(shared.min(longest.saturating_sub(size_of::<u64>())), level);
    node.fill(items);
    node
}

fn publish<const G: usize>(node: Locked<'_, G>) -> Sight {
    let leaf = node.meta().id();
    let stamp: Stamp = node.publish();
    Sight { leaf, stamp }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.dissolve();
        self.count_longs();
    }
}
