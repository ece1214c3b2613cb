//! The past of one table: versions that have been replaced or deleted, as long as a snapshot needs them.
//!
//! A version was valid from the LSN that wrote it *until* the LSN that replaced it, and a snapshot at an LSN needs the one
//! that was valid there. Whoever replaces a version that the newest snapshot needs puts a copy here *before* that; so a
//! reader who finds in the table something newer than its snapshot, or nothing, looks here next and misses nothing. What
//! became newer than the newest snapshot is not kept: nobody can ask for it.
//!
//! Each version is on the list of one snapshot, the newest one that needs it. When that ends, its list is gone through: what
//! an older snapshot needs goes on the list of the newest of those, the rest is forgotten. So to end a snapshot costs what
//! was kept for it, however much is kept for others.
//!
//! Keys are spread over rooms with a lock each by their fingerprints. Where a scan has to find keys that are in the table no
//! more, each room knows those in order.

use std::collections::BTreeSet;
use std::mem::{size_of, take};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hashbrown::HashTable;
use ishigaki_base::Lsn;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::key::{Key, KeyRange, fingerprint};

/// How many rooms a table's history has, once it has any.
pub(crate) const ROOMS: usize = 16;

/// The most that a search for keys that are gone takes out of one room at once: keys, and bytes.
const FEW: (usize, usize) = (256, 64 << 10);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct History {
    rooms: OnceLock<Box<[Room; ROOMS]>>,
    /// How many keys of chains have seen a deletion; changes before one leaves the index.
    gone: AtomicU64,
    /// Whether the sweeper knows of this history.
    pub(crate) listed: AtomicBool,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Room(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    chains: HashTable<Chain>,
    /// Keys of chains that have seen a deletion.
    gone: BTreeSet<Key>,
    /// By snapshot, in ascending order.
    lists: Vec<List>,
    bytes: u64,
}

/// What one key has been.
#[derive(Debug)]
struct Chain {
    fingerprint: u64,
    key: Key,
    is_gone: bool,
    versions: SmallVec<[Old; 1]>,
}

/// A version that is valid no more.
#[derive(Debug)]
struct Old {
    validity: Validity,
    value: Box<[u8]>,
}

/// From a first LSN on, and until another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: Lsn,
    pub(crate) until: Lsn,
}

/// What is kept for one snapshot, and for older ones perhaps.
#[derive(Debug)]
struct List {
    snapshot: Lsn,
    kept: Vec<Kept>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    fingerprint: u64,
    validity: Validity,
}

/// A row that is in the table no more.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) key: Key,
    pub(crate) value: Box<[u8]>,
    /// Who wrote it.
    pub(crate) from: Lsn,
}

impl Validity {
    fn includes(self, snapshot: Lsn) -> bool {
        self.from <= snapshot && snapshot < self.until
    }

    /// The newest of some snapshots, which are in ascending order, that needs it.
    pub(crate) fn newest_in(self, snapshots: &[Lsn]) -> Option<Lsn> {
        let before = snapshots.partition_point(|&snapshot| snapshot < self.until);
        snapshots[..before].last().copied().filter(|&snapshot| self.includes(snapshot))
    }
}

impl History {
    /// Keeps what a key was, if `newest` under the lock still says that a snapshot needs it: the LSN of the newest one. Says how
    /// many bytes that takes.
    pub(crate) fn keep(
        &self,
        key: &Key,
        value: &[u8],
        validity: Validity,
        is_deletion: bool,
        newest: impl FnOnce() -> Option<Lsn>,
    ) -> u64 {
        let fingerprint = fingerprint(key);
        let mut inside = self.rooms.get_or_init(Box::default)[room_of(fingerprint)].0.lock();
        let Some(newest) = newest() else { return 0 };
        let (before, gone) = (inside.bytes, inside.gone.len());
        if validity.includes(newest) {
            inside.put(fingerprint, key, Old { validity, value: value.into() });
            inside.enlist(newest, Kept { fingerprint, validity });
        }
        // An older snapshot may need another version of it, even if this one is not needed any more.
        if is_deletion {
            inside.note_deletion(fingerprint, key);
        }
        self.gone.fetch_add((inside.gone.len() - gone) as u64, Ordering::Relaxed);
        inside.bytes - before
    }

