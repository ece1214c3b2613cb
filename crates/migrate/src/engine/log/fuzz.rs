//! The door for `fuzz/`: the log of the engine, as a start reads it.
//!
//! Compiled under `--cfg fuzzing` only.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use ishigaki_base::{Fields, crc32c};

use super::event::Event;
use super::{State, replay};
use crate::destination::NodeId;
use crate::engine::Problem;

/// Puts right the checksums of all events that are whole.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while bytes.len() >= at + 8 {
        let Some(end) = (at + 8).checked_add(Fields(&bytes).u32(at) as usize).filter(|end| *end <= bytes.len()) else {
            break;
        };
        let sum = crc32c(&bytes[at + 8..end]);
        bytes[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
    bytes
}

fn read(bytes: &[u8]) -> (State, u64) {
    let replayed = replay::replay(bytes.len() as u64, |at, window| {
        let rest = &bytes[at as usize..];
        let count = rest.len().min(window.len());
        window[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    });
    let (mut state, end) = replayed.expect("memory has no faults");
    state.settle();
    (state, end)
}

/// Reads a log with right checksums; whether all of it was taken.
///
/// # Panics
///
/// If the log that is written anew from it does not say the same.
pub fn log(bytes: &[u8]) -> bool {
    let (state, end) = read(&sealed(bytes));
    let anew = state.snapshot();
    let (again, whole) = read(&anew);
    assert_eq!(whole, anew.len() as u64, "a log that was written anew is whole");
    let nodes = |state: &State| state.places.keys().copied().collect::<BTreeSet<NodeId>>();
    assert_eq!(nodes(&again), nodes(&state));
    assert_eq!((again.totals, &again.problems, again.moved), (state.totals, &state.problems, state.moved));
    end == bytes.len() as u64
}

/// Logs that are whole.
pub fn logs() -> Vec<Vec<u8>> {
    let problem = Problem { path: "a/b".into(), message: "it is refused".into(), conflict: false, left_out: true };
    let (root, a, b) = (NodeId(2), NodeId(3), NodeId(4));
    let found = |node, above, name| Event::Found { node, above, name: Cow::Borrowed(OsStr::new(name)) };
    let events = [
        found(root, None, ""),
        Event::Listed { node: root, files: 1, bytes: 10 },
        found(a, Some(root), "a"),
        Event::Copied { node: root },
        Event::Problem { source: 0, problem: Cow::Owned(problem) },
        found(b, Some(a), "b"),
        Event::Listed { node: a, files: 2, bytes: 20 },
        Event::Moved,
        Event::Mended { source: 0, path: Path::new("a/b").into() },
    ];
    let mut whole = Vec::new();
    for event in events {
        event.write(&mut whole);
    }
    let anew = read(&whole).0.snapshot();
    vec![whole, anew]
}
