//! Pages in memory, for all tables of a program.
//!
//! A page is found by its segment's identity, which is drawn at random and never used twice, and its place in it; so what
//! is here never goes stale. Pages of which a column was checked against its checksum are not checked again. Which ones
//! stay is `quick_cache`'s business (S3-FIFO: Yang et al., SOSP 2023): a scan that passes once does not drive out what
//! others read again and again.

use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_page::{Page, PageAddress};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Where a page is: segment, and place in it.
type Key = (u64, u32);

#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Key, Arc<Page>> for Bytes {
    fn weight(&self, _: &Key, page: &Arc<Page>) -> u64 {
        page.bytes().len() as u64
    }
}

/// Keeps pages up to a number of bytes. May be shared between threads.
///
/// Pages that were read together share their memory, which is free when the last of them goes; so a little more may be
/// held than is counted.
#[derive(Debug)]
pub struct PageCache {
    pages: Option<Cache<Key, Arc<Page>, Bytes>>,
}

impl PageCache {
    /// A cache of so many bytes; nothing is kept in one of less than a mebibyte.
    pub fn new(memory: ByteSize) -> Self {
        /// What a page may be expected to take; only how many places are set aside at first depends on it.
        const PAGE: u64 = 128 << 10;
        let bytes = memory.as_u64();
        let keeps = bytes >= 1 << 20;
        Self { pages: keeps.then(|| Cache::with_weighter((bytes / PAGE) as usize, bytes, Bytes)) }
    }

    pub(super) fn get(&self, address: &PageAddress) -> Option<Arc<Page>> {
        self.pages.as_ref()?.get(&(address.segment, address.within))
    }

    /// Without counting as a use.
    pub(super) fn has(&self, address: &PageAddress) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.peek(&(address.segment, address.within)).is_some())
    }

    pub(super) fn keep(&self, address: &PageAddress, page: &Arc<Page>) {
        if let Some(pages) = &self.pages {
            pages.insert((address.segment, address.within), Arc::clone(page));
        }
    }
}
