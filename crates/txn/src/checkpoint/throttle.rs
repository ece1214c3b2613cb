//! How fast a checkpoint may write, and when it must stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::clock::Clock;

use crate::{Error, Result};

/// The longest sleep without a look at the flag.
const NAP: Duration = Duration::from_millis(20);

/// Lets bytes through at a limited rate until a flag is raised.
#[derive(Debug)]
pub(super) struct Throttle<'a> {
    clock: &'a dyn Clock,
    began: Duration,
    /// Bytes per second.
    rate: Option<ByteSize>,
    passed: u64,
    stopping: &'a AtomicBool,
}

impl<'a> Throttle<'a> {
    pub(super) fn new(clock: &'a dyn Clock, rate: Option<ByteSize>, stopping: &'a AtomicBool) -> Self {
        Self { clock, began: clock.now(), rate, passed: 0, stopping }
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
    use ishigaki_base::clock::SystemClock;

    use super::*;

    #[test]
    fn bytes_pass_at_the_rate_until_the_flag_is_raised() {
        let (clock, stopping) = (SystemClock::new(), AtomicBool::new(false));
        let mut throttle = Throttle::new(&clock, Some(ByteSize::mib(10)), &stopping);
        (0..2).for_each(|_| throttle.pass(1 << 20).unwrap());
        assert!(clock.now() >= Duration::from_millis(199), "{:?}", clock.now());
        stopping.store(true, Ordering::Relaxed);
        assert!(throttle.pass(1 << 30).is_err());
        assert!(clock.now() < Duration::from_mins(1), "{:?}", clock.now());
    }
}
