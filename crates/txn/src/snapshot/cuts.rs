//! The snapshots that there are, and the end of them.
//!
//! ```text
//! take:    gates closed ─ the last LSN drawn ─ `newest` says that there is one ─ gates open
//! commit:  in its passage: `newest`? ─ keep what is replaced (`Keeper`) ─ install
//! end:     `newest` says what is left ─ go through what was kept for it, in steps
//! ```
//!
//! A commit that finds no snapshot has paid one load of a word that is rarely written. One that still finds a snapshot that
//! has just ended looks again under the lock of the room that it puts a version into. Either it sees there that the snapshot is
//! gone, or whoever goes through that room for the end of it comes later and finds the version.
//!
//! Memory is bounded: when old versions take too much, a commit gives up the oldest snapshot. It is gone through as one that
//! has ended, by the commits that follow, twice as fast as they add to it, and by whoever ends or takes another.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ishigaki_base::{ByteSize, Lsn, Position};
use ishigaki_wal::{Dependencies, Log};
use parking_lot::Mutex;
use sdd::Guard;
use smallvec::SmallVec;

use super::see;
use crate::checkpoint::Gates;
use crate::history::{ROOMS, Validity};
use crate::key::Key;
use crate::memory::Memory;
use crate::record::Record;
use crate::table::{Table, TableId};
use crate::{Error, Result};

/// How many versions are gone through under one lock.
const STEPS: usize = 128;

/// How many bytes a commit keeps before it looks at the limit.
const LOOK: u64 = 64 << 10;

/// A moment in the order of LSNs at which no commit was half done. Several snapshots may share one.
#[derive(Debug)]
pub(crate) struct Cut {
    /// The last LSN that is shown.
    pub(crate) lsn: Lsn,
    /// Up to where everything was durable at that moment.
    pub(crate) durable: Lsn,
    /// The last record of each stream that is shown.
    pub(crate) records: Dependencies,
    given_up: AtomicBool,
}

/// All snapshots of a database.
#[derive(Debug)]
pub(crate) struct Snapshots {
    newest: Newest,
    state: Mutex<State>,
    round: Mutex<Option<Round>>,
    /// Some snapshot has ended and has not been gone through.
    littered: AtomicBool,
    memory: Arc<Memory>,
    /// The most that old versions may take.
    limit: u64,
}

/// What commits look at: one more than the LSN of the newest snapshot, [`LITTER`] if there is none, or zero if there is nothing
/// to be given back either. Changes under the lock of the state.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Newest(AtomicU64);

const LITTER: u64 = u64::MAX;

#[derive(Debug, Default)]
struct State {
    /// In ascending order, and how many snapshots share each.
    live: Vec<(Arc<Cut>, usize)>,
    /// To be gone through.
    ended: VecDeque<Lsn>,
    /// Those with a history.
    tables: Vec<Weak<Table>>,
    /// Tables that were dropped, and with which LSN.
    dropped: Vec<(Lsn, Arc<Table>)>,
}

/// How far a snapshot that has ended was gone through.
#[derive(Debug)]
struct Round {
    ended: Lsn,
    tables: Vec<Weak<Table>>,
    /// In the last one of these.
    room: usize,
}

impl Cut {
    /// Fails if what it shows is not kept any more. To be asked *after* the history was.
    pub(crate) fn check(&self, snapshots: &Snapshots) -> Result<()> {
        if self.given_up.load(Ordering::Acquire) {
            return Err(Error::SnapshotTooOld { limit: ByteSize::b(snapshots.limit) });
        }
        Ok(())
    }
}

impl Newest {
    fn get(&self) -> Option<Lsn> {
        newest_of(self.0.load(Ordering::Acquire))
    }
}

fn newest_of(word: u64) -> Option<Lsn> {
    if word == LITTER { None } else { word.checked_sub(1).map(Lsn) }
}

impl State {
    fn lsns(&self) -> SmallVec<[Lsn; 8]> {
        self.live.iter().map(|(cut, _)| cut.lsn).collect()
    }

    /// Takes out what no snapshot needs, to be dropped when the lock is gone.
    fn needless_tables(&mut self) -> Vec<(Lsn, Arc<Table>)> {
        if self.dropped.is_empty() {
            return Vec::new();
        }
        let live = self.lsns();
        self.dropped.extract_if(.., |(until, table)| validity_of(table, *until).newest_in(&live).is_none()).collect()
    }
}

