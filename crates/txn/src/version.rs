//! Values that have no room in their records, each in an allocation of its own.
//!
//! ```text
//! ┌────────┬───────────┐
//! │ length │ value …   │      the record's form is the address
//! └────────┴───────────┘
//! ```
//!
//! A value that others can see never changes: whoever writes the key puts another in its place, and the old one is given
//! back when all guards are gone that were there at that time.

#![allow(unsafe_code, reason = "a record has the address of a value")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
#[cfg(test)]
use std::sync::atomic::{AtomicI64, Ordering};

use sdd::Guard;

#[repr(C)]
struct Header {
    length: usize,
    /// How many there are of those that the same thread has made. Memory may be given back by another one.
    #[cfg(test)]
    living: &'static AtomicI64,
}

/// A value that nobody else can see.
pub(crate) struct Version(NonNull<Header>);

#[cfg(test)]
thread_local! {
    static LIVING: &'static AtomicI64 = Box::leak(Box::default());
}

#[cfg(test)]
fn living() -> &'static AtomicI64 {
    LIVING.with(|living| *living)
}

/// Runs a test in a thread of its own. It gets a look at how many versions the thread has made that were not given back.
#[cfg(test)]
pub(crate) fn counted(test: impl FnOnce(fn() -> i64) + Send + 'static) {
    std::thread::spawn(|| test(|| living().load(Ordering::Relaxed))).join().expect("the test succeeds");
}

// SAFETY: a version is plain bytes that it owns alone.
unsafe impl Send for Version {}
// SAFETY: by a shared reference it can only be read.
unsafe impl Sync for Version {}

/// A value by reference.
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
    pub(crate) const OVERHEAD: usize = 2 * size_of::<usize>();

    /// A copy of a value.
    pub(crate) fn new(value: &[u8]) -> Self {
        let layout = layout(value.len());
        assert!(layout.size() >= size_of::<Header>() + value.len(), "a value is a slice");
        // SAFETY: the layout has room for a header, so its size is not zero.
        let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        let header = memory.cast::<Header>();
        // SAFETY: the allocation is aligned for a header and has room for it and for the value behind it.
        unsafe {
            header.write(Header {
                length: value.len(),
                #[cfg(test)]
                living: living(),
            });
            header.add(1).cast::<u8>().copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        }
        #[cfg(test)]
        living().fetch_add(1, Ordering::Relaxed);
        Self(header)
    }

    /// The value.
    pub(crate) fn value(&self) -> &[u8] {
        View { header: self.0, lifetime: PhantomData }.value()
    }

    /// As the form of a record: an even number that is not zero. The record owns it.
    pub(crate) fn into_form(self) -> u64 {
        let address = self.0.expose_provenance().get() as u64;
        std::mem::forget(self);
        address
    }
}

/// The version that a record's form leads to, as long as the guard lives.
///
/// # Safety
///
/// The form is odd or zero, or [`Version::into_form`] made it and the caller has read it from its record under this guard.
#[inline]
pub(crate) unsafe fn of_form(form: u64, _: &Guard) -> Option<View<'_>> {
    // So this is the address of a version that was alive when the form was in its record. The caller that takes it out gives
    // it back only when this guard is gone (`retired`), or has the record alone, which `owned` asks for.
    if form & 1 == 1 {
        return None;
    }
    let header = NonNull::new(std::ptr::with_exposed_provenance_mut(form as usize))?;
    Some(View { header, lifetime: PhantomData })
}

/// The version of a form that has just been taken out of a record.
///
/// # Safety
///
/// The form is odd or zero, or [`Version::into_form`] made it, the caller alone has taken it out of its record, and nothing
/// else can have read it there, or no guard is left from when it could.
pub(crate) unsafe fn owned(form: u64) -> Option<Version> {
    if form & 1 == 1 {
        return None;
    }
    NonNull::new(std::ptr::with_exposed_provenance_mut(form as usize)).map(Version)
}

/// The version of a form that has just been taken out of a record, to be given back when no guard is left from before.
///
/// # Safety
///
/// The form is odd or zero, or [`Version::into_form`] made it and the caller alone has taken it out of its record.
pub(crate) unsafe fn retired(form: u64) -> Option<Retired> {
    // SAFETY: it is given back only when no guard is left from when the form could be read.
    unsafe { owned(form) }.map(|version| Retired(Some(version)))
}

impl Drop for Version {
    fn drop(&mut self) {
        // SAFETY: the header was written in `new`.
        #[cfg(test)]
        unsafe { self.0.as_ref() }.living.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the allocation was made with this layout in `new`, and nobody else has its address any more.
        unsafe { dealloc(self.0.as_ptr().cast(), layout(self.0.as_ref().length)) };
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.value().len())
    }
}

impl<'a> View<'a> {
    fn header(self) -> &'a Header {
        // SAFETY: whoever made the view had a version that lives, and does not change, as long as the view.
        unsafe { self.header.as_ref() }
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
        write!(f, "{} bytes", self.value().len())
    }
}

/// A version that is in no record any more, and that others may still look at. To drop it is to give it back once they
/// can not.
#[derive(Debug)]
#[must_use]
pub(crate) struct Retired(Option<Version>);

impl Drop for Retired {
    fn drop(&mut self) {
        if let Some(version) = self.0.take() {
            let bytes = version.value().len();
            defer(version, bytes);
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

/// Bytes of retired versions from which on the thread that retires them tries to bring the next epoch about, so that
/// memory which is not counted any more does not pile up.
const MUCH: usize = 64 << 10;

/// Leaves versions to be dropped when all guards of this moment are gone.
fn defer(versions: impl Send + 'static, bytes: usize) {
    let guard = Guard::new();
    guard.defer_execute(move || drop(versions));
    if bytes >= MUCH {
        guard.accelerate();
    }
}

impl Drop for Retirement {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            let versions = std::mem::take(&mut self.0);
            let bytes = versions.iter().map(|version| version.value().len()).sum();
            defer(versions, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_keeps_its_value() {
        let guard = Guard::new();
        for length in [0, 1, 15, 16, 17, 4096] {
            let value: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let form = Version::new(&value).into_form();
            // SAFETY: made above, and taken below.
            assert_eq!(unsafe { of_form(form, &guard) }.unwrap().value(), value);
            // SAFETY: made above, and taken once.
            assert_eq!(unsafe { owned(form) }.unwrap().value(), value);
        }
        // SAFETY: odd or zero.
        let is_nothing = unsafe { owned(0).is_none() && owned(1).is_none() && of_form(0, &guard).is_none() };
        assert!(is_nothing);
    }

    #[test]
    fn what_is_retired_lasts_as_long_as_the_guard() {
        counted(|living| {
            let forms = [b"one", b"two"].map(|value| Version::new(value).into_form());
            let guard = Guard::new();
            // SAFETY: made above, and taken below.
            let seen = forms.map(|form| unsafe { of_form(form, &guard) }.unwrap());
            // SAFETY: made above, and taken once.
            drop(unsafe { retired(forms[0]) });
            let mut retirement = Retirement::default();
            // SAFETY: made above, and taken once.
            retirement.add(unsafe { retired(forms[1]) }.unwrap());
            drop(retirement);
            for _ in 0..1000 {
                Guard::new().accelerate();
            }
            assert_eq!(living(), 2);
            assert_eq!(seen.map(View::value), [b"one", b"two"]);
            drop(guard);
            let is_gone = (0..1_000_000).any(|_| {
                Guard::new().accelerate();
                std::thread::yield_now();
                living() == 0
            });
            assert!(is_gone);
        });
    }
}
