//! Objects that are held open, since requests name the same ones again and again: directories, and files that were made or asked about.
//!
//! While an object is held its inode number belongs to no other one, so that the number alone finds it. What is held longest goes
//! first; an object that is removed, or that the kernel forgets, goes at once, as it takes its inode's space with it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

#[derive(Debug, Default)]
struct Held {
    places: HashMap<u64, Arc<OwnedFd>>,
    /// Nodes in the order in which they came. Some may have gone since.
    order: VecDeque<u64>,
}

/// The objects that requests have named last.
#[derive(Debug)]
pub(crate) struct Places {
    /// How many are held at a time: a descriptor each.
    most: usize,
    held: Mutex<Held>,
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, held: Mutex::default() }
    }

    pub(crate) fn get(&self, node: u64) -> Option<Arc<OwnedFd>> {
        self.held.lock().places.get(&node).cloned()
    }

    /// Holds an object.
    pub(crate) fn hold(&self, node: u64, place: Arc<OwnedFd>) {
        let mut held = self.held.lock();
        if held.places.insert(node, place).is_none() {
            held.order.push_back(node);
        }
        while held.order.len() > self.most {
            let oldest = held.order.pop_front().and_then(|oldest| held.places.remove(&oldest));
            drop(oldest);
        }
    }

    /// Lets go of an object.
    pub(crate) fn forget(&self, node: u64) {
        let mut held = self.held.lock();
        if let Some(place) = held.places.remove(&node) {
            held.order.retain(|&other| other != node);
            drop(held);
            // The last use of a removed object frees it, which takes time.
            drop(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    const MOST: usize = 256;

    fn place() -> Arc<OwnedFd> {
        Arc::new(File::open("/dev/null").expect("it is on every system").into())
    }

    #[test]
    fn the_objects_that_came_last_are_held_and_no_more_than_so_many() {
        let (places, one) = (Places::new(MOST), place());
        for node in 0..MOST as u64 + 10 {
            places.hold(node, one.clone());
        }
        assert!(places.get(9).is_none() && places.get(10).is_some());
        assert_eq!(Arc::strong_count(&one), MOST + 1);
    }

    #[test]
    fn an_object_that_is_forgotten_is_not_held() {
        let (places, one) = (Places::new(MOST), place());
        places.hold(7, one.clone());
        places.hold(7, one.clone());
        places.forget(7);
        places.forget(7);
        assert!(places.get(7).is_none());
        assert_eq!(Arc::strong_count(&one), 1);
    }
}
