//! What users of a database may see and ask of the log underneath.

use ishigaki_base::Lsn;
use ishigaki_wal::{Log, Space};

use crate::Result;

/// A database's log, to look at: how far it has come and what space it takes. Given by [`Database::log`](crate::Database::log).
///
/// It can not be appended to, trimmed or closed by this: what is in it, and from where it is needed, is decided by
/// transactions and checkpoints alone.
///
/// ```
/// # fn look(database: &ishigaki_txn::Database) -> ishigaki_txn::Result<()> {
/// let log = database.log();
/// log.flush()?;
/// assert!(log.watermark() <= log.last_drawn() && log.space().live <= log.space().used);
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0599
/// # fn close(database: &ishigaki_txn::Database) {
/// let _ = database.log().close();
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LogView<'a>(&'a Log);

impl<'a> LogView<'a> {
    pub(crate) fn of(log: &'a Log) -> Self {
        Self(log)
    }

    /// The largest LSN drawn so far.
    pub fn last_drawn(self) -> Lsn {
        self.0.last_drawn()
    }

    /// Every record with an LSN up to this one is durable.
    pub fn watermark(self) -> Lsn {
        self.0.watermark()
    }

    /// What the log takes on its medium.
    pub fn space(self) -> Space {
        self.0.space()
    }

    /// Returns when everything committed so far is durable.
    ///
    /// # Errors
    ///
    /// [`Error::Log`](crate::Error::Log) with the failure that closed the log.
    pub fn flush(self) -> Result<()> {
        Ok(self.0.flush()?)
    }
}
