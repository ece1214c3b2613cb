//! Which object the kernel means by a node's number.
//!
//! A node's number is the object's inode number, so that a process which takes over a mount, or a client of NFS that comes again after a
//! restart, names the same object as before; only the root is number 1. Of each node that the kernel knows 24 bytes are kept: the
//! generation, how many times the kernel has got it, and which time of change programs are told. A node that is not known is found by its number alone.
//!
//! An *orphan*, an object without a name that the kernel still knows, is held open. Its inode number would be given to another object
//! otherwise, and the kernel's next request would reach that one.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

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
    /// The time of change that programs are told, in nanoseconds since 1970; 0 if they are told the object's own.
    changed: i64,
}

impl Node {
    fn new(generation: u64) -> Self {
        Self { generation, lookups: 1, changed: 0 }
    }
}

#[derive(Debug, Default)]
struct Shard {
    nodes: HashMap<u64, Node>,
    /// Those that have no name.
    orphans: HashMap<u64, Arc<OwnedFd>>,
}

/// A node of which programs were told a time of change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) identity: Identity,
    /// How often the kernel has got it.
    pub(crate) lookups: u64,
    /// In nanoseconds since 1970.
    pub(crate) changed: i64,
}

/// The most of them that another process is told.
const MOST_TOLD: usize = 1 << 20;

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
    shards: [Mutex<Shard>; SHARDS],
    /// [`Node::changed`] of the root, which the kernel always knows.
    root_changed: AtomicI64,
}

impl Nodes {
    fn shard(&self, number: u64) -> &Mutex<Shard> {
        &self.shards[(number % SHARDS as u64) as usize]
    }

    /// The kernel gets that object, once more.
    pub(crate) fn give(&self, identity: Identity) {
        let shard = &mut *self.shard(identity.number).lock();
        match shard.nodes.entry(identity.number) {
            Entry::Occupied(mut entry) => {
                let node = entry.get_mut();
                node.lookups += 1;
                if node.generation != identity.generation {
                    // The one before is gone, and its number was given to this one.
                    *node = Node { lookups: node.lookups & !HERE, ..Node::new(identity.generation) };
                    shard.orphans.remove(&identity.number);
                }
            }
            Entry::Vacant(entry) => {
                entry.insert(Node::new(identity.generation));
            }
        }
    }

    /// The kernel forgets a node, as often as it has got it. Whether it knows it no more.
    pub(crate) fn forget(&self, number: u64, times: u64) -> bool {
        let mut shard = self.shard(number).lock();
        let gone = shard.nodes.get_mut(&number).is_none_or(|node| {
            let left = (node.lookups & !HERE).saturating_sub(times);
            node.lookups = left | node.lookups & HERE;
            left == 0
        });
        if !gone {
            return false;
        }
        shard.nodes.remove(&number);
        let orphan = shard.orphans.remove(&number);
        drop(shard);
        // The last use of an orphan removes it, which takes time.
        drop(orphan);
        true
    }

    /// Nothing is missing of an object, for good. That is known for as long as the kernel knows the object.
    pub(crate) fn is_whole(&self, number: u64) {
        if let Some(node) = self.shard(number).lock().nodes.get_mut(&number) {
            node.lookups |= HERE;
        }
    }

    /// Whether that was said of the object that the kernel knows by that number; of no other that has the number now, if its
    /// generation is given.
    pub(crate) fn was_whole(&self, number: u64, generation: Option<u64>) -> bool {
        let shard = self.shard(number).lock();
        shard.nodes.get(&number).is_some_and(|node| {
            node.lookups & HERE != 0 && generation.is_none_or(|generation| node.generation == generation)
        })
    }

    /// Programs are told that time of change from now on, unless they are told another one already.
    pub(crate) fn tells_change(&self, number: u64, changed: i64) {
        if number == ROOT {
            let _ = self.root_changed.compare_exchange(0, changed, Ordering::AcqRel, Ordering::Acquire);
        } else if let Some(node) = self.shard(number).lock().nodes.get_mut(&number)
            && node.changed == 0
        {
            node.changed = changed;
        }
    }

