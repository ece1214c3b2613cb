//! What a statement reads from: its transaction, or a snapshot.

use std::ops::{Bound, ControlFlow};

use ishigaki_txn::{Snapshot, TableId, Transaction};

use crate::Result;

/// A range of keys.
type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Either of them, to read from.
#[derive(Debug)]
pub enum Readable<'a> {
    /// Own writes included.
    Transaction(&'a mut Transaction),
    /// As it was when the statement began.
    Snapshot(&'a Snapshot),
}

impl Readable<'_> {
    /// Shows the value of a key.
    pub(crate) fn get_with<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        Ok(match self {
            Self::Transaction(transaction) => transaction.get_with(table, key, read)?,
            Self::Snapshot(snapshot) => snapshot.get_with(table, key, read)?,
        })
    }

    /// Visits a range in key order.
    pub(crate) fn scan(
        &mut self,
        table: TableId,
        range: Range<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        match self {
            Self::Transaction(transaction) => transaction.scan(table, range, visit)?,
            Self::Snapshot(snapshot) => snapshot.scan(table, range, visit)?,
        }
        Ok(())
    }
}

impl<'a> From<&'a mut Transaction> for Readable<'a> {
    fn from(transaction: &'a mut Transaction) -> Self {
        Self::Transaction(transaction)
    }
}