/// From when until when a table was there that was dropped.
fn validity_of(table: &Table, until: Lsn) -> Validity {
    Validity { from: table.created().lsn(), until }
}

impl Snapshots {
    pub(crate) fn new(memory: Arc<Memory>, limit: u64) -> Self {
        Self {
            newest: Newest::default(),
            state: Mutex::default(),
            round: Mutex::default(),
            littered: AtomicBool::new(false),
            memory,
            limit,
        }
    }

    /// A cut that has everything whose commit has returned.
    pub(super) fn take(&self, gates: &Gates, log: &Log) -> Arc<Cut> {
        if let Some(cut) = self.share(log) {
            return cut;
        }
        gates.cut(|records| {
            let mut state = self.state.lock();
            let (durable, lsn) = (log.watermark(), log.last_drawn());
            if let Some((last, handles)) = state.live.last_mut().filter(|(last, _)| last.lsn == lsn) {
                *handles += 1;
                return Arc::clone(last);
            }
            let cut = Arc::new(Cut { lsn, durable, records, given_up: AtomicBool::new(false) });
            state.live.push((Arc::clone(&cut), 1));
            self.publish(&state);
            cut
        })
    }

    /// The newest cut, if nothing was committed since.
    fn share(&self, log: &Log) -> Option<Arc<Cut>> {
        let mut state = self.state.lock();
        let (cut, handles) = state.live.last_mut().filter(|(cut, _)| cut.lsn == log.last_drawn())?;
        *handles += 1;
        Some(Arc::clone(cut))
    }

    /// One snapshot of a cut has ended.
    pub(super) fn end(&self, cut: &Arc<Cut>) {
        let mut state = self.state.lock();
        if let Some(at) = state.live.iter().position(|(other, _)| Arc::ptr_eq(other, cut)) {
            state.live[at].1 -= 1;
            if state.live[at].1 > 0 {
                return;
            }
            self.retire(&mut state, at);
        }
        let needless = state.needless_tables();
        drop(state);
        drop(needless);
        while self.go_on(&mut self.round.lock()).is_some() {}
    }

    /// Takes a cut out; what was kept for it is to be gone through.
    fn retire(&self, state: &mut State, at: usize) {
        let (cut, _) = state.live.remove(at);
        state.ended.push_back(cut.lsn);
        self.littered.store(true, Ordering::Relaxed);
        self.publish(state);
    }

    fn publish(&self, state: &State) {
        let none = if self.littered.load(Ordering::Relaxed) { LITTER } else { 0 };
        // Who sees by this that there is none any more, and replaces a version, passes on with it that it was given up.
        self.newest.0.store(state.live.last().map_or(none, |(cut, _)| cut.lsn.0 + 1), Ordering::Release);
    }

    /// Gives up the oldest snapshot, unless there is something yet to be given back anyway.
    #[cold]
    fn give_up_oldest(&self) {
        let mut state = self.state.lock();
        if self.littered.load(Ordering::Relaxed) || state.live.is_empty() {
            return;
        }
        // Before anything of it goes: whoever misses that, sees this.
        state.live[0].0.given_up.store(true, Ordering::Release);
        tracing::warn!(lsn = %state.live[0].0.lsn, "a snapshot is given up: old versions take too much memory");
        self.retire(&mut state, 0);
        let needless = state.needless_tables();
        drop(state);
        drop(needless);
    }

    /// Goes a few steps on through what was kept for snapshots that have ended. Says how many bytes that gave back; nothing, if
    /// there is no more to do.
    fn go_on(&self, round: &mut Option<Round>) -> Option<u64> {
        let Round { ended, tables, room } = match round {
            Some(round) => round,
            None => round.insert(self.next_round()?),
        };
        let table = loop {
            match tables.last().map(Weak::upgrade) {
                Some(Some(table)) => break table,
                Some(None) => (*room, _) = (0, tables.pop()),
                None => {
                    *round = None;
                    return Some(0);
                }
            }
        };
        let (freed, is_done) = table.history.sweep(*room, *ended, STEPS, || self.state.lock().lsns());
        if is_done {
            *room += 1;
        }
        if *room == ROOMS {
            (*room, _) = (0, tables.pop());
        }
        self.memory.forget_old(freed);
        Some(freed)
    }

