//! What could not be copied. It stays known across restarts, so that the end of a migration leaves out nothing in silence.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::Queue;
use super::event::Event;
use crate::engine::Problem;

impl Queue {
    /// An object of a source could not be copied; whether that, or why, is new.
    pub(in super::super) fn problem(&self, source: u32, problem: Problem) -> bool {
        let state = &mut *self.state.lock();
        let key = (source, problem.path.clone());
        if state.problems.get(&key) == Some(&problem) {
            return false;
        }
        Event::Problem { source, problem: Cow::Borrowed(&problem) }.write(&mut state.events);
        state.problems.insert(key, problem);
        self.problems.store(state.problems.len(), Ordering::Release);
        true
    }

    pub(in super::super) fn has_problem(&self, source: u32, path: &Path) -> bool {
        self.state.lock().problems.contains_key(&(source, path.to_owned()))
    }

    /// There is no problem with it any more; whether there was one.
    pub(in super::super) fn no_problem(&self, source: u32, path: &Path) -> bool {
        if self.problems.load(Ordering::Acquire) == 0 {
            return false;
        }
        let state = &mut *self.state.lock();
        let was = state.problems.remove(&(source, path.to_owned())).is_some();
        if was {
            Event::Mended { source, path: path.into() }.write(&mut state.events);
            self.problems.store(state.problems.len(), Ordering::Release);
        }
        was
    }

    /// All problems, each with the number of its source, by source and path.
    pub(in super::super) fn problems(&self) -> Vec<(u32, Problem)> {
        let state = self.state.lock();
        state.problems.iter().map(|((source, _), problem)| (*source, problem.clone())).collect()
    }

    pub(in super::super) fn problem_count(&self) -> usize {
        self.problems.load(Ordering::Acquire)
    }

    /// Forgets problems of objects that were stubs and are none any more: clients have removed them.
    pub(in super::super) fn keep_problems_of(&self, stubs: &HashSet<(u32, PathBuf)>) {
        let gone: Vec<_> = {
            let state = self.state.lock();
            let stubless = state.problems.iter().filter(|(key, problem)| !problem.left_out && !stubs.contains(*key));
            stubless.map(|(key, _)| key.clone()).collect()
        };
        for (source, path) in gone {
            self.no_problem(source, &path);
        }
    }
}
