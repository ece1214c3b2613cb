//! How a database is opened.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::physical_optimizer::PhysicalOptimizerRule;
use ishigaki_base::ByteSize;
use ishigaki_txn::ProtocolKind;

use crate::Result;

/// The most threads that run statements. A query is planned in as many parts as there are threads.
pub const MAX_THREADS: usize = 1024;

/// Settings of a [`Database`](crate::Database). The defaults work.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The engine below: its log, the memory of the tables, how long to wait for a lock. Transactions are kept apart by
    /// locking here: whoever sees rows before `COMMIT` acts on them, and under the engine's own default he might see, until
    /// then, what does not fit together.
    pub txn: ishigaki_txn::Settings,
    /// What all statements that run at one time may use together for sorting, grouping, joining and for rows on their way
    /// into a table. What sorts, groupings and joins need beyond that they spill to disk; what can not be spilled fails and
    /// says so.
    pub query_memory: ByteSize,
    /// The most that all statements that run at one time may spill to disk together. Zero: nothing is ever spilled.
    pub spill_limit: ByteSize,
    /// Where they spill to. `None` is the folder `spill` in the database's directory where [`Database::open`] opens it, and
    /// nowhere for a database that is opened in another way.
    ///
    /// [`Database::open`]: crate::Database::open
    pub spill_directory: Option<PathBuf>,
    /// What pages of paged tables may take in memory that were read and may be needed again, beside `query_memory`.
    pub page_memory: ByteSize,
    /// Threads that run statements, [`MAX_THREADS`] at most; `None` takes as many as the machine has cores.
    pub threads: Option<NonZeroUsize>,
    /// Who runs plans on other hosts: the last rule that a physical plan goes through. With one, plans are made such that
    /// their pieces need not know of each other while they run, and scans are pushed unless a session says otherwise.
    pub distribute: Option<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            txn: ishigaki_txn::Settings { protocol: ProtocolKind::Locking, ..Default::default() },
            query_memory: ByteSize::gib(2),
            spill_limit: ByteSize::gib(32),
            spill_directory: None,
            page_memory: ByteSize::gib(1),
            threads: None,
            distribute: None,
        }
    }
}

impl Settings {
    /// Says what about the settings can not be, as opening a database with them does.
    ///
    /// # Errors
    ///
    /// One of the kind `Invalid`, which names the limit.
    pub fn validate(&self) -> Result<()> {
        if let Some(threads) = self.threads.filter(|threads| threads.get() > MAX_THREADS) {
            let reason = format!("statements are run by 1 to {MAX_THREADS} threads, not {threads}");
            return Err(ishigaki_txn::Error::InvalidSetting { reason }.into());
        }
        Ok(self.txn.log.validate().map_err(ishigaki_txn::Error::from)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_there_may_be_are_refused_before_anything_is_opened() {
        let with = |threads| Settings { threads: NonZeroUsize::new(threads), ..Settings::default() };
        assert!(with(MAX_THREADS).validate().is_ok());
        let directory = tempfile::tempdir().unwrap();
        let error = crate::Database::open(directory.path(), with(100_000)).unwrap_err().to_string();
        assert!(error.contains("1 to 1024 threads, not 100000"), "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
