//! Records that were found by their keys a short while ago, and that are likely to be used next: who writes a key has often
//! just read it, or has said before that he will. They need not be looked up again.
//!
//! A record may be another key's by now. But then its version is another one: who takes a record from here must find it in
//! the version that it had.

use super::TicToc;
use super::word::Stamp;
use crate::key::{self, Key};
use crate::records::RecordId;
use crate::table::TableRef;
use sdd::Guard;
use smallvec::SmallVec;

/// Room for as many records, each at the place that its key's fingerprint says; a newer one takes it from an older one.
const PLACES: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Known {
    places: Vec<Place>,
    /// Places that say another one are empty.
    round: u64,
    /// Somebody has looked ahead.
    ahead: bool,
}

#[derive(Debug)]
struct Place {
    round: u64,
    fingerprint: u64,
    slot: usize,
    id: RecordId,
    stamp: Stamp,
    key: Key,
}

impl Known {
    /// The record of a key was found, in that version.
    #[inline]
    pub(super) fn note(&mut self, slot: usize, key: &[u8], id: RecordId, stamp: Stamp) {
        if stamp.is_absent() || stamp.is_dead() {
            return;
        }
        let fingerprint = key::fingerprint(key);
        let place = Place { round: self.round, fingerprint, slot, id, stamp, key: Key::of_bound(key) };
        if self.places.is_empty() {
            self.places.resize_with(PLACES, Place::empty);
        }
        self.places[at(fingerprint)] = place;
    }

    /// The record of a key, if it is known, and the version that it had when it was.
    #[inline]
    pub(super) fn of(&self, slot: usize, key: &[u8]) -> Option<(RecordId, Stamp)> {
        let fingerprint = key::fingerprint(key);
        let place = self.places.get(at(fingerprint))?;
        let is =
            place.round == self.round && place.fingerprint == fingerprint && place.slot == slot && *place.key == *key;
        is.then_some((place.id, place.stamp))
    }

    /// The same, if anybody has looked ahead: who reads a key has seldom read it before.
    #[inline]
    pub(super) fn of_ahead(&self, slot: usize, key: &[u8]) -> Option<(RecordId, Stamp)> {
        if self.ahead { self.of(slot, key) } else { None }
    }

    pub(super) fn clear(&mut self) {
        self.round += 1;
        self.ahead = false;
    }
}

impl Place {
    /// No round is like that.
    fn empty() -> Self {
        let (id, key) = (RecordId(0), Key::of_bound(&[]));
        Self { round: u64::MAX, fingerprint: 0, slot: 0, id, stamp: Stamp::default(), key }
    }
}

/// The upper bits are the better ones.
#[inline]
fn at(fingerprint: u64) -> usize {
    (fingerprint >> (u64::BITS - PLACES.ilog2())) as usize
}

impl TicToc {
    /// Finds the records of several keys, so that they are at hand when they are used.
    pub(super) fn know(&mut self, slot: usize, table: &TableRef, keys: &[impl AsRef<[u8]>]) {
        let guard = Guard::new();
        let known = &mut self.sets.known;
        for keys in keys.chunks(PLACES) {
            let mut found = SmallVec::<[(usize, RecordId); 16]>::new();
            table.rows.find_each(keys, &guard, |at, id| found.push((at, id)));
            // The first ones are here by now.
            for (at, id) in found {
                known.note(slot, keys[at].as_ref(), id, table.rows.at(id).word.load());
            }
        }
        known.ahead = true;
    }
}
