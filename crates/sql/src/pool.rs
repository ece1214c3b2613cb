//! The memory that running statements share.
//!
//! Operators take what they need, first come, first served, as long as there is enough for all. Near the end those that can
//! spill must leave the last eighth to the others: to operators that can not, and to those that can and have next to
//! nothing yet, for without a little they could not even begin to spill.

use std::fmt;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use parking_lot::Mutex;

/// See the module.
#[derive(Debug)]
pub(crate) struct SharedPool {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// How many there are that can spill.
    spillers: usize,
}

impl SharedPool {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default() }
    }
}

impl fmt::Display for SharedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shared(used: {}, pool_size: {})", self.state.lock().used, self.limit)
    }
}

impl MemoryPool for SharedPool {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.state.lock().spillers += usize::from(consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.state.lock().spillers -= usize::from(consumer.can_spill());
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.state.lock().used += additional;
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.state.lock().used -= shrink;
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut state = self.state.lock();
        let last = self.limit / 8;
        let little = last / state.spillers.max(1);
        let is_large = reservation.consumer().can_spill() && reservation.size().saturating_add(additional) > little;
        let limit = if is_large { self.limit - last } else { self.limit };
        let used = state.used.saturating_add(additional);
        if used > limit {
            let name = reservation.consumer().name();
            let (has, left) = (reservation.size(), limit.saturating_sub(state.used));
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{name} needs {additional} more bytes of memory, has {has}, and {left} of {} are left for it",
                self.limit
            )));
        }
        state.used = used;
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.state.lock().used
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_last_eighth_is_for_those_that_can_not_spill_and_for_those_that_have_little() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(8000));
        let spiller = |name: &str| MemoryConsumer::new(name).with_can_spill(true).register(&pool);
        let (large, small) = (spiller("large"), spiller("small"));
        let other = MemoryConsumer::new("other").register(&pool);
        large.try_grow(7000).unwrap();
        let refused = large.try_grow(1).unwrap_err().to_string();
        assert!(refused.contains("large needs 1 more bytes") && refused.contains("of 8000"), "{refused}");
        small.try_grow(500).unwrap();
        assert!(small.try_grow(1).is_err());
        other.try_grow(500).unwrap();
        assert!(other.try_grow(1).is_err());
        drop(large);
        other.try_grow(7000).unwrap();
        assert_eq!(pool.reserved(), 8000);
    }
}
