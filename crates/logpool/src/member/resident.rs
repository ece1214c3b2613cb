//! A member inside the engine: its lock, how it goes home, and how it is carried on.
//!
//! No I/O is done under the lock of the state, so that a home which stands still stops nobody who only needs that lock: the
//! keeper, who must be able to carry the member on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::{ByteSize, Lsn};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::State;
use super::state::Refusal;
use crate::areas::Areas;
use crate::format::{Change, Run};
use crate::home::{Brought, EXTENT, Home, Snapshot};
use crate::image::{BLOCK, Image};
use crate::pool::Core;
use crate::statistics::Commits;
use crate::{Error, FileId, MemberId, MemberSettings, MemberStatistics, Profile, Quota, Result};

/// A member.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(super) core: Arc<Core>,
    pub(super) id: MemberId,
    name: String,
    pub(super) settings: MemberSettings,
    /// As they are now; `settings` has those that it began with. Taken after the state.
    quota: Mutex<Quota>,
    pub(super) home: Home,
    /// Held by whoever writes to the checkpoint file; taken before the state.
    pub(super) areas: Mutex<Areas>,
    pub(super) state: Mutex<State>,
    /// One round at a time; taken before the state.
    pub(super) rounds: Mutex<()>,
    /// A round is asked for.
    asked: Mutex<bool>,
    asks: Condvar,
    /// Told when a round has ended, or will not.
    ended: Condvar,
    stopping: AtomicBool,
    pub(super) commits: Mutex<Commits>,
}

impl Resident {
    pub(crate) fn new(
        core: Arc<Core>,
        id: MemberId,
        name: &str,
        settings: MemberSettings,
        home: Home,
        areas: Areas,
        state: State,
    ) -> Self {
        Self {
            core,
            id,
            name: name.to_owned(),
            quota: Mutex::new(settings.quota),
            settings,
            home,
            areas: Mutex::new(areas),
            state: Mutex::new(state),
            rounds: Mutex::default(),
            asked: Mutex::default(),
            asks: Condvar::new(),
            ended: Condvar::new(),
            stopping: AtomicBool::new(false),
            commits: Mutex::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn profile(&self) -> Profile {
        self.settings.profile.clone()
    }

    pub(crate) fn quota(&self) -> Quota {
        *self.quota.lock()
    }

    /// Gives it other limits from now on. Requests look at them under the lock of the state: none is beyond them afterwards.
    pub(crate) fn limit(&self, quota: Quota) -> Result<()> {
        let state = self.state()?;
        let (home, files) = (ByteSize(state.image.extents() * EXTENT), state.image.names.len() as u64);
        let refuse = |has: String, limit: String| {
            let reason =
                format!("member `{}` has {has}, and can not be limited to {limit}; remove some before", self.name);
            Err(Error::invalid(reason))
        };
        if home > quota.home {
            return refuse(format!("files of {home}"), quota.home.to_string());
        }
        if files > quota.files.into() {
            return refuse(format!("{files} files and directories"), quota.files.to_string());
        }
        *self.quota.lock() = quota;
        Ok(())
    }

    /// Makes the home fit for these limits, before they count.
    pub(crate) fn prepare_home(&self, quota: &Quota) -> Result<()> {
        // A round writes the ledger.
        let _none = self.rounds.lock();
        if self.core.settings.reserve { self.home.reserve_all(quota) } else { Ok(()) }
    }

    /// The state, if the member takes requests.
    pub(crate) fn state(&self) -> Result<MutexGuard<'_, State>> {
        self.core.check()?;
        let state = self.state.lock();
        match &state.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(state),
        }
    }

