//! Which directories the crawler has still to see, and what could not be copied, across restarts.
//!
//! The log in the hidden directory is a sequence of events. A directory's events are written before its mark is taken away, so that what is
//! not in the log is found again by listing: a restart begins without a walk from the root. Bytes are in `docs/format/stub.md`.
//!
//! A directory is found by its names from the root on, as they were when it was found. Where clients have renamed it since, its inode is another
//! one or none; then the crawler looks for stubs everywhere, once, at its end.
//!
//! When the log has grown to several times what it must say, it is written anew: the directories that are not yet copied with those above
//! them, the problems, and the totals.
//!
//! Parts: `event` is what it holds, `lots` gives directories to copy together, `replay` reads it, `snapshot` says the same in few events, `problems` what could not be copied, `place` is where a directory was found.

mod event;
#[cfg(fuzzing)]
pub mod fuzz;
mod lots;
mod place;
mod problems;
mod replay;
mod snapshot;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;

use self::event::Event;
use super::hidden::Hidden;
use super::{Doing, Problem, Progress, Result};
use crate::destination::{Destination, NodeId};

pub(super) use place::Place;

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// How many problems there are, so that most calls need no lock.
    problems: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Of directories that are not yet copied.
    places: HashMap<NodeId, Arc<Place>>,
    to_list: VecDeque<Arc<Place>>,
    to_copy: VecDeque<Arc<Place>>,
    /// Taken from the lines, for as long as their source does not answer; whether they are to be listed.
    parked: Vec<(Arc<Place>, bool)>,
    /// Listed, with files and bytes.
    listed: HashMap<NodeId, (u64, u64)>,
    /// A sweep is needed.
    moved: bool,
    /// By source and path there.
    problems: BTreeMap<(u32, PathBuf), Problem>,
    events: Vec<u8>,
    totals: Progress,
    /// What is below these paths is taken first: it stands at the front of both lines.
    first: Vec<PathBuf>,
}

impl State {
    fn line(&mut self, to_list: bool) -> &mut VecDeque<Arc<Place>> {
        if to_list { &mut self.to_list } else { &mut self.to_copy }
    }

    /// Whether a directory is taken before others. One on the way to a path is listed first, and not copied.
    fn comes_first(&self, place: &Place, to_list: bool) -> bool {
        if self.first.is_empty() {
            return false;
        }
        let path = super::sweep::path_of(place);
        self.first.iter().any(|first| path.starts_with(first) || (to_list && first.starts_with(&path)))
    }

    fn line_up(&mut self, place: Arc<Place>, to_list: bool) {
        let is_first = self.comes_first(&place, to_list);
        let line = self.line(to_list);
        if is_first { line.push_front(place) } else { line.push_back(place) }
    }

    fn next_first(&mut self, to_list: bool) -> Option<Arc<Place>> {
        let front = self.line(to_list).front()?.clone();
        if self.comes_first(&front, to_list) { self.line(to_list).pop_front() } else { None }
    }

    fn next(&mut self, last: bool, to_list: bool) -> Option<Arc<Place>> {
        let first = if self.first.is_empty() { None } else { self.next_first(to_list) };
        let line = self.line(to_list);
        first.or_else(|| if last { line.pop_back() } else { line.pop_front() })
    }

    fn found(&mut self, node: NodeId, above: Option<NodeId>, name: &OsStr) {
        let above = above.and_then(|above| self.places.get(&above).cloned());
        let place = Arc::new(Place { node, name: name.to_owned(), above });
        if self.places.insert(node, place.clone()).is_none() {
            self.totals.directories = self.totals.directories.saturating_add(1);
        }
        self.line_up(place, true);
    }

    fn listed(&mut self, node: NodeId, files: u64, bytes: u64) -> bool {
        let first = self.listed.insert(node, (files, bytes)).is_none();
        if first {
            self.totals.listed = self.totals.listed.saturating_add(1);
            self.totals.files = self.totals.files.saturating_add(files);
            self.totals.bytes = self.totals.bytes.saturating_add(bytes);
        }
        if let Some(place) = self.places.get(&node).cloned() {
            self.line_up(place, false);
        }
        first
    }

    fn copied(&mut self, node: NodeId) {
        self.places.remove(&node);
        if let Some((files, bytes)) = self.listed.remove(&node) {
            self.totals.whole = self.totals.whole.saturating_add(files);
            self.totals.here = self.totals.here.saturating_add(bytes);
        }
    }

    fn replay(&mut self, event: Event<'_>) {
        match event {
            Event::Found { node, above, name } => self.found(node, above, &name),
            Event::Listed { node, files, bytes } => drop(self.listed(node, files, bytes)),
            Event::Copied { node } => self.copied(node),
            Event::Moved => self.moved = true,
            Event::Problem { source, problem } => {
                self.problems.insert((source, problem.path.clone()), problem.into_owned());
            }
            Event::Mended { source, path } => drop(self.problems.remove(&(source, path.into_owned()))),
            Event::Totals(totals) => self.totals = totals,
        }
    }

