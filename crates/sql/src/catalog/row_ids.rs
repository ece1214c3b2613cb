//! Hidden row ids: 64-bit numbers that no row of the database ever had.
//!
//! One row of the engine says up to where ids may have been given out. A block of ids is reserved by moving it forward
//! in a transaction of its own, which is durable before the first id of the block is used; from then on ids come out of
//! memory. A crash or a rollback loses what is left of a block and never repeats an id. Inserters meet at a counter in
//! memory only, not at a record of the engine, and a table that is made and filled in one transaction needs nothing
//! special.

use std::ops::Range;

use ishigaki_txn::{Session, TableId, Transaction};
use parking_lot::Mutex;

use crate::{Error, Result};

/// How many ids are reserved at once: rarely enough to cost nothing, and yet four billion times in all.
const BLOCK: u64 = 1 << 32;

/// The key of the only row.
const KEY: &[u8] = b"reserved";

/// The source of row ids of one open database.
#[derive(Debug)]
pub(super) struct RowIds {
    session: Session,
    table: TableId,
    /// What is left of the reserved ids.
    left: Mutex<Range<u64>>,
}

impl RowIds {
    /// Reserves nothing yet: a database that is only read stays as it is.
    pub(super) fn new(session: Session, table: TableId) -> Self {
        Self { session, table, left: Mutex::new(0..0) }
    }

    /// The next `count` ids.
    pub(super) fn take(&self, count: u64) -> Result<Range<u64>> {
        if count > BLOCK {
            return Err(Error::unsupported(
                format!("an INSERT of {count} rows into a table without a primary key"),
                "insert fewer rows at a time",
            ));
        }
        let mut left = self.left.lock();
        if left.end - left.start < count {
            *left = self.session.run(|txn| self.reserve(txn))?;
        }
        let taken = left.start..left.start + count;
        left.start = taken.end;
        Ok(taken)
    }

    /// Lets no id below this one be given out.
    pub(super) fn reserve_below(&self, txn: &mut Transaction, below: u64) -> Result<()> {
        if self.reserved(txn)? < below {
            txn.put(self.table, KEY, &below.to_be_bytes())?;
        }
        Ok(())
    }

    /// Ids below this one may have been given out.
    fn reserved(&self, txn: &mut Transaction) -> Result<u64> {
        Ok(match txn.get(self.table, KEY)? {
            None => 0,
            Some(stored) => stored
                .try_into()
                .map(u64::from_be_bytes)
                .map_err(|_| Error::corrupt("the row that counts row ids does not hold eight bytes"))?,
        })
    }

    fn reserve(&self, txn: &mut Transaction) -> Result<Range<u64>> {
        let start = self.reserved(txn)?;
        let end = start
            .checked_add(BLOCK)
            .ok_or_else(|| Error::unsupported("another row id", "give the table a primary key"))?;
        txn.put(self.table, KEY, &end.to_be_bytes())?;
        Ok(start..end)
    }
}
