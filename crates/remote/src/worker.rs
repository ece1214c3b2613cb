//! The seam for work beside the files: what a node does for its clients besides reading and writing.
//!
//! The node knows nothing of what is done. It hands an *order*, bytes of a client's, to the [`Worker`] that it was started
//! with, and carries the results away: a stream of bytes that the client asks for piece by piece.
//!
//! ```text
//!   client                       node                            worker
//!     │ begin, order ───────────▶ │ take(order, folder, results) ──▶ │
//!     │ next, target ───────────▶ │                                  │ results.send(bytes)   waits while the client
//!     │ memory ◀═══════════ bytes │ ◀────────────────────────────────│                       has not taken enough
//!     │ next …                    │                                  │
//!     │ ◀─────────────────  ended │ ◀────────────── results.finish() │
//! ```
//!
//! A client that goes, or wants no more, stops its work: the next [`Results::send`] says so, and [`Results::is_stopped`]
//! before.

use std::fmt::Debug;
use std::sync::Arc;

use ishigaki_device::{Directory, Error, Result};

pub use crate::node::{Folder, Results, Stopped};

/// Does work for a node's clients.
pub trait Worker: Send + Sync + Debug {
    /// Takes an order of a client's, which is not to be trusted, and returns soon: the work itself is done in threads of
    /// the worker's own. An error is the answer to the order. Dropping the results without
    /// [`finish`](Results::finish) tells the client that the work failed.
    fn take(&self, order: &[u8], folder: Folder, results: Results) -> Result<(), WorkError>;
}

/// Why a work gives no more results. A client may do refused work in another way; what failed is an error.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// Nothing is wrong with it, but there is no room, memory or time for it here.
    #[error("{reason}")]
    Refused {
        /// Why, and what to do instead.
        reason: String,
    },
    /// The order is none, the medium fails, or the worker does.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl Folder {
    /// A directory below the served folder, empty for the folder itself. No path leads out of it.
    pub fn directory(&self, path: &str) -> Result<Arc<dyn Directory>> {
        self.below(path)
    }
}
