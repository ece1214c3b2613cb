//! What a transaction itself has written, at each of its moments.

use std::collections::{BTreeMap, BTreeSet};

use super::{Key, Operation, Version};

/// The last own write of each key that has not been taken back: which operation it was, and its version unless it deleted.
pub(super) type Own = BTreeMap<Key, (usize, Option<Version>)>;

/// What is written before each operation, and at the end.
pub(super) fn states(operations: &[Operation]) -> Vec<Own> {
    let mut states = vec![Own::new()];
    for (operation, done) in operations.iter().enumerate() {
        let mut own = states[operation].clone();
        match done {
            Operation::Write { key, version } => drop(own.insert(*key, (operation, Some(*version)))),
            Operation::Delete { key } => drop(own.insert(*key, (operation, None))),
            Operation::RollBack { to } => own = states[*to].clone(),
            Operation::Read { .. } | Operation::Scan { .. } => {}
        }
        states.push(own);
    }
    states
}

/// The operations whose writes were taken back.
pub(super) fn taken_back(operations: &[Operation]) -> BTreeSet<usize> {
    let stretches = operations.iter().enumerate().filter_map(|(operation, done)| match done {
        Operation::RollBack { to } => Some(*to..operation),
        _ => None,
    });
    stretches.flatten().collect()
}
