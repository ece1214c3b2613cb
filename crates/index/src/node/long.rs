//! Keys that do not fit in their slots.
//!
//! A [`Long`] is one allocation: the slot's payload, and the whole key behind it.
//!
//! ```text
//! ┌─────────┬────────┬─────────────┐
//! │ payload │ length │ key …       │
//! └─────────┴────────┴─────────────┘
//! ```
//!
//! It never changes. The slot that has its address owns it; a reader that has the address from a checked read and holds a
//! guard may follow it, because whoever takes it out of its slot gives it back only after all guards that were there at
//! that time.

#![allow(unsafe_code, reason = "slots hold addresses")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use sdd::Guard;

use super::Word;
use crate::probe::LONG;

#[derive(Debug)]
#[repr(C)]
struct Header {
    payload: u64,
    length: usize,
}

/// A key as a whole, and the payload that its slot has no room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Long<'g> {
    header: NonNull<Header>,
    guard: PhantomData<&'g Guard>,
}

impl<'g> Long<'g> {
    /// What the word of a slot with a key of class [`LONG`] leads to.
    ///
    /// # Safety
    ///
    /// The word is of that class, and [settled](Word::payload) under this guard.
    #[inline]
    pub(super) unsafe fn of(word: Word, _: &'g Guard) -> Self {
        debug_assert!(word.class() == LONG && word.address() != 0);
        // Words of this class are made by `OwnedLong::into_word` alone, so this is the address of a header that was alive
        // while it was in a slot. It was in one when the node was checked or is in one now, and `OwnedLong`, the only owner
        // it can have after that, frees it when all guards of that time are gone, thus not before this one.
        let header = std::ptr::with_exposed_provenance_mut(word.address() as usize);
        // SAFETY: no header lies at address zero.
        Self { header: unsafe { NonNull::new_unchecked(header) }, guard: PhantomData }
    }

    #[inline]
    fn header(self) -> &'g Header {
        // SAFETY: the header is alive as long as the guard, and nobody writes to it; see `of`.
        unsafe { self.header.as_ref() }
    }

    #[inline]
    pub(crate) fn payload(self) -> u64 {
        self.header().payload
    }

    #[inline]
    pub(crate) fn key(self) -> &'g [u8] {
        // SAFETY: `OwnedLong::new` wrote that many bytes behind the header; for the rest see `header`.
        unsafe { std::slice::from_raw_parts(self.header.add(1).cast().as_ptr(), self.header().length) }
    }
}

/// A long key that no slot owns just now. To drop it is to free it once no guard can protect it.
#[derive(Debug)]
pub(super) struct OwnedLong(NonNull<Header>);

thread_local! {
    /// Bytes of long keys that this thread has made, less those that it has given up, since it was last asked.
    static CHANGE: Cell<i64> = const { Cell::new(0) };
}

/// By how much the memory of long keys has grown through what this thread has done since it last asked.
pub(crate) fn take_change() -> i64 {
    CHANGE.take()
}

/// What an allocation for a key of that length takes, the allocator's own part and its rounding included.
fn cost(length: usize) -> i64 {
    (layout(length).size() + size_of::<usize>()).next_multiple_of(16) as i64
}

fn layout(length: usize) -> Layout {
    Layout::new::<Header>()
        .extend(Layout::array::<u8>(length).expect("a key is a slice"))
        .expect("a key is far smaller than memory")
        .0
}

impl OwnedLong {
    pub(super) fn new(payload: u64, key: &[u8]) -> Self {
        let layout = layout(key.len());
        // SAFETY: the layout has room for a header, so its size is not zero.
        let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        let header = memory.cast::<Header>();
        // SAFETY: the allocation has room for the header and the bytes behind it, and is aligned for the header.
        unsafe {
            header.write(Header { payload, length: key.len() });
            header.add(1).cast::<u8>().copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
        }
        CHANGE.set(CHANGE.get() + cost(key.len()));
        Self(header)
    }

    /// Takes it from a slot.
    ///
    /// # Safety
    ///
    /// The word is of class [`LONG`] and was read from a node that the caller has locked. The caller overwrites it or gives the
    /// node up before the lock ends, and takes it only this once.
    pub(super) unsafe fn from_word(word: Word, guard: &Guard) -> Self {
        // SAFETY: the caller promises more.
        Self(unsafe { Long::of(word, guard) }.header)
    }

    /// Gives it to a slot.
    pub(super) fn into_word(self) -> Word {
        let address = self.0.expose_provenance().get() as u64;
        std::mem::forget(self);
        Word::new(address, LONG)
    }
}

impl Drop for OwnedLong {
    fn drop(&mut self) {
        // SAFETY: it was made in `new`, and is given back no sooner than below.
        CHANGE.set(CHANGE.get() - cost(unsafe { self.0.as_ref() }.length));
        let owned = Address(self.0);
        Guard::new().defer_execute(move || {
            let Address(header) = { owned };
            // SAFETY: it was made in `new` with this layout, no slot has its address any more, and no guard is left from
            // when one had it.
            unsafe { dealloc(header.as_ptr().cast(), layout(header.as_ref().length)) };
        });
    }
}

struct Address(NonNull<Header>);

// SAFETY: header and key are plain data.
unsafe impl Send for Address {}
