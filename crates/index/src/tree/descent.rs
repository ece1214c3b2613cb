//! From the root to a leaf: the only place where addresses of children are followed.
//!
//! At every step the parent is checked twice. The first check says that the child's address is no nonsense, so that it may
//! be followed. The second one, when the child's stamp has been taken, says that at that moment the node was still this
//! parent's child: a node can come back in another place of the tree (see [`pool`](crate::pool)), and from then on the
//! child's own stamp tells.
//!
//! The keys that lie below a node are bounded by two slots further up, its *fences*. They stay the same as long as the
//! node is in the tree. A descent that needs them notes where they are, and makes keys of them at its end.

#![allow(unsafe_code, reason = "slots of inner nodes hold addresses")]

use sdd::Guard;

use super::{INNER, LEAF, Tree};
use crate::node::{Node, Word};
use crate::prefetch::prefetch;
use crate::probe::{KeyBytes, Probe};
use crate::shelter::Shelter;
use crate::version::{Restart, Stamp};

/// A slot whose key bounds a node's keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fence {
    head: u64,
    word: Word,
    /// How many bytes the slot's node leaves out; the search key begins with them.
    prefix: usize,
}

impl Fence {
    /// The key. `key` is what the descent was for.
    ///
    /// # Safety
    ///
    /// The node that the fence was read from has passed its check since then, under this guard, or the caller has it locked.
    pub(super) unsafe fn key(&self, key: &[u8], guard: &Guard) -> KeyBytes {
        // SAFETY: as the caller promises.
        unsafe { self.word.key(self.head, key.get(..self.prefix).unwrap_or_default(), guard) }
    }
}

/// An inner node on the way to a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Halt<'t> {
    node: &'t Node<INNER>,
    stamp: Stamp,
}

impl Halt<'_> {
    /// Asks for the slots that a probe which fits the node will look at first.
    #[inline]
    pub(super) fn prefetch(&self, probe: &Probe<'_>) {
        self.node.prefetch(probe);
    }
}

impl<'t> Halt<'t> {
    /// The way to one of the node's children, whose memory it asks for: all of a leaf, an inner node's header.
    #[inline]
    fn leave(self, at: usize) -> Result<Way<'t>, Restart> {
        let Self { node, stamp } = self;
        let level = node.meta().level();
        let word = node.slot(at).1;
        prefetch(word.address(), if level == 1 { size_of::<Node<LEAF>>() / 64 } else { 1 });
        node.check(stamp)?;
        Ok(Way { parent: node, stamp, word, level })
    }

    /// The way to the child on the way to a key.
    #[inline]
    pub(super) fn onward(self, probe: &Probe<'_>, shelter: &impl Shelter) -> Result<Way<'t>, Restart> {
        let at = self.node.route(probe, self.stamp, shelter)?;
        self.leave(at)
    }
}

/// The way from an inner node to one of its children.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'t> {
    parent: &'t Node<INNER>,
    stamp: Stamp,
    /// Of the child, from a node that has passed its check.
    word: Word,
    /// Of the parent.
    level: u8,
}

impl Way<'_> {
    #[inline]
    pub(super) fn leads_to_leaf(&self) -> bool {
        self.level == 1
    }

    /// Where it leads to.
    #[inline]
    fn end(&self, shelter: &impl Shelter) -> Result<u64, Restart> {
        // SAFETY: `leave`, which alone makes ways, has read the word from a node that then passed its check, and a descent has
        // one shelter from its start to its end.
        unsafe { self.word.reach(shelter) }
    }
}

/// The way to a node: its parent, and the slot there.
#[derive(Debug)]
pub(super) struct Path<'t> {
    pub(super) parent: &'t Node<INNER>,
    pub(super) stamp: Stamp,
    pub(super) at: usize,
    /// Bounds of the parent's keys; none at the edges of the tree.
    pub(super) low: Option<Fence>,
    pub(super) high: Option<Fence>,
}

