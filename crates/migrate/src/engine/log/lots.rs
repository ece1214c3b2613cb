//! Directories that are copied together, and what waits for a source that is away.

use std::sync::Arc;

use super::{Place, Queue, State};

impl State {
    /// Whether the next directory to copy is at the front, and which it is.
    fn peek_to_copy(&self, last: bool, is_first: bool) -> Option<(bool, &Arc<Place>)> {
        let front = self.to_copy.front()?;
        if self.comes_first(front, false) {
            return Some((true, front));
        }
        if is_first {
            return None;
        }
        if last { Some((false, self.to_copy.back()?)) } else { Some((true, front)) }
    }
}

impl Queue {
    /// The next directories to copy, of one source: up to `most`, with up to so many files together, and no more than a fair share of what is to be
    /// copied by so many threads. Only such as come before others, if `is_first` says so.
    pub(in super::super) fn lot_to_copy(
        &self,
        last: bool,
        is_first: bool,
        threads: usize,
        most: usize,
    ) -> Vec<Arc<Place>> {
        let state = &mut *self.state.lock();
        let share = state.to_copy.len().div_ceil(threads.max(1)).min(most);
        let (mut places, mut files): (Vec<Arc<Place>>, u64) = (Vec::new(), 0);
        while let Some((from_front, place)) = state.peek_to_copy(last, is_first) {
            // What a sweep has found was not counted.
            files += state.listed.get(&place.node).map_or(most as u64, |(files, _)| *files);
            let is_full =
                |first: &Arc<Place>| places.len() >= share || files > most as u64 || first.top() != place.top();
            if places.first().is_some_and(is_full) {
                break;
            }
            let place = if from_front { state.to_copy.pop_front() } else { state.to_copy.pop_back() };
            places.extend(place);
        }
        places
    }

    pub(in super::super) fn to_copy_count(&self) -> usize {
        self.state.lock().to_copy.len()
    }

    pub(in super::super) fn is_listing_left(&self) -> bool {
        !self.state.lock().to_list.is_empty()
    }

    /// Keeps back what was taken, until its source answers.
    pub(in super::super) fn park(&self, places: Vec<Arc<Place>>, to_list: bool) {
        self.state.lock().parked.extend(places.into_iter().map(|place| (place, to_list)));
    }

    pub(in super::super) fn is_parked(&self) -> bool {
        !self.state.lock().parked.is_empty()
    }

    /// Gives back what was parked, in its order.
    pub(in super::super) fn unpark(&self) {
        let parked = {
            let state = &mut *self.state.lock();
            if state.parked.is_empty() {
                return;
            }
            std::mem::take(&mut state.parked)
        };
        for (place, to_list) in parked.into_iter().rev() {
            self.again(place, to_list);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::destination::NodeId;

    /// Two sources with ten directories each: those of the first have a file more each.
    fn queue() -> Queue {
        let queue = Queue::default();
        for source in [1, 2] {
            let root = NodeId(source * 100);
            queue.found_root(root, Path::new(&source.to_string()));
            let children = (1..=10).map(|child| (NodeId(root.0 + child), child.to_string().into()));
            queue.listed(root, children.collect(), 0, 0);
            for child in 1..=10 {
                queue.listed(NodeId(root.0 + child), Vec::new(), child, 0);
            }
        }
        queue
    }

    fn numbers(places: &[Arc<Place>]) -> Vec<u64> {
        places.iter().map(|place| place.node.0).collect()
    }

    #[test]
    fn a_lot_has_directories_of_one_source_and_so_many_files_and_leaves_others_their_share() {
        let all = queue();
        assert_eq!(numbers(&all.lot_to_copy(false, false, 1, 16)), [100, 101, 102, 103, 104, 105]);
        assert_eq!(numbers(&all.lot_to_copy(false, false, 8, 16)), [106, 107], "a share of sixteen for eight threads");
        assert_eq!(numbers(&all.lot_to_copy(false, false, 1, 5)), [108], "alone it may have more");
        assert_eq!(numbers(&all.lot_to_copy(false, false, 1, 100)), [109, 110], "the next is of another source");
        assert_eq!(numbers(&all.lot_to_copy(true, false, 1, 19)), [210, 209], "the last first");
        all.first(Path::new("2/5"));
        assert_eq!(numbers(&all.lot_to_copy(true, true, 1, 100)), [205], "and no other");
        assert!(all.lot_to_copy(true, true, 1, 100).is_empty());
    }

    #[test]
    fn what_was_parked_comes_back_in_its_order() {
        let all = queue();
        let before = numbers(&all.lot_to_copy(false, false, 1, 1000));
        let all = queue();
        all.park(all.lot_to_copy(false, false, 1, 10), false);
        all.park(all.lot_to_copy(false, false, 1, 10), false);
        assert!(all.is_parked());
        all.unpark();
        assert!(!all.is_parked());
        assert_eq!(numbers(&all.lot_to_copy(false, false, 1, 1000)), before);
    }
}
