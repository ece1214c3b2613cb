//! Records as the tree has them: addresses that a guard protects.

#![allow(unsafe_code, reason = "the tree holds addresses of records")]

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use sdd::Guard;

use crate::node::MAX_PAYLOAD;

/// A record of an index, as long as the guard lives under which it was found. To copy it costs nothing and writes nothing.
///
/// The record may leave the index in the meantime; the handle shows it still.
pub struct Handle<'g, T> {
    record: *const T,
    guard: PhantomData<&'g T>,
}

impl<'g, T> Handle<'g, T> {
    /// The record of a payload.
    ///
    /// # Safety
    ///
    /// The payload must have been made by [`into_payload`] for the same type, and must have been found in a tree under
    /// this guard.
    pub(crate) unsafe fn of(payload: u64, _: &'g Guard) -> Self {
        Self { record: std::ptr::with_exposed_provenance(payload as usize), guard: PhantomData }
    }

    /// The record.
    #[inline]
    pub fn get(self) -> &'g T {
        // SAFETY: the index had a share of the record when it was found, and gives that up only when all guards of that
        // time are gone, of which this handle's is one.
        unsafe { &*self.record }
    }

    /// A share of the record, which does not need the guard. This writes to the record's count of shares.
    pub fn keep(self) -> Arc<T> {
        // SAFETY: the pointer is an `Arc`'s, and the index's share of it lasts at least as long as the guard; see `get`.
        unsafe {
            Arc::increment_strong_count(self.record);
            Arc::from_raw(self.record)
        }
    }

    /// True if both are the same record.
    pub fn is(self, other: &T) -> bool {
        std::ptr::eq(self.record, other)
    }
}

impl<T> Clone for Handle<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<'_, T> {}

impl<T> Deref for Handle<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.get()
    }
}

impl<T: fmt::Debug> fmt::Debug for Handle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

// SAFETY: it is a shared reference that can make an `Arc`, no more.
unsafe impl<T: Send + Sync> Send for Handle<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Handle<'_, T> {}

/// The payload of a record, which now owns the share.
pub(crate) fn into_payload<T>(record: Arc<T>) -> u64 {
    let payload = Arc::into_raw(record).expose_provenance() as u64;
    assert!(payload <= MAX_PAYLOAD, "an address has at most 60 bits");
    payload
}

/// Takes the share back from a payload.
///
/// # Safety
///
/// The payload must have been made by [`into_payload`] for the same type, and its share not been taken back. No handle may
/// be left.
pub(crate) unsafe fn from_payload<T>(payload: u64) -> Arc<T> {
    // SAFETY: the caller says so.
    unsafe { Arc::from_raw(std::ptr::with_exposed_provenance(payload as usize)) }
}
