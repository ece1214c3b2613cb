//! Which names are one file, at both sides.
//!
//! Files with several names at a side are paired by number: the first pair of an old and a new file says which files belong together, and every
//! other name must say the same.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ishigaki_migrate::source::Attributes;

use super::report::{Difference, Kind};
use crate::shown::shown;

/// A file of a source: the source, the file system, the number.
type OldFile = (usize, u64, u64);
type NewFile = (u64, u64);

#[derive(Default)]
pub(super) struct Links {
    /// The path is the least one, so that a report does not depend on which thread was first.
    pairs: HashMap<(OldFile, NewFile), PathBuf>,
}

impl Links {
    /// A name, and what it names at both sides.
    pub(super) fn add(&mut self, source: usize, path: &Path, old: &Attributes, new: &Attributes) {
        if old.links <= 1 && new.links <= 1 {
            return;
        }
        let pair = ((source, old.id.0, old.id.1), new.id);
        let first = self.pairs.entry(pair).or_insert_with(|| path.to_owned());
        if path < first.as_path() {
            path.clone_into(first);
        }
    }

    /// Names that are one file at one side only.
    pub(super) fn differences(self) -> Vec<Difference> {
        let mut pairs: Vec<_> = self.pairs.into_iter().collect();
        pairs.sort_by(|one, two| one.1.cmp(&two.1));
        let (mut by_old, mut by_new) = (HashMap::new(), HashMap::new());
        let mut found = Vec::new();
        for ((old, new), path) in &pairs {
            if let Some(first) = by_old.insert(*old, path) {
                let here = "another file".to_owned();
                found.push(Difference::new(path, Kind::Links, format!("the file {}", shown(first)), here));
            }
            if let Some(first) = by_new.insert(*new, path) {
                found.push(Difference::new(path, Kind::Links, "another file", format!("the file {}", shown(first))));
            }
        }
        found
    }
}
