//! Each name of a directory once, however often the source tells it.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// The names that a listing has given.
///
/// It holds 128 bits of each name, hashed under keys of its own, so that a directory of ten million names takes some 300 MB and not
/// the length of its names. Two names of one directory share those bits with a probability below 2^-80.
pub(super) struct Names {
    seen: HashSet<u128>,
    hashes: [RandomState; 2],
}

impl Names {
    pub(super) fn new() -> Self {
        Self { seen: HashSet::new(), hashes: [RandomState::new(), RandomState::new()] }
    }

    /// Whether the name is new; it is not from then on.
    pub(super) fn insert(&mut self, name: &[u8]) -> bool {
        let [high, low] = self.hashes.each_ref().map(|hash| u128::from(hash.hash_one(name)));
        self.seen.insert(high << 64 | low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_new_once() {
        let mut names = Names::new();
        assert!(names.insert(b"a") && names.insert(b"b"));
        assert!(!names.insert(b"a") && !names.insert(b"b") && names.insert(b""));
    }
}
