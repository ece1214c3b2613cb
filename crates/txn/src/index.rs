//! The ordered index of one table: key to record, read without locks.
//!
//! A thin skin over `scc::TreeIndex` (a concurrent B+ tree whose readers never wait). Its point operations are
//! linearizable; an iterator sees everything that was inserted before its first step and may or may not see what comes
//! later. The protocol above makes "later" impossible where it would matter. Iterators of the tree pin memory, so a walk
//! pauses after a while, lets go, and goes on behind the last key.
//!
//! One more thing the tree asks for: a leaf that has lost its last key stays in its place for a moment (longer, if another
//! leaf beside it is being split), and a range that would begin in the tree's first leaf while that one is empty ends at
//! once, as if the whole tree were. So a place before every key is taken when the index is made and never given back: the
//! first leaf is never empty, and every range begins at or behind that place.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use scc::{Comparable, Equivalent, TreeIndex};
use sdd::Guard;

use crate::key::{Key, KeyRange};
use crate::record::Record;

/// Key to record, in key order.
pub(crate) struct Index {
    /// No record lies at `Place::First`.
    tree: TreeIndex<Place, Option<Arc<Record>>>,
}

/// Where something lies in the tree. As large as the key alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Before every key.
    First,
    Key(Key),
}

/// A place by reference; `None` is the first one.
struct Probe<'a>(Option<&'a [u8]>);

impl Comparable<Place> for Probe<'_> {
    fn compare(&self, place: &Place) -> Ordering {
        match (self.0, place) {
            (None, Place::First) => Ordering::Equal,
            (None, Place::Key(_)) => Ordering::Less,
            (Some(_), Place::First) => Ordering::Greater,
            (Some(bytes), Place::Key(key)) => (*bytes).cmp(key),
        }
    }
}

impl Equivalent<Place> for Probe<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        self.compare(place).is_eq()
    }
}

impl Default for Index {
    fn default() -> Self {
        let tree = TreeIndex::new();
        // The tree is new, so the place is free.
        let _ = tree.insert_sync(Place::First, None);
        Self { tree }
    }
}

/// How a walk ended before the end of its range.
pub(crate) type Walked<B> = ControlFlow<(Key, Arc<Record>, B)>;

impl Index {
    /// The record of `key`.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Arc<Record>> {
        let guard = Guard::new();
        self.peek(key, &guard).cloned()
    }

    /// The record of `key`, as long as `guard` lives.
    pub(crate) fn peek<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<&'g Arc<Record>> {
        self.tree.peek(&Probe(Some(key)), guard)?.as_ref()
    }

    /// Adds a record; false if the key has one already.
    pub(crate) fn insert(&self, key: &Key, record: &Arc<Record>) -> bool {
        self.tree.insert_sync(Place::Key(key.clone()), Some(Arc::clone(record))).is_ok()
    }

    /// Takes `record` out, if it is still the one of `key`.
    pub(crate) fn remove(&self, key: &[u8], record: &Arc<Record>) -> bool {
        let same = |found: &Option<Arc<Record>>| found.as_ref().is_some_and(|found| Arc::ptr_eq(found, record));
        self.tree.remove_if_sync(&Probe(Some(key)), same)
    }

    /// Shows the records of a range in key order until `visit` breaks; then tells at which record, and why.
    ///
    /// No key is shown twice and keys only grow, also when the tree is rebuilt under the iterator.
    pub(crate) fn walk<B>(
        &self,
        (start, end): KeyRange<'_>,
        mut visit: impl FnMut(&Key, &Arc<Record>, &Guard) -> ControlFlow<B>,
    ) -> Walked<B> {
        let guard = Guard::new();
        let probe = |key| Probe(Some(key));
        let start = if start == Bound::Unbounded { Bound::Included(Probe(None)) } else { start.map(probe) };
        let mut last: Option<&Key> = None;
        for (place, record) in self.tree.range((start, end.map(probe)), &guard) {
            let (Place::Key(key), Some(record)) = (place, record) else { continue };
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn key(a: u8, b: u8) -> Key {
        Key::of_bound(&[a, b])
    }

    fn keys(index: &Index, range: KeyRange<'_>) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        let _ = index.walk::<()>(range, |key, _, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        });
        keys
    }

    #[test]
    fn a_place_is_as_large_as_its_key() {
        assert_eq!(size_of::<Place>(), size_of::<Key>());
    }

    #[test]
    fn the_empty_key_is_a_key_like_others() {
        let index = Index::default();
        let empty = Key::of_bound(b"");
        let record =
            Arc::new(Record::committed(sdd::Owned::new(crate::key::Value::new()), ishigaki_base::Position::NONE));
        assert!(index.find(b"").is_none() && keys(&index, (Bound::Unbounded, Bound::Unbounded)).is_empty());
        assert!(index.insert(&empty, &record) && !index.insert(&empty, &record));
        assert!(index.find(b"").is_some());
        for start in [Bound::Unbounded, Bound::Included(b"".as_slice())] {
            assert_eq!(keys(&index, (start, Bound::Unbounded)), [b""]);
        }
        assert!(keys(&index, (Bound::Excluded(b""), Bound::Unbounded)).is_empty());
        assert!(index.remove(b"", &record) && index.find(b"").is_none());
    }

    #[test]
    fn a_walk_sees_what_stays_while_all_before_it_goes() {
        let index = Index::default();
        let record =
            Arc::new(Record::committed(sdd::Owned::new(crate::key::Value::new()), ishigaki_base::Position::NONE));
        let stay: Vec<_> = (0..40).map(|n| key(b'm', n)).collect();
        for key in &stay {
            assert!(index.insert(key, &record));
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    (0..60).for_each(|n| assert!(index.insert(&key(b'a', n), &record)));
                    (0..60).for_each(|n| assert!(index.remove(&key(b'a', n), &record)));
                }
            });
            let starts: [Bound<&[u8]>; 3] = [Bound::Unbounded, Bound::Included(b"a"), Bound::Excluded(b"l")];
            let short = (0..30_000).find_map(|turn| {
                let mut seen = keys(&index, (starts[turn % 3], Bound::Unbounded));
                seen.retain(|key| key[0] == b'm');
                (seen.len() < stay.len()).then_some((turn, seen.len()))
            });
            stop.store(true, Ordering::Relaxed);
            assert_eq!(short, None);
        });
    }
}
