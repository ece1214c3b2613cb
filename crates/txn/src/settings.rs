//! How a database is opened.

use std::time::Duration;

use ishigaki_base::ByteSize;

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
    /// How long an older transaction waits for a lock that a younger one holds, before it gives up with a conflict.
    /// Default 10 s. Zero means: never wait, conflict at once.
    pub lock_wait: Duration,
    /// Whether scans and absences are protected against phantoms. Never turn it off outside of the test that shows what
    /// breaks then.
    #[doc(hidden)]
    pub range_protection: bool,
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
            lock_wait: Duration::from_secs(10),
            range_protection: true,
        }
    }
}
