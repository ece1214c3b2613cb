//! The space of the log: it is bounded, and no member can use it up for the others.
//!
//! ```text
//!  live bytes of the log
//!  0 ──────────── half of easy ──────────── three quarters of easy ──────────── easy ──────────── bound
//!     nothing       members are asked home     who is still not home is         the log slows everybody down,
//!                   and space is given free    carried on                       which is not come to
//! ```
//!
//! Space is given free up to the oldest entry that is not home, over all members. A member whose home is slow, stands still
//! or has failed would hold it for ever. So what that member has changed since its home is *restated* at the end of the
//! log, from memory, and the space before that is free. A restatement is at most as long as the member's share, and the
//! shares of all are at most a quarter of the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_base::Lsn;
use ishigaki_wal::Start;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::member::Resident;
use crate::pool::Core;
use crate::{Error, Result};

/// Sees to the space.
#[derive(Debug)]
pub(crate) struct Keeper {
    core: Arc<Core>,
    residents: RwLock<BTreeMap<String, Arc<Resident>>>,
    /// One at a time sees to it.
    relieving: Mutex<()>,
    /// There may be something to do.
    nudged: Mutex<bool>,
    wakes: Condvar,
    stopping: AtomicBool,
}

impl Keeper {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            residents: RwLock::default(),
            relieving: Mutex::default(),
            nudged: Mutex::default(),
            wakes: Condvar::new(),
            stopping: AtomicBool::new(false),
        }
    }

    pub(crate) fn move_in(&self, resident: Arc<Resident>) {
        self.residents.write().insert(resident.name().to_owned(), resident);
    }

    pub(crate) fn move_out(&self, name: &str) {
        self.residents.write().remove(name);
    }

    /// All members, by name.
    pub(crate) fn residents(&self) -> Vec<Arc<Resident>> {
        self.residents.read().values().cloned().collect()
    }

    pub(crate) fn resident(&self, name: &str) -> Result<Arc<Resident>> {
        self.residents.read().get(name).cloned().ok_or_else(|| Error::NotFound { name: name.to_owned() })
    }

    /// The log has grown. Where the keeper's thread does not keep up, the caller sees to the space itself: a log that is full has no
    /// room for a restatement either, and then none of it comes free again.
    pub(crate) fn nudge(&self) {
        let space = self.core.log.space();
        if self.core.settings.background && space.live < space.easy {
            *self.nudged.lock() = true;
            self.wakes.notify_all();
        } else {
            self.relieve(false);
        }
    }

    /// The body of the keeper's thread.
    pub(crate) fn run(&self) {
        while !self.stopping.load(Ordering::SeqCst) {
            let mut nudged = self.nudged.lock();
            while !*nudged && !self.stopping.load(Ordering::SeqCst) {
                self.wakes.wait(&mut nudged);
            }
            *nudged = false;
            drop(nudged);
            self.relieve(false);
        }
    }

    /// Ends [`run`](Self::run).
    pub(crate) fn stop(&self) {
        let mut nudged = self.nudged.lock();
        self.stopping.store(true, Ordering::SeqCst);
        *nudged = true;
        self.wakes.notify_all();
    }

    /// Gives space free if there is little left, or `urgent`ly in any case. Failures close whom they concern.
    pub(crate) fn relieve(&self, urgent: bool) {
        let _one = self.relieving.lock();
        let space = self.core.log.space();
        let (live, easy) = (space.live.0, space.easy.0);
        if self.core.check().is_err() || !urgent && live < easy / 2 {
            return;
        }
        // Whoever holds the older half is asked home; the log does not end while they are at it.
        let (first, last) = (self.oldest().unwrap_or(Lsn::MAX), self.core.log.last_drawn());
        let middle = Lsn(first.0.saturating_add(last.0) / 2);
        let holders = || self.residents().into_iter().filter(move |one| one.oldest().is_some_and(|lsn| lsn <= middle));
        for resident in holders() {
            if self.core.settings.background {
                resident.ask_home();
            } else if let Err(error) = resident.go_home() {
                tracing::warn!(%error, member = resident.name(), "a member could not be brought home");
            }
        }
        if urgent || live >= easy / 4 * 3 {
            for resident in holders() {
                if let Err(error) = resident.restate() {
                    tracing::warn!(%error, member = resident.name(), "a member's changes could not be carried on");
                }
            }
        }
        if let Err(error) = self.trim() {
            tracing::error!(%error, "space of the log could not be given free");
        }
    }

    /// The oldest entry that is not home.
    fn oldest(&self) -> Option<Lsn> {
        self.residents().iter().filter_map(|resident| resident.oldest()).min()
    }

    /// Gives everything free that no member needs.
    pub(crate) fn trim(&self) -> Result<()> {
        let _none_reads = self.core.shorten_log();
        // The end first: what is appended after this look is not given free.
        let here = self.core.log.here();
        let to = self.oldest().map_or(here.lsn, |oldest| oldest.min(here.lsn));
        // What an older opening has logged goes as a whole.
        if to < self.core.base {
            return Ok(());
        }
        Ok(self.core.log.trim(Start { lsn: to, ..here })?)
    }
}
