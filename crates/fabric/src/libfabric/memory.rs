//! Memory that others than this program write into: a peer, through its provider, or a device.
//!
//! Nobody ever has a reference to these bytes, because they may change at any time. They are copied in and out, and only the
//! copy is looked at.

#![allow(unsafe_code, reason = "memory that a device or a peer may write into is reached by address alone")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// A page: what devices register.
const PAGE: usize = 4096;

/// A run of bytes, at first zeros.
#[derive(Debug)]
pub(super) struct Memory {
    place: NonNull<u8>,
    length: usize,
}

// SAFETY: it owns its bytes, which are not bound to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// So many bytes, more than none.
    pub(super) fn zeroed(length: usize) -> Result<Self, String> {
        let none = || format!("{length} bytes of memory are not to be had");
        let layout = Self::layout(length).filter(|_| length > 0).ok_or_else(none)?;
        // SAFETY: the layout is not empty.
        let place = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(none)?;
        Ok(Self { place, length })
    }

    fn layout(length: usize) -> Option<Layout> {
        Layout::from_size_align(length, PAGE).ok()
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Where the byte `at` lies, for whoever is given the `length` bytes from there.
    ///
    /// # Panics
    ///
    /// If they are not all within the memory.
    pub(super) fn place(&self, at: usize, length: usize) -> *mut u8 {
        assert!(
            at.checked_add(length).is_some_and(|end| end <= self.length),
            "{length} bytes at {at} of {}",
            self.length
        );
        // SAFETY: `at` is within the memory or its end.
        unsafe { self.place.as_ptr().add(at) }
    }

    /// Copies bytes out.
    pub(super) fn read(&self, at: usize, to: &mut [u8]) {
        let from = self.place(at, to.len()).cast_const();
        // SAFETY: `place` has seen that all bytes are within the memory; nobody but this type can have a reference into it, so
        // `to` lies elsewhere. A peer that writes them at this moment makes them any bytes, which is all that is expected.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) }
    }

    /// Copies bytes in.
    pub(super) fn write(&self, at: usize, from: &[u8]) {
        let to = self.place(at, from.len());
        // SAFETY: as in `read`. Who writes into the same bytes at the same time finds any bytes there; only this program's own
        // sending side does, under a lock.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }
}

impl Memory {
    /// Never gives the bytes back, because somebody may still write there.
    pub(super) fn abandon(&mut self) {
        self.length = 0;
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.length).filter(|_| self.length > 0) {
            // SAFETY: it was allocated with this layout and is freed once.
            unsafe { dealloc(self.place.as_ptr(), layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_and_none_beyond() {
        let memory = Memory::zeroed(100).expect("there is room");
        memory.write(98, &[7, 8]);
        let mut bytes = [9; 3];
        memory.read(97, &mut bytes);
        assert_eq!(bytes, [0, 7, 8]);
        for (at, length) in [(98, 3), (101, 0), (usize::MAX, 2)] {
            assert!(std::panic::catch_unwind(|| memory.place(at, length)).is_err(), "{length} at {at}");
        }
        assert!(Memory::zeroed(0).is_err());
    }
}
