//! What protocols have in common that keep many requests under way on each of several connections.
//!
//! ```text
//!  callers ── Pool: the connection with the fewest ──▶ connection ──▶ socket ──▶ server
//!  callers ◀── Mailbox ◀── its reader thread ◀── Patient: a socket that hears when the server falls silent ◀──┘
//! ```
//!
//! Parts: `mailbox` is where callers find their answers, `patient` the socket of a reader, `pieces` a buffer that is filled by many requests,
//! `pool` the connections, `room` who waits for a place in one of them.

mod mailbox;
mod patient;
mod pieces;
mod pool;
mod room;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) use mailbox::{Letter, Lost, Mailbox};
pub(super) use patient::Patient;
pub(super) use pieces::{PIECES, Pieces};
pub(super) use pool::{Dial, Multiplexed, Pool, RETRY};
pub(super) use room::Room;

/// The most requests under way on one connection.
pub(super) const CAPACITY: usize = 64;

/// A lock whose holder may have panicked: what it guards is whole between any two statements.
pub(super) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
