//! Bounded, interruptible waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, MutexGuard};

use super::TransactionId;
use crate::{ConflictReason, Error, Result};

/// The flag that cuts waits short, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(pub(crate) Option<Arc<AtomicBool>>);

impl Interrupt {
    /// An error if the flag is raised.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.0 {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }
}

/// How long a transaction waits for others, and what cuts its waits short.
#[derive(Debug)]
pub(crate) struct Patience {
    limit: Duration,
    pub(crate) interrupt: Interrupt,
}

impl Patience {
    /// How often a waiting transaction looks at its flag: nobody wakes it when the flag is raised.
    const LOOK: Duration = Duration::from_millis(10);

    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, interrupt: Interrupt::default() }
    }

    /// One wait of a transaction, which may take several sleeps.
    pub(crate) fn wait(&self) -> Wait<'_> {
        Wait { patience: self, begun: None }
    }
}

/// What is known of a wait that nobody ends by a signal: it looks again and again, ever less often.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    rounds: u32,
    begun: Option<Instant>,
}

impl Pauses {
    /// Pauses in which the thread stays on its processor.
    const SPINS: u32 = 6;
    /// Pauses after which it sleeps, and before which it only lets others have the processor.
    const YIELDS: u32 = 20;
    /// The longest sleep.
    const SLEEP: Duration = Duration::from_micros(500);
}

impl Patience {
    /// Pauses before another look at what somebody else is in the middle of. An error at the end of the patience, or if the
    /// flag is raised.
    pub(crate) fn pause(&self, pauses: &mut Pauses) -> Result<()> {
        let round = pauses.rounds;
        pauses.rounds += 1;
        if round < Pauses::SPINS {
            (0..1 << round).for_each(|_| std::hint::spin_loop());
            return Ok(());
        }
        if round < Pauses::YIELDS {
            std::thread::yield_now();
            return Ok(());
        }
        self.interrupt.check()?;
        if pauses.begun.get_or_insert_with(Instant::now).elapsed() >= self.limit {
            return Err(Error::conflict(ConflictReason::WaitedTooLong));
        }
        let sleep = Duration::from_micros(1 << (round - Pauses::YIELDS).min(20));
        std::thread::sleep(sleep.min(Pauses::SLEEP));
        Ok(())
    }
}

/// A wait under way, since its first sleep.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    patience: &'a Patience,
    begun: Option<Instant>,
}

impl Wait<'_> {
    /// The rule of wait-die: `me` may wait for `other` only if it is the older one.
    ///
    /// Every wait then goes from an older to a younger transaction, so no circle of waits can close, and nobody needs to
    /// look for one (Rosenkrantz, Stearns and Lewis, "System level concurrency control for distributed database systems",
    /// 1978). With no patience at all nobody waits.
    pub(crate) fn may_wait_for(&self, me: TransactionId, other: u64) -> Result<()> {
        if me.get() > other {
            return Err(Error::conflict(ConflictReason::OlderInTheWay));
        }
        if self.patience.limit.is_zero() {
            return Err(Error::conflict(ConflictReason::WaitedTooLong));
        }
        Ok(())
    }

    /// Sleeps until `changed` is signalled, the flag is raised or patience is at its end; the last two are errors.
    pub(crate) fn sleep<T>(&mut self, changed: &Condvar, state: &mut MutexGuard<'_, T>) -> Result<()> {
        self.patience.interrupt.check()?;
        // What is left, not a deadline: there is no moment that lies `Duration::MAX` ahead.
        let waited = self.begun.get_or_insert_with(Instant::now).elapsed();
        let mut slice = self.patience.limit.saturating_sub(waited);
        if slice.is_zero() {
            return Err(Error::conflict(ConflictReason::WaitedTooLong));
        }
        if self.patience.interrupt.0.is_some() {
            slice = slice.min(Patience::LOOK);
        }
        changed.wait_for(state, slice);
        Ok(())
    }
}