    /// The time of change that programs are told, if that is not the object's own.
    pub(crate) fn told_change(&self, number: u64) -> Option<i64> {
        let changed = if number == ROOT {
            Some(self.root_changed.load(Ordering::Acquire))
        } else {
            self.shard(number).lock().nodes.get(&number).map(|node| node.changed)
        };
        changed.filter(|changed| *changed != 0)
    }

    /// Programs are told the object's own time of change.
    fn tells_own_change(&self, number: u64) {
        if number == ROOT {
            self.root_changed.store(0, Ordering::Release);
        } else if let Some(node) = self.shard(number).lock().nodes.get_mut(&number) {
            node.changed = 0;
        }
    }

    /// A program changes the object. When this is dropped, behind the change, programs are told the object's own time.
    pub(crate) fn changes(&self, number: u64) -> Changes<'_> {
        Changes { nodes: self, number }
    }

    /// Whether it is an object without a name that the kernel knows.
    pub(crate) fn is_orphan(&self, number: u64) -> bool {
        self.shard(number).lock().orphans.contains_key(&number)
    }

    pub(crate) fn known(&self, number: u64) -> Known {
        let shard = self.shard(number).lock();
        match (shard.nodes.get(&number), shard.orphans.get(&number)) {
            (None, _) => Known::Nothing,
            (Some(_), Some(orphan)) => Known::Orphan(orphan.clone()),
            (Some(node), None) => Known::Generation(node.generation),
        }
    }

    /// An object has lost its last name, or never had one. It is held for as long as the kernel knows it.
    pub(crate) fn orphan(&self, identity: Identity, held: Arc<OwnedFd>) {
        let shard = &mut *self.shard(identity.number).lock();
        // What is not known here was given to the kernel by another process: it has looked for the name before it removes it.
        let node = shard.nodes.entry(identity.number).or_insert_with(|| Node::new(identity.generation));
        if node.generation == identity.generation {
            shard.orphans.insert(identity.number, held);
        }
    }

    /// Takes over an orphan from another process.
    pub(crate) fn adopt(&self, identity: Identity, held: OwnedFd) {
        let mut shard = self.shard(identity.number).lock();
        shard.nodes.insert(identity.number, Node::new(identity.generation));
        shard.orphans.insert(identity.number, Arc::new(held));
    }

    /// All orphans.
    pub(crate) fn orphans(&self) -> Vec<(Identity, Arc<OwnedFd>)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let known = shard.orphans.iter().filter_map(|(number, held)| {
                let node = shard.nodes.get(number)?;
                Some((Identity { number: *number, generation: node.generation }, held.clone()))
            });
            all.extend(known);
        }
        all
    }

    /// Nodes of which programs were told a time of change, for another process: the times stay then.
    pub(crate) fn told(&self) -> Vec<Told> {
        let root = self.told_change(ROOT).map(|changed| {
            let identity = Identity { number: ROOT, generation: 0 };
            Told { identity, lookups: 0, changed }
        });
        let mut all = Vec::from_iter(root);
        for shard in &self.shards {
            let shard = shard.lock();
            let told =
                shard.nodes.iter().filter(|(number, node)| node.changed != 0 && !shard.orphans.contains_key(*number));
            let told = told.map(|(&number, node)| Told {
                identity: Identity { number, generation: node.generation },
                lookups: node.lookups & !HERE,
                changed: node.changed,
            });
            all.extend(told.take(MOST_TOLD - all.len()));
        }
        all
    }

    /// Takes over a node of which another process has told a time of change.
    pub(crate) fn take_told(&self, Told { identity, lookups, changed }: Told) {
        if identity.number == ROOT {
            return self.root_changed.store(changed, Ordering::Release);
        }
        let node = Node { generation: identity.generation, lookups, changed };
        self.shard(identity.number).lock().nodes.insert(identity.number, node);
    }

    /// How many nodes the kernel knows.
    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().nodes.len()).sum()
    }
}

/// A change by a program.
#[must_use = "it ends when this is dropped"]
pub(crate) struct Changes<'a> {
    nodes: &'a Nodes,
    number: u64,
}

impl Drop for Changes<'_> {
    fn drop(&mut self) {
        self.nodes.tells_own_change(self.number);
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
