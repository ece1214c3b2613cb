//! The bytes of a pool beside those of its log: entries, ledgers, slots and the roster. `docs/format/logpool.md` has the
//! pictures.
//!
//! Everything is little-endian. What a reader does not know it refuses. The records of the log are entries; the log's own
//! chunks have their checksums, everything else here has one of its own.

mod aside;
mod entry;
mod extent;
mod intent;
mod ledger;
mod numbers;
mod packed;
mod roster;
mod sealed;
mod slot;

pub(crate) use aside::AsideEntries;
pub(crate) use entry::{Change, Entry, Node, Run};
pub(crate) use extent::{BLOCKS, Extent};
pub(crate) use intent::{Intent, NewSums};
pub(crate) use ledger::{Ledger, LedgerFile};
pub(crate) use packed::{is_packed, pack, unpack};
pub(crate) use roster::{Roster, RosterMember};
pub(crate) use sealed::{Unfit, length as sealed_length};
pub(crate) use slot::Slot;
#[cfg(fuzzing)]
pub(crate) use {ledger::MAGIC as LEDGER, roster::MAGIC as ROSTER, sealed::seal, slot::MAGIC as SLOT};

/// Version of everything here but packed entries, ledgers and rosters.
pub(crate) const VERSION: u8 = 1;

/// The longest file: lengths and offsets stay below it, so that their sums can not overflow.
pub(crate) const LONGEST_FILE: u64 = 1 << 40;
