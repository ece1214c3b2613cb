//! A committed transaction's claim on durability.

use std::fmt;
use std::sync::Arc;

use ishigaki_base::Lsn;
use ishigaki_wal::Receipt;

use crate::Result;
use crate::session::Home;

/// What a commit returns: the transaction is done and others see it, but it may not be durable yet.
///
/// Tell nobody outside of the process before [`wait`](Ticket::wait) has succeeded. Dropping a ticket is allowed; the
/// transaction then becomes durable with a later group all the same, or is lost whole in a crash before that.
///
/// A transaction that wrote nothing has a ticket too. It waits until everything that it read is durable: thanks to early
/// lock release it may have read what a crash would still take back.
#[must_use = "the transaction is durable only after the ticket has been waited for"]
pub struct Ticket {
    home: Arc<Home>,
    receipt: Receipt,
}

impl Ticket {
    pub(crate) fn new(home: Arc<Home>, receipt: Receipt) -> Self {
        Self { home, receipt }
    }

    /// Returns when the transaction, and everything that it read, is durable. An error says that the log failed: whether
    /// the transaction survives is decided when the database is opened again.
    pub fn wait(self) -> Result<()> {
        self.home.flush();
        Ok(self.home.stream.settle(&self.receipt)?)
    }

    /// [`wait`](Ticket::wait) for a task: many tasks of one thread share a write to the log. See the example of
    /// [`Session`](crate::Session).
    pub async fn durable(self) -> Result<()> {
        let settled = self.home.stream.settled(self.receipt).await;
        self.home.release_durable();
        Ok(settled?)
    }

    /// Whether [`wait`](Ticket::wait) would return at once with success.
    pub fn is_durable(&self) -> bool {
        self.home.database.log.has_settled(&self.receipt)
    }

    /// The transaction's place in the order of all commits; for one that wrote nothing, of the last commit it depends on
    /// ([`Lsn::ZERO`] if there is none).
    pub fn lsn(&self) -> Lsn {
        self.receipt.lsn()
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("lsn", &self.lsn()).finish_non_exhaustive()
    }
}
