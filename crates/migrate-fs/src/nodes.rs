//! Which object the kernel means by a node's number.
//!
//! A node's number is the object's inode number, so that a process which takes over a mount, or a client of NFS that comes again after a
//! restart, names the same object as before; only the root is number 1. Of each node that the kernel knows 24 bytes are kept: the
//! generation, and how many times the kernel has got it. A node that is not known is found by its number alone.
//!
//! An *orphan*, an object without a name that the kernel still knows, is held open. Its inode number would be given to another object
//! otherwise, and the kernel's next request would reach that one.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use parking_lot::Mutex;

use crate::volume::Identity;

/// The number of the root.
pub(crate) const ROOT: u64 = 1;

const SHARDS: usize = 16;

/// In [`Node::lookups`].
const HERE: u64 = 1 << 63;

#[derive(Debug)]
struct Node {
    generation: u64,
    /// How many times the kernel has got it, without the highest bit, which says that nothing is missing of the object.
    lookups: u64,
    orphan: Option<Arc<OwnedFd>>,
}

/// What is known of a node.
#[derive(Debug)]
pub(crate) enum Known {
    Nothing,
    Generation(u64),
    Orphan(Arc<OwnedFd>),
}

/// All nodes that the kernel knows.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    shards: [Mutex<HashMap<u64, Node>>; SHARDS],
}

impl Nodes {
    fn shard(&self, number: u64) -> &Mutex<HashMap<u64, Node>> {
        &self.shards[(number % SHARDS as u64) as usize]
    }

    /// The kernel gets that object, once more.
    pub(crate) fn give(&self, identity: Identity) {
        let mut shard = self.shard(identity.number).lock();
        match shard.entry(identity.number) {
            Entry::Occupied(mut entry) => {
                let node = entry.get_mut();
                node.lookups += 1;
                if node.generation != identity.generation {
                    // The one before is gone, and its number was given to this one.
                    node.generation = identity.generation;
                    node.lookups &= !HERE;
                    node.orphan = None;
                }
            }
            Entry::Vacant(entry) => {
                entry.insert(Node { generation: identity.generation, lookups: 1, orphan: None });
            }
        }
    }

    /// The kernel forgets a node, as often as it has got it. Whether it knows it no more.
    pub(crate) fn forget(&self, number: u64, times: u64) -> bool {
        let mut shard = self.shard(number).lock();
        let gone = shard.get_mut(&number).is_none_or(|node| {
            let left = (node.lookups & !HERE).saturating_sub(times);
            node.lookups = left | node.lookups & HERE;
            left == 0
        });
        let node = if gone { shard.remove(&number) } else { None };
        drop(shard);
        // The last use of an orphan removes it, which takes time.
        drop(node);
        gone
    }

    /// Nothing is missing of an object, for good. That is known for as long as the kernel knows the object.
    pub(crate) fn is_whole(&self, number: u64) {
        if let Some(node) = self.shard(number).lock().get_mut(&number) {
            node.lookups |= HERE;
        }
    }

    /// Whether that was said of the object that the kernel knows by that number; of no other that has the number now, if its
    /// generation is given.
    pub(crate) fn was_whole(&self, number: u64, generation: Option<u64>) -> bool {
        let shard = self.shard(number).lock();
        shard.get(&number).is_some_and(|node| {
            node.lookups & HERE != 0 && generation.is_none_or(|generation| node.generation == generation)
        })
    }

    /// Whether it is an object without a name that the kernel knows.
    pub(crate) fn is_orphan(&self, number: u64) -> bool {
        self.shard(number).lock().get(&number).is_some_and(|node| node.orphan.is_some())
    }

    pub(crate) fn known(&self, number: u64) -> Known {
        match self.shard(number).lock().get(&number) {
            None => Known::Nothing,
            Some(Node { orphan: Some(orphan), .. }) => Known::Orphan(orphan.clone()),
            Some(node) => Known::Generation(node.generation),
        }
    }

