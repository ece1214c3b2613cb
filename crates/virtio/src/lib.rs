//! Devices for virtual machines: requests that lie in a machine's memory, answered by this process.
//!
//! ```text
//!  hypervisor ── vhost-user messages over a Socket ──▶ Machine    where the memory and the queues are; once, and at every restart
//!  guest      ── virtqueue in its memory ──▶ Queue's thread ── a descriptor chain each ──▶ workers ──▶ Requests
//!                kick (eventfd)              takes all there are, answers what is quick    answer in the memory, call (eventfd)
//! ```
//!
//! What a request says is for [`Requests`]: [`Block`] makes a virtio block device of any [`Device`](ishigaki_device::Device).
//!
//! The hypervisor is believed in what it says of the guest's memory. The guest is not trusted: what its queues say is checked, and a
//! guest that breaks the rules gets no more answers, which harms nobody else.
//!
//! A request that was taken is answered, or is told again: the queues keep an account of it ([`inflight`]) in memory that the hypervisor holds. When this
//! process dies, the next one on the same socket finds there which requests are to be done once more, and the guest sees nothing but a delay.
//!
//! Parts: `socket` lets one machine in after the other, `refusal` says which refusals are told (`peer` tells one hypervisor from another), `listening` makes the socket's name, `machine` follows the messages, `queue` takes, `worker` answers, `pace` says which thread it does in, `inflight` keeps
//! the account, [`block`] is the block device.

pub mod block;
mod error;
#[cfg(fuzzing)]
pub mod fuzz;
pub mod inflight;
mod listening;
mod machine;
mod pace;
mod peer;
mod queue;
mod refusal;
mod socket;
mod worker;

pub use block::{Access, Block};
pub use error::{Error, Result};
pub use listening::{bind, clear, is_socket};
pub use queue::Chain;
pub use socket::{Requests, Socket, When};

/// A guest's memory, as the hypervisor has told of it last.
pub type Memory = vm_memory::GuestMemoryAtomic<vm_memory::GuestMemoryMmap>;
