//! How the time of a modelled medium passes: really, or in a counter.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// What is left of a wait is spun when it is at most this long: a sleep would overshoot by about as much.
const SPIN: Duration = Duration::from_micros(100);

/// Waits up to this long never give up the processor: doing so takes about a microsecond itself.
const HOLD: Duration = Duration::from_micros(5);

/// The time that a modelled medium lives in.
#[derive(Clone, Debug, Default)]
pub enum Pace {
    /// The system's monotonic clock, which Linux reads from the processor's time-stamp counter where that is reliable.
    /// Waits of up to 5 us spin and hold the processor; up to 100 us they spin but let other threads run in between, so
    /// that many waiting threads do not need as many processors; the rest of a longer wait is slept.
    #[default]
    Real,
    /// The same clock, and all of a wait is slept, so that it takes no processor from those who wait. A wait is longer then
    /// by what the kernel takes to wake a thread: some microseconds where the thread asks for it (its timer slack), 50 else.
    Slept,
    /// A counter that requests move and nothing else: the model runs as fast as its caller.
    Virtual(VirtualClock),
}

impl Pace {
    /// The time since a fixed moment, as the calling thread sees it.
    pub fn now(&self) -> Duration {
        match self {
            Self::Real | Self::Slept => origin().elapsed(),
            Self::Virtual(clock) => clock.now(),
        }
    }

    /// Returns at that time, or at once if it has passed.
    pub fn wait_until(&self, moment: Duration) {
        match self {
            Self::Real => wait_really(moment),
            Self::Slept => sleep_until(moment),
            Self::Virtual(clock) => clock.advance(moment),
        }
    }

    /// The time until that moment in which the calling thread may be woken for something else; none in virtual time, where
    /// nobody waits.
    pub(super) fn left_until(&self, moment: Duration) -> Duration {
        match self {
            Self::Real | Self::Slept => moment.saturating_sub(origin().elapsed()),
            Self::Virtual(_) => Duration::ZERO,
        }
    }

    /// Brings all threads to the same moment, see [`VirtualClock::barrier`]. Nothing to do in real time.
    pub fn barrier(&self) {
        match self {
            Self::Real | Self::Slept => {}
            Self::Virtual(clock) => clock.barrier(),
        }
    }
}

impl Pace {
    /// See [`VirtualClock::take_turns`]; in real time threads take turns by themselves.
    pub fn take_turns(&self, rank: usize) -> Option<Turns> {
        match self {
            Self::Real | Self::Slept => None,
            Self::Virtual(clock) => Some(clock.take_turns(rank)),
        }
    }

    /// Returns when no thread that takes turns has an earlier time.
    pub(super) fn await_turn(&self) {
        if let Self::Virtual(clock) = self {
            clock.await_turn();
        }
    }
}

/// The moment that real times count from.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

fn sleep_until(moment: Duration) {
    let origin = origin();
    while let Some(left) = moment.checked_sub(origin.elapsed()).filter(|left| !left.is_zero()) {
        thread::sleep(left);
    }
}

fn wait_really(moment: Duration) {
    let origin = origin();
    loop {
        let Some(left) = moment.checked_sub(origin.elapsed()).filter(|left| !left.is_zero()) else { return };
        if left <= HOLD {
            std::hint::spin_loop();
        } else if left <= SPIN {
            thread::yield_now();
        } else {
            thread::sleep(left.saturating_sub(SPIN));
        }
    }
}

/// A clock that stands still until a request moves it. Clones are handles to the same clock.
///
/// Every thread has a time of its own, which its own requests move to their completion; so threads that work beside each
/// other overlap in virtual time as they would in real time. What a request waits for (a channel, the head) is computed
/// from the medium's state in the order in which the requests arrive in reality, not in the order of their virtual times:
/// a thread that the scheduler lets run ahead is served first, and one that it holds back may find the medium busy until
/// long after its own time. With one thread, or with threads that [take turns](Self::take_turns), the order is that of
/// virtual time and every run is the same.
///
/// A thread that the clock has not seen yet begins at the last [`barrier`](Self::barrier).
#[derive(Clone, Debug, Default)]
pub struct VirtualClock {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    timeline: Mutex<Timeline>,
    /// The time of a thread that takes turns has changed, or there is one less.
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Timeline {
    /// Where unseen threads begin.
    base: Duration,
    /// The furthest that any thread has come.
    latest: Duration,
    threads: HashMap<ThreadId, Duration>,
    /// Who takes turns, with ranks.
    turns: Vec<(ThreadId, usize)>,
}

impl Timeline {
    fn time_of(&self, thread: ThreadId) -> Duration {
        self.threads.get(&thread).copied().unwrap_or(self.base)
    }