    /// An object has lost its last name, or never had one. It is held for as long as the kernel knows it.
    pub(crate) fn orphan(&self, identity: Identity, held: Arc<OwnedFd>) {
        let mut shard = self.shard(identity.number).lock();
        // What is not known here was given to the kernel by another process: it has looked for the name before it removes it.
        let unknown = || Node { generation: identity.generation, lookups: 1, orphan: None };
        let node = shard.entry(identity.number).or_insert_with(unknown);
        if node.generation == identity.generation {
            node.orphan = Some(held);
        }
    }

    /// Takes over an orphan from another process.
    pub(crate) fn adopt(&self, identity: Identity, held: OwnedFd) {
        let orphan = Some(Arc::new(held));
        let node = Node { generation: identity.generation, lookups: 1, orphan };
        self.shard(identity.number).lock().insert(identity.number, node);
    }

    /// All orphans.
    pub(crate) fn orphans(&self) -> Vec<(Identity, Arc<OwnedFd>)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            for (&number, node) in &*shard.lock() {
                if let Some(orphan) = &node.orphan {
                    all.push((Identity { number, generation: node.generation }, orphan.clone()));
                }
            }
        }
        all
    }

    /// How many nodes the kernel knows.
    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn held() -> Arc<OwnedFd> {
        Arc::new(File::open("/dev/null").expect("it is on every system").into())
    }

    #[test]
    fn an_orphan_is_held_until_the_kernel_has_forgotten_it_as_often_as_it_got_it() {
        let (nodes, one) = (Nodes::default(), Identity { number: 7, generation: 1 });
        nodes.give(one);
        nodes.give(one);
        nodes.orphan(one, held());
        nodes.forget(7, 1);
        assert!(matches!(nodes.known(7), Known::Orphan(_)));
        assert_eq!(nodes.orphans().len(), 1);
        nodes.forget(7, 1);
        assert!(matches!(nodes.known(7), Known::Nothing));
        assert_eq!(nodes.count(), 0);
    }

    #[test]
    fn a_number_that_another_object_got_means_that_one() {
        let nodes = Nodes::default();
        nodes.give(Identity { number: 7, generation: 1 });
        nodes.give(Identity { number: 7, generation: 2 });
        assert!(matches!(nodes.known(7), Known::Generation(2)));
        // What is said of the one before does not hold for it.
        nodes.orphan(Identity { number: 7, generation: 1 }, held());
        assert!(matches!(nodes.known(7), Known::Generation(2)));
    }

    #[test]
    fn that_an_object_is_whole_is_known_of_no_other_with_its_number_and_until_it_is_forgotten() {
        let nodes = Nodes::default();
        nodes.is_whole(7);
        assert!(!nodes.was_whole(7, None), "the kernel does not know it");
        nodes.give(Identity { number: 7, generation: 1 });
        nodes.give(Identity { number: 7, generation: 1 });
        assert!(!nodes.was_whole(7, None));
        nodes.is_whole(7);
        assert!(nodes.was_whole(7, None) && nodes.was_whole(7, Some(1)) && !nodes.was_whole(7, Some(2)));
        assert!(!nodes.forget(7, 1) && nodes.was_whole(7, None));
        nodes.give(Identity { number: 7, generation: 2 });
        assert!(!nodes.was_whole(7, None));
        nodes.is_whole(7);
        assert!(nodes.forget(7, 2) && !nodes.was_whole(7, None));
    }

    #[test]
    fn an_object_that_another_process_has_given_is_held_as_an_orphan_too() {
        let (nodes, one) = (Nodes::default(), Identity { number: 7, generation: 1 });
        nodes.orphan(one, held());
        assert!(matches!(nodes.known(7), Known::Orphan(_)));
        nodes.forget(7, 3);
        assert!(matches!(nodes.known(7), Known::Nothing));
    }

    #[test]
    fn what_is_kept_of_a_node_is_small() {
        assert!(size_of::<(u64, Node)>() <= 32);
    }
}
