//! The door for `fuzz/`: the record of a stub.
//!
//! Compiled under `--cfg fuzzing` only.

use super::codec::seal;
use super::{Record, Reference, State, Stored, decode};
use crate::ranges::RangeSet;
use crate::source::{Location, Stamp, Timestamp};

/// Reads a record with a right checksum; whether it was taken.
///
/// # Panics
///
/// If what was taken does not read back after encoding.
pub fn record(bytes: &[u8]) -> bool {
    let mut bytes = bytes.to_vec();
    seal(&mut bytes);
    let stored = decode(&bytes);
    match &stored {
        Ok(Stored::Record(record)) => {
            assert_eq!(decode(&record.encode()).as_ref(), Ok(&Stored::Record(record.clone())))
        }
        Ok(Stored::Elsewhere(reference)) => assert_eq!(decode(&reference.encode()), Ok(Stored::Elsewhere(*reference))),
        Err(_) => {}
    }
    stored.is_ok()
}

/// A record and a reference.
pub fn records() -> Vec<Vec<u8>> {
    let mut holes = RangeSet::from(4096..8192);
    holes.insert(16384..20480);
    let moment = |seconds| Timestamp { seconds, nanos: 999_999_999 };
    let record = Record {
        state: State::Partial,
        modified: true,
        conflict: false,
        source: 3,
        location: Location { path: "a/b".into(), handle: [1, 2, 3].into() },
        stamp: Stamp { id: 77, size: 1 << 40, modified: moment(-5), changed: moment(1 << 33) },
        minsize: 30000,
        holes,
    };
    vec![record.encode(), Reference(9).encode()]
}
