//! Between processes of one host: a directory of devices, served over a ring in shared memory.
//!
//! One process has a [`Directory`](ishigaki_device::Directory) and serves it; another one uses it as if it were its own. What
//! goes between them lies in memory that both have mapped, so a write costs no copy through a socket and, where answers come
//! soon, no system call.
//!
//! ```text
//!  client's thread                      the region: a memory file              a worker of the server
//!  Device::write_durable ─▶ slot 3: request, bytes ─▶ posted |= 1 << 3 ─▶ take it, copy, check, write ─▶ the directory
//!                            ▲                        armed? bell             │
//!                            └── state = done ◀── answer ─────────────────────┘   somebody sleeps? futex
//! ```
//!
//! - `layout` has the numbers of the region and of the greeting; `docs/format/ring.md` has the pictures. `message` has requests
//!   and answers.
//! - `region` is the memory itself: its words, and bytes that are copied out and in, never looked at in place.
//! - [`Server`] serves one client after the other on a socket, which the region is handed over by (`SCM_RIGHTS`). The client is
//!   not trusted: whatever it writes into the region is read once, copied and checked.
//! - [`ShmDirectory`] is the client. It trusts its server as it would trust a file system.
//! - `spin` says when polling pays.
//!
//! Both watch the socket, on which nothing is said after the greeting: its end is the peer's end, however that came. A client
//! that goes is finished with before the next one is let in, so nobody finds writes of a predecessor still on their way. What
//! the bytes mean, what is durable when, and where the socket's name is, are the business of others.

mod client;
#[cfg(fuzzing)]
pub mod fuzz;
mod layout;
mod message;
mod region;
mod server;
mod spin;

pub use client::ShmDirectory;
pub use layout::{PAYLOAD, SLOTS};
pub use server::{Server, ServerSettings};

#[cfg(test)]
mod tests;
