//! An ordered index in memory, made to be read: keys are byte strings, values are numbers.
//!
//! [`Index`] is a B+-tree with *optimistic lock coupling* (Leis, Haubenschild, Neumann, "Optimistic Lock Coupling: A
//! Scalable and Efficient General-Purpose Synchronization Method", IEEE Data Eng. Bull. 2019). Every node has a version. A
//! reader notes it, reads, and looks whether it is still the same; it writes nothing that others read, so readers do not
//! slow each other down, on however many cores. A writer locks the one leaf that it changes, and a split or a merge locks
//! the nodes that it replaces and their parent.
//!
//! # Parts, from the top
//!
//! ```text
//!  index            keys to numbers, from outside
//!  tree             keys to payloads: get, insert, remove
//!    descent          from the root to a leaf
//!    restructure      splits and merges
//!    walk             ranges
//!  seen             what a search relied on, and whether it still holds
//!  shelter          a search's guard, or none
//!  node             sorted slots in cache lines; long keys beside them
//!  probe            a key as eight bytes and the rest
//!  pool             where nodes come from
//!  version          one word: lock, stamp, validity
//! ```
//!
//! # What always holds
//!
//! 1. A node's fences, the keys that bound what can lie below it, never change while it is in the tree. A node that is
//!    split or merged is replaced by new ones.
//! 2. What a reader has read from a node is used only after the node's version was checked. Addresses are followed only
//!    then, too.
//! 3. A node's stamp grows with every change and through all its lives: it never fits twice. Memory of nodes stays memory of
//!    nodes as long as the tree is there. So a stamp can be checked at any time, without a guard.
//! 4. Long keys that were taken out are given back when all guards are gone that were there at that time.
//! 5. A leaf's stamp changes only when a key comes or goes, or when the leaf is replaced: see [`Seen`].
//!
//! # What it leaves to others
//!
//! What a number stands for, who may change that, and when a key may be removed. The index has no transactions: a protocol
//! above makes them of [`Seen`] and of what the numbers stand for.

mod index;
mod node;
mod pool;
mod prefetch;
mod probe;
mod seen;
mod shelter;
mod tree;
mod version;

pub use index::{Glance, Index, KeyRange};
pub use prefetch::prefetch_soon;
pub use sdd::Guard;
pub use seen::{Change, Seen};
