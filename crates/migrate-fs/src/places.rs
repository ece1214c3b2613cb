//! Directories that are held open as places, since requests name the same ones again and again.
//!
//! While a directory is held its inode number belongs to no other object, so that the number alone finds it. What is held longest goes
//! first; a directory that is removed, or that the kernel forgets, goes at once, as it takes its inode's space with it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

/// Directories that are held at a time: a descriptor each.
const MOST: usize = 256;

#[derive(Debug, Default)]
struct Held {
    places: HashMap<u64, Arc<OwnedFd>>,
    /// Nodes in the order in which they came. Some may have gone since.
    order: VecDeque<u64>,
}

/// The directories that requests have named last.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<Held>);

impl Places {
    pub(crate) fn get(&self, node: u64) -> Option<Arc<OwnedFd>> {
        self.0.lock().places.get(&node).cloned()
    }

    /// Holds a directory.
    pub(crate) fn hold(&self, node: u64, place: Arc<OwnedFd>) {
        let mut held = self.0.lock();
        if held.places.insert(node, place).is_none() {
            held.order.push_back(node);
        }
        while held.order.len() > MOST {
            let oldest = held.order.pop_front().and_then(|oldest| held.places.remove(&oldest));
            drop(oldest);
        }
    }

    /// Lets go of a directory.
    pub(crate) fn forget(&self, node: u64) {
        let mut held = self.0.lock();
        if let Some(place) = held.places.remove(&node) {
            held.order.retain(|&other| other != node);
            drop(held);
            // The last use of a removed directory frees it, which takes time.
            drop(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn place() -> Arc<OwnedFd> {
        Arc::new(File::open("/dev/null").expect("it is on every system").into())
    }

    #[test]
    fn the_directories_that_came_last_are_held_and_no_more_than_so_many() {
        let (places, one) = (Places::default(), place());
        for node in 0..MOST as u64 + 10 {
            places.hold(node, one.clone());
        }
        assert!(places.get(9).is_none() && places.get(10).is_some());
        assert_eq!(Arc::strong_count(&one), MOST + 1);
    }

    #[test]
    fn a_directory_that_is_forgotten_is_not_held() {
        let (places, one) = (Places::default(), place());
        places.hold(7, one.clone());
        places.hold(7, one.clone());
        places.forget(7);
        places.forget(7);
        assert!(places.get(7).is_none());
        assert_eq!(Arc::strong_count(&one), 1);
    }
}