    fn next_round(&self) -> Option<Round> {
        let mut state = self.state.lock();
        let Some(ended) = state.ended.pop_front() else {
            // No commit is under way that could still put something into a history: if it has seen that there was a snapshot,
            // that was in a passage that has ended, or it will look again.
            if state.live.is_empty() {
                let tables = std::mem::take(&mut state.tables);
                tables
                    .iter()
                    .filter_map(Weak::upgrade)
                    .for_each(|table| table.history.listed.store(false, Ordering::Release));
            }
            self.littered.store(false, Ordering::Relaxed);
            self.publish(&state);
            return None;
        };
        Some(Round { ended, tables: state.tables.clone(), room: 0 })
    }

    /// What keeps for the snapshots that there are what a commit replaces; to be asked in its passage.
    #[inline]
    pub(crate) fn keeper(&self, position: Position) -> Option<Keeper<'_>> {
        let word = self.newest.0.load(Ordering::Acquire);
        (word != 0).then(|| Keeper { snapshots: self, newest: newest_of(word), until: position.lsn(), kept: 0 })
    }

    /// A table that was dropped behind a cut.
    pub(super) fn dropped(&self, id: TableId, cut: Lsn) -> Option<Arc<Table>> {
        let state = self.state.lock();
        let found = state.dropped.iter().find(|(until, table)| table.id == id && *until > cut);
        found.map(|(_, table)| Arc::clone(table))
    }

    /// Makes a table known to those who go through histories.
    #[cold]
    fn list(&self, table: &Arc<Table>) {
        let mut state = self.state.lock();
        if !table.history.listed.swap(true, Ordering::AcqRel) {
            state.tables.retain(|other| other.strong_count() > 0);
            state.tables.push(Arc::downgrade(table));
        }
    }

    /// So many bytes were kept more.
    fn account(&self, kept: u64) {
        let too_much = self.memory.keep_old(kept, self.limit);
        if self.littered.load(Ordering::Relaxed)
            && let Some(mut round) = self.round.try_lock()
        {
            let mut freed = 0;
            while freed <= 2 * kept
                && let Some(more) = self.go_on(&mut round)
            {
                freed += more;
            }
        }
        if too_much {
            self.give_up_oldest();
        }
    }
}

/// Keeps what one commit replaces, as far as a snapshot needs it.
pub(crate) struct Keeper<'a> {
    snapshots: &'a Snapshots,
    /// Or one that has just ended. None, if there is only something to be given back.
    newest: Option<Lsn>,
    /// When what is kept was replaced.
    until: Lsn,
    /// Bytes that are not accounted for yet.
    kept: u64,
}

impl Keeper<'_> {
    /// To be called before the record of a key changes, by whoever may change it.
    pub(crate) fn keep(&mut self, table: &Arc<Table>, key: &Key, record: Record<'_>, is_deletion: bool) {
        let (Some(newest), until, snapshots) = (self.newest, self.until, self.snapshots) else { return };
        self.kept += see(record, &Guard::new(), |version| {
            let Some((position, value)) = version.filter(|(position, _)| position.lsn() <= newest) else {
                return if is_deletion { table.history.note_deletion(key) } else { 0 };
            };
            if !table.history.listed.load(Ordering::Acquire) {
                snapshots.list(table);
            }
            let validity = Validity { from: position.lsn(), until };
            table.history.keep(key, value, validity, is_deletion, || snapshots.newest.get())
        });
        if self.kept > LOOK {
            self.account();
        }
    }

    /// To be called before a table that is dropped is not found any more. All that is in it is old then.
    pub(crate) fn keep_table(&mut self, table: Arc<Table>) {
        let mut state = self.snapshots.state.lock();
        if validity_of(&table, self.until).newest_in(&state.lsns()).is_some() {
            self.kept += table.grow_old();
            state.dropped.push((self.until, table));
        }
    }

    fn account(&mut self) {
        self.snapshots.account(std::mem::take(&mut self.kept));
    }
}

impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        self.account();
    }
}

impl fmt::Debug for Keeper<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("newest", &self.newest).field("until", &self.until).finish_non_exhaustive()
    }
}
