//! Bounded, interruptible waiting.

use std::fmt;
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

/// Whose locks are to be let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those that the own session's transactions still hold.
    Own,
    /// Those that any session's hold for longer than it should take.
    Stale,
}

/// Who can see to it that locks are let go of that transactions hold beyond their end.
pub(crate) trait Unblock: Send + Sync {
    /// Says whether it had any effect.
    fn unblock(&self, whose: Whose) -> bool;
}

/// How long a transaction waits for others, and what cuts its waits short.
pub(crate) struct Patience {
    limit: Duration,
    unblock: Option<Arc<dyn Unblock>>,
    pub(crate) interrupt: Interrupt,
}

impl Patience {
    /// How often a waiting transaction looks at its flag: nobody wakes it when the flag is raised.
    const LOOK: Duration = Duration::from_millis(10);

    pub(crate) fn new(limit: Duration, unblock: Option<Arc<dyn Unblock>>) -> Self {
        Self { limit, unblock, interrupt: Interrupt::default() }
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
    fn has_unblocked(&self, whose: Whose) -> bool {
        self.unblock.as_ref().is_some_and(|unblock| unblock.unblock(whose))
    }

    /// For somebody who does not wait: sees to it that locks are let go of that are held for longer than need be. True if he
    /// should try again at once.
    pub(crate) fn unblock(&self) -> bool {
        let own = self.has_unblocked(Whose::Own);
        if !own && !self.limit.is_zero() {
            self.has_unblocked(Whose::Stale);
        }
        own
    }

    /// Pauses before another look at what somebody else is in the middle of. An error at the end of the patience, or if the
    /// flag is raised.
    pub(crate) fn pause(&self, pauses: &mut Pauses) -> Result<()> {
        let round = pauses.rounds;
        pauses.rounds += 1;
        if round == 0 && self.has_unblocked(Whose::Own) {
            return Ok(());
        }
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
        self.has_unblocked(Whose::Stale);
        let sleep = Duration::from_micros(1 << (round - Pauses::YIELDS).min(20));
        std::thread::sleep(sleep.min(Pauses::SLEEP));
        Ok(())
    }
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
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
