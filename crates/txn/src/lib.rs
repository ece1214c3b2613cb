//! Serializable transactions on ordered tables of byte keys and byte values, durable through the parallel log.
//!
//! ```text
//! Session ── begin ──> Transaction: reads and writes go through the protocol, writes stay in the write set
//!                          │ commit
//!                          ├─ prepare: all that was read fits together, and nobody else may write what this one writes
//!                          ├─ encode the write set as one redo record, append it to the session's log stream: LSN
//!                          ├─ install the values in the tables, release the locks (early lock release)
//!                          └─> Ticket ── wait ──> durable: now it may be told to the world
//! ```
//!
//! - [`Database`] opens a directory, recovers, and hands out [`Session`]s, each bound to one stream of the log.
//! - [`Transaction`] reads, writes, scans, creates and drops tables; what others see of it is all or nothing.
//! - [`Snapshot`] reads what was committed at one moment, in nobody's way, for as long as it likes.
//! - [`Ticket`] is a committed transaction's claim on durability; waiting for it is where group commit happens.
//!
//! Isolation is serializability, by one of two protocols behind a seam (`protocol`): strict two-phase locking, or TicToc,
//! which is optimistic ([`ProtocolKind`]). [`Release`] says whether others may see what is not durable yet. The log is redo only: bytes of a transaction that did not commit never reach storage. All data lives in
//! memory, within a budget; what survives is the last checkpoint of it and the log since then.
//!
//! This crate knows no SQL, no types and no files: keys and values are bytes, ordered as bytes are, and every durable byte
//! goes through `ishigaki_wal` to an `ishigaki_device`; the log's own to another one, if it lies apart ([`LogPlace`]).

mod apart;
mod backup;
mod checkpoint;
mod copied;
mod database;
mod ending;
mod error;
#[cfg(fuzzing)]
pub mod fuzz;
mod history;
mod key;
mod log_view;
mod memory;
mod parking;
mod protocol;
mod record;
mod records;
mod redo;
mod release;
mod rows;
mod salvage;
mod session;
mod settings;
mod snapshot;
mod spare;
mod table;
mod ticket;
mod transaction;
mod unfinished;
mod unread;
mod verify;
mod version;
mod write_set;

#[doc(hidden)]
pub mod model {
    //! A record, and the optimistic protocol's few atomics, for the model checker. Not for use.
    pub use crate::protocol::model::{Absences, Refused, Stamp, Timestamp, Word};
    pub use crate::record::model::{Pair, Shown};
}

pub use apart::{LogPlace, log_place};
pub use backup::{BackupReport, Source, backup};
pub use checkpoint::{CheckpointProgress, CheckpointReport};
pub use database::{Database, LoadedCheckpoint, Recovery};
pub use error::{ConflictReason, Error, Result};
/// A place where stored bytes are not what was written.
pub use ishigaki_wal::Damage;
/// What says where the log of a database ended.
pub use ishigaki_wal::LogEnd;
/// How far the reading of the log has come while a database is opened.
pub use ishigaki_wal::Progress;
pub use key::{MAX_KEY, MAX_VALUE};
pub use log_view::LogView;
pub use memory::MemoryUse;
pub use protocol::{Age, ProtocolKind};
pub use redo::{Operation, operations};
pub use release::Release;
pub use salvage::{Missing, Salvage, SalvageReport, SalvagedTable};
pub use session::Session;
pub use settings::{CheckpointSettings, Settings};
pub use snapshot::Snapshot;
pub use table::TableId;
pub use ticket::Ticket;
pub use transaction::{Savepoint, Transaction};
pub use unfinished::{Unfinished, is_database};
pub use verify::{Verification, verify, verify_rows};
