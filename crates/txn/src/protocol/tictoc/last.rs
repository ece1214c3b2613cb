//! The record that was read last: who writes a key has often just read it, and need not look it up again.

use super::word::Stamp;
use crate::records::RecordId;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Last {
    found: Option<(usize, RecordId, Stamp)>,
    key: Vec<u8>,
}

impl Last {
    pub(super) fn set(&mut self, slot: usize, key: &[u8], id: RecordId, stamp: Stamp) {
        self.found = Some((slot, id, stamp));
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    pub(super) fn clear(&mut self) {
        self.found = None;
    }

    /// The record of a key if it was the last one; it is still that key's if its version is the same.
    pub(super) fn of(&self, slot: usize, key: &[u8]) -> Option<(RecordId, Stamp)> {
        let (found, id, stamp) = self.found?;
        (found == slot && *self.key == *key).then_some((id, stamp))
    }
}
