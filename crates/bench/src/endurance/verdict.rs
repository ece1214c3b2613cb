//! What samples show: whether the log and the service's memory are bounded, and whether commits become fewer.
//!
//! Time is cut into twelve parts, of an hour five minutes each. The first one is for getting there: caches fill, the log comes
//! round. The second is what the last is held against.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Sample;

/// Parts of the time.
pub(super) const PARTS: u32 = 12;

/// The least that the last part's commits may be of the second one's.
const THROUGHPUT: f64 = 0.95;

/// The most that the last part's memory may be of the second one's.
const MEMORY: f64 = 1.1;

/// One aim, and what it came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// What was seen, over what it is held against.
    pub ratio: f64,
    /// What the ratio is held against.
    pub limit: f64,
    /// Whether it keeps to it.
    pub holds: bool,
}

impl Judged {
    fn at_most(seen: f64, of: f64, limit: f64) -> Self {
        let ratio = seen / of;
        Self { ratio, limit, holds: ratio <= limit }
    }

    fn at_least(seen: f64, of: f64, limit: f64) -> Self {
        let ratio = seen / of;
        Self { ratio, limit, holds: ratio >= limit }
    }
}

/// What samples show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Commits in a second of the second part, and of the last.
    pub throughput: [f64; 2],
    /// The most memory of the second part, and of the last: bytes.
    pub memory: [u64; 2],
    /// The most memory of all the time.
    pub most_memory: u64,
    /// The most that was needed of the log, what its files took at most, and what it may take: bytes.
    pub log: [u64; 3],
    /// The log keeps to its bound: what is needed of it, and its files.
    pub log_is_bounded: Judged,
    /// Memory does not grow.
    pub memory_is_bounded: Judged,
    /// Commits do not become fewer.
    pub throughput_lasts: Judged,
}

impl Verdict {
    /// Of samples that span so much time.
    pub fn of(samples: &[Sample], duration: Duration) -> Self {
        let part = duration.as_secs_f64() / f64::from(PARTS);
        // A sample tells of the time before it: it belongs where the middle of that is.
        let starts = std::iter::once(0.0).chain(samples.iter().map(|sample| sample.seconds));
        let place = |(start, sample): (f64, &Sample)| (f64::midpoint(start, sample.seconds) / part) as u32;
        let placed: Vec<(u32, f64, &Sample)> = starts
            .zip(samples)
            .map(|(start, sample)| (place((start, sample)), sample.seconds - start, sample))
            .collect();
        let of_part = |part: u32| placed.iter().filter(move |(place, ..)| *place == part);
        let throughput = [1, PARTS - 1].map(|part| {
            let time: f64 = of_part(part).map(|(_, time, _)| time).sum();
            of_part(part).map(|(_, time, sample)| sample.rate * time).sum::<f64>() / time
        });
        let memory =
            [1, PARTS - 1].map(|part| of_part(part).map(|(.., sample)| sample.resident).max().unwrap_or_default());
        let most = |of: fn(&Sample) -> u64| samples.iter().map(of).max().unwrap_or_default();
        let log = [most(|sample| sample.log_live), most(|sample| sample.log_files), most(|sample| sample.log_bound)];
        Self {
            throughput,
            memory,
            most_memory: most(|sample| sample.resident),
            log,
            log_is_bounded: Judged::at_most(log[0].max(log[1]) as f64, log[2] as f64, 1.0),
            memory_is_bounded: Judged::at_most(memory[1] as f64, memory[0] as f64, MEMORY),
            throughput_lasts: Judged::at_least(throughput[1], throughput[0], THROUGHPUT),
        }
    }

    /// All of it holds.
    pub fn holds(&self) -> bool {
        self.log_is_bounded.holds && self.memory_is_bounded.holds && self.throughput_lasts.holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two minutes, a sample each five seconds, with what `change` makes of the samples by their number.
    fn judged(change: impl Fn(usize, &mut Sample)) -> Verdict {
        let sample = |number: usize| {
            let mut sample = Sample {
                seconds: 5.0 * (number + 1) as f64,
                commits: 500 * (number as u64 + 1),
                rate: 100.0,
                p50: 0.008,
                p99: 0.016,
                log_live: 50,
                log_bound: 100,
                log_files: 100,
                not_home: 10,
                resident: 1000,
                log_writes: 1,
                rounds: 1,
                disk: None,
            };
            change(number, &mut sample);
            sample
        };
        Verdict::of(&(0..24).map(sample).collect::<Vec<_>>(), Duration::from_mins(2))
    }

    #[test]
    fn the_last_part_is_held_against_the_second_and_the_first_is_left_out() {
        let verdict = judged(|number, sample| match number {
            0 | 1 => (sample.rate, sample.resident) = (500.0, 1),
            22 | 23 => (sample.rate, sample.resident) = (95.5, 1099),
            _ => {}
        });
        assert_eq!((verdict.throughput, verdict.memory), ([100.0, 95.5], [1000, 1099]));
        assert!(verdict.holds(), "{verdict:?}");
    }

    #[test]
    fn a_log_beyond_its_bound_growing_memory_and_fewer_commits_are_each_told() {
        let log = judged(|number, sample| sample.log_live += 51 * u64::from(number == 9));
        let files = judged(|number, sample| sample.log_files += u64::from(number == 9));
        for verdict in [log, files] {
            assert!(!verdict.log_is_bounded.holds && !verdict.holds(), "{verdict:?}");
        }
        let memory = judged(|number, sample| sample.resident += 6 * number as u64);
        assert!(!memory.memory_is_bounded.holds && !memory.holds() && memory.throughput_lasts.holds, "{memory:?}");
        let slower = judged(|number, sample| sample.rate -= 0.3 * number as f64);
        assert!(!slower.throughput_lasts.holds && !slower.holds() && slower.memory_is_bounded.holds, "{slower:?}");
    }
}
