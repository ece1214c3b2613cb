//! Which page file each location of a paged table has, and how many appends to it were answered.
//!
//! ```text
//! CREATE TABLE   the statement's transaction notes the file's identity, and how many appends it has
//! INSERT, COPY   the manifest becomes current · a transaction of its own notes the number of appends · the statement is answered
//! opening        a file with more appends than are noted (its append was not answered) is noted with these, once they are durable
//! ```
//!
//! A manifest of another file, or one with fewer appends than are noted, is none that a crash leaves: it was put there. What
//! is beside it may be all that is left of answered appends, and no opening touches it.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};

use ishigaki_page::State;
use ishigaki_txn::{TableId, Transaction};

use super::Catalog;
use crate::readable::Readable;
use crate::{Error, Result};

/// The engine's table of them.
pub(crate) const PAGE_STATES: &str = "sql.page_states";

/// The first byte of a note.
const VERSION: u8 = 1;

/// The file of a paged table: its name, and which of its locations.
pub(crate) type Place = (String, u16);

/// What is noted of page files.
pub(crate) type States = HashMap<Place, State>;

fn key_of(table: &str, position: u16) -> Vec<u8> {
    [table.as_bytes(), &position.to_be_bytes()].concat()
}

fn encode(state: State) -> Vec<u8> {
    [&[VERSION][..], &state.identity.to_le_bytes(), &state.appends.to_le_bytes()].concat()
}

/// Reads a note; nothing: it is none.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<(Place, State)> {
    let (name, position) = key.split_last_chunk()?;
    let place = (String::from_utf8(name.to_vec()).ok()?, u16::from_be_bytes(*position));
    let (identity, rest) = value.strip_prefix(&[VERSION])?.split_first_chunk()?;
    let appends = rest.try_into().ok()?;
    Some((place, State { identity: u64::from_le_bytes(*identity), appends: u64::from_le_bytes(appends) }))
}

impl Catalog {
    /// What transactions that have ended have noted.
    pub(crate) fn states(&self) -> Result<States> {
        let snapshot = self.inner.session.snapshot()?;
        all(Readable::Snapshot(&snapshot), self.inner.page_states)
    }

    /// Notes the files of a new table, in the order of its locations.
    pub(crate) fn put_states(&self, txn: &mut Transaction, table: &str, states: &[State]) -> Result<()> {
        for (position, &state) in (0..).zip(states) {
            txn.put(self.inner.page_states, &key_of(table, position), &encode(state))?;
        }
        Ok(())
    }

    /// Notes what became current; durable when this returns. Where another file is noted, the table was dropped
    /// meanwhile, and what is noted stays.
    pub(crate) fn note_states(&self, states: &[(Place, State)]) -> Result<()> {
        if states.is_empty() {
            return Ok(());
        }
        let table = self.inner.page_states;
        self.inner.session.run(|txn| {
            for ((name, position), state) in states {
                let key = key_of(name, *position);
                let known = txn.get_with(table, &key, |value| decode(&key, value).map(|(_, known)| known))?;
                let follows = |known: State| known.identity == state.identity && known.appends < state.appends;
                if known.is_none_or(|known| known.is_none_or(follows)) {
                    txn.put(table, &key, &encode(*state))?;
                }
            }
            Ok(())
        })
    }

    /// Lets notes go of files that are no table's any more.
    pub(crate) fn forget_states(&self, places: &[Place]) -> Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        self.inner.session.run(|txn| {
            for (name, position) in places {
                txn.delete(self.inner.page_states, &key_of(name, *position))?;
            }
            Ok(())
        })
    }
}

fn all(mut from: Readable<'_>, table: TableId) -> Result<States> {
    let mut states = Some(HashMap::new());
    from.scan(table, (Bound::Unbounded, Bound::Unbounded), |key, value| {
        match (decode(key, value), &mut states) {
            (Some((place, state)), Some(states)) => drop(states.insert(place, state)),
            _ => states = None,
        }
        if states.is_some() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    states.ok_or_else(|| Error::corrupt("a note of a page file's state in the catalog is none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_nothing_else_is_one() {
        let state = State { identity: u64::MAX - 7, appends: 3 };
        let (key, value) = (key_of("päges", 513), encode(state));
        assert_eq!(decode(&key, &value), Some((("päges".to_owned(), 513), state)));
        for length in 0..value.len() {
            assert_eq!(decode(&key, &value[..length]), None, "{length}");
        }
        assert_eq!(decode(&key, &[&value[..], b"x"].concat()), None);
        assert_eq!(decode(&key[..1], &value), None);
    }
}
