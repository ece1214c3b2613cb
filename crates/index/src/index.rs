//! Keys to shared records.

#![allow(unsafe_code, reason = "the tree holds addresses of records")]

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use ishigaki_base::ByteSize;
use sdd::Guard;

use crate::handle::{Handle, from_payload, into_payload};
use crate::seen::{Change, Seen};
use crate::tree::Tree;

/// A range of keys by reference.
pub type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// An ordered index: byte strings to records of type `T`.
///
/// Many threads use one index at once. [`get`](Self::get) and [`walk`](Self::walk) write to no shared memory and wait only
/// while a writer is at work in the very node that they read. Point operations are linearizable. Keys may have any length;
/// eight bytes behind what a node's keys begin with in common lie in the node itself.
///
/// What is found is a [`Handle`], which lasts as long as the [`Guard`] and costs no count of references. A guard holds back
/// the reclamation of everything that anybody removes meanwhile, so it should not last longer than a transaction. A record
/// that is removed, and all records of an index that is dropped, lose the index's share when no guard can see them any more.
///
/// ```
/// use std::ops::{Bound, ControlFlow};
/// use std::sync::Arc;
///
/// use ishigaki_index::{Guard, Index, Seen};
///
/// let index = Index::new();
/// let guard = Guard::new();
/// for (key, record) in [("b", 2), ("a", 1), ("d", 4)] {
///     assert!(index.insert(key.as_bytes(), Arc::new(record), &guard).is_ok());
/// }
/// assert_eq!(index.get(b"b", &guard).map(|record| *record), Some(2));
///
/// let mut seen = Seen::new();
/// let mut sum = 0;
/// let range = (Bound::Included(b"a".as_slice()), Bound::Excluded(b"d".as_slice()));
/// let _ = index.walk::<()>(range, Some(&mut seen), &guard, |_, record| {
///     sum += *record;
///     ControlFlow::Continue(())
/// });
/// assert_eq!(sum, 3);
///
/// assert!(index.unchanged(&seen));
/// index.insert(b"c", Arc::new(3), &guard).unwrap();
/// assert!(!index.unchanged(&seen));
/// ```
pub struct Index<T: Send + Sync + 'static> {
    tree: Tree,
    records: PhantomData<Arc<T>>,
}

/// What an index answers when a key is there already: the record that is there, and the one that is not needed.
pub struct Present<'g, T> {
    /// What the index holds.
    pub present: Handle<'g, T>,
    /// What was to be inserted.
    pub refused: Arc<T>,
}

impl<T: Send + Sync + 'static> Default for Index<T> {
    fn default() -> Self {
        Self { tree: Tree::default(), records: PhantomData }
    }
}

impl<T: Send + Sync + 'static> Index<T> {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The record of a key.
    #[inline]
    pub fn get<'g>(&self, key: &[u8], guard: &'g Guard) -> Option<Handle<'g, T>> {
        self.tree.get(key, None, guard).map(|payload| handle(payload, guard))
    }

    /// The record of a key. If there is none, `seen` will tell whether that is still so.
    #[inline]
    pub fn get_or_see<'g>(&self, key: &[u8], seen: &mut Seen, guard: &'g Guard) -> Option<Handle<'g, T>> {
        self.tree.get(key, Some(seen), guard).map(|payload| handle(payload, guard))
    }

    /// Adds a record. The change is what [`Seen::absorb`] wants to know.
    ///
    /// If the key has a record already, nothing happens, and that one is returned beside the one that was not needed.
    pub fn insert<'g>(&self, key: &[u8], record: Arc<T>, guard: &'g Guard) -> Result<Change, Present<'g, T>> {
        let payload = into_payload(record);
        self.tree.insert(key, payload, guard).map_err(|present| Present {
            present: handle(present, guard),
            // SAFETY: the payload was made above, and the tree did not take it.
            refused: unsafe { from_payload(payload) },
        })
    }

    /// Removes the record of a key if `wanted` says so; it may be asked more than once, always before anything is done.
    ///
    /// Between its last answer and the removal no key comes into or goes out of the leaf; what the record itself holds is
    /// the caller's to protect. Returns the record that is gone from the index.
    pub fn remove_if<'g>(
        &self,
        key: &[u8],
        mut wanted: impl FnMut(Handle<'g, T>) -> bool,
        guard: &'g Guard,
    ) -> Option<(Handle<'g, T>, Change)> {
        let (payload, change) = self.tree.remove_if(key, |payload| wanted(handle(payload, guard)), guard)?;
        guard.defer_execute(move || {
            // SAFETY: the tree had the payload from `insert` and has given it away, once. No guard under which it could be
            // found is left when this runs, so neither is a handle.
            drop(unsafe { from_payload::<T>(payload) });
        });
        Some((handle(payload, guard), change))
    }

    /// Shows the records of a range in key order until `visit` breaks, and returns what it broke with.
    ///
    /// A record that is there during the whole walk is shown; one that comes or goes meanwhile may be shown or not. Keys only
    /// grow, and none is shown twice. To go on later, begin behind the last key. All leaves that were looked at go to `seen`.
    pub fn walk<'g, B>(
        &self,
        range: KeyRange<'_>,
        seen: Option<&mut Seen>,
        guard: &'g Guard,
        mut visit: impl FnMut(&[u8], Handle<'g, T>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.tree.walk(range, seen, guard, |key, payload| visit(key, handle(payload, guard)))
    }

    /// True if no key has come into or gone out of what was seen, all of it in this index. False may be wrong: see [`Seen`].
    ///
    /// A change that happened before the question counts. So of two transactions that each insert what the other one has
    /// seen to be missing, and ask when their own insertions are done, at least one is told.
    pub fn unchanged(&self, seen: &Seen) -> bool {
        self.tree.unchanged(seen)
    }

    /// Memory of the nodes, without records and without keys that lie beside their nodes.
    pub fn memory(&self) -> ByteSize {
        ByteSize::b(self.tree.bytes())
    }
}

/// The record of a payload that was found under the guard in an index of the same type.
#[inline]
fn handle<T>(payload: u64, guard: &Guard) -> Handle<'_, T> {
    // SAFETY: the payloads of an index's tree all come from its own `insert`, and this one was found under the guard.
    unsafe { Handle::of(payload, guard) }
}

impl<T: Send + Sync + 'static> Drop for Index<T> {
    fn drop(&mut self) {
        let guard = Guard::new();
        let payloads = self.tree.dissolve(&guard);
        if payloads.is_empty() {
            return;
        }
        guard.defer_execute(move || {
            for payload in payloads {
                // SAFETY: the tree had the payload from `insert` and is gone. No guard is left under which it was found.
                drop(unsafe { from_payload::<T>(payload) });
            }
        });
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("memory", &self.memory()).finish_non_exhaustive()
    }
}

impl<T: fmt::Debug> fmt::Debug for Present<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Present").field("present", &self.present).field("refused", &self.refused).finish()
    }
}