impl Path<'_> {
    /// True if the node is the root.
    pub(super) fn is_anchor(&self, anchor: &Node<INNER>) -> bool {
        std::ptr::eq(self.parent, anchor)
    }

    /// The fence in a slot of the parent. To be checked.
    pub(super) fn fence(&self, at: usize) -> Fence {
        let (head, word) = self.parent.slot(at);
        Fence { head, word, prefix: self.parent.meta().prefix() }
    }
}

impl Tree {
    /// The leaf where a key is or would be.
    #[inline]
    pub(super) fn leaf(&self, probe: &mut Probe<'_>, shelter: &impl Shelter) -> Result<(&Node<LEAF>, Stamp), Restart> {
        let way = self.way(probe, shelter)?;
        self.arrive(way, probe, shelter)
    }

    /// Goes down to where the leaf of a key is known, and asks for the leaf's memory.
    #[inline]
    fn way(&self, probe: &mut Probe<'_>, shelter: &impl Shelter) -> Result<Way<'_>, Restart> {
        let mut way = self.start()?;
        while !way.leads_to_leaf() {
            let halt = self.enter(way, probe, shelter)?;
            way = halt.onward(probe, shelter)?;
        }
        Ok(way)
    }

    /// The way to the root.
    #[inline]
    pub(super) fn start(&self) -> Result<Way<'_>, Restart> {
        let node = &*self.anchor;
        let stamp = node.version().read()?;
        Halt { node, stamp }.leave(0)
    }

    /// Takes a way to an inner node.
    #[inline]
    pub(super) fn enter<'t>(
        &'t self,
        way: Way<'t>,
        probe: &mut Probe<'_>,
        shelter: &impl Shelter,
    ) -> Result<Halt<'t>, Restart> {
        let node = self.inner_at(way.end(shelter)?);
        let stamp = node.version().read()?;
        way.parent.check(way.stamp)?;
        probe.fit(node.meta().prefix());
        Ok(Halt { node, stamp })
    }

    /// Takes a way to a leaf.
    #[inline]
    pub(super) fn arrive(
        &self,
        way: Way<'_>,
        probe: &mut Probe<'_>,
        shelter: &impl Shelter,
    ) -> Result<(&Node<LEAF>, Stamp), Restart> {
        let leaf = self.leaf_at(way.end(shelter)?);
        let stamp = leaf.version().read()?;
        way.parent.check(way.stamp)?;
        probe.fit(leaf.meta().prefix());
        Ok((leaf, stamp))
    }

    /// The way to the node of a level on the way to a key; none if the tree is not that high.
    pub(super) fn path(&self, probe: &mut Probe<'_>, level: u8, guard: &Guard) -> Result<Option<Path<'_>>, Restart> {
        let parent = &*self.anchor;
        let stamp = parent.version().read()?;
        let mut path = Path { parent, stamp, at: 0, low: None, high: None };
        loop {
            let meta = path.parent.meta();
            if meta.level() <= level + 1 {
                path.parent.check(path.stamp)?;
                return Ok((meta.level() == level + 1).then_some(path));
            }
            let below = (path.at > 0).then(|| path.fence(path.at));
            let above = (path.at + 1 < meta.count()).then(|| path.fence(path.at + 1));
            let child = self.inner_at(path.parent.payload(path.at, path.stamp, guard)?);
            let stamp = child.version().read()?;
            path.parent.check(path.stamp)?;
            probe.fit(child.meta().prefix());
            let at = child.route(probe, stamp, guard)?;
            path = Path { parent: child, stamp, at, low: below.or(path.low), high: above.or(path.high) };
        }
    }

    /// The leaf of a payload, which must come from a checked or locked node of level 1.
    #[inline]
    pub(super) fn leaf_at(&self, payload: u64) -> &Node<LEAF> {
        // SAFETY: slots of level 1 hold addresses of leaves, and nothing else.
        unsafe { self.leaves.at(payload) }
    }

    /// The inner node of a payload, which must come from a checked or locked node of a level above 1.
    #[inline]
    pub(super) fn inner_at(&self, payload: u64) -> &Node<INNER> {
        // SAFETY: slots of levels above 1 hold addresses of inner nodes, and nothing else.
        unsafe { self.inners.at(payload) }
    }
}
