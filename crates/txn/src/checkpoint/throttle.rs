//! How fast a checkpoint may go on, and when it must stop.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::clock::Clock;

use crate::{Error, Result};

/// The longest rest.
const LONGEST: Duration = Duration::from_millis(100);

/// The longest sleep without a look at the flag.
const NAP: Duration = Duration::from_millis(20);

/// So long a checkpoint works before it looks whether there are commits.
const SLICE: Duration = Duration::from_millis(2);

/// After each slice it rests so many times as long, if there are.
const REST: u32 = 6;

/// What a checkpoint gives way to.
pub(super) trait Commits {
    /// A number that grows with every commit, or with most of them.
    fn count(&self) -> u64;

    /// Whether the log fills faster than the checkpoint goes on, so that it must not give way.
    fn is_urgent(&self) -> bool;
}

/// Gives way to commits.
pub(super) struct Courtesy<'a> {
    clock: &'a dyn Clock,
    commits: &'a dyn Commits,
    /// Since when it works, and how many commits there were then.
    since: Duration,
    count: u64,
}

impl<'a> Courtesy<'a> {
    pub(super) fn new(clock: &'a dyn Clock, commits: &'a dyn Commits) -> Self {
        Self { clock, commits, since: clock.now(), count: commits.count() }
    }

    /// Rests, if it has worked for a slice while there were commits.
    pub(super) fn give_way(&mut self) {
        let worked = self.clock.now().saturating_sub(self.since);
        if worked < SLICE {
            return;
        }
        thread::sleep(self.rest_after(worked));
        self.since = self.clock.now();
        self.count = self.commits.count();
    }

    /// How long to rest after so much work.
    fn rest_after(&self, worked: Duration) -> Duration {
        let gives_way = self.commits.count() != self.count && !self.commits.is_urgent();
        if gives_way { (worked * REST).min(LONGEST) } else { Duration::ZERO }
    }
}

impl fmt::Debug for Courtesy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Courtesy").field("since", &self.since).finish_non_exhaustive()
    }
}

/// Lets bytes through at a limited rate until a flag is raised.
#[derive(Debug)]
pub(super) struct Throttle<'a> {
    clock: &'a dyn Clock,
    began: Duration,
    /// Bytes per second.
    rate: Option<ByteSize>,
    passed: u64,
    stopping: &'a AtomicBool,
    courtesy: Courtesy<'a>,
}

impl<'a> Throttle<'a> {
    pub(super) fn new(
        clock: &'a dyn Clock,
        rate: Option<ByteSize>,
        stopping: &'a AtomicBool,
        commits: &'a dyn Commits,
    ) -> Self {
        Self { clock, began: clock.now(), rate, passed: 0, stopping, courtesy: Courtesy::new(clock, commits) }
    }

    /// Lets commits go first, if there are any.
    pub(super) fn give_way(&mut self) {
        self.courtesy.give_way();
    }

    /// Fails once the flag is raised: the database is being closed.
    pub(super) fn check(&self) -> Result<()> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Error::Log(ishigaki_wal::Error::Closed));
        }
        Ok(())
    }

    /// Returns when `bytes` may be written.
    pub(super) fn pass(&mut self, bytes: usize) -> Result<()> {
        self.give_way();
        self.passed += bytes as u64;
        let rate = self.rate.map_or(f64::INFINITY, |rate| rate.as_u64().max(1) as f64);
        let due = self.began + Duration::from_secs_f64((self.passed as f64 / rate).min(1e9));
        loop {
            self.check()?;
            match due.checked_sub(self.clock.now()) {
                Some(left) if !left.is_zero() => thread::sleep(left.min(NAP)),
                _ => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use ishigaki_base::clock::SystemClock;

    use super::*;

    /// Commits that go on all the time, or do not.
    struct Always {
        going_on: bool,
        urgent: bool,
        count: AtomicU64,
    }

    impl Always {
        fn new(going_on: bool, urgent: bool) -> Self {
            Self { going_on, urgent, count: AtomicU64::new(0) }
        }
    }

    impl Commits for Always {
        fn count(&self) -> u64 {
            self.count.fetch_add(u64::from(self.going_on), Ordering::Relaxed)
        }

        fn is_urgent(&self) -> bool {
            self.urgent
        }
    }

    #[test]
    fn a_checkpoint_rests_beside_commits_and_only_beside_them_and_not_if_the_log_fills() {
        let clock = SystemClock::new();
        for (going_on, urgent, rest) in
            [(true, false, SLICE * REST), (false, false, Duration::ZERO), (true, true, Duration::ZERO)]
        {
            let commits = Always::new(going_on, urgent);
            let mut courtesy = Courtesy::new(&clock, &commits);
            assert_eq!(courtesy.rest_after(SLICE), rest, "{going_on} {urgent}");
            assert!(courtesy.rest_after(Duration::from_secs(1)) <= LONGEST);
            let began = clock.now();
            while clock.now().saturating_sub(began) < SLICE {
                std::hint::spin_loop();
            }
            courtesy.give_way();
            assert!(clock.now().saturating_sub(began) >= SLICE + rest);
        }
    }

    #[test]
    fn bytes_pass_at_the_rate_until_the_flag_is_raised() {
        let (clock, stopping, commits) = (SystemClock::new(), AtomicBool::new(false), Always::new(false, false));
        let mut throttle = Throttle::new(&clock, Some(ByteSize::mib(10)), &stopping, &commits);
        (0..2).for_each(|_| throttle.pass(1 << 20).unwrap());
        assert!(clock.now() >= Duration::from_millis(199), "{:?}", clock.now());
        stopping.store(true, Ordering::Relaxed);
        assert!(throttle.pass(1 << 30).is_err());
        assert!(clock.now() < Duration::from_mins(1), "{:?}", clock.now());
    }
}
