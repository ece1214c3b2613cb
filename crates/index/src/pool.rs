//! Where nodes come from and go to.
//!
//! A pool hands out nodes of one kind and takes them back to hand them out again. It never gives memory back while the
//! tree is there: so whoever has a node's address or number can look at its version at any time, and sees that it is not
//! the node any more that it was.
//!
//! Nodes lie in chunks, each as large as all before it together, so a number finds its node without a lock. Chunks of two
//! megabytes and more ask for huge pages: a search that misses the cache then does not miss the TLB as well.

#![allow(unsafe_code, reason = "chunks are made of zeros, and nodes are found by their addresses")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::OnceLock;

use ishigaki_base::sync::Mutex;
use ishigaki_base::sync::atomic::{AtomicU64, Ordering};

use crate::node::{Locked, Node};

/// Nodes in the first chunk, as a power of two.
const FIRST: u32 = if cfg!(loom) { 3 } else { 2 };

/// A huge page.
const HUGE: usize = 2 << 20;

/// What every allocator aligns to.
const ALIGNMENT: usize = 16;

/// As many as numbers of 32 bits allow.
const CHUNKS: usize = 32 - FIRST as usize;

/// All nodes of one kind.
#[derive(Debug)]
pub(crate) struct Pool<const G: usize> {
    chunks: [OnceLock<Chunk<G>>; CHUNKS],
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
        let nodes = self.chunks[chunk].get_or_init(|| Chunk::new(1 << (chunk + FIRST as usize)));
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

/// Nodes beside each other that were never used.
///
/// What comes from the allocator as zeros is not touched before it is used, so a chunk costs no more than its nodes. That is
/// so only for ordinary alignments: the nodes are aligned by hand.
#[derive(Debug)]
struct Chunk<const G: usize> {
    memory: NonNull<u8>,
    layout: Layout,
    nodes: NonNull<[Node<G>]>,
}

// SAFETY: a chunk is a row of nodes that it owns and shows only by shared reference; nodes are atomics.
unsafe impl<const G: usize> Send for Chunk<G> {}
// SAFETY: as above.
unsafe impl<const G: usize> Sync for Chunk<G> {}

impl<const G: usize> Chunk<G> {
    fn new(count: usize) -> Self {
        let bytes = count * size_of::<Node<G>>();
        let alignment = if bytes >= HUGE { HUGE } else { align_of::<Node<G>>() };
        let layout = Layout::from_size_align(bytes + alignment, ALIGNMENT).expect("a chunk is far smaller than memory");
        // SAFETY: the size is not zero.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let before = memory.addr().get().next_multiple_of(alignment) - memory.addr().get();
        // SAFETY: less than the alignment lies before, and the allocation is that much larger than the nodes.
        let first = unsafe { memory.add(before) };
        advise_huge(first, bytes);
        let first = first.cast::<Node<G>>();
        #[cfg(loom)]
        for at in 0..count {
            // SAFETY: the node lies within the allocation.
            unsafe { first.add(at).write(Node::unused()) };
        }
        Self { memory, layout, nodes: NonNull::slice_from_raw_parts(first, count) }
    }
}

impl<const G: usize> Deref for Chunk<G> {
    type Target = [Node<G>];

    fn deref(&self) -> &[Node<G>] {
        // SAFETY: the nodes are aligned, lie within the allocation, and live as long as the chunk. A node consists of atomic
        // numbers, for which zeros are a value; the model checker's are made one by one.
        unsafe { self.nodes.as_ref() }
    }
}

impl<const G: usize> Drop for Chunk<G> {
    fn drop(&mut self) {
        #[cfg(loom)]
        // SAFETY: they were made in `new`, and nobody uses them any more.
        unsafe {
            self.nodes.drop_in_place();
        }
        // SAFETY: it came from the same allocator with this layout. A node has nothing to drop.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

/// Asks for huge pages, where that means something. A kernel without them refuses: slower, and no less right.
fn advise_huge(first: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= HUGE {
        // SAFETY: the pages lie within one allocation. The advice changes only how they are backed, not what they hold.
        let _ = unsafe {
            rustix::mm::madvise(first.cast().as_ptr(), bytes / HUGE * HUGE, rustix::mm::Advice::LinuxHugepage)
        };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (first, bytes);
}

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
