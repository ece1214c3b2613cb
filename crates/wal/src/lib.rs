//! The parallel write-ahead log (paper 1: Kamiya, Kawashima, Hoshino, Tatebe 2017).
//!
//! One [`Log`] has several streams. A session is bound to one of them and puts its records there, so that no two
//! streams share a buffer or a place on the medium; they share one cache line, the counter that gives each record its
//! LSN. Flash serves their writes side by side.
//!
//! ```text
//!  session ─┐                       ┌─ group ── chunk ──▶ segments of stream 0
//!  session ─┴─ LSN + record ────────┤
//!  session ──── LSN + record ───────┴─ group ── chunk ──▶ segments of stream 1
//!                 │                                             │
//!              counter                watermark = smallest bound of the streams ──▶ acknowledge
//! ```
//!
//! A record is durable when everything with a smaller LSN is too: [`Watermark`] knows without a lock up to where that
//! holds. Recovery keeps what the merge of the streams by LSN shows, up to the first gap; it can read them one record after
//! the other ([`Log::open`]) or side by side with several threads ([`Log::recover`]). Others may look at the records, too, in
//! their order ([`Changes`]). The bytes are pictured in `docs/format/wal.md`; what an
//! LSN or a record *means* is left to the engine above.

mod background;
mod bell;
mod buffer;
mod changes;
mod control;
mod copy;
mod dependencies;
mod draw;
mod epoch;
mod error;
mod format;
#[cfg(fuzzing)]
pub mod fuzz;
mod herald;
mod inspect;
mod keeper;
mod log;
mod recovery;
mod rescue;
mod segment;
mod serial;
mod settings;
mod space;
mod start;
mod stream;
mod watermark;

#[doc(hidden)]
pub mod model {
    //! Protocols of a few atomics and locks, for the model checker. Not for use.
    pub use crate::herald::post::{Post, Task};
    pub use crate::serial::array::{Array, Gathered, Place, Releases, Seat};
    pub use crate::serial::ring::Ring;
}

pub use changes::Changes;
pub use copy::{Copied, copy};
#[doc(hidden)]
pub use dependencies::Standing;
pub use dependencies::{Dependencies, Receipt};
pub use draw::Draw;
pub use error::{Error, Result};
pub use herald::Settled;
pub use inspect::{GenerationReport, Inspection, StreamReport, inspect};
pub use log::Log;
pub use recovery::{Progress, Recovery, Replay, Sink};
pub use rescue::{Damage, LogEnd, Rescued, Survey};
pub use settings::{CommitRule, Group, LogKind, Settings};
pub use space::Space;
pub use start::Start;
pub use stream::Stream;
pub use watermark::Watermark;
