//! Keys to numbers.

use std::fmt;
use std::ops::{Bound, ControlFlow};

use ishigaki_base::ByteSize;
use sdd::Guard;

use crate::node::MAX_PAYLOAD;
use crate::seen::{Change, Seen};
use crate::tree::{Leaf, Tree};

/// A range of keys by reference.
pub type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// An ordered index: byte strings to numbers.
///
/// Many threads use one index at once. [`get`](Self::get) and [`walk`](Self::walk) write to no shared memory and wait only
/// while a writer is at work in the very node that they read. Point operations are linearizable. Keys may have any length;
/// eight bytes behind what a node's keys begin with in common lie in the node itself.
///
/// What the numbers stand for, places in a table or addresses, is the caller's business, and so is how long that lasts. A
/// [`Guard`] protects long keys while they are looked at, and holds back the reclamation of all that anybody removes
/// meanwhile: it should not last longer than a transaction.
///
/// ```
/// use std::ops::{Bound, ControlFlow};
///
/// use ishigaki_index::{Guard, Index, Seen};
///
/// let index = Index::new();
/// let guard = Guard::new();
/// for (key, number) in [("b", 2), ("a", 1), ("d", 4)] {
///     assert!(index.insert(key.as_bytes(), number, &guard).is_ok());
/// }
/// assert_eq!(index.get(b"b", &guard), Some(2));
///
/// let mut seen = Seen::new();
/// let mut sum = 0;
/// let range = (Bound::Included(b"a".as_slice()), Bound::Excluded(b"d".as_slice()));
/// let _ = index.walk::<()>(range, Some(&mut seen), &guard, |_| (), |_, number| {
///     sum += number;
///     ControlFlow::Continue(())
/// });
/// assert_eq!(sum, 3);
///
/// assert!(index.unchanged(&seen));
/// index.insert(b"c", 3, &guard).unwrap();
/// assert!(!index.unchanged(&seen));
/// ```
#[derive(Default)]
pub struct Index {
    tree: Tree,
}

impl Index {
    /// The largest number that an index can hold: 60 bits of ones.
    pub const MAX: u64 = MAX_PAYLOAD;

    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of a key.
    #[inline]
    pub fn get(&self, key: &[u8], guard: &Guard) -> Option<u64> {
        self.tree.get(key, None, guard)
    }

    /// The number of a key. If there is none, `seen` will tell whether that is still so.
    #[inline]
    pub fn get_or_see(&self, key: &[u8], seen: &mut Seen, guard: &Guard) -> Option<u64> {
        self.tree.get(key, Some(seen), guard)
    }

    /// The number of a key, without a guard, in one attempt; `None` if that does not do: then [`get`](Self::get) it. Nothing
    /// holds what the number stands for: see [`Glance`].
    #[inline]
    pub fn glance(&self, key: &[u8]) -> Option<Glance<'_>> {
        self.tree.glance(key).ok().map(|(leaf, number)| Glance { number, leaf })
    }

    /// Tells `found` of each key its place in `keys` and its number, as [`get`](Self::get) would, but looks them up side by
    /// side: with many keys in the index, which no cache holds, that takes a fraction of the time.
    pub fn get_each<K: AsRef<[u8]>>(&self, keys: &[K], guard: &Guard, found: impl FnMut(usize, Option<u64>)) {
        self.tree.get_each(keys, guard, found);
    }

    /// Gives a key its number. The change is what [`Seen::absorb`] wants to know.
    ///
    /// If the key has a number already, nothing happens, and that one is returned as the error.
    ///
    /// # Panics
    /// If the number is larger than [`Self::MAX`].
    pub fn insert(&self, key: &[u8], number: u64, guard: &Guard) -> Result<Change, u64> {
        assert!(number <= Self::MAX, "a number of an index has at most 60 bits");
        self.tree.insert(key, number, guard)
    }

    /// Removes a key if `wanted` says so of its number; it may be asked more than once, always before anything is done.
    ///
    /// Between its last answer and the removal no key comes into or goes out of the leaf. Returns the number that is gone
    /// from the index; others may have found it before and still be at work with it, as long as their guards last.
    pub fn remove_if(&self, key: &[u8], wanted: impl FnMut(u64) -> bool, guard: &Guard) -> Option<(u64, Change)> {
        self.tree.remove_if(key, wanted, guard)
    }

    /// Shows the keys and numbers of a range in key order until `visit` breaks, and returns what it broke with.
    ///
    /// A key that is there during the whole walk is shown; one that comes or goes meanwhile may be shown or not. Keys only
    /// grow, and none is shown twice. To go on later, begin behind the last key. All leaves that were looked at go to `seen`.
    ///
    /// `soon` is told most numbers a little before they are shown, to ask for the memory of what they stand for.
    pub fn walk<B>(
        &self,
        range: KeyRange<'_>,
        seen: Option<&mut Seen>,
        guard: &Guard,
        soon: impl Fn(u64),
        visit: impl FnMut(&[u8], u64) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.tree.walk(range, seen, guard, soon, visit)
    }

    /// True if no key has come into or gone out of what was seen, all of it in this index. False may be wrong: see [`Seen`].
    ///
    /// A change that happened before the question counts. So of two transactions that each insert what the other one has
    /// seen to be missing, and ask when their own insertions are done, at least one is told.
    pub fn unchanged(&self, seen: &Seen) -> bool {
        self.tree.unchanged(seen)
    }

    /// Memory of the nodes, and of the keys that lie beside them.
    pub fn memory(&self) -> ByteSize {
        ByteSize::b(self.tree.bytes())
    }

    /// Memory of nodes that are not in use now; the index keeps it for keys to come.
    pub fn spare(&self) -> ByteSize {
        ByteSize::b(self.tree.spare())
    }
}

/// What a look without a guard has shown.
///
/// When the key is removed, what its number stands for may become something else at once. So whoever looks at that asks
/// afterwards whether the key [still](Self::is_still_so) has the number: if so, he saw what is the key's; if not, or if he
/// did not know what to make of what he saw, he forgets it and begins again. That is cheaper than a [`Guard`], which others
/// must see, and of use only for things that can be looked at whatever becomes of them.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use ishigaki_index::{Guard, Index};
///
/// let (index, things) = (Index::new(), [AtomicU64::new(70), AtomicU64::new(71)]);
/// index.insert(b"a", 1, &Guard::new()).unwrap();
///
/// let glance = index.glance(b"a").unwrap();
/// let thing = things[glance.number().unwrap() as usize].load(Ordering::Acquire);
/// assert!(glance.is_still_so() && thing == 71);
///
/// index.remove_if(b"a", |_| true, &Guard::new());
/// things[1].store(80, Ordering::Release);
/// assert!(!glance.is_still_so());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Glance<'i> {
    number: Option<u64>,
    leaf: Leaf<'i>,
}

impl Glance<'_> {
    /// The number of the key, if there is one.
    #[inline]
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// True if the key has had this number, or none, all the time. False may be wrong: another key came or went.
    ///
    /// Whatever was seen, by loads of at least `Acquire`, of what happened behind a removal makes this false.
    #[inline]
    pub fn is_still_so(&self) -> bool {
        self.leaf.is_unchanged()
    }

    /// `seen` will tell whether the key still has no number.
    pub fn see(&self, seen: &mut Seen) {
        seen.add(self.leaf.sight());
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("memory", &self.memory()).finish_non_exhaustive()
    }
}