    /// A key is deleted whose last version nobody needs. If it has others here, scans must find it. Says how many bytes that
    /// takes.
    pub(crate) fn note_deletion(&self, key: &[u8]) -> u64 {
        let fingerprint = fingerprint(key);
        let Some(rooms) = self.rooms.get() else { return 0 };
        let mut inside = rooms[room_of(fingerprint)].0.lock();
        let (before, gone) = (inside.bytes, inside.gone.len());
        inside.note_deletion(fingerprint, key);
        self.gone.fetch_add((inside.gone.len() - gone) as u64, Ordering::Relaxed);
        inside.bytes - before
    }

    /// What a key was at a snapshot, copied behind what is in `into`; and who had written it.
    pub(crate) fn find(&self, key: &[u8], snapshot: Lsn, into: &mut Vec<u8>) -> Option<Lsn> {
        let fingerprint = fingerprint(key);
        let inside = self.rooms.get()?[room_of(fingerprint)].0.lock();
        let old = inside.chain(fingerprint, key)?.at(snapshot)?;
        into.extend_from_slice(&old.value);
        Some(old.validity.from)
    }

    /// Adds rows of a range, which must not be inverted, that were there at a snapshot and may be in the table no more, in no
    /// particular order. If these are many, some are left out: then all of those behind the key that is returned.
    pub(crate) fn find_gone(&self, range: KeyRange<'_>, snapshot: Lsn, rows: &mut Vec<Gone>) -> Option<Key> {
        if self.gone.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut reached: Option<Key> = None;
        for room in self.rooms.get()?.iter() {
            let inside = room.0.lock();
            let (mut looked_at, mut bytes) = (0, 0);
            for key in inside.gone.range::<[u8], _>(range) {
                let chain = inside.chain(fingerprint(key), key);
                if let Some(Old { validity, value }) = chain.and_then(|chain| chain.at(snapshot)) {
                    bytes += value.len();
                    rows.push(Gone { key: key.clone(), value: value.clone(), from: validity.from });
                }
                looked_at += 1;
                if looked_at >= FEW.0 || bytes >= FEW.1 {
                    reached = Some(reached.map_or_else(|| key.clone(), |reached| reached.min(key.clone())));
                    break;
                }
            }
        }
        reached
    }

    /// Goes on with the list of a snapshot that has ended, in one room, for so many versions. `live` says under the lock which
    /// snapshots there are, in ascending order. Says how many bytes that gave back, and whether the list is done.
    pub(crate) fn sweep(
        &self,
        room: usize,
        ended: Lsn,
        steps: usize,
        live: impl FnOnce() -> SmallVec<[Lsn; 8]>,
    ) -> (u64, bool) {
        let Some(rooms) = self.rooms.get() else { return (0, true) };
        let mut inside = rooms[room].0.lock();
        let Ok(at) = inside.lists.binary_search_by_key(&ended, |list| list.snapshot) else { return (0, true) };
        let live = live();
        if live.binary_search(&ended).is_ok() {
            // Somebody has taken another one at the same moment; its end will be another one, too.
            return (0, true);
        }
        let before = inside.bytes;
        let mut list = inside.lists.remove(at);
        for _ in 0..steps {
            let Some(kept) = list.kept.pop() else { break };
            match kept.validity.newest_in(&live) {
                Some(needs_it) => inside.enlist(needs_it, kept),
                None => inside.forget(kept, &self.gone),
            }
        }
        let is_done = list.kept.is_empty();
        if is_done {
            inside.tidy();
        } else {
            let at = inside.lists.partition_point(|other| other.snapshot < ended);
            inside.lists.insert(at, list);
        }
        (before - inside.bytes, is_done)
    }

