//! What a search or a walk relied on: leaves, and how they were.
//!
//! A leaf's range of keys never changes as long as it is in the tree, and its stamp changes with every key that comes or
//! goes. So a set of leaves that cover a range, with their stamps, says which keys the range held: while no stamp has
//! changed, none has come and none has gone. This is the node set of Silo (Tu et al., "Speedy transactions in multicore
//! in-memory databases", SOSP 2013, section 4.6).
//!
//! A [`Seen`] holds no guard and keeps nothing alive. The leaves in it may be gone when it is looked at; then they have
//! changed.

use smallvec::SmallVec;

use crate::version::Stamp;

/// A leaf, and how it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) leaf: u32,
    pub(crate) stamp: Stamp,
}

/// The leaves that walks and failed searches of one index relied on.
///
/// [`Index::unchanged`](crate::Index::unchanged) tells later whether a key came into or went out of one of them. It errs on
/// one side only: a leaf holds other keys than those of the range, and it may have been rebuilt without a change of keys.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    sights: SmallVec<[Sight; 4]>,
}

impl Seen {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// True if nothing was relied on.
    pub fn is_empty(&self) -> bool {
        self.sights.is_empty()
    }

    /// How many leaves were seen; one that was seen twice in different states counts twice.
    pub fn len(&self) -> usize {
        self.sights.len()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.sights.clear();
    }

    /// Adds a leaf. Neighbours in a walk come one after the other, so only the newest ones are compared.
    pub(crate) fn add(&mut self, sight: Sight) {
        if !self.sights.iter().rev().take(8).any(|known| *known == sight) {
            self.sights.push(sight);
        }
    }

    pub(crate) fn sights(&self) -> &[Sight] {
        &self.sights
    }

    /// Takes a change of one's own out of account: a leaf that is in the set as it was before the change is now in it as it
    /// is after the change. If someone else changed it in between, it stays as it was, and the set is no longer unchanged.
    pub fn absorb(&mut self, change: &Change) {
        for step in &change.steps {
            let before = self.sights.len();
            self.sights.retain(|known| !step.before.has(*known));
            if self.sights.len() < before {
                self.sights.push(step.after.0);
                self.sights.extend(step.after.1);
            }
        }
    }
}

/// What an insertion or a removal did to leaves, for [`Seen::absorb`].
#[derive(Clone, Debug, Default)]
pub struct Change {
    steps: SmallVec<[Step; 1]>,
}

/// A leaf that changed, or leaves that were replaced by others.
#[derive(Clone, Debug)]
struct Step {
    before: Leaves,
    after: Leaves,
}

/// One leaf or two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaves(pub(crate) Sight, pub(crate) Option<Sight>);

impl Leaves {
    fn has(self, sight: Sight) -> bool {
        self.0 == sight || self.1 == Some(sight)
    }
}

impl Change {
    #[inline]
    pub(crate) fn note(&mut self, before: Leaves, after: Leaves) {
        self.steps.push(Step { before, after });
    }
}
