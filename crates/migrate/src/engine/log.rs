//! Which directories the crawler has still to see, across restarts.
//!
//! The log in the hidden directory is a sequence of events. A directory's events are written before its mark is taken away, so that what is
//! not in the log is found again by listing: a restart needs no walk from the root. Each event is its length (4 bytes), the
//! CRC-32C of what follows (4), a kind (1) and numbers of 8 bytes each, little-endian:
//!
//! ```text
//!   1 found     inode, inode of the directory above it (0: none), name
//!   2 listed    inode, files, bytes
//!   3 copied    inode
//!   4 moved                                    a name was not where it was found: look everywhere at the end
//! ```
//!
//! A directory is found by its names from the root on, as they were when it was found. Where clients have renamed it since, its inode is another
//! one or none; then the crawler looks for stubs everywhere, once, at its end.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use ishigaki_base::{Fields, crc32c};
use parking_lot::Mutex;

use super::hidden::Hidden;
use super::{Doing, Progress, Result};
use crate::destination::{Destination, NodeId};

/// Where a directory was found.
pub(super) struct Place {
    pub(super) node: NodeId,
    pub(super) name: OsString,
    pub(super) above: Option<Arc<Place>>,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of directories that are not yet copied.
    places: HashMap<NodeId, Arc<Place>>,
    to_list: VecDeque<Arc<Place>>,
    to_copy: VecDeque<Arc<Place>>,
    /// Listed, with files and bytes.
    listed: HashMap<NodeId, (u64, u64)>,
    /// A sweep is needed.
    moved: bool,
    events: Vec<u8>,
    totals: Progress,
}

fn event(events: &mut Vec<u8>, kind: u8, numbers: &[u64], name: &OsStr) {
    let mut body = vec![kind];
    for number in numbers {
        body.extend(number.to_le_bytes());
    }
    body.extend(name.as_bytes());
    events.extend((body.len() as u32).to_le_bytes());
    events.extend(crc32c(&body).to_le_bytes());
    events.extend(body);
}

impl State {
    fn found(&mut self, node: NodeId, above: Option<NodeId>, name: &OsStr) {
        let above = above.and_then(|above| self.places.get(&above).cloned());
        let place = Arc::new(Place { node, name: name.to_owned(), above });
        if self.places.insert(node, place.clone()).is_none() {
            self.totals.directories += 1;
        }
        self.to_list.push_back(place);
    }

    fn listed(&mut self, node: NodeId, files: u64, bytes: u64) -> bool {
        let first = self.listed.insert(node, (files, bytes)).is_none();
        if first {
            self.totals.listed += 1;
            self.totals.files += files;
            self.totals.bytes += bytes;
        }
        if let Some(place) = self.places.get(&node) {
            self.to_copy.push_back(place.clone());
        }
        first
    }

    fn copied(&mut self, node: NodeId) {
        self.places.remove(&node);
        if let Some((files, bytes)) = self.listed.remove(&node) {
            self.totals.whole += files;
            self.totals.here += bytes;
        }
    }

    fn replay(&mut self, body: &[u8]) {
        let fields = Fields(body);
        let number = |at: usize| fields.u64(1 + 8 * at);
        match body.first() {
            Some(1) if body.len() >= 17 => {
                let above = (number(1) != 0).then(|| NodeId(number(1)));
                self.found(NodeId(number(0)), above, &OsString::from_vec(body[17..].to_vec()));
            }
            Some(2) if body.len() >= 25 => {
                self.listed(NodeId(number(0)), number(1), number(2));
            }
            Some(3) if body.len() >= 9 => self.copied(NodeId(number(0))),
            _ => self.moved = true,
        }
    }
}

impl Queue {
    /// Reads the log. What a crash has garbled ends it, and makes the crawler look everywhere at its end.
    pub(super) fn open<D: Destination>(destination: &D, hidden: &Hidden<D>) -> Result<Self> {
        let size = destination.status(&hidden.log).doing("reading the log")?.size;
        let mut bytes = vec![0; size as usize];
        let read = destination.read_at(&hidden.log, 0, &mut bytes).doing("reading the log")?;
        bytes.truncate(read);
        let mut state = State::default();
        let mut rest = &bytes[..];
        while let Some((head, body)) = rest.split_at_checked(8) {
            let length = Fields(head).u32(0) as usize;
            let Some(body) = body.get(..length).filter(|body| crc32c(body) == Fields(head).u32(4)) else { break };
            state.replay(body);
            rest = &rest[8 + length..];
        }
        if !rest.is_empty() {
            state.moved = true;
            hidden.set_log_end((bytes.len() - rest.len()) as u64);
            destination.truncate(&hidden.log, (bytes.len() - rest.len()) as u64).doing("mending the log")?;
        }
        let State { to_list, listed, places, .. } = &mut state;
        to_list.retain(|place| !listed.contains_key(&place.node) && places.contains_key(&place.node));
        state.to_copy.retain(|place| state.places.contains_key(&place.node));
        Ok(Self { state: Mutex::new(state) })
    }

    pub(super) fn totals(&self) -> Progress {
        self.state.lock().totals
    }

    /// A source's root is a directory of that path.
    pub(super) fn found_root(&self, node: NodeId, at: &Path) {
        let state = &mut *self.state.lock();
        event(&mut state.events, 1, &[node.0, 0], at.as_os_str());
        state.found(node, None, at.as_os_str());
    }

    /// A directory is listed, by a client or the crawler; whether it was not before.
    pub(super) fn listed(&self, node: NodeId, directories: Vec<(NodeId, OsString)>, files: u64, bytes: u64) -> bool {
        let state = &mut *self.state.lock();
        for (child, name) in directories {
            event(&mut state.events, 1, &[child.0, node.0], &name);
            state.found(child, Some(node), &name);
        }
        event(&mut state.events, 2, &[node.0, files, bytes], OsStr::new(""));
        state.listed(node, files, bytes)
    }

    /// All files of a directory are whole, and settled.
    pub(super) fn copied(&self, node: NodeId) {
        let state = &mut *self.state.lock();
        event(&mut state.events, 3, &[node.0], OsStr::new(""));
        state.copied(node);
    }

    /// Something was not where it was found.
    pub(super) fn moved(&self) {
        let state = &mut *self.state.lock();
        if !state.moved {
            event(&mut state.events, 4, &[], OsStr::new(""));
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
        if to_list { state.to_list.push_back(place.clone()) } else { state.to_copy.push_back(place.clone()) }
    }

    /// The next directory to list.
    pub(super) fn to_list(&self, last: bool) -> Option<Arc<Place>> {
        let to_list = &mut self.state.lock().to_list;
        if last { to_list.pop_back() } else { to_list.pop_front() }
    }

    /// The next directory whose files are to be copied.
    pub(super) fn to_copy(&self, last: bool) -> Option<Arc<Place>> {
        let to_copy = &mut self.state.lock().to_copy;
        if last { to_copy.pop_back() } else { to_copy.pop_front() }
    }

    /// Gives back what was taken and not done.
    pub(super) fn again(&self, place: Arc<Place>, to_list: bool) {
        let state = &mut *self.state.lock();
        if to_list { state.to_list.push_front(place) } else { state.to_copy.push_front(place) }
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
        let (hidden, _) = Hidden::open(&destination).expect("opens");
        destination.write_at(&hidden.log, 0, bytes).expect("writes");
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
}
