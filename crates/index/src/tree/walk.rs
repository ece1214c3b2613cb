//! Through a range of keys, leaf by leaf.
//!
//! A walk copies the part of a leaf that lies in the range, checks the leaf, and only then shows what it has. The next leaf
//! is the one where the upper fence belongs, found from the root again: leaves do not know each other. As a leaf's fences
//! never change, each key is in exactly one of the leaves that a walk comes to, at the moment when it copies it; so a key
//! that is there all the time is seen once.

#![allow(unsafe_code, reason = "slots may hold addresses of long keys")]

use std::ops::{Bound, ControlFlow};

use sdd::Guard;

use super::{LEAF, Tree, insist, sight};
use crate::node::{Node, Word};
use crate::prefetch::prefetch;
use crate::probe::{KeyBytes, Probe};
use crate::seen::{Seen, Sight};
use crate::version::Restart;

/// How many keys ahead a walk tells what it is about to show.
const AHEAD: usize = 4;

/// A range of keys.
pub(crate) type Span<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The part of a leaf that a walk shows.
struct Page {
    slots: [(u64, Word); Node::<LEAF>::SLOTS],
    count: usize,
    /// What the leaf leaves out of its keys.
    prefix: usize,
    sight: Option<Sight>,
    /// Where the next leaf begins; nothing if the range ends in this one.
    next: Option<KeyBytes>,
}

impl Default for Page {
    fn default() -> Self {
        Self { slots: [(0, Word::NONE); Node::<LEAF>::SLOTS], count: 0, prefix: 0, sight: None, next: None }
    }
}

impl Tree {
    /// Shows the keys of a range in their order until `visit` breaks, and tells some numbers `soon`, ahead of that.
    pub(crate) fn walk<B>(
        &self,
        (start, end): Span<'_>,
        mut seen: Option<&mut Seen>,
        guard: &Guard,
        soon: impl Fn(u64),
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut behind = matches!(start, Bound::Excluded(_));
        let mut from = match start {
            Bound::Included(key) | Bound::Excluded(key) => KeyBytes::from_slice(key),
            Bound::Unbounded => KeyBytes::new(),
        };
        if !begins_within(&from, end) {
            return ControlFlow::Continue(());
        }
        let mut page = Page::default();
        let mut bytes = KeyBytes::new();
        loop {
            insist(|| self.copy(&from, behind, end, &mut page, guard));
            if let (Some(seen), Some(sight)) = (seen.as_deref_mut(), page.sight) {
                seen.add(sight);
            }
            bytes.clear();
            bytes.extend_from_slice(from.get(..page.prefix).unwrap_or_default());
            bytes.extend_from_slice(&[0; 8]);
            let slots = page.slots.get(..page.count).unwrap_or_default();
            for (at, (head, word)) in slots.iter().enumerate() {
                if let Some((_, ahead)) = slots.get(at + AHEAD) {
                    ahead.payload_at_hand().inspect(|payload| soon(*payload));
                }
                // SAFETY: `copy` has read the word under the guard from a leaf that then passed its check.
                unsafe { word.with_key(*head, &mut bytes, guard, &mut visit) }?;
            }
            let Some(next) = page.next.take() else { return ControlFlow::Continue(()) };
            (from, behind) = (next, false);
        }
    }

    /// Copies what lies in the leaf of `from` from there on, or `behind` it, to the end of the range.
    fn copy(
        &self,
        from: &[u8],
        behind: bool,
        end: Bound<&[u8]>,
        page: &mut Page,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let mut probe = Probe::new(from);
        // Every tree has leaves.
        let path = self.path(&mut probe, 0, guard)?.ok_or(Restart)?;
        let next_leaf = (path.at + 1 < path.parent.meta().count()).then(|| path.fence(path.at + 1));
        let ahead = path.parent.slot(path.at + 1).1;
        let leaf = self.leaf_at(path.parent.payload(path.at, path.stamp, guard)?);
        let stamp = leaf.version().read()?;
        path.parent.check(path.stamp)?;
        let next = next_leaf.or(path.high).map(|fence| {
            // SAFETY: the nodes of the path have passed their checks since their fences were read.
            unsafe { fence.key(from, guard) }
        });
        if next_leaf.is_some() {
            prefetch(ahead.address(), size_of::<Node<LEAF>>() / 64);
        }
        let meta = leaf.meta();
        probe.fit(meta.prefix());
        let found = leaf.find(&probe, stamp, guard)?;
        let first = found.at + usize::from(behind && found.payload.is_some());
        // A range that ends behind the upper fence takes the leaf as it is. Else its end shares the leaf's prefix.
        let next = next.filter(|next| begins_within(next, end));
        let last = match end {
            Bound::Included(end) | Bound::Excluded(end) if next.is_none() => {
                let mut probe = Probe::new(end);
                probe.fit(meta.prefix());
                Some((leaf.find(&probe, stamp, guard)?, end))
            }
            _ => None,
        };
        let last = match last {
            Some((found, _)) => found.at + usize::from(matches!(end, Bound::Included(_)) && found.payload.is_some()),
            None => meta.count(),
        };
        page.count = last.min(Node::<LEAF>::SLOTS).saturating_sub(first);
        for (copy, at) in page.slots.iter_mut().zip(first..first + page.count) {
            *copy = leaf.slot(at);
        }
        page.prefix = meta.prefix();
        page.sight = Some(sight(leaf, stamp));
        page.next = next;
        leaf.check(stamp)
    }
}

/// True if a range that begins at `from` may hold a key before `end`.
fn begins_within(from: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Included(end) => from <= end,
        Bound::Excluded(end) => from < end,
        Bound::Unbounded => true,
    }
}
