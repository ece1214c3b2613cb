//! What can go wrong in a transaction, and what its caller can do about it.

use std::fmt;
use std::sync::Arc;

use ishigaki_base::{ByteSize, ErrorKind};

use crate::TableId;

/// The result of working with a database.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What helps a database that is damaged.
const ADVICE: &str = "`ishigaki verify DIR` shows every damage, `ishigaki salvage DIR --to DIR2` gets all rows out that can \
                      be read; or restore the directory from a copy that `ishigaki backup` has made";

/// What helps where nothing can be written.
const READ_ONLY: &str = "an open database is written to: `ishigaki backup DIR --to DIR2` copies it to a place that can be \
                         written, and that command, `ishigaki verify` and `ishigaki salvage` only read DIR";

/// What helps, where the log's own words are not enough.
fn advice(error: &ishigaki_wal::Error) -> String {
    match error {
        error if error.is_damage() => format!("; {ADVICE}"),
        ishigaki_wal::Error::Device(cause) => advice_of_device(cause),
        _ => String::new(),
    }
}

/// What helps, where a device's own words are not enough.
fn advice_of_device(error: &ishigaki_device::Error) -> String {
    match error {
        ishigaki_device::Error::ReadOnly { .. } => format!("; {READ_ONLY}"),
        error if error.is_damage() => format!("; {ADVICE}"),
        _ => String::new(),
    }
}

/// Why a transaction had to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConflictReason {
    /// An older transaction holds, or has been waiting for, what this one asked for (wait-die: the younger gives way).
    OlderInTheWay,
    /// Another transaction did not let go within [`Settings::lock_wait`](crate::Settings::lock_wait).
    WaitedTooLong,
    /// Another transaction has overwritten what this one has read, or was about to write.
    Overwritten,
    /// Another transaction is committing a write to what this one has read or was about to write.
    WriterInTheWay,
}

impl fmt::Display for ConflictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OlderInTheWay => "an older transaction is in the way",
            Self::WaitedTooLong => "another transaction did not let go of a lock in time",
            Self::Overwritten => "another transaction has overwritten what it had seen",
            Self::WriterInTheWay => "another transaction is writing to the same place",
        })
    }
}

/// Bytes as a person can read them: text where it is printable ASCII, hexadecimal escapes elsewhere, at most 64 bytes.
struct Readable<'a>(&'a [u8]);

impl fmt::Display for Readable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(64)];
        write!(f, "\"{}\"{}", shown.escape_ascii(), if shown.len() < self.0.len() { "…" } else { "" })
    }
}

