//! Where nodes come from and go to.
//!
//! A pool hands out nodes of one kind and takes them back to hand them out again. It never gives memory back while the
//! tree is there: so whoever has a node's address or number can look at its version at any time, and sees that it is not
//! the node any more that it was.
//!
//! Nodes lie in chunks, each as large as all before it together, so a number finds its node without a lock. Chunks of two
//! megabytes and more ask for huge pages: a search that misses the cache then does not miss the TLB as well.

#![allow(unsafe_code, reason = "chunks are made of zeros, and nodes are found by their addresses")]

use std::sync::OnceLock;

use ishigaki_base::sync::Mutex;
use ishigaki_base::sync::atomic::{AtomicU64, Ordering};

use crate::node::{Locked, Node};

/// Nodes in the first chunk, as a power of two.
const FIRST: u32 = if cfg!(loom) { 3 } else { 2 };

/// As many as numbers of 32 bits allow.
const CHUNKS: usize = 32 - FIRST as usize;

/// All nodes of one kind.
#[derive(Debug)]
pub(crate) struct Pool<const G: usize> {
    chunks: [OnceLock<Box<[Node<G>]>>; CHUNKS],
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
        Self {
            chunks: std::array::from_fn(|_| OnceLock::new()),
            stock: Mutex::new(Stock::default()),
            used: AtomicU64::new(0),
        }
    }
}

/// In which chunk a node is, and where there.
fn place(id: u32) -> (usize, usize) {
    let number = u64::from(id) + (1 << FIRST);
    let chunk = number.ilog2();
    ((chunk - FIRST) as usize, (number - (1 << chunk)) as usize)
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
        let (chunk, at) = place(id);
        let nodes = self.chunks[chunk].get_or_init(|| zeroed(1 << (chunk + FIRST as usize)));
        nodes[at].revive(id, prefix, level)
    }

    /// Takes back a node that is void.
    pub(crate) fn give(&self, id: u32) {
        self.stock.lock().back.push(id);
        self.used.fetch_sub(1, Ordering::Relaxed);
    }

    /// The node of a number, if there ever was one.
    pub(crate) fn get(&self, id: u32) -> Option<&Node<G>> {
        let (chunk, at) = place(id);
        self.chunks.get(chunk)?.get()?.get(at)
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
        self.chunks.iter().filter_map(OnceLock::get).any(|nodes| {
            let range = nodes.as_ptr_range();
            let (start, end) = (range.start.addr() as u64, range.end.addr() as u64);
            (start..end).contains(&address) && (address - start).is_multiple_of(size_of::<Node<G>>() as u64)
        })
    }

    /// Bytes of the nodes in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed) * size_of::<Node<G>>() as u64
    }
}

/// The address by which [`Pool::at`] finds a node.
pub(crate) fn address<const G: usize>(node: &Node<G>) -> u64 {
    std::ptr::from_ref(node).expose_provenance() as u64
}

#[cfg(loom)]
fn zeroed<const G: usize>(count: usize) -> Box<[Node<G>]> {
    (0..count).map(|_| Node::unused()).collect()
}

#[cfg(not(loom))]
fn zeroed<const G: usize>(count: usize) -> Box<[Node<G>]> {
    let nodes = Box::<[Node<G>]>::new_zeroed_slice(count);
    advise_huge(nodes.as_ptr().cast(), size_of_val(&*nodes));
    // SAFETY: a node consists of atomic numbers, for which zeros are a value.
    unsafe { nodes.assume_init() }
}

/// Asks for huge pages, where that means something. The kernel takes only the whole ones in the middle.
#[cfg(all(not(loom), target_os = "linux"))]
fn advise_huge(start: *const u8, length: usize) {
    const PAGE: usize = 4 << 10;
    const HUGE: usize = 2 << 20;
    if length < HUGE {
        return;
    }
    let before = start.addr().next_multiple_of(PAGE) - start.addr();
    // A kernel without huge pages refuses: slower, and no less right.
    // SAFETY: the pages lie within one allocation. The advice changes only how they are backed, not what they hold.
    let _ = unsafe {
        let first = start.add(before).cast_mut().cast();
        rustix::mm::madvise(first, length - before, rustix::mm::Advice::LinuxHugepage)
    };
}

#[cfg(all(not(loom), not(target_os = "linux")))]
fn advise_huge(_: *const u8, _: usize) {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let places: Vec<_> = (0..60).map(place).collect();
        let expected = (0..4).flat_map(|chunk| (0..4 << chunk).map(move |at| (chunk, at)));
        assert_eq!(places, expected.collect::<Vec<_>>());
        assert_eq!(place(u32::MAX - 4).0, CHUNKS - 1);
    }

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
