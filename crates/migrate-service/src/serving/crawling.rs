//! Runs the crawler: pauses it, goes on, changes its speed, tries again.
//!
//! A run of the crawler ends by itself when nothing is left that it can do, or by its [`Cancel`]; then the next run goes on where it was. Every order
//! is a change of the state below and an end of the run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::{Appeared, Crawl, Engine, Error as EngineError};
use ishigaki_migrate::source::Cancel;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::status::Phase;

/// After an error that ended a run.
const SOON: Duration = Duration::from_secs(10);
/// After a run that left problems. The next one looks at the whole destination.
const LATER: Duration = Duration::from_mins(10);

pub(super) struct Crawling {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    how: Crawl,
    paused: bool,
    /// Why it rests: it is outside of its hours.
    rests: Option<String>,
    /// The service ends.
    ended: bool,
    /// The next run begins at once.
    poked: bool,
    stage: Stage,
    /// The run that is under way.
    run: Option<Cancel>,
    last: Outcome,
}

#[derive(PartialEq, Eq)]
enum Stage {
    Migrating,
    /// Clients are not yet answered, or it is about to be finished or handed over: no run begins.
    Held,
    Finished,
}

/// How the last run has ended.
enum Outcome {
    /// There was none, or it was interrupted.
    Open,
    /// Nothing is left that it could do.
    Done,
    Failed(String),
}

impl State {
    /// Ends the run, if one is under way.
    fn interrupt(&self) {
        if let Some(run) = &self.run {
            run.cancel();
        }
    }

    fn may_run(&self) -> bool {
        !self.paused && self.rests.is_none() && self.stage == Stage::Migrating
    }
}

impl Crawling {
    pub(super) fn new(how: Crawl, paused: bool) -> Self {
        let (ended, poked, run) = (false, false, None);
        let new = State { how, paused, rests: None, ended, poked, stage: Stage::Held, run, last: Outcome::Open };
        Self { state: Mutex::new(new), wake: Condvar::new() }
    }

    /// The crawler's thread.
    pub(super) fn run(&self, engine: impl Fn() -> Arc<Engine<Local>>, appeared: impl Fn(&[Appeared])) {
        let mut state = self.state.lock();
        loop {
            while !state.ended && !state.may_run() {
                self.wake.wait(&mut state);
            }
            if state.ended {
                return;
            }
            let (how, cancel) = (state.how, Cancel::new());
            (state.run, state.poked) = (Some(cancel.clone()), false);
            let engine = engine();
            let outcome = MutexGuard::unlocked(&mut state, || {
                appeared(&engine.bring_left_out(&cancel)?);
                engine.crawl(&how, &cancel)
            });
            state.run = None;
            self.wake.notify_all();
            let pause = match outcome {
                Ok(()) => {
                    state.last = Outcome::Done;
                    (!engine.problems().is_empty()).then_some(LATER)
                }
                Err(EngineError::Cancelled) => {
                    state.last = Outcome::Open;
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, "the crawler waits");
                    state.last = Outcome::Failed(error.to_string());
                    Some(SOON)
                }
            };
            // What this run could not copy is in no queue any more.
            let is_over = matches!(state.last, Outcome::Done);
            self.rest(&mut state, pause);
            if is_over && !state.ended {
                engine.look_again();
            }
        }
    }

    /// Waits until there may be something to do again.
    fn rest(&self, state: &mut MutexGuard<'_, State>, pause: Option<Duration>) {
        let until = pause.map(|pause| Instant::now() + pause);
        while !state.ended && !state.poked {
            match until {
                None => self.wake.wait(state),
                Some(until) => {
                    if self.wake.wait_until(state, until).timed_out() {
                        return;
                    }
                }
            }
        }
    }

    /// Stops the crawler, and returns when it has stopped.
    pub(super) fn pause(&self) {
        let mut state = self.state.lock();
        state.paused = true;
        state.interrupt();
        while state.run.is_some() {
            self.wake.wait(&mut state);
        }
    }

    /// Has it rest for that reason, or work.
    pub(super) fn keep_hours(&self, rests: Option<String>) {
        let mut state = self.state.lock();
        if rests.is_some() {
            state.interrupt();
        }
        if state.rests != rests {
            state.rests = rests;
            self.wake.notify_all();
        }
    }

    /// Goes on, and tries again at once what could not be done.
    pub(super) fn resume(&self) {
        let mut state = self.state.lock();
        (state.paused, state.poked, state.last) = (false, true, Outcome::Open);
        self.wake.notify_all();
    }

    /// Tries again what could not be done, unless the crawler is paused.
    pub(super) fn again(&self) {
        let mut state = self.state.lock();
        (state.poked, state.last) = (true, Outcome::Open);
        self.wake.notify_all();
    }

    /// Changes how the crawler works.
    pub(super) fn change(&self, change: impl FnOnce(&mut Crawl)) {
        let mut state = self.state.lock();
        change(&mut state.how);
        state.interrupt();
    }

    pub(super) fn how(&self) -> Crawl {
        self.state.lock().how
    }

    /// Keeps the crawler from beginning; whether it has nothing left to do.
    pub(super) fn hold(&self) -> bool {
        let mut state = self.state.lock();
        let may = state.run.is_none() && matches!(state.last, Outcome::Done) && state.stage == Stage::Migrating;
        if may {
            state.stage = Stage::Held;
        }
        may
    }

    /// Has the crawler stop for a hand-over, and returns when it has stopped; whether there is a migration to hand over.
    pub(super) fn suspend(&self) -> bool {
        let mut state = self.state.lock();
        if state.stage != Stage::Migrating {
            return false;
        }
        state.stage = Stage::Held;
        state.interrupt();
        while state.run.is_some() {
            self.wake.wait(&mut state);
        }
        true
    }

    /// Whether it has stopped for a hand-over.
    pub(super) fn is_held(&self) -> bool {
        self.state.lock().stage == Stage::Held
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state.lock().paused
    }

    /// Lets the crawler begin again, unless the migration is finished.
    pub(super) fn release(&self, finished: bool) {
        self.state.lock().stage = if finished { Stage::Finished } else { Stage::Migrating };
        self.wake.notify_all();
    }

    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        state.interrupt();
        self.wake.notify_all();
    }

    pub(super) fn is_finished(&self) -> bool {
        self.state.lock().stage == Stage::Finished
    }

    /// Whether a run is under way, which settles what it makes.
    pub(super) fn is_running(&self) -> bool {
        self.state.lock().run.is_some()
    }

    pub(super) fn phase(&self) -> (Phase, Option<String>) {
        let state = self.state.lock();
        let phase = match (&state.last, &state.stage) {
            (_, Stage::Finished) => Phase::Finished,
            (Outcome::Done, _) if state.run.is_none() => Phase::Done,
            _ if state.paused => Phase::Paused,
            _ if state.rests.is_some() => Phase::Waiting,
            (Outcome::Failed(_), _) if state.run.is_none() => Phase::Waiting,
            _ => Phase::Crawling,
        };
        let trouble = match &state.last {
            Outcome::Failed(why) if state.run.is_none() => Some(why.clone()),
            Outcome::Open if !state.paused => state.rests.clone(),
            Outcome::Open | Outcome::Done | Outcome::Failed(_) => None,
        };
        (phase, trouble)
    }
}
