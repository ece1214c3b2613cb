//! A node: a header of one cache line and groups of slots.
//!
//! ```text
//! ┌─────────┬────────────────────────────┬───────────────────────────────────────────────┐
//! │ version │ id  prefix  level  count   │ hints: the first heads of groups 1 to 6       │  64 bytes
//! ├─────────┴────┬───────────────────────┴──────┬────────────────────────────────────────┤
//! │ head  word   │ head  word   │ …             │ …                                      │  group 0: G slots of 16 bytes
//! ├──────────────┼──────────────┼───────────────┴────────────────────────────────────────┤
//! │ …            │              │ heads behind the last key are MAX, their words 0       │  … group 6
//! └──────────────┴──────────────┴────────────────────────────────────────────────────────┘
//! ```
//!
//! Slots are sorted by key. The hints tell in which group a head belongs, so a search compares six numbers of the header
//! and then those of one group, none of which waits for another, and touches two lines. With `G` = 4 a group is one line:
//! a key and what it leads to come in together.
//!
//! A slot's word is a *payload* (in a leaf the handle of a value, in an inner node the address of a child) and the key's
//! class, in one word so that they can not be torn apart. A key of class nine lies [outside](long) the node, together with
//! the payload, and the word is its address.
//!
//! In an inner node a slot's key is the lower bound of its child's keys, and slot 0 has the empty rest: it bounds nothing,
//! the node's own lower bound does.
//!
//! All of it is atomics. What a reader makes of them while a writer is at work may be nonsense, but it stays within the
//! node, and [`Version::check`] unmasks it.

#![allow(unsafe_code, reason = "slots may hold addresses of long keys")]

mod locked;
mod long;

use std::cmp::Ordering as Order;

use ishigaki_base::sync::atomic::{AtomicU64, Ordering};
use sdd::Guard;

pub(crate) use locked::{Item, Locked};
pub(crate) use long::{Long, take_change};

use crate::prefetch::prefetch_soon;
use crate::probe::{KeyBytes, LONG, Probe};
use crate::shelter::Shelter;
use crate::version::{Restart, Stamp, Version};

/// Groups of a node. The model checker has small nodes.
const GROUPS: usize = if cfg!(loom) { 3 } else { 7 };

const CLASS: u64 = 15;
const CLASS_BITS: u32 = 4;

/// The largest payload: what is left of a word beside the class. Addresses of user space have at most 57 bits today.
pub(crate) const MAX_PAYLOAD: u64 = u64::MAX >> CLASS_BITS;

/// A slot's word: payload, or address of a [`Long`], and class. 0 if there is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    /// No key.
    pub(crate) const NONE: Self = Self(0);

    fn new(payload: u64, class: u64) -> Self {
        Self((payload << CLASS_BITS) | class)
    }

    #[inline]
    fn class(self) -> u64 {
        self.0 & CLASS
    }

    /// True if a slot with this word and the probe's head has the probe's key. False leaves it open.
    #[inline]
    fn is(self, probe: &Probe<'_>) -> bool {
        self.class() == probe.class && probe.class != LONG && self != Word::NONE
    }

    /// The payload, or the address of what holds it; as good as a hint where nothing has been checked yet.
    #[inline]
    pub(crate) fn address(self) -> u64 {
        self.0 >> CLASS_BITS
    }
}

/// The small numbers of a node in one word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta(u64);

impl Meta {
    fn new(id: u32, prefix: u16, level: u8, count: usize) -> Self {
        Self(u64::from(id) << 32 | u64::from(prefix) << 16 | u64::from(level) << 8 | count as u64)
    }

    #[inline]
    pub(crate) fn count(self) -> usize {
        usize::from(self.0 as u8)
    }

