//! The pages: a lock, a number and the last writer of each.

use ishigaki_base::Position;
use parking_lot::{Mutex, MutexGuard};

/// How many there are (paper 1, section 5.2.1).
pub(super) const PAGES: u32 = 1 << 16;

/// What a page's lock guards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) value: u32,
    /// The record of the transaction that wrote the value.
    pub(super) writer: Position,
}

/// All pages. A transaction locks its pages in ascending order, so that no two wait for each other.
#[derive(Debug)]
pub(super) struct Pages(Vec<Mutex<Page>>);

impl Pages {
    /// All zero.
    pub(super) fn new() -> Self {
        Self((0..PAGES).map(|_| Mutex::new(Page { value: 0, writer: Position::NONE })).collect())
    }

    pub(super) fn lock(&self, page: u32) -> MutexGuard<'_, Page> {
        self.0[page as usize].lock()
    }

    /// The numbers, page by page.
    pub(super) fn values(&self) -> Vec<u32> {
        self.0.iter().map(|page| page.lock().value).collect()
    }
}
