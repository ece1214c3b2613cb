//! Progress of one experiment among several.

use crate::{Progress, Target};

/// Puts the name of the experiment before what it says.
pub(super) struct Stage<'a> {
    before: String,
    progress: &'a mut dyn Progress,
}

impl<'a> Stage<'a> {
    pub(super) fn new(name: &str, target: &Target, progress: &'a mut dyn Progress) -> Self {
        Self { before: format!("{} on {}", name, target.name()), progress }
    }
}

impl Progress for Stage<'_> {
    fn step(&mut self, now: &str, done: u64, of: u64) {
        self.progress.step(&format!("{}: {now}", self.before), done, of);
    }
}
