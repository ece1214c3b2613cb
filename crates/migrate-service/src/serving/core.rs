//! What the service's threads share, and what it is asked.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::{self, Absence, Appeared, Engine, Resolution};
use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_fs::{Door, Migration};
use ishigaki_service::door::Door as Scrapers;
use ishigaki_service::http;
use parking_lot::{Mutex, RwLock};

use super::Clock;
use super::begun;
use super::crawling::Crawling;
use super::rate::Rate;
use crate::config::{check_first, parallel};
use crate::control::{self, Keep, Reply, Request};
use crate::metrics;
use crate::shown::{self, shown};
use crate::status::{Away, Conflict, Phase, Problem, Status, Wait};
use crate::takeover::Own;
use crate::{Config, Error, Result};

/// How often the rate is measured.
const TICK: Duration = Duration::from_secs(1);
/// So many of these, and what clients have brought is settled.
const SETTLE: u32 = 5;
/// Problems and calls that a status shows.
const FIRST: usize = 20;
/// How often the end of a hand-over is looked for.
const NAP: Duration = Duration::from_millis(10);
/// Calls that take longer are shown.
const LONG: Duration = Duration::from_secs(1);

pub(super) struct Core {
    pub(super) config: Config,
    /// It is opened anew when a hand-over fails.
    pub(super) engine: RwLock<Arc<Engine<Local>>>,
    pub(super) migration: Mutex<Arc<Migration>>,
    pub(super) door: Mutex<Option<Door>>,
    pub(super) crawling: Crawling,
    pub(super) rate: Mutex<Rate>,
    /// Held by the keeper while it settles, by a decision on a conflict, by a hand-over, and by the end of the migration, after which nothing may be
    /// settled.
    pub(super) settling: Mutex<()>,
    pub(super) began: Instant,
    /// The service ends.
    pub(super) cancel: Cancel,
    /// What the crawler's hours are measured by.
    pub(super) clock: Clock,
    pub(super) metrics: Option<SocketAddr>,
    /// Where Prometheus comes in.
    pub(super) scrapers: Mutex<Option<Scrapers>>,
    /// What a person has told the crawler to take first.
    pub(super) told_first: Mutex<Vec<String>>,
    pub(super) own: Own,
    /// Visitors of the control socket wait, until clients are answered.
    pub(super) rests: AtomicBool,
    /// Another process serves now.
    pub(super) is_replaced: AtomicBool,
}

impl Core {
    pub(super) fn engine(&self) -> Arc<Engine<Local>> {
        self.engine.read().clone()
    }

    /// Has a fresh engine take first what the configuration says, and a person.
    pub(super) fn put_first(&self) {
        let engine = self.engine();
        for path in &self.config.first {
            engine.first(path);
        }
        for path in &*self.told_first.lock() {
            engine.first(&shown::read(path));
        }
    }

    /// Lets Prometheus in.
    pub(super) fn let_scrapers_in(self: &Arc<Self>, listener: TcpListener) -> Result<()> {
        let asked = self.clone();
        let figures = move |visitor| http::serve(visitor, || asked.metrics());
        let scrapers = Scrapers::open("migrate-metrics", listener, figures).map_err(Error::Thread)?;
        *self.scrapers.lock() = Some(scrapers);
        Ok(())
    }

    /// The keeper's thread.
    pub(super) fn keep(&self) {
        let mut ticks = 0;
        while !self.cancel.wait(TICK) {
            self.look_at_clock();
            self.rate.lock().sample(Instant::now(), self.engine().progress().copied);
            ticks += 1;
            if ticks % SETTLE != 0 || self.crawling.is_running() {
                continue;
            }
            // A hand-over settles itself, and so does the end of the migration.
            let Some(_settling) = self.settling.try_lock() else { continue };
            // Another process's engine may be at work.
            if !self.crawling.is_finished()
                && !self.is_replaced.load(Ordering::SeqCst)
                && let Err(error) = self.engine().settle()
            {
                tracing::warn!(%error, "what has come is not yet durable; the service tries again");
            }
        }
    }

    /// Has the crawler keep its hours.
    pub(super) fn look_at_clock(&self) {
        let opens = self.config.windows.opens((self.clock)());
        self.crawling.keep_hours(opens.map(|opens| format!("it rests outside of its hours, and goes on at {opens}")));
    }

    /// Answers a visitor. A hand-over goes on with the stream, and ends it.
    pub(super) fn answer(self: &Arc<Self>, request: Request, stream: &UnixStream) -> Option<Reply> {
        let done = |outcome: Result<()>| Reply::of(outcome.map(|()| Reply::Done {}));
        // What is told during a hand-over would be lost.
        loop {
            if !self.rests.load(Ordering::SeqCst) || self.cancel.wait(NAP) {
                break;
            }
        }
        if self.is_replaced.load(Ordering::SeqCst) {
            return Some(Reply::of(Err(Error::Replaced(self.config.to.clone()))));
        }
        Some(match request {
            Request::HandOver {} => return self.hand_over(stream),
            Request::Status {} => Reply::Status(Box::new(self.status())),
            Request::Pause {} => {
                self.crawling.pause();
                Reply::Done {}
            }
            Request::Resume {} => {
                self.resume();
                Reply::Done {}
            }
            Request::Throttle { bandwidth, parallel } => done(self.throttle(bandwidth, parallel)),
            Request::Conflicts {} => Reply::of(self.conflicts().map(Reply::Conflicts)),
            Request::Resolve { path, keep } => done(self.resolve(&path, keep)),
            Request::First { path } => done(self.first(&path)),
            Request::Finish {} => done(self.finish()),
        })
    }

