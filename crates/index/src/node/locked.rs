//! Changing a node: only through [`Locked`], which holds its lock.

#![allow(unsafe_code, reason = "slots may hold addresses of long keys")]

use ishigaki_base::sync::atomic::Ordering;
use sdd::Guard;

use super::long::OwnedLong;
use super::{Meta, Node, Slot, Word};
use crate::probe::{KeyBytes, LONG, Probe, encode};
use crate::version::{Restart, Stamp};

/// A locked node. It is unlocked as unchanged if this is dropped.
#[derive(Debug)]
pub(crate) struct Locked<'n, const G: usize> {
    node: &'n Node<G>,
    /// What the node's stamp was before.
    stamp: Stamp,
}

/// A key and what it leads to, on the way from one node to another.
#[derive(Debug)]
pub(crate) struct Item {
    /// The whole key.
    pub(crate) key: KeyBytes,
    pub(crate) payload: u64,
    /// The long key that the slot had, to be used again if it still does not fit.
    long: Option<OwnedLong>,
}

impl Item {
    pub(crate) fn new(key: KeyBytes, payload: u64) -> Self {
        Self { key, payload, long: None }
    }

    /// Head and word of a slot for it.
    fn into_slot(self, prefix: usize) -> (u64, Word) {
        let (head, class) = encode(&self.key, prefix);
        if class != LONG {
            return (head, Word::new(self.payload, class));
        }
        let long = self.long.unwrap_or_else(|| OwnedLong::new(self.payload, &self.key));
        (head, long.into_word())
    }
}

impl<const G: usize> Node<G> {
    /// Locks the node, if it has not changed since `stamp`.
    pub(crate) fn lock(&self, stamp: Stamp) -> Result<Locked<'_, G>, Restart> {
        self.version.lock(stamp)?;
        Ok(Locked { node: self, stamp })
    }

    /// Begins a new life of a node that is in no tree.
    pub(crate) fn revive(&self, id: u32, prefix: usize, level: u8) -> Locked<'_, G> {
        let stamp = self.version.revive();
        let prefix = u16::try_from(prefix).unwrap_or(u16::MAX);
        self.meta.store(Meta::new(id, prefix, level, 0).0, Ordering::Relaxed);
        for slot in self.slots() {
            set(slot, u64::MAX, Word::NONE);
        }
        let locked = Locked { node: self, stamp };
        locked.hint(0);
        locked
    }
}

fn set(slot: &Slot, head: u64, word: Word) {
    slot.head.store(head, Ordering::Relaxed);
    slot.word.store(word.0, Ordering::Relaxed);
}

impl<'n, const G: usize> Locked<'n, G> {
    pub(crate) fn meta(&self) -> Meta {
        self.node.meta()
    }

    pub(crate) fn count(&self) -> usize {
        self.meta().count()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.count() == Node::<G>::SLOTS
    }

    fn set_count(&self, count: usize) {
        let Meta(meta) = self.meta();
        self.node.meta.store(meta & !0xff | count as u64, Ordering::Relaxed);
    }

    /// Sets the hints again after slots from `at` on have moved.
    fn hint(&self, at: usize) {
        for (hint, group) in self.node.hints.iter().zip(&self.node.groups[1..]).skip((at / G).saturating_sub(1)) {
            hint.store(group[0].head(), Ordering::Relaxed);
        }
    }

    /// Adds a slot in front of slot `at`. There must be room, and the key must belong there.
    pub(crate) fn put(&mut self, at: usize, item: Item) {
        let (head, word) = item.into_slot(self.meta().prefix());
        self.put_slot(at, head, word);
    }

    /// Adds a slot for the key that a probe has been fit to this node for, in front of slot `at`.
    pub(crate) fn put_probe(&mut self, at: usize, probe: &Probe<'_>, payload: u64) {
        let word = match probe.class {
            LONG => OwnedLong::new(payload, probe.key).into_word(),
            class => Word::new(payload, class),
        };
        self.put_slot(at, probe.head, word);
    }

