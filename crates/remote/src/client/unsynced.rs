//! Writes that a node has taken and that are not durable yet: lost if that run of the node is gone.
//!
//! A node that was started again (its host may have lost power) knows nothing of what its predecessor had in flight. A sync
//! there succeeds and makes nothing durable of it; so we must remember which run took the writes.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The runs of the node that took something, each with the number of the last write it took.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    written: u64,
    by: BTreeMap<u64, u64>,
}

/// What was written before a sync began.
#[derive(Debug)]
pub(super) struct Covered(BTreeMap<u64, u64>);

impl Unsynced {
    /// That run took a write.
    pub(super) fn written(&self, instance: u64) {
        let mut state = self.state.lock();
        state.written += 1;
        let number = state.written;
        state.by.insert(instance, number);
    }

    /// A sync begins.
    pub(super) fn begin(&self) -> Covered {
        Covered(self.state.lock().by.clone())
    }

    /// A sync by that run has succeeded; false if it could not cover all that was written before.
    pub(super) fn synced(&self, instance: u64, covered: &Covered) -> bool {
        let mut state = self.state.lock();
        if let Some(number) = covered.0.get(&instance)
            && state.by.get(&instance) == Some(number)
        {
            state.by.remove(&instance);
        }
        covered.0.keys().all(|&other| other == instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_covers_what_its_own_run_took_before_it_began_and_nothing_else() {
        let unsynced = Unsynced::default();
        assert!(unsynced.synced(1, &unsynced.begin()), "nothing was written");
        unsynced.written(1);
        let covered = unsynced.begin();
        unsynced.written(1);
        assert!(unsynced.synced(1, &covered));
        assert_eq!(unsynced.begin().0.len(), 1, "the second write is not covered");
        assert!(!unsynced.synced(2, &unsynced.begin()), "another run has not got it");
        assert!(!unsynced.synced(2, &unsynced.begin()), "and never will");
        assert!(unsynced.synced(1, &unsynced.begin()) && unsynced.synced(2, &unsynced.begin()));
    }
}
