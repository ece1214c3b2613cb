//! The memory of a cache: pages by file and number, the least useful of which go when room is needed.
//!
//! Which ones those are is `quick_cache`'s business (S3-FIFO: Yang et al., SOSP 2023): pages that were read once, as by a
//! scan, go before those that were read again.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// What a page takes beside its bytes, about.
const OVERHEAD: u64 = 96;

/// No part of the cache, each with a lock of its own, has fewer pages; or some would be full while others are empty.
const PAGES_PER_PART: u64 = 512;

const MOST_PARTS: u64 = 16;

/// Pages of one length.
#[derive(Debug)]
pub(super) struct Pages {
    cache: Cache<(u64, u64), Arc<[u8]>, Weight>,
    page: usize,
    memory: usize,
}

#[derive(Clone, Debug)]
struct Weight;

impl Weighter<(u64, u64), Arc<[u8]>> for Weight {
    fn weight(&self, _: &(u64, u64), bytes: &Arc<[u8]>) -> u64 {
        bytes.len() as u64 + OVERHEAD
    }
}

impl Pages {
    pub(super) fn new(memory: u64, page: usize) -> Self {
        let items = (memory / (page as u64 + OVERHEAD)).max(1);
        let parts = (items / PAGES_PER_PART).clamp(1, MOST_PARTS);
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(items as usize).weight_capacity(memory).shards(parts as usize);
        let cache = match options.build() {
            Ok(options) => {
                Cache::with_options(options, Weight, DefaultHashBuilder::default(), DefaultLifecycle::default())
            }
            // Only for want of one of the numbers that were just given.
            Err(_) => Cache::with_weighter(items as usize, memory, Weight),
        };
        Self { cache, page, memory: memory as usize }
    }

    pub(super) fn page(&self) -> usize {
        self.page
    }

    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    pub(super) fn get(&self, file: u64, page: u64) -> Option<Arc<[u8]>> {
        self.cache.get(&(file, page))
    }

    pub(super) fn insert(&self, file: u64, page: u64, bytes: &[u8]) {
        self.cache.insert((file, page), Arc::from(bytes));
    }

    /// Drops all pages that have any of these bytes; how many there were.
    pub(super) fn remove(&self, file: u64, offset: u64, length: u64) -> u64 {
        if length == 0 {
            return 0;
        }
        let page = self.page as u64;
        let (first, last) = (offset / page, offset.saturating_add(length - 1) / page);
        let before = self.cache.len();
        if last - first < before as u64 {
            return (first..=last).filter(|&page| self.cache.remove(&(file, page)).is_some()).count() as u64;
        }
        // A range that is longer than the whole cache.
        self.cache.retain(|&(of, page), _| of != file || !(first..=last).contains(&page));
        before.saturating_sub(self.cache.len()) as u64
    }

    pub(super) fn clear(&self) {
        self.cache.clear();
    }

    /// Pages and bytes.
    pub(super) fn held(&self) -> (u64, u64) {
        (self.cache.len() as u64, self.cache.weight())
    }
}
