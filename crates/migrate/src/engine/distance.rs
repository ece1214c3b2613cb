//! How far away sources are, by the time that their last answers took.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::source::NEAR;

/// So many answers are remembered, and so many are needed.
const REMEMBERED: usize = 8;
const NEEDED: usize = 3;
/// Local work on a directory takes about as long: a thread could list so many more meanwhile.
const WORK: Duration = Duration::from_millis(1);
/// The most listings under way for one thread that works.
const MOST: usize = 16;

/// The times of the last answers, by the number of the source.
#[derive(Default)]
pub(super) struct Distances(Mutex<HashMap<u32, VecDeque<Duration>>>);

impl Distances {
    /// Does something for which a source is asked once, and little else.
    pub(super) fn timed<T>(&self, source: u32, ask: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let answer = ask();
        self.took(source, began.elapsed());
        answer
    }

    /// An answer has come after so long.
    pub(super) fn took(&self, source: u32, time: Duration) {
        let last = &mut *self.0.lock();
        let last = last.entry(source).or_default();
        last.truncate(REMEMBERED - 1);
        last.push_front(time);
    }

    /// The fastest of the last answers: a busy processor or disk makes some slow, a link all of them.
    fn fastest(last: &VecDeque<Duration>) -> Option<Duration> {
        let fastest = last.iter().min().copied()?;
        (last.len() >= NEEDED && fastest >= NEAR).then_some(fastest)
    }

    /// Whether it is worth a thread to have two requests under way at a time.
    pub(super) fn is_far(&self, source: u32) -> bool {
        self.0.lock().get(&source).and_then(Self::fastest).is_some()
    }

    /// How many listings keep one thread busy with what comes of them, by the source that is farthest away: 1 where all are near.
    pub(super) fn listings(&self) -> usize {
        let farthest = self.0.lock().values().filter_map(Self::fastest).max();
        farthest.map_or(1, |time| (1 + (time.as_nanos() / WORK.as_nanos()) as usize).min(MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_listings_are_worth_it_the_farther_a_source_is() {
        let distances = Distances::default();
        let took = |times: &[u64]| times.iter().for_each(|time| distances.took(1, Duration::from_millis(*time)));
        took(&[20, 20]);
        assert_eq!((distances.is_far(1), distances.listings()), (false, 1), "two may have been slow by chance");
        took(&[20]);
        assert_eq!((distances.is_far(1), distances.is_far(0), distances.listings()), (true, false, MOST));
        took(&[5]);
        assert_eq!((distances.is_far(1), distances.listings()), (true, 6));
        took(&[1]);
        assert_eq!((distances.is_far(1), distances.listings()), (false, 1), "slow answers of a near source");
        took(&[3; REMEMBERED]);
        assert_eq!((distances.is_far(1), distances.listings()), (true, 4));
    }
}
