//! Keys that do not fit in their slots.
//!
//! A [`Long`] never changes. The slot that has its address owns it; a reader that has the address from a checked read
//! and holds a guard may follow it, because whoever takes it out of its slot gives it back only after all guards that were
//! there at that time.

#![allow(unsafe_code, reason = "slots hold addresses")]

use sdd::Guard;

use super::Word;
use crate::probe::LONG;

/// A key as a whole, and the payload that its slot has no room for.
#[derive(Debug)]
pub(crate) struct Long {
    payload: u64,
    key: Box<[u8]>,
}

impl Long {
    /// What the word of a slot with a key of class [`LONG`] leads to. The word must have been read from a node that then
    /// passed its check under this guard, or that is locked.
    pub(super) fn of(word: Word, _: &Guard) -> &Long {
        debug_assert_eq!(word.class(), LONG);
        // SAFETY: words of this class are made by `OwnedLong::into_word` alone, so the address is that of a `Long` that was
        // alive while it was in a slot. It was in one when the node was checked or is in one now, and `OwnedLong`, the
        // only owner it can have after that, frees it when all guards of that time are gone, thus not before this one.
        unsafe { &*std::ptr::with_exposed_provenance::<Long>(word.address() as usize) }
    }

    pub(crate) fn payload(&self) -> u64 {
        self.payload
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }
}

/// A long key that no slot owns just now. To drop it is to free it once no guard can protect it.
#[derive(Debug)]
pub(super) struct OwnedLong(*mut Long);

impl OwnedLong {
    pub(super) fn new(payload: u64, key: &[u8]) -> Self {
        Self(Box::into_raw(Box::new(Long { payload, key: key.into() })))
    }

    /// Takes it from a slot. The word must be overwritten, or its node given up, before the lock ends, and this must be
    /// the only time that it is taken.
    pub(super) fn from_word(word: Word) -> Self {
        debug_assert_eq!(word.class(), LONG);
        Self(std::ptr::with_exposed_provenance_mut(word.address() as usize))
    }

    /// Gives it to a slot.
    pub(super) fn into_word(self) -> Word {
        let address = self.0.expose_provenance() as u64;
        std::mem::forget(self);
        Word::new(address, LONG)
    }
}

impl Drop for OwnedLong {
    fn drop(&mut self) {
        let owned = Address(self.0);
        Guard::new().defer_execute(move || {
            let Address(long) = { owned };
            // SAFETY: the address came from a box, no slot has it any more, and no guard is left from when one had it.
            drop(unsafe { Box::from_raw(long) });
        });
    }
}

struct Address(*mut Long);

// SAFETY: a `Long` is plain data.
unsafe impl Send for Address {}