    /// How many bytes all of it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.rooms.get().map_or(0, |rooms| rooms.iter().map(|room| room.0.lock().bytes).sum())
    }
}

/// The hash table uses the lowest bits of a fingerprint and the uppermost ones.
fn room_of(fingerprint: u64) -> usize {
    (fingerprint >> 40) as usize % ROOMS
}

/// What a key costs that has a past, and what each of its versions does, beside their bytes.
const CHAIN: u64 = (size_of::<Chain>() * 3 / 2) as u64;
const VERSION: u64 = (size_of::<Kept>() * 3 / 2 + size_of::<usize>()) as u64;

/// What a key costs among those that are gone.
const GONE: u64 = (size_of::<Key>() * 3 / 2) as u64;

fn cost_of(old: &Old) -> u64 {
    old.value.len() as u64 + VERSION
}

impl Chain {
    fn at(&self, snapshot: Lsn) -> Option<&Old> {
        self.versions.iter().find(|old| old.validity.includes(snapshot))
    }

    fn cost(&self) -> u64 {
        let keys = if self.is_gone { 2 } else { 1 };
        CHAIN + keys * self.key.heap() as u64 + if self.is_gone { GONE } else { 0 }
    }
}

impl Inside {
    fn chain(&self, fingerprint: u64, key: &[u8]) -> Option<&Chain> {
        self.chains.find(fingerprint, |chain| chain.fingerprint == fingerprint && *chain.key == *key)
    }

    fn put(&mut self, fingerprint: u64, key: &Key, old: Old) {
        self.bytes += cost_of(&old);
        let is_it = |chain: &Chain| chain.fingerprint == fingerprint && chain.key == *key;
        if let Some(chain) = self.chains.find_mut(fingerprint, is_it) {
            chain.versions.push(old);
            return;
        }
        let chain = Chain { fingerprint, key: key.clone(), is_gone: false, versions: SmallVec::from_buf([old]) };
        self.bytes += chain.cost();
        self.chains.insert_unique(fingerprint, chain, |chain| chain.fingerprint);
    }

    fn note_deletion(&mut self, fingerprint: u64, key: &[u8]) {
        let is_it = |chain: &Chain| chain.fingerprint == fingerprint && *chain.key == *key;
        if let Some(chain) = self.chains.find_mut(fingerprint, is_it).filter(|chain| !chain.is_gone) {
            self.bytes -= chain.cost();
            chain.is_gone = true;
            self.bytes += chain.cost();
            self.gone.insert(chain.key.clone());
        }
    }

    fn enlist(&mut self, snapshot: Lsn, kept: Kept) {
        // It is the last one, but for snapshots that have just ended.
        let at = self.lists.partition_point(|list| list.snapshot < snapshot);
        if self.lists.get(at).is_none_or(|list| list.snapshot != snapshot) {
            self.lists.insert(at, List { snapshot, kept: Vec::new() });
        }
        self.lists[at].kept.push(kept);
    }

    /// Forgets a version, and its key with the last one. Of two with the same fingerprint, written and replaced by the same
    /// two transactions, either one: the other's turn comes.
    fn forget(&mut self, kept: Kept, gone: &AtomicU64) {
        let is_it = |chain: &Chain| {
            chain.fingerprint == kept.fingerprint && chain.versions.iter().any(|old| old.validity == kept.validity)
        };
        let Ok(mut found) = self.chains.find_entry(kept.fingerprint, is_it) else { return };
        let chain = found.get_mut();
        if let Some(at) = chain.versions.iter().position(|old| old.validity == kept.validity) {
            self.bytes -= cost_of(&chain.versions.remove(at));
        }
        if chain.versions.is_empty() {
            let (chain, _) = found.remove();
            self.bytes -= chain.cost();
            if chain.is_gone {
                self.gone.remove(&chain.key);
                gone.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Gives back what an empty room still holds.
    fn tidy(&mut self) {
        if self.chains.is_empty() {
            drop(take(&mut self.chains));
        }
    }
}
