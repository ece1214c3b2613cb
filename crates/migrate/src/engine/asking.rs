//! Waiting for sources.
//!
//! While calls wait for a source, it is *absent*: the first of them tells that once, and the first that is answered tells the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Engine, Error, Result};
use crate::destination::Destination;
use crate::source::{Cancel, ErrorKind, Source};

/// A source that does not answer while calls wait for it.
#[derive(Clone, Debug)]
pub struct Absence {
    /// The number of the source.
    pub source: u32,
    /// When the first of the calls that wait had no answer.
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

/// Sources that do not answer, each with the calls that wait for it.
#[derive(Default)]
pub(super) struct Absences(Mutex<BTreeMap<u32, (Absence, usize)>>);

/// A call waits while it lives.
struct Waiter<'a> {
    absences: &'a Absences,
    source: u32,
}

impl Absences {
    fn waits(&self, source: u32, name: &str, path: &Path, message: &str) -> Waiter<'_> {
        let mut all = self.0.lock();
        let fresh = || {
            tracing::warn!(source = name, path = %path.display(), error = message, "the source does not answer; waiting for it");
            (Absence { source, since: Instant::now(), message: message.to_owned() }, 0)
        };
        all.entry(source).or_insert_with(fresh).1 += 1;
        Waiter { absences: self, source }
    }
}

impl Waiter<'_> {
    /// The source has answered: others that wait will see so.
    fn answered(&self, name: &str) {
        let mut all = self.absences.0.lock();
        if let Some((absence, waiting)) = all.get_mut(&self.source)
            && !absence.message.is_empty()
        {
            let seconds = absence.since.elapsed().as_secs();
            tracing::info!(source = name, seconds, waiting = *waiting, "the source answers again");
            absence.message.clear();
        }
    }

    fn again(&self, message: &str) {
        if let Some((absence, _)) = self.absences.0.lock().get_mut(&self.source) {
            message.clone_into(&mut absence.message);
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut all = self.absences.0.lock();
        if let Some((_, waiting)) = all.get_mut(&self.source) {
            *waiting -= 1;
            if *waiting == 0 {
                all.remove(&self.source);
            }
        }
    }
}

impl<D: Destination> Engine<D> {
    /// The sources that do not answer while calls wait for them.
    pub fn absences(&self) -> Vec<Absence> {
        let all = self.absences.0.lock();
        all.values().map(|(absence, _)| absence.clone()).filter(|absence| !absence.message.is_empty()).collect()
    }

    /// The numbers of those, where there are others that may answer meanwhile.
    pub(super) fn away(&self) -> Vec<u32> {
        if self.origins.len() < 2 {
            return Vec::new();
        }
        let all = self.absences.0.lock();
        all.values().filter(|(absence, _)| !absence.message.is_empty()).map(|(absence, _)| absence.source).collect()
    }

    /// How many calls wait for them.
    pub(super) fn waiting_for_away(&self) -> usize {
        let all = self.absences.0.lock();
        all.values().filter(|(absence, _)| !absence.message.is_empty()).map(|(_, waiting)| waiting).sum()
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
        let origin = self.origins.get(number as usize).ok_or(Error::UnknownSource {
            node: 0,
            source_number: number,
            known: self.origins.len(),
        })?;
        let _call = self.calls.begin(number, path);
        let began = Instant::now();
        let mut pause = self.settings.pause;
        let mut waiting = None;
        loop {
            let error = match what(&*origin.source) {
                Ok(answer) => {
                    if let Some((waiter, _)) = &waiting {
                        Waiter::answered(waiter, &origin.source.name());
                    }
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let path = path.to_owned();
            match error.kind {
                ErrorKind::Cancelled => return Err(Error::Cancelled),
                ErrorKind::Unavailable => {}
                _ => return Err(Error::Source { path, error }),
            }
            if self.settings.give_up.is_some_and(|limit| began.elapsed() + pause > limit) {
                return Err(Error::GivenUp { path, message: error.message });
            }
            if let Some((waiter, _)) = &waiting {
                Waiter::again(waiter, &error.message);
            } else {
                let waiter = self.absences.waits(number, &origin.source.name(), &path, &error.message);
                waiting = Some((waiter, self.counters.waiting()));
            }
            if cancel.wait(pause) {
                return Err(Error::Cancelled);
            }
            pause = (pause * 2).min(self.settings.pause * 100);
        }
    }
}
