//! How much a chunk is used: requests and bytes, read and written, of which half is forgotten every [half-life](crate::Settings::half_life).
//!
//! Counts are no whole numbers: most chunks are used once in a while, and a count of one that is halved must not become none.

use std::time::{Duration, Instant};

/// What was counted of one chunk. 28 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heat {
    uses: Use,
    /// The moment that the counts are of, in hundredths of a half-life.
    moment: u32,
    counts: Requests,
}

/// Requests since the pool was opened; after the last number that there is they begin again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Those that read.
    pub reads: u32,
    /// Those that wrote.
    pub writes: u32,
}

/// How much something was used of late.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// Requests that read, or missed a block and so had it read.
    pub reads: f32,
    /// Requests that wrote.
    pub writes: f32,
    /// KiB that were read.
    pub read_kib: f32,
    /// KiB that were written.
    pub written_kib: f32,
}

/// Less than this is none.
const NOTHING: f32 = 1.0 / 64.0;

impl Use {
    fn times(self, left: f32) -> Self {
        let of = |count: f32| if count * left < NOTHING { 0.0 } else { count * left };
        Self {
            reads: of(self.reads),
            writes: of(self.writes),
            read_kib: of(self.read_kib),
            written_kib: of(self.written_kib),
        }
    }
}

impl Heat {
    /// What is left of it now.
    pub(crate) fn now(&self, clock: &Clock) -> Use {
        let passed = clock.moment().saturating_sub(self.moment);
        if passed == 0 { self.uses } else { self.uses.times((-(passed as f32) / HUNDREDTHS).exp2()) }
    }

    /// All of its requests.
    pub(crate) fn counts(&self) -> Requests {
        self.counts
    }

    pub(crate) fn read(&mut self, bytes: usize, clock: &Clock) {
        self.counts.reads = self.counts.reads.wrapping_add(1);
        let uses = self.at(clock);
        uses.reads += 1.0;
        uses.read_kib += kib(bytes);
    }

    pub(crate) fn written(&mut self, bytes: usize, clock: &Clock) {
        self.counts.writes = self.counts.writes.wrapping_add(1);
        let uses = self.at(clock);
        uses.writes += 1.0;
        uses.written_kib += kib(bytes);
    }

    fn at(&mut self, clock: &Clock) -> &mut Use {
        self.uses = self.now(clock);
        self.moment = clock.moment();
        &mut self.uses
    }
}

/// In how many parts a half-life is counted.
const HUNDREDTHS: f32 = 100.0;

fn kib(bytes: usize) -> f32 {
    bytes.div_ceil(1024) as f32
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

    /// Hundredths of a half-life.
    fn moment(&self) -> u32 {
        let passed = self.began.elapsed().as_millis() * 100 / self.half_life.as_millis().max(1);
        u32::try_from(passed).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(uses: Use, expected: [f32; 4]) -> bool {
        let found = [uses.reads, uses.writes, uses.read_kib, uses.written_kib];
        found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= 0.02 * expected)
    }

    #[test]
    fn what_was_counted_counts_half_later() {
        const HALF_LIFE: Duration = Duration::from_mins(1);
        let mut clock = Clock::started(HALF_LIFE);
        let mut heat = Heat::default();
        for _ in 0..8 {
            heat.read(4096, &clock);
        }
        heat.written(1, &clock);
        assert!(is_near(heat.now(&clock), [8.0, 1.0, 32.0, 1.0]));
        clock.began -= 2 * HALF_LIFE;
        assert!(is_near(heat.now(&clock), [2.0, 0.25, 8.0, 0.25]), "one use is not forgotten at once");
        heat.read(1024, &clock);
        assert!(is_near(heat.now(&clock), [3.0, 0.25, 9.0, 0.25]));
        clock.began -= 100 * HALF_LIFE;
        assert_eq!(heat.now(&clock), Use::default());
    }
}