    /// After all events: what is listed is not to be listed, and what is copied not to be copied.
    fn settle(&mut self) {
        let Self { to_list, listed, places, .. } = self;
        to_list.retain(|place| !listed.contains_key(&place.node) && places.contains_key(&place.node));
        self.to_copy.retain(|place| self.places.contains_key(&place.node));
    }
}

impl Queue {
    /// Reads the log. What a crash has garbled ends it, and makes the crawler look everywhere at its end.
    pub(super) fn open<D: Destination>(destination: &D, hidden: &Hidden<D>) -> Result<Self> {
        let log = hidden.log();
        let size = destination.status(&log).doing("reading the log")?.size;
        let read = replay::replay(size, |at, window| destination.read_at(&log, at, window));
        let (mut state, end) = read.doing("reading the log")?;
        if end < size {
            state.moved = true;
            hidden.set_log_end(end);
            destination.truncate(&log, end).doing("mending the log")?;
        }
        state.settle();
        let problems = AtomicUsize::new(state.problems.len());
        Ok(Self { state: Mutex::new(state), problems })
    }

    pub(super) fn totals(&self) -> Progress {
        self.state.lock().totals
    }

    /// A source's root is a directory of that path.
    pub(super) fn found_root(&self, node: NodeId, at: &Path) {
        let state = &mut *self.state.lock();
        Event::Found { node, above: None, name: at.as_os_str().into() }.write(&mut state.events);
        state.found(node, None, at.as_os_str());
    }

    /// A directory is listed, by a client or the crawler; whether it was not before.
    pub(super) fn listed(&self, node: NodeId, directories: Vec<(NodeId, OsString)>, files: u64, bytes: u64) -> bool {
        let state = &mut *self.state.lock();
        for (child, name) in directories {
            Event::Found { node: child, above: Some(node), name: name.as_os_str().into() }.write(&mut state.events);
            state.found(child, Some(node), &name);
        }
        Event::Listed { node, files, bytes }.write(&mut state.events);
        state.listed(node, files, bytes)
    }

    /// All files of a directory are whole, and settled.
    pub(super) fn copied(&self, node: NodeId) {
        let state = &mut *self.state.lock();
        Event::Copied { node }.write(&mut state.events);
        state.copied(node);
    }

    /// Something was not where it was found.
    pub(super) fn moved(&self) {
        let state = &mut *self.state.lock();
        if !state.moved {
            Event::Moved.write(&mut state.events);
            state.moved = true;
        }
    }

    pub(super) fn was_moved(&self) -> bool {
        self.state.lock().moved
    }

    /// A sweep has found nothing; until something moves again, none is needed. Only this process knows.
    pub(super) fn nothing_moved(&self) {
        self.state.lock().moved = false;
    }

    /// A directory in which a sweep has found stubs, or which is one.
    pub(super) fn swept(&self, place: &Arc<Place>, to_list: bool) {
        let state = &mut *self.state.lock();
        state.places.insert(place.node, place.clone());
        state.line_up(place.clone(), to_list);
    }

    /// The next directory to list.
    pub(super) fn to_list(&self, last: bool) -> Option<Arc<Place>> {
        self.state.lock().next(last, true)
    }

    /// The next directory whose files are to be copied.
    #[cfg(test)]
    fn to_copy(&self, last: bool) -> Option<Arc<Place>> {
        self.state.lock().next(last, false)
    }

    /// Gives back what was taken and not done.
    pub(super) fn again(&self, place: Arc<Place>, to_list: bool) {
        let state = &mut *self.state.lock();
        let is_behind = !state.first.is_empty() && !state.comes_first(&place, to_list);
        let line = state.line(to_list);
        if is_behind { line.push_back(place) } else { line.push_front(place) }
    }

    /// What is below that path comes first from now on. It is a path of the destination, as it was when the migration began.
    pub(super) fn first(&self, path: &Path) {
        let state = &mut *self.state.lock();
        if state.first.iter().any(|first| first == path) {
            return;
        }
        state.first.push(path.to_owned());
        for to_list in [true, false] {
            let line = std::mem::take(state.line(to_list));
            let (first, others): (Vec<_>, Vec<_>) =
                line.into_iter().partition(|place| state.comes_first(place, to_list));
            *state.line(to_list) = first.into_iter().chain(others).collect();
        }
    }

    /// Whether a directory's files are copied first.
    pub(super) fn is_first(&self, place: &Place) -> bool {
        self.state.lock().comes_first(place, false)
    }

    /// The next directory that is listed, or copied, before all others.
    pub(super) fn next_first(&self, to_list: bool) -> Option<Arc<Place>> {
        self.state.lock().next_first(to_list)
    }

    /// Whether anything is to be listed or copied.
    pub(super) fn is_waiting(&self) -> bool {
        let state = self.state.lock();
        !state.to_list.is_empty() || !state.to_copy.is_empty()
    }