    fn put_slot(&mut self, at: usize, head: u64, word: Word) {
        let count = self.count();
        let slots = &self.node.slots()[..=count];
        for to in (at + 1..=count).rev() {
            set(&slots[to], slots[to - 1].head(), slots[to - 1].word());
        }
        set(&slots[at], head, word);
        self.hint(at);
        self.set_count(count + 1);
    }

    /// Takes a slot out; returns its payload.
    pub(crate) fn take(&mut self, at: usize, guard: &Guard) -> u64 {
        let count = self.count();
        let slots = &self.node.slots()[..count];
        let word = slots[at].word();
        // SAFETY: the node is locked.
        let payload = unsafe { word.payload(guard) };
        for to in at..count - 1 {
            set(&slots[to], slots[to + 1].head(), slots[to + 1].word());
        }
        set(&slots[count - 1], u64::MAX, Word::NONE);
        self.hint(at);
        self.set_count(count - 1);
        if word.class() == LONG {
            // SAFETY: the node is locked, and its slot has lost the word.
            drop(unsafe { OwnedLong::from_word(word, guard) });
        }
        payload
    }

    /// Makes a slot lead elsewhere.
    pub(crate) fn turn(&mut self, at: usize, payload: u64, guard: &Guard) {
        let slot = &self.node.slots()[at];
        let word = slot.word();
        let turned = if word.class() == LONG {
            // SAFETY: the node is locked.
            let turned = OwnedLong::new(payload, unsafe { super::Long::of(word, guard) }.key());
            // SAFETY: the node is locked, and its slot gets another word below.
            drop(unsafe { OwnedLong::from_word(word, guard) });
            turned.into_word()
        } else {
            Word::new(payload, word.class())
        };
        slot.word.store(turned.0, Ordering::Relaxed);
    }

    /// Says anew how high the node stands.
    pub(crate) fn set_level(&mut self, level: u8) {
        let Meta(meta) = self.meta();
        self.node.meta.store(meta & !0xff00 | u64::from(level) << 8, Ordering::Relaxed);
    }

    /// Gives the node up and its slots away. The node's key prefix is `prefix`, and `first`, if given, is the key of slot 0
    /// instead of what stands there.
    pub(crate) fn drain(self, prefix: &[u8], first: Option<KeyBytes>, guard: &Guard) -> Vec<Item> {
        let slots = &self.node.slots()[..self.count()];
        let items = slots.iter().map(|slot| {
            let (head, word) = (slot.head(), slot.word());
            // SAFETY: the node is locked.
            let payload = unsafe { word.payload(guard) };
            // SAFETY: the node is locked.
            let key = unsafe { word.key(head, prefix, guard) };
            // SAFETY: the node is locked, and is given up below.
            let long = (word.class() == LONG).then(|| unsafe { OwnedLong::from_word(word, guard) });
            Item { key, payload, long }
        });
        let mut items: Vec<Item> = items.collect();
        if let (Some(item), Some(first)) = (items.first_mut(), first) {
            *item = Item::new(first, item.payload);
        }
        self.node.version.unlock_void(self.stamp);
        std::mem::forget(self);
        items
    }

    /// Fills a node that is new. In an inner node the first key is left out: the node's own bound stands for it.
    pub(crate) fn fill(&mut self, items: impl IntoIterator<Item = Item>) {
        let meta = self.meta();
        let mut count = 0;
        for (slot, item) in self.node.slots().iter().zip(items) {
            let bounds_nothing = count == 0 && meta.level() > 0;
            let (head, word) =
                if bounds_nothing { (0, Word::new(item.payload, 0)) } else { item.into_slot(meta.prefix()) };
            set(slot, head, word);
            count += 1;
        }
        self.hint(0);
        self.set_count(count);
    }

    pub(crate) fn node(&self) -> &'n Node<G> {
        self.node
    }

    /// Unlocks the node after a change; returns its new stamp.
    pub(crate) fn publish(self) -> Stamp {
        let stamp = self.node.version.unlock_changed(self.stamp);
        std::mem::forget(self);
        stamp
    }
}

impl<const G: usize> Drop for Locked<'_, G> {
    fn drop(&mut self) {
        self.node.version.unlock(self.stamp);
    }
}
