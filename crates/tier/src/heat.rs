//! How much a chunk is used: requests and bytes, read and written, of which half is forgotten every [half-life](crate::Settings::half_life).

use std::time::{Duration, Instant};

/// What was counted of one chunk. 20 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heat {
    uses: Use,
    /// The half-life that the counts are of.
    period: u32,
}

/// How much something was used of late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Requests that read, or missed a block and so had it read.
    pub reads: u32,
    /// Requests that wrote.
    pub writes: u32,
    /// KiB that were read.
    pub read_kib: u32,
    /// KiB that were written.
    pub written_kib: u32,
}

impl Use {
    fn halved(self, times: u32) -> Self {
        let half = |count: u32| count.checked_shr(times).unwrap_or(0);
        Self {
            reads: half(self.reads),
            writes: half(self.writes),
            read_kib: half(self.read_kib),
            written_kib: half(self.written_kib),
        }
    }
}

impl Heat {
    /// What is left of it now.
    pub(crate) fn now(&self, clock: &Clock) -> Use {
        self.uses.halved(clock.period().saturating_sub(self.period))
    }

    pub(crate) fn read(&mut self, bytes: usize, clock: &Clock) {
        let uses = self.at(clock);
        uses.reads = uses.reads.saturating_add(1);
        uses.read_kib = uses.read_kib.saturating_add(kib(bytes));
    }

    pub(crate) fn written(&mut self, bytes: usize, clock: &Clock) {
        let uses = self.at(clock);
        uses.writes = uses.writes.saturating_add(1);
        uses.written_kib = uses.written_kib.saturating_add(kib(bytes));
    }

    fn at(&mut self, clock: &Clock) -> &mut Use {
        let period = clock.period();
        if period != self.period {
            self.uses = self.uses.halved(period.saturating_sub(self.period));
            self.period = period;
        }
        &mut self.uses
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// Counts half-lives.
#[derive(Debug)]
pub(crate) struct Clock {
    began: Instant,
    half_life: Duration,
}

impl Clock {
    pub(crate) fn started(half_life: Duration) -> Self {
        Self { began: Instant::now(), half_life }
    }

    fn period(&self) -> u32 {
        (self.began.elapsed().as_millis() / self.half_life.as_millis().max(1)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_counts_half_later() {
        const HALF_LIFE: Duration = Duration::from_mins(1);
        let mut clock = Clock::started(HALF_LIFE);
        let mut heat = Heat::default();
        for _ in 0..8 {
            heat.read(4096, &clock);
        }
        heat.written(1, &clock);
        assert_eq!(heat.now(&clock), Use { reads: 8, writes: 1, read_kib: 32, written_kib: 1 });
        clock.began -= 2 * HALF_LIFE;
        assert_eq!(heat.now(&clock), Use { reads: 2, writes: 0, read_kib: 8, written_kib: 0 });
        heat.read(1024, &clock);
        assert_eq!(heat.now(&clock), Use { reads: 3, writes: 0, read_kib: 9, written_kib: 0 });
        clock.began -= 100 * HALF_LIFE;
        assert_eq!(heat.now(&clock), Use::default());
    }
}