    fn is_next(&self, thread: ThreadId) -> bool {
        let next = self.turns.iter().min_by_key(|(thread, rank)| (self.time_of(*thread), *rank));
        next.is_none_or(|(next, _)| *next == thread) || self.turns.iter().all(|(other, _)| *other != thread)
    }
}

/// Held by a thread that takes turns with others; see [`VirtualClock::take_turns`].
#[derive(Debug)]
pub struct Turns {
    shared: Arc<Shared>,
    thread: ThreadId,
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.shared.timeline.lock().turns.retain(|(thread, _)| *thread != self.thread);
        self.shared.moved.notify_all();
    }
}

impl VirtualClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// The calling thread's time.
    pub fn now(&self) -> Duration {
        self.shared.timeline.lock().time_of(thread::current().id())
    }

    /// The furthest that any thread has come: the time that everything took.
    pub fn elapsed(&self) -> Duration {
        self.shared.timeline.lock().latest
    }

    /// Moves the calling thread's time to that moment, if it is not past it.
    pub fn advance(&self, moment: Duration) {
        let mut timeline = self.shared.timeline.lock();
        let base = timeline.base;
        let now = timeline.threads.entry(thread::current().id()).or_insert(base);
        *now = moment.max(*now);
        timeline.latest = timeline.latest.max(moment);
        if !timeline.turns.is_empty() {
            self.shared.moved.notify_all();
        }
    }

    /// From now on, until the value is dropped, a request of the calling thread waits in reality until no other thread that
    /// takes turns has an earlier time; of equal times the lower rank goes first. So requests are served in the order of
    /// virtual time, and every run is the same. All threads must have called this before the first one goes on, and none
    /// may wait for another in any other way: nobody would move the clock.
    pub fn take_turns(&self, rank: usize) -> Turns {
        let thread = thread::current().id();
        self.shared.timeline.lock().turns.push((thread, rank));
        Turns { shared: Arc::clone(&self.shared), thread }
    }

    fn await_turn(&self) {
        let thread = thread::current().id();
        let mut timeline = self.shared.timeline.lock();
        while !timeline.is_next(thread) {
            self.shared.moved.wait(&mut timeline);
        }
    }

    /// Brings all threads, also those not seen yet, to [`elapsed`](Self::elapsed): as after all have waited for each
    /// other. Call it before threads start and after they have ended.
    pub fn barrier(&self) {
        let mut timeline = self.shared.timeline.lock();
        timeline.base = timeline.latest;
        timeline.threads.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_overlap_in_virtual_time_until_a_barrier() {
        let clock = VirtualClock::new();
        let pace = Pace::Virtual(clock.clone());
        for round in 1..=2 {
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| pace.wait_until(pace.now() + Duration::from_secs(1)));
                }
            });
            assert_eq!(clock.elapsed(), Duration::from_secs(round));
            clock.barrier();
        }
        assert_eq!(pace.now(), Duration::from_secs(2));
        pace.wait_until(Duration::from_secs(1));
        assert_eq!(pace.now(), Duration::from_secs(2), "time does not go back");
    }

    #[test]
    fn a_real_wait_is_never_shorter_than_asked_for() {
        for (micros, pace) in [1, 20, 300].into_iter().flat_map(|micros| [(micros, Pace::Real), (micros, Pace::Slept)])
        {
            let wait = Duration::from_micros(micros);
            let begin = pace.now();
            pace.wait_until(begin + wait);
            assert!(pace.now().saturating_sub(begin) >= wait);
        }
    }
}