    pub(super) fn status(&self) -> Status {
        let now = self.engine().progress();
        let (phase, trouble) = self.crawling.phase();
        let away = self.away();
        // What ended the crawler's last run may be that a source was given up.
        let trouble = if away.is_empty() {
            trouble
        } else {
            Some(away.iter().map(Away::to_string).collect::<Vec<_>>().join("; "))
        };
        let how = self.crawling.how();
        let rate = self.rate.lock().now();
        let problems = self.problems();
        let conflicts = problems.iter().filter(|(is_conflict, _)| *is_conflict).count() as u64;
        let counts = self.door.lock().as_ref().map(Door::counts).unwrap_or_default();
        let is_known = now.listed == now.directories && phase == Phase::Crawling;
        let seconds_left = if is_known { now.bytes.saturating_sub(now.here).checked_div(rate) } else { None };
        Status {
            sources: begun::sources(&self.config),
            to: shown(&self.config.to),
            at: shown(&self.config.at),
            is_mounted: self.is_mounted(),
            phase,
            trouble,
            away,
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            directories: now.directories,
            listed: now.listed,
            files: now.files,
            whole: now.whole,
            bytes: now.bytes,
            here: now.here,
            copied: now.copied,
            rate,
            seconds_left,
            waiting: now.waiting,
            problems: problems.len() as u64,
            conflicts,
            first_problems: problems.into_iter().map(|(_, problem)| problem).take(FIRST).collect(),
            bandwidth: how.bandwidth,
            parallel: how.threads,
            opened_passed: counts.passed,
            opened_served: counts.served,
            waits: self.waits(),
            metrics: self.metrics.map(|address| format!("http://{address}/metrics")),
        }
    }

    /// Whether clients are answered, by this process or by the one to which it hands over.
    pub(super) fn is_mounted(&self) -> bool {
        let is_alive = self.door.lock().as_ref().is_some_and(Door::is_alive);
        is_alive || self.rests.load(Ordering::SeqCst)
    }

    /// The sources that do not answer.
    fn away(&self) -> Vec<Away> {
        let away = |absence: Absence| Away {
            from: self
                .config
                .sources
                .get(absence.source as usize)
                .map(|source| source.from.to_string())
                .unwrap_or_default(),
            seconds: absence.since.elapsed().as_secs_f64(),
            message: absence.message,
        };
        self.engine().absences().into_iter().map(away).collect()
    }

    /// The calls that take longest.
    fn waits(&self) -> Vec<Wait> {
        let calls = self.engine().calls(LONG, FIRST).into_iter();
        calls
            .map(|call| Wait {
                path: shown(&self.into(call.source).join(&call.path)),
                seconds: call.since.elapsed().as_secs_f64(),
            })
            .collect()
    }

    /// The directory that takes a source's files.
    fn into(&self, source: u32) -> PathBuf {
        self.config.sources.get(source as usize).map(|source| source.into.clone()).unwrap_or_default()
    }

    /// The figures for Prometheus.
    pub(super) fn metrics(&self) -> String {
        let known = self.door.lock().as_ref().map(Door::counts).unwrap_or_default().known as u64;
        metrics::text(&self.status(), known)
    }

    /// Has the crawler take what is below a path before everything else, if there is such a path.
    pub(super) fn first(&self, path: &str) -> Result<()> {
        let read = shown::read(path);
        check_first(&read)?;
        if !self.engine().has_path(&read, &self.cancel) {
            let reason = format!("`{path}` is not at the source");
            return Err(Error::setting(
                "first",
                reason,
                "name a path below the destination as it was when the migration began",
            ));
        }
        self.put_path_first(path)
    }

    /// The same, without a look at the source.
    pub(super) fn put_path_first(&self, path: &str) -> Result<()> {
        let read = shown::read(path);
        check_first(&read)?;
        let mut told = self.told_first.lock();
        if !told.iter().any(|told| told == path) {
            told.push(path.to_owned());
        }
        drop(told);
        self.engine().first(&read);
        Ok(())
    }

    /// Everything that could not be copied, and whether it is a conflict.
    fn problems(&self) -> Vec<(bool, Problem)> {
        let all = self.engine().problems_by_source().into_iter();
        all.map(|(source, problem)| {
            let path = self.into(source).join(&problem.path);
            (problem.conflict, Problem { path: shown(&path), message: problem.message })
        })
        .collect()
    }