    /// 0 for a leaf, one more than its children's for an inner node.
    #[inline]
    pub(crate) fn level(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// How many bytes of their keys the slots leave out.
    #[inline]
    pub(crate) fn prefix(self) -> usize {
        usize::from((self.0 >> 16) as u16)
    }

    /// The node's number in its pool.
    #[inline]
    pub(crate) fn id(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[derive(Debug)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
struct Slot {
    head: AtomicU64,
    word: AtomicU64,
}

impl Slot {
    fn new() -> Self {
        Self { head: AtomicU64::new(0), word: AtomicU64::new(0) }
    }

    #[inline]
    fn head(&self) -> u64 {
        self.head.load(Ordering::Relaxed)
    }

    #[inline]
    fn word(&self) -> Word {
        Word(self.word.load(Ordering::Relaxed))
    }
}

/// A node of the tree. All zeros is a node that no tree has used yet.
#[derive(Debug)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C, align(64))]
pub(crate) struct Node<const G: usize> {
    version: Version,
    meta: AtomicU64,
    hints: [AtomicU64; GROUPS - 1],
    groups: [[Slot; G]; GROUPS],
}

/// Where a key is, or would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The first slot whose key is not below.
    pub(crate) at: usize,
    /// The payload, if that slot's key is the one.
    pub(crate) payload: Option<u64>,
}

impl<const G: usize> Default for Node<G> {
    fn default() -> Self {
        use std::array::from_fn;
        Self {
            version: Version::new(),
            meta: AtomicU64::new(0),
            hints: from_fn(|_| AtomicU64::new(0)),
            groups: from_fn(|_| from_fn(|_| Slot::new())),
        }
    }
}

impl<const G: usize> Node<G> {
    /// How many slots there are.
    pub(crate) const SLOTS: usize = GROUPS * G;

    /// A node with no more keys than this looks for a neighbour to be merged with.
    pub(crate) const FEW: usize = if Self::SLOTS < 8 { 1 } else { Self::SLOTS / 4 };

    #[inline]
    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    #[inline]
    pub(crate) fn check(&self, stamp: Stamp) -> Result<(), Restart> {
        self.version.check(stamp)
    }

    #[inline]
    pub(crate) fn meta(&self) -> Meta {
        Meta(self.meta.load(Ordering::Relaxed))
    }

    #[inline]
    fn slots(&self) -> &[Slot] {
        self.groups.as_flattened()
    }

    /// Head and word of a slot; no more than a hint before the node is checked.
    #[inline]
    pub(crate) fn slot(&self, at: usize) -> (u64, Word) {
        self.slots().get(at).map_or((u64::MAX, Word::NONE), |slot| (slot.head(), slot.word()))
    }

    /// The group in which the first slot is whose head is not below `head`.
    #[inline]
    fn group(&self, head: u64) -> usize {
        let group = self.hints.iter().map(|hint| usize::from(hint.load(Ordering::Relaxed) < head)).sum::<usize>();
        // The sum of six comparisons; said again for the compiler.
        group.min(GROUPS - 1)
    }

    /// Asks for the slots that a search will look at first.
    #[inline]
    pub(crate) fn prefetch(&self, probe: &Probe<'_>) {
        prefetch_soon(&self.groups[self.group(probe.head)]);
    }

    /// The first slot whose head is not below `head`.
    #[inline]
    fn first_at_least(&self, head: u64) -> usize {
        let group = self.group(head);
        let within = self.groups[group].iter().map(|slot| usize::from(slot.head() < head)).sum::<usize>();
        group * G + within
    }

    /// Finds a key. What it says holds only if the node is checked afterwards.
    #[inline]
    pub(crate) fn find(&self, probe: &Probe<'_>, stamp: Stamp, shelter: &impl Shelter) -> Result<Found, Restart> {
        let at = self.first_at_least(probe.head);
        let (head, word) = self.slot(at);
        if head != probe.head {
            return Ok(Found { at, payload: None });
        }
        if word.is(probe) {
            return Ok(Found { at, payload: Some(word.address()) });
        }
        if word.class() == LONG && probe.class == LONG {
            self.check(stamp)?;
            // SAFETY: the node has passed its check after the word was read, under the shelter's guard.
            let long = unsafe { Long::of(word, shelter.guard()?) };
            if long.key() == probe.key {
                return Ok(Found { at, payload: Some(long.payload()) });
            }
        }
        self.find_among(at, probe, stamp, shelter)
    }

    /// Finds a key among those with the same head, of which `low` is the first.
    #[cold]
    fn find_among(
        &self,
        mut low: usize,
        probe: &Probe<'_>,
        stamp: Stamp,
        shelter: &impl Shelter,
    ) -> Result<Found, Restart> {
        let count = self.meta().count();
        let mut high = probe.head.checked_add(1).map_or(count, |next| self.first_at_least(next)).min(count);
        while low < high {
            let middle = usize::midpoint(low, high);
            let word = self.slot(middle).1;
            let order = match word.class().cmp(&probe.class) {
                Order::Equal if probe.class == LONG => {
                    self.check(stamp)?;
                    // SAFETY: the node has passed its check after the word was read, under the shelter's guard.
                    let long = unsafe { Long::of(word, shelter.guard()?) };
                    match long.key().cmp(probe.key) {
                        Order::Equal => return Ok(Found { at: middle, payload: Some(long.payload()) }),
                        order => order,
                    }
                }
                Order::Equal => return Ok(Found { at: middle, payload: Some(word.address()) }),
                order => order,
            };
            if order.is_lt() { low = middle + 1 } else { high = middle }
        }
        Ok(Found { at: low, payload: None })
    }

    /// The payload of a slot, for sure.
    #[inline]
    pub(crate) fn payload(&self, at: usize, stamp: Stamp, guard: &Guard) -> Result<u64, Restart> {
        let word = self.slot(at).1;
        self.check(stamp)?;
        // SAFETY: the node has passed its check after the word was read.
        Ok(unsafe { word.payload(guard) })
    }

    /// In an inner node the slot of the child whose range a key lies in, and its word, neither of them checked.
    #[inline]
    pub(crate) fn route(&self, probe: &Probe<'_>, stamp: Stamp, shelter: &impl Shelter) -> Result<usize, Restart> {
        let at = self.first_at_least(probe.head);
        let (head, word) = self.slot(at);
        if head != probe.head {
            return Ok(at.saturating_sub(1));
        }
        if word.is(probe) {
            return Ok(at);
        }
        let found = self.find_among(at, probe, stamp, shelter)?;
        Ok(if found.payload.is_some() { found.at } else { found.at.saturating_sub(1) })
    }
}

impl Word {
    /// What the slot leads to.
    ///
    /// # Safety
    ///
    /// The word is settled under this guard: since the guard is there, it was read from a node which then passed its check, or
    /// which the caller has locked.
    #[inline]
    pub(crate) unsafe fn payload(self, guard: &Guard) -> u64 {
        // SAFETY: as the caller promises.
        if self.class() == LONG { unsafe { Long::of(self, guard) }.payload() } else { self.address() }
    }

    /// The same for a search.
    ///
    /// # Safety
    ///
    /// The word is [settled](Self::payload) under the shelter's guard.
    #[inline]
    pub(crate) unsafe fn reach(self, shelter: &impl Shelter) -> Result<u64, Restart> {
        // SAFETY: as the caller promises.
        self.payload_at_hand().map_or_else(|| Ok(unsafe { self.payload(shelter.guard()?) }), Ok)
    }

    /// What the slot leads to, if that lies in the slot itself.
    #[inline]
    pub(crate) fn payload_at_hand(self) -> Option<u64> {
        (self.class() != LONG).then(|| self.address())
    }

    /// Calls `visit` with the whole key of a slot with this word and `head`, and with its payload. `bytes` are what the node
    /// leaves out, and eight more that this call may change.
    ///
    /// # Safety
    ///
    /// The word is [settled](Self::payload) under this guard.
    #[inline]
    pub(crate) unsafe fn with_key<R>(
        self,
        head: u64,
        bytes: &mut [u8],
        guard: &Guard,
        visit: impl FnOnce(&[u8], u64) -> R,
    ) -> R {
        if self.class() == LONG {
            // SAFETY: as the caller promises.
            let long = unsafe { Long::of(self, guard) };
            return visit(long.key(), long.payload());
        }
        if let Some(room) = bytes.last_chunk_mut::<8>() {
            *room = head.to_be_bytes();
        }
        let length = (bytes.len() + self.class() as usize).saturating_sub(8);
        visit(bytes.get(..length).unwrap_or_default(), self.address())
    }

    /// The whole key of a slot with this word and `head` in a node that leaves out `prefix`.
    ///
    /// # Safety
    ///
    /// The word is [settled](Self::payload) under this guard.
    pub(crate) unsafe fn key(self, head: u64, prefix: &[u8], guard: &Guard) -> KeyBytes {
        let mut bytes = KeyBytes::from_slice(prefix);
        bytes.extend_from_slice(&[0; 8]);
        if self.class() == LONG {
            // SAFETY: as the caller promises.
            return KeyBytes::from_slice(unsafe { Long::of(self, guard) }.key());
        }
        // SAFETY: as the caller promises.
        let length = unsafe { self.with_key(head, &mut bytes, guard, |key, _| key.len()) };
        bytes.truncate(length);
        bytes
    }
}
