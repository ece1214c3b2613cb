//! The memory that running statements share.
//!
//! An operator that can spill may hold at most as much as is free: alone it gets half, two get a third each, and there is
//! always as much left for operators that can not spill, for those that begin, and for merging what was spilled. A little,
//! and its first piece, an operator gets wherever it fits: with nothing it could not even begin to spill. No share is set
//! aside for an operator that does not need it. Operators that can not spill take what there is. A merge of what was spilled gets memory
//! for two runs wherever it fits, for it can not do with less.
//!
//! The rule is that of shared packet buffers: A. K. Choudhury and E. L. Hahne, *Dynamic queue length thresholds for
//! shared-memory packet switches*, IEEE/ACM Transactions on Networking 6(2), 1998.

use std::fmt;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use parking_lot::Mutex;

/// The part of all memory that counts as little.
const LITTLE: usize = 16;

/// What the names of reservations begin with in which a sort merges what it has spilled. It does not call them able to
/// spill, but merges as many runs at a time as it gets memory for, and the rest later.
const MERGES: &str = "ExternalSorterMerge";

/// See the module.
#[derive(Debug)]
pub(crate) struct SharedPool {
    limit: usize,
    used: Mutex<usize>,
}

impl SharedPool {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: Mutex::default() }
    }
}

impl fmt::Display for SharedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shared(used: {}, pool_size: {})", self.used.lock(), self.limit)
    }
}

impl MemoryPool for SharedPool {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        *self.used.lock() += additional;
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        *self.used.lock() -= shrink;
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut used = self.used.lock();
        let (free, size) = (self.limit.saturating_sub(*used), reservation.size());
        let name = reservation.consumer().name();
        // The reservation for another run is about as large as that for the first one.
        let is_second_run = name.starts_with(MERGES) && size <= additional;
        let gives_way = (reservation.consumer().can_spill() || name.starts_with(MERGES)) && !is_second_run;
        let fits = free
            .checked_sub(additional)
            .is_some_and(|rest| !gives_way || size == 0 || size + additional <= rest.max(self.limit / LITTLE));
        if !fits {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{name} needs {additional} more bytes of memory, has {size}, and {free} of {} are free",
                self.limit
            )));
        }
        *used += additional;
        Ok(())
    }

    fn reserved(&self) -> usize {
        *self.used.lock()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::execution::memory_pool::MemoryConsumer;

    use super::*;

    #[test]
    fn operators_that_can_spill_leave_something_to_others_and_get_what_others_give_back() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(9000));
        let spiller = |name: &str| MemoryConsumer::new(name).with_can_spill(true).register(&pool);
        let (first, second) = (spiller("first"), spiller("second"));
        let other = MemoryConsumer::new("other").register(&pool);
        first.try_grow(4500).unwrap();
        let refused = first.try_grow(1).unwrap_err().to_string();
        assert!(refused.contains("first needs 1 more bytes") && refused.contains("4500 of 9000"), "{refused}");
        second.try_grow(2250).unwrap();
        assert!(second.try_grow(1).is_err());
        other.try_grow(2250).unwrap();
        assert!(other.try_grow(1).is_err());
        // Little, and a first piece, is granted wherever it fits, and no more than fits.
        let third = spiller("third");
        other.shrink(100);
        third.try_grow(100).unwrap();
        assert!(third.try_grow(1).is_err());
        other.shrink(2150);
        third.try_grow(462).unwrap();
        drop((first, third));
        second.try_grow(1125).unwrap();
        other.try_grow(5625).unwrap();
        assert_eq!(pool.reserved(), 9000);
    }

    #[test]
    fn operators_that_all_want_everything_get_the_same_and_leave_as_much_as_a_new_one_needs_to_begin() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(4000));
        let all: Vec<_> =
            (0..3).map(|n| MemoryConsumer::new(format!("{n}")).with_can_spill(true).register(&pool)).collect();
        for _ in 0..4000 {
            for reservation in &all {
                let _ = reservation.try_grow(1);
            }
        }
        for reservation in &all {
            assert!(reservation.size().abs_diff(1000) <= 4, "{}", reservation.size());
        }
    }
}
