//! Waiting for sources.
//!
//! While calls wait for a source, it is *absent*, and when they were given up, until the next one is answered. Its beginning and its end are told once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Engine, Error, Result};
use crate::destination::Destination;
use crate::source::{Cancel, ErrorKind, Source};

/// A source that does not answer.
#[derive(Clone, Debug)]
pub struct Absence {
    /// The number of the source.
    pub source: u32,
    /// When the first call had no answer.
    pub since: Instant,
    /// Why there is none.
    pub message: String,
}

/// A call of a source that is under way.
#[derive(Clone, Debug)]
pub struct Call {
    /// The number of the source.
    pub source: u32,
    /// The path at the source.
    pub path: PathBuf,
    /// When it began.
    pub since: Instant,
}

/// The calls that are under way, in the order in which they began.
#[derive(Default)]
pub(super) struct Calls(Mutex<(u64, BTreeMap<u64, Call>)>);

/// A call is under way while it lives.
struct UnderWay<'a> {
    calls: &'a Calls,
    number: u64,
}

impl Calls {
    fn begin(&self, source: u32, path: &Path) -> UnderWay<'_> {
        let call = Call { source, path: path.to_owned(), since: Instant::now() };
        let (next, all) = &mut *self.0.lock();
        *next += 1;
        all.insert(*next, call);
        UnderWay { calls: self, number: *next }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.calls.0.lock().1.remove(&self.number);
    }
}

/// Sources that do not answer.
#[derive(Default)]
pub(super) struct Absences {
    all: Mutex<BTreeMap<u32, Absent>>,
    /// How many they are, so that a call that is answered needs no lock.
    count: AtomicUsize,
}

struct Absent {
    absence: Absence,
    /// Calls that wait for it.
    waiting: usize,
    /// One of them was answered; the others will be, or will say again that it is absent.
    is_back: bool,
    /// One of them has waited long enough, or its caller has.
    is_given_up: bool,
}

/// A call waits while it lives.
struct Waiter<'a> {
    absences: &'a Absences,
    source: u32,
}

impl Absences {
    fn waits(&self, source: u32, name: &str, path: &Path, message: &str) -> Waiter<'_> {
        let mut all = self.all.lock();
        let fresh = || {
            tracing::warn!(source = name, path = %path.display(), error = message, "the source does not answer; waiting for it");
            let absence = Absence { source, since: Instant::now(), message: message.to_owned() };
            Absent { absence, waiting: 0, is_back: false, is_given_up: false }
        };
        all.entry(source).or_insert_with(fresh).waiting += 1;
        self.count.store(all.len(), Ordering::Release);
        Waiter { absences: self, source }
    }

    /// A call was answered, which has waited or not. While others wait, only one of them knows that what they wait for is there: it may be one file on a tape.
    fn answered(&self, number: u32, source: &dyn Source, has_waited: bool) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut all = self.all.lock();
        let Some(absent) = all.get_mut(&number).filter(|absent| has_waited || absent.waiting == 0) else { return };
        if !absent.is_back {
            let seconds = absent.absence.since.elapsed().as_secs();
            tracing::warn!(source = source.name(), seconds, "the source answers again");
            absent.is_back = true;
        }
        self.forget(&mut all, number);
    }

    /// Of a source for which no call waits any more, nothing is known, unless it was given up.
    fn forget(&self, all: &mut BTreeMap<u32, Absent>, number: u32) {
        if all.get(&number).is_some_and(|absent| absent.waiting == 0 && (absent.is_back || !absent.is_given_up)) {
            all.remove(&number);
        }
        self.count.store(all.len(), Ordering::Release);
    }
}

impl Waiter<'_> {
    fn again(&self, message: &str) {
        if let Some(absent) = self.absences.all.lock().get_mut(&self.source) {
            absent.is_back = false;
            message.clone_into(&mut absent.absence.message);
        }
    }

    fn gives_up(&self) {
        if let Some(absent) = self.absences.all.lock().get_mut(&self.source) {
            absent.is_given_up = true;
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut all = self.absences.all.lock();
        if let Some(absent) = all.get_mut(&self.source) {
            absent.waiting -= 1;
        }
        self.absences.forget(&mut all, self.source);
    }
}

impl<D: Destination> Engine<D> {
    /// The sources that do not answer while calls wait for them, or have been given up.
    pub fn absences(&self) -> Vec<Absence> {
        let all = self.absences.all.lock();
        all.values().filter(|absent| !absent.is_back).map(|absent| absent.absence.clone()).collect()
    }

    /// The numbers of those that calls wait for, where there are others that may answer meanwhile.
    pub(super) fn away(&self) -> Vec<u32> {
        if self.origins.len() < 2 {
            return Vec::new();
        }
        let all = self.absences.all.lock();
        let is_away = |absent: &&Absent| !absent.is_back && absent.waiting > 0;
        all.values().filter(is_away).map(|absent| absent.absence.source).collect()
    }

    /// How many calls wait for sources that do not answer.
    pub(super) fn waiting_for_away(&self) -> usize {
        let all = self.absences.all.lock();
        all.values().filter(|absent| !absent.is_back).map(|absent| absent.waiting).sum()
    }

    /// The calls of sources that clients or the crawler have waited for so long, the longest first, and at most so many.
    pub fn calls(&self, since: Duration, most: usize) -> Vec<Call> {
        let calls = self.calls.0.lock();
        calls.1.values().filter(|call| call.since.elapsed() >= since).take(most).cloned().collect()
    }

    /// Asks a source until it answers, the caller ends it, or the limit is over.
    pub(super) fn ask<T>(
        &self,
        number: u32,
        path: &Path,
        cancel: &Cancel,
        mut what: impl FnMut(&dyn Source) -> crate::source::Result<T>,
    ) -> Result<T> {
        let (origin, root) = self.source(number)?;
        let _call = self.calls.begin(number, path);
        let began = Instant::now();
        let mut pause = self.settings.pause;
        let mut waiting = None;
        loop {
            let others = root.others();
            let asked = root.is_that_of(&*origin.source, cancel).and_then(|()| what(&*origin.source));
            let mut error = match asked {
                Ok(answer) => {
                    self.absences.answered(number, &*origin.source, waiting.is_some());
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let path = path.to_owned();
            if !matches!(error.kind, ErrorKind::Cancelled | ErrorKind::Unavailable) {
                // What is refused or makes no sense of any object comes from no old server: something else answers in its place, or it is starting, or has lost
                // what it exports.
                let Err(of_root) = root.look_at(&*origin.source, cancel) else {
                    if root.others() != others {
                        continue;
                    }
                    self.absences.answered(number, &*origin.source, waiting.is_some());
                    return Err(Error::Source { path, error });
                };
                error = of_root;
            }
            if error.kind == ErrorKind::Cancelled {
                return Err(Error::Cancelled);
            }
            root.doubt();
            let (waiter, _) = waiting.get_or_insert_with(|| {
                let name = origin.source.name();
                (self.absences.waits(number, &name, &path, &error.message), self.counters.waiting())
            });
            waiter.again(&error.message);
            if self.settings.give_up.is_some_and(|limit| began.elapsed() + pause > limit) {
                waiter.gives_up();
                return Err(Error::GivenUp { path, message: error.message });
            }
            if cancel.wait(pause) {
                waiter.gives_up();
                return Err(Error::Cancelled);
            }
            pause = (pause * 2).min(self.settings.pause * 100);
        }
    }
}
