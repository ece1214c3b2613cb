//! Records that were found by their keys a short while ago, and that are likely to be used next: who writes a key has often
//! just read it, or has said before that he will. They need not be looked up again.
//!
//! A record may be another key's by now. But then its version is another one: who takes a record from here must find it in
//! the version that it had.

use super::TicToc;
use super::word::Stamp;
use crate::key::{Key, ShortKey};
use crate::records::RecordId;
use crate::table::TableRef;
use sdd::Guard;
use smallvec::SmallVec;

/// Room for as many records with short keys, each at the place that its key says; a newer one takes it from an older one.
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

#[derive(Clone, Copy, Debug)]
struct Place {
    round: u64,
    slot: usize,
    id: RecordId,
    stamp: Stamp,
    key: ShortKey,
}

impl Known {
    /// The record of a key was found, in that version.
    #[inline]
    pub(super) fn note(&mut self, slot: usize, key: &[u8], id: RecordId, stamp: Stamp) {
        let Some(key) = ShortKey::new(key) else { return };
        if stamp.is_absent() || stamp.is_dead() {
            return;
        }
        if self.places.is_empty() {
            self.places.resize(PLACES, Place::empty());
        }
        self.places[place_of(&key)] = Place { round: self.round, slot, id, stamp, key };
    }

    /// The record of a key, if it is known, and the version that it had when it was.
    #[inline]
    pub(super) fn of(&self, slot: usize, key: &Key) -> Option<(RecordId, Stamp)> {
        let Key::Short(key) = key else { return None };
        let place = self.places.get(place_of(key))?;
        let is = place.round == self.round && place.slot == slot && place.key == *key;
        is.then_some((place.id, place.stamp))
    }

    /// The same, if anybody has looked ahead: who reads a key has seldom read it before.
    #[inline]
    pub(super) fn of_ahead(&self, slot: usize, key: &[u8]) -> Option<(RecordId, Stamp)> {
        if self.ahead { self.of(slot, &Key::Short(ShortKey::new(key)?)) } else { None }
    }

    pub(super) fn clear(&mut self) {
        self.round += 1;
        self.ahead = false;
    }
}

impl Place {
    /// No round is like that.
    fn empty() -> Self {
        Self { round: u64::MAX, slot: 0, id: RecordId(0), stamp: Stamp::default(), key: ShortKey::EMPTY }
    }
}

#[inline]
fn place_of(key: &ShortKey) -> usize {
    (key.mixed() >> (u64::BITS - PLACES.ilog2())) as usize
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
                known.note(slot, keys[at].as_ref(), id, table.rows.at(id).word().load());
            }
        }
        known.ahead = true;
    }
}