    /// The LSN of its first entry that is not home.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        self.state.lock().oldest
    }

    pub(super) fn full(&self, what: String) -> Error {
        Error::Full { member: self.name.clone(), what, passes: false }
    }

    /// The same of what has room again once homes have kept up.
    pub(super) fn full_for_now(&self, what: String) -> Error {
        Error::Full { member: self.name.clone(), what, passes: true }
    }

    /// The member takes no more requests.
    pub(super) fn fail(&self, cause: Error) -> Error {
        // What concerns all concerns this one, too.
        if let Some(failure) = self.core.log.failure() {
            return failure.into();
        }
        let failure = Error::HomeFailed { member: self.name.clone(), cause: Arc::new(cause) };
        tracing::error!(error = %failure, "a member is closed");
        let mut state = self.state.lock();
        let failure = state.failure.get_or_insert(failure).clone();
        self.ended.notify_all();
        failure
    }

    /// It is taken out of service. Its areas are durable, if they can be.
    pub(crate) fn quarantine(&self, why: Error) {
        if let Err(error) = self.sync_areas() {
            tracing::warn!(%error, member = self.name, "not all of a member that is taken out is durable");
        }
        self.state.lock().failure = Some(why);
        self.ended.notify_all();
    }

    /// It is to be opened again from the medium: it takes no more requests, and nothing of it is under way, or appended, any
    /// more. Its log stays until the new one has taken its place.
    pub(crate) fn retire(&self) -> Result<()> {
        if self.state().is_ok() {
            self.quarantine(Error::Quarantined { member: self.name.clone(), why: "it is opened again".to_owned() });
        }
        self.stop();
        let Some(round) = self.rounds.try_lock_for(self.core.settings.patience) else {
            let reason = format!(
                "the home of `{}` stands still, and something is under way there; see to its medium",
                self.name
            );
            return Err(Error::invalid(reason));
        };
        drop(round);
        let mut state = self.state.lock();
        state.retired = true;
        let last = state.last;
        drop(state);
        Ok(self.core.stream.wait(last)?)
    }

    /// It was removed from the pool.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        state.failure.get_or_insert(Error::NotFound { name: self.name.clone() });
        (state.oldest, state.oldest_next) = (None, None);
        state.image = Image::default();
        drop(state);
        self.stop();
        // A round under way is over then.
        drop(self.rounds.lock());
    }

    /// Somebody has let go of a file.
    pub(crate) fn give_back(&self, file: FileId) {
        self.state.lock().image.give_back(file);
    }

    /// Asks for a round, by the member's own thread.
    pub(crate) fn ask_home(&self) {
        *self.asked.lock() = true;
        self.asks.notify_all();
    }

    /// The body of the member's own thread: goes home when asked to.
    pub(crate) fn follow(&self) {
        loop {
            let mut asked = self.asked.lock();
            while !*asked && !self.stopping.load(Ordering::SeqCst) {
                self.asks.wait(&mut asked);
            }
            *asked = false;
            drop(asked);
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            match self.go_home().and_then(|()| self.trim_after_round()) {
                Ok(()) | Err(Error::Closed) => {}
                Err(error) => tracing::warn!(%error, member = self.name, "a member could not be brought home"),
            }
        }
    }

    fn trim_after_round(&self) -> Result<()> {
        let space = self.core.log.space();
        match self.core.keeper() {
            Some(keeper) if space.live.0 >= space.easy.0 / 2 => keeper.trim(),
            _ => Ok(()),
        }
    }

    /// Ends [`follow`](Self::follow), and whoever waits for a round.
    pub(crate) fn stop(&self) {
        let asked = self.asked.lock();
        self.stopping.store(true, Ordering::SeqCst);
        drop(asked);
        self.asks.notify_all();
        self.ended.notify_all();
    }

    /// Brings everything home that has been accepted so far.
    pub(crate) fn go_home(&self) -> Result<()> {
        let one = self.rounds.lock();
        let areas = self.areas.lock();
        let mut state = self.state()?;
        if state.number == self.home.entries() && state.image.dirty_bytes() == 0 {
            return Ok(());
        }
        state.image.round_begins();
        state.oldest_next = None;
        let snapshot = Snapshot::of(&state.image, state.number)?;
        let logged = state.logged;
        let due = self.due_areas(&mut state);
        drop(state);
        // Nothing goes home that a power cut could still undo.
        self.core.stream.wait(due.last)?;
        self.write_areas(areas, due)?;
        let Brought { mut extents, damaged } = self.home.bring(&snapshot).map_err(|error| self.fail(error))?;
        let mut state = self.state.lock();
        let cache = self.core.settings.cache.0;
        state.image.round_ended(snapshot.version, &mut |file| extents.remove(&file), cache);
        state.oldest = state.oldest_next;
        state.logged_home = state.logged_home.max(logged);
        state.rounds += 1;
        state.counters.rounds += 1;
        self.ended.notify_all();
        drop((state, one));
        if !damaged.is_empty() {
            self.met_damage(&damaged);
        }
        Ok(())
    }

    /// Makes space in the member's share: by a round, which its thread makes, or else the caller. `before` rounds had ended
    /// when there was none.
    pub(super) fn make_share(&self, before: u64, began: Instant) -> Result<()> {
        if !self.core.settings.background {
            let is_due = self.state()?.rounds == before;
            return if is_due { self.go_home() } else { Ok(()) };
        }
        let patience = self.core.settings.patience;
        self.ask_home();
        let mut state = self.state()?;
        while state.rounds == before {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            self.core.check()?;
            if began.elapsed() >= patience {
                return Err(self.full_for_now(format!(
                    "{} of its changes are not home, which is its share, and its home does not keep up; see to its medium",
                    self.quota().share
                )));
            }
            // Looked at now and then, since the pool's failure is told to nobody here.
            self.ended.wait_for(&mut state, patience.saturating_sub(began.elapsed()).min(Duration::from_millis(100)));
        }
        Ok(())
    }

    /// Says at the end of the log again what has changed since the home, so that the log before is not needed for it.
    pub(crate) fn restate(&self) -> Result<()> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.oldest.is_none() || state.retired {
            return Ok(());
        }
        let (before, logged, rounds) = (state.counters.clone(), state.logged, state.rounds);
        let first = self.try_restate(state).map_err(|refusal| match refusal {
            Refusal::Error(error) => error,
            _ => self.full("the log has no room to carry its changes on".to_owned()),
        });
        state.counters.restated += state.logged - logged;
        (state.counters.entries, state.counters.logged) = (before.entries, before.logged);
        let last = state.last;
        drop(guard);
        let first = first?;
        // The log before is needed until all of it is durable.
        self.core.stream.wait(last)?;
        let mut state = self.state.lock();
        if state.rounds == rounds && state.oldest.is_some() {
            // Only the last restatement counts towards the share.
            state.logged_home = logged;
            state.oldest = Some(first);
        }
        tracing::debug!(member = self.name, bytes = state.logged - logged, "changes carried on");
        Ok(())
    }

    /// The LSN of the first entry.
    fn try_restate(&self, state: &mut State) -> Result<Lsn, Refusal> {
        let nodes = state.image.nodes();
        let files: Vec<FileId> = nodes.iter().filter_map(|node| node.file).map(|(file, _)| file).collect();
        state.append(&self.core, self.id, Change::Restate { since: self.home.entries(), nodes })?;
        let first = state.last;
        for file in files {
            for (offset, length) in state.image.contents(file)?.voids() {
                let length = length - offset;
                state.append(&self.core, self.id, Change::Zero { file, offset, length, keep_length: true })?;
            }
            let contents = state.image.contents(file)?;
            let (end, dirty) = (contents.length(), contents.dirty_blocks());
            let dirty: Vec<_> = dirty.map(|(block, bytes)| (block, bytes.clone())).collect();
            // Blocks of zeros that lie beside each other are one entry.
            for row in dirty.chunk_by(|one, next| one.1.is_none() && next.1.is_none() && one.0 + 1 == next.0) {
                let (offset, bytes) = (row[0].0 * BLOCK, row[0].1.as_deref());
                let length = (row.len() as u64 * BLOCK).min(end - offset);
                let bytes = bytes.map(|bytes| &bytes[..length as usize]);
                let runs = vec![Run { at: 0, length, bytes }];
                state.append(&self.core, self.id, Change::Data { file, offset, length, runs })?;
            }
        }
        state.append(&self.core, self.id, Change::Restated)?;
        Ok(first)
    }

    pub(crate) fn statistics(&self) -> MemberStatistics {
        let (requests, saved, latencies) = {
            let commits = self.commits.lock();
            (commits.requests, commits.saved, commits.latencies.clone())
        };
        let state = self.state.lock();
        let counters = &state.counters;
        MemberStatistics {
            entries: counters.entries,
            written: counters.written,
            logged: counters.logged,
            restated: counters.restated,
            area_bytes: counters.area_bytes,
            durable_requests: requests,
            syncs_saved: saved,
            latencies,
            entries_not_home: state.number.saturating_sub(self.home.entries()),
            bytes_not_home: state.not_home(),
            memory_not_home: state.image.dirty_bytes(),
            rounds: counters.rounds,
            home: state.image.extents() * EXTENT,
            files: state.image.names.len() as u64,
            repaired: counters.repaired,
            damaged: state.damaged_files(),
            quota: self.quota(),
        }
    }
}
