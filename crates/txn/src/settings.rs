//! How a database is opened.

use std::time::Duration;

use ishigaki_base::ByteSize;

use crate::{ProtocolKind, Release};

/// How a database is opened. The default works.
///
/// ```
/// # use std::time::Duration;
/// use ishigaki_base::ByteSize;
/// let settings = ishigaki_txn::Settings { memory: ByteSize::mib(64), ..Default::default() };
/// assert_eq!(settings.lock_wait, Duration::from_secs(10));
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of the log: streams, group commit, segments.
    pub log: ishigaki_wal::Settings,
    /// The most that keys, values, their records and all write sets may take together. Default 4 GiB.
    pub memory: ByteSize,
    /// The most of it that old versions of rows may take, which are kept while a [`Snapshot`](crate::Snapshot) needs them.
    /// If that is not enough, the oldest snapshot is given up ([`Error::SnapshotTooOld`](crate::Error)). Default: a quarter.
    pub snapshot_memory: Option<ByteSize>,
    /// How transactions that run at the same time are kept apart. Default: [`ProtocolKind::Locking`].
    pub protocol: ProtocolKind,
    /// When transactions let go of their locks. Default: [`Release::Early`].
    pub release: Release,
    /// How long an older transaction waits for a lock that a younger one holds, before it gives up with a conflict.
    /// Default 10 s. Zero means: never wait, conflict at once.
    pub lock_wait: Duration,
    /// When checkpoints are made, and how.
    pub checkpoint: CheckpointSettings,
    /// Whether scans and absences are protected against phantoms. Never turn it off outside of the test that shows what
    /// breaks then.
    #[doc(hidden)]
    pub range_protection: bool,
}

/// When checkpoints are made, and how. The default works.
///
/// A checkpoint writes all rows of all tables, and lets go of the log before it: how often it is made decides how long the
/// log grows and opening takes, against how much is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointSettings {
    /// Whether a thread makes checkpoints by itself, as the two following settings say. Default true.
    pub automatic: bool,
    /// How much redo has been committed since the last checkpoint when the next one is made, or as many bytes as that last
    /// one has, if those are more: so checkpoints never write more than twice what commits did. Default 256 MiB.
    pub log_bytes: ByteSize,
    /// After this time a checkpoint is made in any case, if anything was committed. Default 1 h.
    pub interval: Duration,
    /// Whether the checkpoint before the current one, and the log from where it begins, are kept as long as space allows: an
    /// opening that finds the current one damaged goes back to it and loses nothing. It goes as soon as the log would slow
    /// sessions down for lack of space, or the medium has no space for the next checkpoint. Default true.
    pub keep_previous: bool,
    /// How many bytes a second a checkpoint writes at most. Default: no limit.
    pub throttle: Option<ByteSize>,
    /// The length of its files, at least 4 KiB; a longer row has a file of its own. As much memory is used beside the
    /// budget while a checkpoint is made. Default 16 MiB.
    pub part: ByteSize,
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self {
            automatic: true,
            log_bytes: ByteSize::mib(256),
            interval: Duration::from_hours(1),
            keep_previous: true,
            throttle: None,
            part: ByteSize::mib(16),
        }
    }
}

impl Settings {
    /// Without protection against phantoms: transactions are then NOT serializable. For the one test that shows it.
    #[doc(hidden)]
    #[must_use]
    pub fn without_range_protection(mut self) -> Self {
        self.range_protection = false;
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            log: ishigaki_wal::Settings::default(),
            memory: ByteSize::gib(4),
            snapshot_memory: None,
            protocol: ProtocolKind::default(),
            release: Release::default(),
            lock_wait: Duration::from_secs(10),
            checkpoint: CheckpointSettings::default(),
            range_protection: true,
        }
    }
}