    pub(super) fn take_events(&self) -> Vec<u8> {
        std::mem::take(&mut self.state.lock().events)
    }

    pub(super) fn put_back_events(&self, events: Vec<u8>) {
        self.state.lock().events.splice(0..0, events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::simulated::Simulated;

    fn reopened(bytes: &[u8]) -> Queue {
        let destination = Simulated::new();
        let (hidden, _) = Hidden::open(&destination, false).expect("opens");
        destination.write_at(&hidden.log(), 0, bytes).expect("writes");
        Queue::open(&destination, &hidden).expect("reads whatever it is")
    }

    /// The root has a directory `a` with a directory `b`; the root is copied, `a` is listed, `b` is found.
    fn written() -> Vec<u8> {
        let queue = Queue::default();
        queue.found_root(NodeId(2), Path::new(""));
        queue.listed(NodeId(2), vec![(NodeId(3), "a".into())], 1, 10);
        queue.copied(NodeId(2));
        queue.listed(NodeId(3), vec![(NodeId(4), "b".into())], 2, 20);
        queue.take_events()
    }

    #[test]
    fn what_was_not_done_is_done_after_a_restart() {
        let queue = reopened(&written());
        let place = queue.to_list(false).expect("to list");
        assert_eq!(place.node, NodeId(4));
        assert_eq!(super::super::sweep::path_of(&place), Path::new("a/b"));
        assert_eq!(queue.to_copy(false).expect("to copy").node, NodeId(3));
        assert!(queue.to_list(false).is_none() && queue.to_copy(false).is_none() && !queue.was_moved());
        let totals =
            Progress { directories: 3, listed: 2, files: 3, bytes: 30, whole: 1, here: 10, ..Progress::default() };
        assert_eq!(queue.totals(), totals);
    }

    #[test]
    fn what_comes_first_is_taken_before_others_and_so_is_the_way_to_it() {
        for last in [false, true] {
            let queue = Queue::default();
            queue.found_root(NodeId(1), Path::new(""));
            queue.listed(
                NodeId(1),
                vec![(NodeId(2), "a".into()), (NodeId(3), "b".into()), (NodeId(4), "c".into())],
                1,
                1,
            );
            queue.first(Path::new("b/x"));
            assert!(queue.next_first(false).is_none(), "the root is on the way, and no part of it");
            let root_and_b: Vec<_> = [(), ()].iter().map(|()| queue.to_list(last).expect("to list").node).collect();
            assert_eq!(root_and_b, [NodeId(1), NodeId(3)]);
            queue.listed(
                NodeId(3),
                vec![(NodeId(5), "w".into()), (NodeId(6), "x".into()), (NodeId(7), "xx".into())],
                0,
                0,
            );
            let x = queue.next_first(true).expect("found later, and first");
            assert_eq!(x.node, NodeId(6));
            // What is given back keeps its place.
            queue.again(queue.to_list(last).expect("another"), true);
            assert!(queue.next_first(true).is_none());
            queue.again(x, true);
            assert_eq!(queue.to_list(last).expect("again").node, NodeId(6));
            queue.listed(NodeId(6), Vec::new(), 0, 0);
            assert_eq!(queue.to_copy(last).expect("before the root").node, NodeId(6));
        }
    }

    #[test]
    fn a_garbled_log_makes_the_crawler_look_everywhere() {
        let good = written();
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x41;
            assert!(reopened(&bytes).was_moved(), "byte {at}");
        }
        let mut events = 0;
        for length in 0..good.len() {
            let queue = reopened(&good[..length]);
            events += usize::from(!queue.was_moved());
        }
        assert_eq!(
            events, 6,
            "only between events nothing is seen: there, the marks on the medium say what is missing"
        );
    }

    #[test]
    fn a_log_that_is_written_anew_says_the_same_and_goes_on() {
        let queue = reopened(&written());
        queue.problem(1, Problem { path: "c".into(), message: "refused".into(), conflict: false, left_out: true });
        let short = queue.snapshot();
        assert!(queue.take_events().is_empty(), "they are in it");
        queue.listed(NodeId(4), vec![(NodeId(5), "e".into())], 1, 5);
        let bytes = [short, queue.take_events()].concat();
        let again = reopened(&bytes);
        assert_eq!((again.totals(), again.problems()), (queue.totals(), queue.problems()));
        assert!(!again.was_moved());
        let place = again.to_list(false).expect("to list");
        assert_eq!(super::super::sweep::path_of(&place), Path::new("a/b/e"), "also below what is copied");
        assert!(again.to_list(false).is_none());
        let mut to_copy = [again.to_copy(false), again.to_copy(false)].map(|place| place.expect("to copy").node);
        to_copy.sort_unstable();
        assert_eq!(to_copy, [NodeId(3), NodeId(4)]);
        assert!(again.to_copy(false).is_none());
    }
}
