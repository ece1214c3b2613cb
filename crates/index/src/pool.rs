//! Where nodes come from and go to.
//!
//! A pool hands out nodes of one kind and takes them back to hand them out again. It never gives memory back while the
//! tree is there: so whoever has a node's address or number can look at its version at any time, and sees that it is not
//! the node any more that it was.
//!
//! A number finds its node without a lock ([`Grown`]).

#![allow(unsafe_code, reason = "nodes are found by their addresses")]

use ishigaki_base::Grown;
use ishigaki_base::sync::Mutex;
use ishigaki_base::sync::atomic::{AtomicU64, Ordering};

use crate::node::{Locked, Node};

/// Nodes in the first part, as a power of two.
const FIRST: u32 = if cfg!(loom) { 3 } else { 2 };

/// As many as numbers of 32 bits allow.
const PARTS: usize = 33 - FIRST as usize;

/// All nodes of one kind.
#[derive(Debug)]
pub(crate) struct Pool<const G: usize> {
    nodes: Grown<Node<G>, FIRST, PARTS>,
    stock: Mutex<Stock>,
    /// Nodes that are in use.
    used: AtomicU64,
}

#[derive(Debug, Default)]
struct Stock {
    /// Numbers of nodes that came back.
    back: Vec<u32>,
    /// The first number that was never handed out.
    fresh: u32,
}

impl<const G: usize> Default for Pool<G> {
    fn default() -> Self {
        Self { nodes: Grown::default(), stock: Mutex::new(Stock::default()), used: AtomicU64::new(0) }
    }
}

impl<const G: usize> Pool<G> {
    /// A node that is locked, empty, and in no tree.
    ///
    /// # Panics
    ///
    /// After four thousand million nodes.
    pub(crate) fn take(&self, prefix: usize, level: u8) -> Locked<'_, G> {
        let id = {
            let mut stock = self.stock.lock();
            stock.back.pop().unwrap_or_else(|| {
                let id = stock.fresh;
                stock.fresh = id.checked_add(1).expect("four thousand million nodes are two terabytes");
                id
            })
        };
        self.used.fetch_add(1, Ordering::Relaxed);
        self.nodes.make(id as usize).revive(id, prefix, level)
    }

    /// Takes back a node that is void.
    pub(crate) fn give(&self, id: u32) {
        self.stock.lock().back.push(id);
        self.used.fetch_sub(1, Ordering::Relaxed);
    }

    /// The node of a number, if there ever was one.
    pub(crate) fn get(&self, id: u32) -> Option<&Node<G>> {
        self.nodes.get(id as usize)
    }

    /// The node at an address.
    ///
    /// # Safety
    ///
    /// The address must be that of a node of this pool.
    #[inline]
    pub(crate) unsafe fn at(&self, address: u64) -> &Node<G> {
        debug_assert!(self.holds(address), "there is no node at {address:#x}");
        // SAFETY: the caller says that there is one. Nodes are shared only by reference, all their parts are atomics, and
        // they live as long as the pool.
        unsafe { &*std::ptr::with_exposed_provenance::<Node<G>>(address as usize) }
    }

    /// True if a node begins at the address.
    fn holds(&self, address: u64) -> bool {
        self.nodes.parts().any(|nodes| {
            let range = nodes.as_ptr_range();
            let (start, end) = (range.start.addr() as u64, range.end.addr() as u64);
            (start..end).contains(&address) && (address - start).is_multiple_of(size_of::<Node<G>>() as u64)
        })
    }

    /// Bytes of the nodes in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed) * size_of::<Node<G>>() as u64
    }

    /// Bytes of the nodes that came back.
    pub(crate) fn spare(&self) -> u64 {
        (self.stock.lock().back.len() * size_of::<Node<G>>()) as u64
    }
}

/// The address by which [`Pool::at`] finds a node.
pub(crate) fn address<const G: usize>(node: &Node<G>) -> u64 {
    std::ptr::from_ref(node).expose_provenance() as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_came_back_is_handed_out_again() {
        let pool = Pool::<1>::default();
        let ids: Vec<_> = (0..9)
            .map(|_| {
                let node = pool.take(0, 0);
                let id = node.meta().id();
                node.publish();
                id
            })
            .collect();
        assert_eq!(ids, (0..9).collect::<Vec<_>>());
        let node = pool.get(5).unwrap();
        assert_eq!(pool.bytes(), 9 * size_of::<Node<1>>() as u64);
        let stamp = node.version().read().unwrap();
        node.lock(stamp).unwrap().drain(b"", None, &sdd::Guard::new());
        pool.give(5);
        assert_eq!(pool.take(0, 0).meta().id(), 5);
        assert!(pool.get(1 << 20).is_none());
    }

    #[test]
    fn nodes_are_found_by_their_addresses() {
        let pool = Pool::<4>::default();
        let node = pool.take(3, 1);
        // SAFETY: it is the address of a node of this pool.
        let found = unsafe { pool.at(address(node.node())) };
        assert!(std::ptr::eq(found, node.node()) && found.meta().prefix() == 3);
    }
}
