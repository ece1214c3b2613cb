//! Versions: what a key's value has been since one commit, each in one allocation.
//!
//! ```text
//! ┌──────────┬────────┬───────────┐
//! │ position │ length │ value …   │      a record has the address of its latest version
//! └──────────┴────────┴───────────┘
//! ```
//!
//! Value and position are never out of step, since one address leads to both. A version that others can see never changes:
//! whoever writes the key puts another in its place, and the old one is given back when all guards are gone that were there
//! at that time.

#![allow(unsafe_code, reason = "a version is a header and the bytes behind it")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use ishigaki_base::Position;
use sdd::Guard;

#[repr(C)]
struct Header {
    position: u64,
    length: usize,
}

/// A version that nobody else can see yet.
pub(crate) struct Version(NonNull<Header>);

// SAFETY: a version is plain bytes that it owns alone.
unsafe impl Send for Version {}
// SAFETY: by a shared reference it can only be read.
unsafe impl Sync for Version {}

/// A version by reference.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    header: NonNull<Header>,
    lifetime: PhantomData<&'a Header>,
}

fn layout(length: usize) -> Layout {
    // Values are far smaller than memory, so neither step fails.
    Layout::array::<u8>(length)
        .and_then(|bytes| Layout::new::<Header>().extend(bytes))
        .map_or(Layout::new::<Header>(), |(layout, _)| layout)
}

impl Version {
    /// What a version costs beside its value: its header, and the allocator's.
    pub(crate) const OVERHEAD: usize = size_of::<Header>() + size_of::<usize>();

    /// A version that has its place in the log still to come.
    pub(crate) fn new(value: &[u8]) -> Self {
        let layout = layout(value.len());
        assert!(layout.size() >= size_of::<Header>() + value.len(), "a value is a slice");
        // SAFETY: the layout has room for a header, so its size is not zero.
        let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        let header = memory.cast::<Header>();
        // SAFETY: the allocation is aligned for a header and has room for it and for the value behind it.
        unsafe {
            header.write(Header { position: Position::NONE.to_bits(), length: value.len() });
            header.add(1).cast::<u8>().copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        Self(header)
    }

    /// The same, and where in the log it was written.
    pub(crate) fn at(self, position: Position) -> Self {
        // SAFETY: the header is alive, and nobody else has its address.
        unsafe { (*self.0.as_ptr()).position = position.to_bits() };
        self
    }

    /// By reference.
    pub(crate) fn view(&self) -> View<'_> {
        View { header: self.0, lifetime: PhantomData }
    }

    /// The value.
    pub(crate) fn value(&self) -> &[u8] {
        self.view().value()
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        // SAFETY: the allocation was made with this layout in `new`, and nobody else has its address any more.
        unsafe { dealloc(self.0.as_ptr().cast(), layout(self.0.as_ref().length)) };
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

impl<'a> View<'a> {
    fn header(self) -> &'a Header {
        // SAFETY: whoever made the view had a version that lives, and does not change, as long as the view.
        unsafe { self.header.as_ref() }
    }

    /// Where in the log it was written.
    pub(crate) fn position(self) -> Position {
        Position::from_bits(self.header().position)
    }

    /// The value.
    #[inline]
    pub(crate) fn value(self) -> &'a [u8] {
        // SAFETY: `Version::new` wrote that many bytes behind the header; for the rest see `header`.
        unsafe { std::slice::from_raw_parts(self.header.add(1).cast().as_ptr(), self.header().length) }
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {:?}", self.value().len(), self.position())
    }
}

/// The latest version of a key, or none.
#[derive(Default)]
pub(crate) struct Latest(AtomicPtr<Header>);

impl Latest {
    /// As long as this record and the guard last.
    #[inline]
    pub(crate) fn load<'g>(&'g self, _: &'g Guard) -> Option<View<'g>> {
        // The address is that of a version that `replace` gave away, or has not yet. It is alive: whoever takes it out gives
        // it back only when this guard is gone (`Retired`), and `drop` waits for the borrow of `self`.
        NonNull::new(self.0.load(Ordering::Acquire)).map(|header| View { header, lifetime: PhantomData })
    }

    /// True if there is none.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::Acquire).is_null()
    }

    /// Puts another version, or none, in place of the latest.
    pub(crate) fn replace(&self, version: Option<Version>) -> Option<Retired> {
        let new = version.map_or(ptr::null_mut(), |version| {
            let header = version.0.as_ptr();
            std::mem::forget(version);
            header
        });
        let old = self.0.swap(new, Ordering::AcqRel);
        NonNull::new(old).map(|header| Retired(Some(Version(header))))
    }
}

impl Drop for Latest {
    fn drop(&mut self) {
        // Nobody else has the record, so nobody has a view of its version.
        drop(NonNull::new(*self.0.get_mut()).map(Version));
    }
}

impl fmt::Debug for Latest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "no version" } else { "a version" })
    }
}

/// A version that is nobody's latest any more, and that others may still look at. To drop it is to give it back once they
/// can not.
#[derive(Debug)]
#[must_use]
pub(crate) struct Retired(Option<Version>);

impl Retired {
    /// The value.
    pub(crate) fn value(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], Version::value)
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        if let Some(version) = self.0.take() {
            Guard::new().defer_execute(move || drop(version));
        }
    }
}

/// Versions that are given back together.
#[derive(Debug, Default)]
pub(crate) struct Retirement(Vec<Version>);

impl Retirement {
    /// Adds one.
    pub(crate) fn add(&mut self, mut retired: Retired) {
        self.0.extend(retired.0.take());
    }
}

impl Drop for Retirement {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            let versions = std::mem::take(&mut self.0);
            Guard::new().defer_execute(move || drop(versions));
        }
    }
}

#[cfg(test)]
mod tests {
    use ishigaki_base::{Lsn, StreamId};

    use super::*;

    #[test]
    fn a_version_keeps_value_and_position() {
        let position = Position::new(Lsn(7), StreamId(2));
        for length in [0, 1, 15, 16, 17, 4096] {
            let value: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let version = Version::new(&value).at(position);
            assert_eq!((version.value(), version.view().position()), (value.as_slice(), position));
        }
    }

    #[test]
    fn what_is_replaced_lasts_as_long_as_the_guard() {
        let latest = Latest::default();
        assert!(latest.is_none() && latest.replace(Some(Version::new(b"old"))).is_none());
        let guard = Guard::new();
        let seen = latest.load(&guard).unwrap();
        let mut retirement = Retirement::default();
        retirement.add(latest.replace(Some(Version::new(b"new"))).unwrap());
        drop(retirement);
        drop(latest.replace(None));
        for _ in 0..1000 {
            Guard::new().accelerate();
        }
        assert_eq!(seen.value(), b"old");
    }
}
