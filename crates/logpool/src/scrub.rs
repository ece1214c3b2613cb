//! The scrubber: compares all homes with their checksums, one after the other, as slowly as it is told to.
//!
//! A read finds damage when the bytes are needed, and a log mostly is needed after a crash. The scrubber finds it while the
//! log may still have what is damaged.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use parking_lot::{Condvar, Mutex};

use crate::home::EXTENT;
use crate::keeper::Keeper;
use crate::member::{Resident, Scrubbed};
use crate::{Result, Settings};

/// Bytes that are read at once, before it waits.
const BURST: u64 = 1 << 20;

/// What the scrubber has done since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatistics {
    /// Bytes a second; zero where it stands still.
    pub rate: ByteSize,
    /// Passes over all homes that came to their end.
    pub passes: u64,
    /// What the last one found.
    pub last: Scrubbed,
    /// How long ago that ended.
    pub ended: Option<Duration>,
    /// What all looks together have found, those asked for as well.
    pub total: Scrubbed,
}

/// The scrubber.
#[derive(Debug)]
pub(crate) struct Scrubber {
    /// Bytes a second.
    rate: AtomicU64,
    pause: Duration,
    stopping: AtomicBool,
    figures: Mutex<Figures>,
    /// Told when the rate has changed, and at the end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Figures {
    passes: u64,
    last: Scrubbed,
    ended: Option<Instant>,
    total: Scrubbed,
}

impl Scrubber {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            rate: AtomicU64::new(settings.scrub.0),
            pause: settings.scrub_pause,
            stopping: AtomicBool::new(false),
            figures: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// From now on so many bytes a second; with zero it stands still.
    pub(crate) fn set_rate(&self, rate: ByteSize) {
        let _figures = self.figures.lock();
        self.rate.store(rate.0, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Ends [`run`](Self::run).
    pub(crate) fn stop(&self) {
        let _figures = self.figures.lock();
        self.stopping.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    pub(crate) fn statistics(&self) -> ScrubStatistics {
        let Figures { passes, last, ended, total } = *self.figures.lock();
        let rate = ByteSize(self.rate.load(Ordering::SeqCst));
        ScrubStatistics { rate, passes, last, ended: ended.map(|ended| ended.elapsed()), total }
    }

    /// The body of its thread: a pass, a pause, and so on.
    pub(crate) fn run(&self, keeper: &Keeper) {
        while !self.stopping.load(Ordering::SeqCst) {
            self.pass(keeper);
            self.wait(self.pause);
        }
    }

    /// Over all homes. A member that is closed is left out, and one that fails meanwhile left.
    fn pass(&self, keeper: &Keeper) {
        let mut found = Scrubbed::default();
        for resident in keeper.residents() {
            match self.look(&resident, true) {
                Ok(scrubbed) => found.add(scrubbed),
                Err(error) => tracing::debug!(%error, member = resident.name(), "a home is not compared"),
            }
        }
        if !self.stopping.load(Ordering::SeqCst) {
            let mut figures = self.figures.lock();
            (figures.passes, figures.last, figures.ended) = (figures.passes + 1, found, Some(Instant::now()));
        }
    }

    /// Over one home, at the rate or at once.
    pub(crate) fn look(&self, resident: &Resident, paced: bool) -> Result<Scrubbed> {
        let (mut found, mut burst) = (Scrubbed::default(), 0);
        for (file, extents) in resident.extents_at_home()? {
            for index in 0..extents {
                if paced && burst + EXTENT > BURST {
                    self.pay(burst);
                    burst = 0;
                }
                if paced && self.stopping.load(Ordering::SeqCst) {
                    return Ok(found);
                }
                let scrubbed = resident.scrub(file, index)?;
                burst += scrubbed.bytes;
                found.add(scrubbed);
                self.figures.lock().total.add(scrubbed);
            }
        }
        if paced {
            self.pay(burst);
        }
        Ok(found)
    }

    /// Waits for as long as so many bytes may take.
    fn pay(&self, bytes: u64) {
        let began = Instant::now();
        let mut figures = self.figures.lock();
        while !self.stopping.load(Ordering::SeqCst) {
            let rate = self.rate.load(Ordering::SeqCst);
            if rate == 0 {
                self.changed.wait(&mut figures);
                continue;
            }
            let left = Duration::from_secs_f64(bytes as f64 / rate as f64).saturating_sub(began.elapsed());
            if left.is_zero() || self.changed.wait_for(&mut figures, left).timed_out() {
                return;
            }
        }
    }

    /// Waits so long, and not while it is told to stand still.
    fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut figures = self.figures.lock();
        while !self.stopping.load(Ordering::SeqCst) && (Instant::now() < until || self.rate.load(Ordering::SeqCst) == 0)
        {
            if self.rate.load(Ordering::SeqCst) == 0 {
                self.changed.wait(&mut figures);
            } else {
                self.changed.wait_until(&mut figures, until);
            }
        }
    }
}
