//! What was read of a volume, and for how long requests have waited.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What was read, since the pool was opened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    fast_blocks: AtomicU64,
    slow_blocks: AtomicU64,
    fast_requests: AtomicU64,
    slow_requests: AtomicU64,
    waits: AtomicU64,
    waited_nanos: AtomicU64,
}

/// What requests have read, since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Blocks of [`BLOCK`](crate::BLOCK) bytes that came from the fast device, and from the slow one.
    pub blocks: (u64, u64),
    /// Requests that the fast device has answered alone, and those that have waited for the slow one. Without those that go past the fast one.
    pub requests: (u64, u64),
    /// Reads of the slow device that requests have waited for.
    pub waits: u64,
    /// And how long, all together.
    pub waited: Duration,
}

impl Reads {
    /// These and others.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let sum = |(one, two): (u64, u64), (more, again): (u64, u64)| (one + more, two + again);
        Self {
            blocks: sum(self.blocks, other.blocks),
            requests: sum(self.requests, other.requests),
            waits: self.waits + other.waits,
            waited: self.waited + other.waited,
        }
    }

    /// Those that have come since; none where there were more before.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let rest = |now: (u64, u64), then: (u64, u64)| (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1));
        Self {
            blocks: rest(self.blocks, before.blocks),
            requests: rest(self.requests, before.requests),
            waits: self.waits.saturating_sub(before.waits),
            waited: self.waited.saturating_sub(before.waited),
        }
    }
}

impl Counts {
    /// Blocks were read, from the fast device or not.
    pub(super) fn read(&self, blocks: u64, is_fast: bool) {
        let count = if is_fast { &self.fast_blocks } else { &self.slow_blocks };
        count.fetch_add(blocks, Ordering::Relaxed);
    }

    /// A request was answered, by the fast device alone or not.
    pub(super) fn answered(&self, is_fast: bool) {
        let count = if is_fast { &self.fast_requests } else { &self.slow_requests };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts how long a request waits for the slow device.
    pub(super) fn waiting<T>(&self, read: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let outcome = read();
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waited_nanos.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        outcome
    }

    pub(super) fn now(&self) -> Reads {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Reads {
            blocks: (of(&self.fast_blocks), of(&self.slow_blocks)),
            requests: (of(&self.fast_requests), of(&self.slow_requests)),
            waits: of(&self.waits),
            waited: Duration::from_nanos(of(&self.waited_nanos)),
        }
    }
}
