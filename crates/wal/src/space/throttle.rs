//! How much sessions are slowed down by the space that is left.
//!
//! What is left may be filled at such a speed that it would last for a [`HORIZON`]. As it gets less, so does the speed:
//! without any trim the log comes to a stop like something that rolls out, and with trims it settles where they free as much
//! as is appended. From the first half on, where nobody is slowed, to three quarters the rule sets in by and by, so that
//! there is no cliff there either.

use std::time::Duration;

/// How long the space that is left lasts at the speed that is allowed.
const HORIZON: Duration = Duration::from_secs(4);

/// The rule for one log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Throttle {
    /// Nobody is slowed while fewer bytes are live.
    easy: u64,
    /// With so many live bytes nobody goes on.
    end: u64,
}

impl Throttle {
    /// Shorter delays are not waited for but added to the next one.
    pub(super) const GRAIN: Duration = Duration::from_millis(1);

    /// For a log that comes to a stop at `end` live bytes.
    pub(super) fn new(end: u64) -> Self {
        Self { easy: end / 2, end }
    }

    /// With so many live bytes, or less, nobody is slowed.
    pub(super) fn easy(self) -> u64 {
        self.easy
    }

    /// With so many live bytes nobody goes on.
    pub(super) fn end(self) -> u64 {
        self.end
    }

    /// Whether anybody is slowed.
    pub(super) fn slows(self, live: u64) -> bool {
        live > self.easy
    }

    /// How long `bytes` take at the speed that is allowed.
    pub(super) fn toll(self, live: u64, bytes: u64) -> Duration {
        let left = self.end.saturating_sub(live).max(1) as f64;
        let strictness = (live.saturating_sub(self.easy) as f64 / (self.end as f64 / 4.0)).min(1.0);
        Duration::try_from_secs_f64(HORIZON.as_secs_f64() * strictness * bytes as f64 / left).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_toll_grows_from_nothing_without_a_jump() {
        let throttle = Throttle::new(1000);
        assert!(!throttle.slows(500) && throttle.slows(501));
        let tolls: Vec<_> = (500..1000).map(|live| throttle.toll(live, 1)).collect();
        assert_eq!(tolls[0], Duration::ZERO);
        for pair in tolls.windows(2) {
            assert!(pair[0] < pair[1] && pair[1] <= pair[0] * 2 + HORIZON / 10_000, "{pair:?}");
        }
    }

    #[test]
    fn what_is_left_is_filled_in_no_less_than_the_horizon() {
        let throttle = Throttle::new(1 << 30);
        let (mut live, mut time) = (1_u64 << 29, Duration::ZERO);
        while live < (1 << 30) - (1 << 26) {
            time += throttle.toll(live, 4096);
            live += 4096;
        }
        assert!((HORIZON..4 * HORIZON).contains(&time), "{time:?} until a sixteenth is left");
    }
}
