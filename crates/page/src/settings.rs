//! What is chosen when a page file is made.

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;

/// The smallest page, in bytes.
pub(crate) const MIN_PAGE: usize = 4 << 10;
/// The largest page, in bytes.
pub(crate) const MAX_PAGE: usize = 1 << 20;

/// What is chosen when a page file is made; the page size stays for its life.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The size of every page: a power of two between 4 KiB and 1 MiB.
    pub page_size: ByteSize,
    /// How much of an append is kept in memory and then written as one segment; at least a page, at most 1 GiB.
    pub segment: ByteSize,
    /// Where the identities of the file and its segments are drawn from; nobody can foretell them by default.
    pub seed: Seed,
}

impl Default for Settings {
    /// Pages of 128 KiB in segments of up to 64 MiB.
    fn default() -> Self {
        Self { page_size: ByteSize::kib(128), segment: ByteSize::mib(64), seed: Seed::from_entropy() }
    }
}

impl Settings {
    /// The [identity](crate::Writer::identity) that a file has which is made with these.
    pub fn identity(&self) -> u64 {
        self.seed.generator().u64(..)
    }

    /// Says what is wrong with them.
    pub(crate) fn fault(&self) -> Option<String> {
        if !usize::try_from(self.page_size.as_u64()).is_ok_and(is_page_size) {
            return Some(format!("a page of {} can not be: choose a power of two from 4KiB to 1MiB", self.page_size));
        }
        if !(self.page_size..=ByteSize::gib(1)).contains(&self.segment) {
            return Some(format!("a segment of {} can not be: choose one from a page to 1GiB", self.segment));
        }
        None
    }
}

/// True for a page size that a file may have.
pub(crate) fn is_page_size(size: usize) -> bool {
    size.is_power_of_two() && (MIN_PAGE..=MAX_PAGE).contains(&size)
}

/// The most rows that a page of that size may have.
pub(crate) fn max_rows(page_size: usize) -> usize {
    page_size / 2
}

/// The most bytes that the strings of one column of a page may have when they are spread out.
pub(crate) fn max_spread(page_size: usize) -> usize {
    page_size * 16
}
