//! The ordered index of one table: key to record, read without locks.
//!
//! A thin skin over `scc::TreeIndex` (a concurrent B+ tree whose readers never wait). Its point operations are
//! linearizable; an iterator sees everything that was inserted before its first step and may or may not see what comes
//! later. The protocol above makes "later" impossible where it would matter. Iterators of the tree pin memory, so a walk
//! pauses after a while, lets go, and goes on behind the last key.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use scc::TreeIndex;
use sdd::Guard;

use crate::key::{Key, KeyRange};
use crate::record::Record;

/// Key to record, in key order.
#[derive(Default)]
pub(crate) struct Index {
    tree: TreeIndex<Key, Arc<Record>>,
}

/// How a walk ended before the end of its range.
pub(crate) type Walked<B> = ControlFlow<(Key, Arc<Record>, B)>;

impl Index {
    /// The record of `key`.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Arc<Record>> {
        let guard = Guard::new();
        self.tree.peek(key, &guard).cloned()
    }

    /// Adds a record; false if the key has one already.
    pub(crate) fn insert(&self, key: &Key, record: &Arc<Record>) -> bool {
        self.tree.insert_sync(key.clone(), Arc::clone(record)).is_ok()
    }

    /// Takes `record` out, if it is still the one of `key`.
    pub(crate) fn remove(&self, key: &[u8], record: &Arc<Record>) -> bool {
        self.tree.remove_if_sync(key, |found| Arc::ptr_eq(found, record))
    }

    /// Shows the records of a range in key order until `visit` breaks; then tells at which record, and why.
    ///
    /// No key is shown twice and keys only grow, also when the tree is rebuilt under the iterator.
    pub(crate) fn walk<B>(
        &self,
        range: KeyRange<'_>,
        mut visit: impl FnMut(&Key, &Arc<Record>, &Guard) -> ControlFlow<B>,
    ) -> Walked<B> {
        let guard = Guard::new();
        let mut last: Option<&Key> = None;
        for (key, record) in self.tree.range::<[u8], _>(range, &guard) {
            if last.is_some_and(|last| last >= key) {
                continue;
            }
            last = Some(key);
            if let ControlFlow::Break(why) = visit(key, record, &guard) {
                return ControlFlow::Break((key.clone(), Arc::clone(record), why));
            }
        }
        ControlFlow::Continue(())
    }
}

/// The part of a range that begins right behind `key`.
pub(crate) fn behind<'a>(key: &'a Key, end: Bound<&'a [u8]>) -> KeyRange<'a> {
    (Bound::Excluded(key), end)
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Index")
    }
}