    pub(super) fn conflicts(&self) -> Result<Vec<Conflict>> {
        let all = || -> Vec<_> {
            let all = self.engine().problems_by_source().into_iter().filter(|(_, problem)| problem.conflict);
            all.map(|(source, problem)| ((source, problem.path), problem.message)).collect()
        };
        let mut told = all();
        if told.is_empty() {
            return Ok(Vec::new());
        }
        let mut places = self.engine().conflict_places(told.iter().map(|(key, _)| key.clone()).collect())?;
        if places.len() < told.len() {
            self.engine().forget_removed()?;
            told = all();
        }
        let told = told.into_iter().map(|(key, message)| {
            let was = self.into(key.0).join(&key.1);
            let path = places.remove(&key).unwrap_or_else(|| was.clone());
            let at_source = (path != was).then(|| shown(&was));
            Conflict { path: shown(&path), at_source, message }
        });
        Ok(told.collect())
    }

    /// A person accepts that an object was left out, which has nothing here to decide on; whether there is such a problem.
    fn accept(&self, path: &str) -> bool {
        let below = |source: u32| self.config.sources.get(source as usize).map(|source| source.into.clone());
        let mut all = self.engine().problems_by_source().into_iter();
        let found = all.find(|(source, problem)| {
            problem.left_out && shown(&below(*source).unwrap_or_default().join(&problem.path)) == path
        });
        found.is_some_and(|(source, problem)| self.engine().accept(source, &problem.path))
    }

    /// Names that clients may have asked for when they were not there.
    pub(super) fn have_appeared(&self, names: &[Appeared]) {
        if let Some(door) = &*self.door.lock() {
            for (directory, name) in names {
                door.has_appeared(directory.0, name);
            }
        }
    }

    pub(super) fn resume(&self) {
        self.crawling.resume();
    }

    pub(super) fn throttle(&self, bandwidth: Option<u64>, requests: Option<usize>) -> Result<()> {
        if let Some(requests) = requests {
            parallel(requests.try_into().unwrap_or(0))?;
        }
        self.crawling.change(|how| {
            how.threads = requests.unwrap_or(how.threads);
            how.bandwidth = bandwidth.map_or(how.bandwidth, |bandwidth| (bandwidth > 0).then_some(bandwidth));
        });
        Ok(())
    }

    /// Decides on a file that has changed at the source, or a directory that can not be listed there. The crawler then goes on with it.
    pub(super) fn resolve(&self, path: &str, keep: Keep) -> Result<()> {
        let _settling = self.settling.lock();
        if self.is_replaced.load(Ordering::SeqCst) {
            return Err(Error::Replaced(self.config.to.clone()));
        }
        let how = match keep {
            Keep::Here => Resolution::KeepHere,
            Keep::Source => Resolution::TakeSource,
        };
        let at = shown::read(path);
        let resolved = self.engine().resolve(&at, how, &self.cancel).map_err(|error| match error {
            engine::Error::NoVersion(_) => engine::Error::NoVersion(at.clone()),
            engine::Error::OtherKind { was, kind, .. } => engine::Error::OtherKind { path: at.clone(), was, kind },
            error => error,
        })?;
        if let (Some(door), Some(node)) = (&*self.door.lock(), resolved) {
            door.has_changed(node.0);
        }
        let is_settled = resolved.is_some() || keep == Keep::Here && self.accept(path);
        if !is_settled {
            let moved = self.conflicts()?.into_iter().find(|conflict| conflict.at_source.as_deref() == Some(path));
            let none = || Error::NoConflict(path.to_owned());
            return Err(moved.map_or_else(none, |now| Error::Moved { path: path.to_owned(), now: now.path }));
        }
        self.crawling.again();
        Ok(())
    }

    pub(super) fn finish(&self) -> Result<()> {
        if self.crawling.is_finished() {
            return Ok(());
        }
        self.engine().forget_removed()?;
        if let Some((_, problem)) = self.problems().into_iter().next() {
            let count = self.problems().len();
            let Problem { path, message } = problem;
            let objects = if count == 1 { "object" } else { "objects" };
            let reason =
                format!("{count} {objects} could not be copied: {path}: {message}; see `ishigaki migrate status`");
            return Err(Error::AtWork(reason));
        }
        if !self.crawling.hold() {
            let reason = "the crawler has not ended; wait for it, or let it resume: `ishigaki migrate status` says how far it is";
            return Err(Error::AtWork(reason.to_owned()));
        }
        let settling = self.settling.lock();
        let socket = control::in_memory(&self.config.to);
        let finished = self.engine().finish();
        if finished.is_ok() {
            if let Ok(socket) = socket {
                // There is one only if the destination was full.
                let _ = std::fs::remove_file(socket);
            }
            self.migration.lock().end();
        }
        self.crawling.release(finished.is_ok());
        drop(settling);
        // Something was missing that the crawler did not know of.
        if finished.is_err() {
            self.crawling.again();
        }
        Ok(finished?)
    }
}