/// What went wrong.
///
/// After [`Conflict`](Error::Conflict) the transaction is dead and holds nothing any more; after every other error it
/// lives on and the failed call had no effect.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another transaction was in the way. Run the whole transaction again, best with its old [`Age`](crate::Age).
    #[error("the transaction gave way to another one: {reason}; run it again from the start")]
    Conflict {
        /// Why.
        reason: ConflictReason,
    },
    /// The key to insert is there already.
    #[error("table {table}: key {} is there already", Readable(key))]
    DuplicateKey {
        /// The table.
        table: TableId,
        /// The key.
        key: Vec<u8>,
    },
    /// There is no such table (any more).
    #[error("there is no table {table}")]
    NoSuchTable {
        /// Its name, or its number where that was what the caller gave.
        table: String,
    },
    /// A table of that name is there already.
    #[error("a table named {name} is there already; choose another name or drop that one first")]
    TableExists {
        /// The name.
        name: String,
    },
    /// Every table number has been used; they are never used twice.
    #[error("four billion tables were created in the life of this database; copy its data into a new one")]
    TooManyTables,
    /// The memory budget is used up.
    #[error(
        "out of memory: {used} of {budget} are in use and {needed} more are needed; open the database with a larger \
         `Settings::memory`, make the transaction smaller, or delete data in small transactions"
    )]
    MemoryExhausted {
        /// In use by all tables and write sets.
        used: ByteSize,
        /// What the failed request asked for.
        needed: ByteSize,
        /// The limit.
        budget: ByteSize,
    },
    /// The snapshot was given up: what has changed since it was taken needs more memory than there is for old versions.
    #[error(
        "the snapshot is too old: the rows that were changed since then take more than the {limit} that old versions may \
         take; read from a new snapshot, read less at once, or open the database with a larger `Settings::snapshot_memory`"
    )]
    SnapshotTooOld {
        /// The most that old versions may take.
        limit: ByteSize,
    },
    /// The key is longer than [`MAX_KEY`](crate::MAX_KEY).
    #[error("a key of {length} is too long; the limit is {limit}")]
    KeyTooLong {
        /// Of the key.
        length: ByteSize,
        /// The most there may be.
        limit: ByteSize,
    },
    /// The value is longer than [`MAX_VALUE`](crate::MAX_VALUE).
    #[error("a value of {length} is too long; the limit is {limit}")]
    ValueTooLong {
        /// Of the value.
        length: ByteSize,
        /// The most there may be.
        limit: ByteSize,
    },
    /// All timestamps of the optimistic protocol have been used.
    #[error("2^48 transactions have overwritten each other's work since the database was opened; open it again")]
    TimestampsExhausted,
    /// A setting has no such value.
    #[error("{reason}")]
    InvalidSetting {
        /// What it is, and what it can be.
        reason: String,
    },
    /// The log does not lie where the caller says, or not beside the tables.
    #[error("the database is not opened: {reason}")]
    LogPlace {
        /// Where it lies, and what to do.
        reason: String,
    },
    /// The directory holds a database that a backup or salvage has not finished.
    #[error(
        "the directory holds a part of a database: a backup or salvage into it was cut off, or is still at work; if none is, \
         remove the directory and run that command again"
    )]
    Unfinished,
    /// Checkpoints followed each other faster than the database could be copied.
    #[error(
        "no backup was made: each time, a new checkpoint came before the database was copied; back it up from the process \
         that has it open (`.backup DIR` in `ishigaki sql`), or stop that process first"
    )]
    BackupOvertaken,
    /// The flag given to [`Transaction::set_interrupt`](crate::Transaction::set_interrupt) was raised.
    #[error("interrupted")]
    Interrupted,
    /// The log failed or is closed; its own words say why and what to do.
    #[error("log: {error}{advice}", error = .0, advice = advice(.0))]
    Log(#[from] ishigaki_wal::Error),
    /// The directory could not be used.
    #[error("{error}{advice}", error = .0, advice = advice_of_device(.0))]
    Device(Arc<ishigaki_device::Error>),
    /// What a database's directory remembers of the place of its log is not what was written.
    #[error("the database is not opened: {what}")]
    CorruptLogPlace {
        /// What is wrong, and what to do.
        what: String,
    },
    /// A record that the log gave back whole is not one of this database's.
    #[error("the redo record with LSN {lsn} can not be applied: {reason}; {ADVICE}")]
    Corrupt {
        /// Its place in the log.
        lsn: u64,
        /// What about it is wrong.
        reason: String,
    },
    /// The current checkpoint is not what was written.
    #[error("the checkpoint is damaged: {what}; {ADVICE}")]
    CorruptCheckpoint {
        /// What is wrong, and where.
        what: String,
    },
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::DuplicateKey { .. }
            | Self::NoSuchTable { .. }
            | Self::TableExists { .. }
            | Self::KeyTooLong { .. }
            | Self::ValueTooLong { .. }
            | Self::InvalidSetting { .. }
            | Self::LogPlace { .. }
            | Self::Unfinished => ErrorKind::Invalid,
            Self::BackupOvertaken => ErrorKind::Unavailable,
            Self::MemoryExhausted { .. }
            | Self::SnapshotTooOld { .. }
            | Self::TooManyTables
            | Self::TimestampsExhausted => ErrorKind::Exhausted,
            Self::Interrupted => ErrorKind::Cancelled,
            Self::Log(error) => error.kind(),
            // A database asks rightly for what is its own.
            Self::Device(error) if error.is_damage() => ErrorKind::Corrupt,
            Self::Device(error) => error.kind(),
            Self::Corrupt { .. } | Self::CorruptCheckpoint { .. } | Self::CorruptLogPlace { .. } => ErrorKind::Corrupt,
        }
    }

    /// Whether it says that stored bytes, or a file of the database's, are not what was written.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Log(error) => error.is_damage(),
            Self::Device(error) => error.is_damage(),
            Self::Corrupt { .. } | Self::CorruptCheckpoint { .. } | Self::CorruptLogPlace { .. } => true,
            Self::Conflict { .. }
            | Self::DuplicateKey { .. }
            | Self::NoSuchTable { .. }
            | Self::TableExists { .. }
            | Self::TooManyTables
            | Self::MemoryExhausted { .. }
            | Self::SnapshotTooOld { .. }
            | Self::KeyTooLong { .. }
            | Self::ValueTooLong { .. }
            | Self::TimestampsExhausted
            | Self::InvalidSetting { .. }
            | Self::LogPlace { .. }
            | Self::Unfinished
            | Self::BackupOvertaken
            | Self::Interrupted => false,
        }
    }

    /// Whether its words name the commands that help.
    pub fn names_remedy(&self) -> bool {
        self.is_damage()
    }

    /// The error of a transaction that gives way.
    pub(crate) fn conflict(reason: ConflictReason) -> Self {
        Self::Conflict { reason }
    }

    /// The error of a checkpoint that is not what was written.
    pub(crate) fn damaged(what: String) -> Self {
        Self::CorruptCheckpoint { what }
    }

    /// The error of asking for a table by a number that stands for none.
    pub(crate) fn no_such_id(id: TableId) -> Self {
        Self::NoSuchTable { table: id.to_string() }
    }
}

impl From<ishigaki_device::Error> for Error {
    fn from(error: ishigaki_device::Error) -> Self {
        Self::Device(Arc::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_key_is_named_in_readable_form() {
        let error = Error::DuplicateKey { table: TableId(7), key: b"a\x00b".to_vec() };
        assert_eq!(error.to_string(), "table #7: key \"a\\x00b\" is there already");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn exhausted_memory_names_the_remedy() {
        let size = ByteSize::mib(1);
        let text = Error::MemoryExhausted { used: size, needed: size, budget: size }.to_string();
        assert!(text.contains("Settings::memory"), "{text}");
    }
}
