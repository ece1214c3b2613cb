//! The transaction that a statement runs in, shared between the statement and DataFusion's operators.
//!
//! Several scans of one query take turns at it. A call may wait for a lock of another transaction, so every call tells the
//! runtime that it may block; the other tasks of the thread move elsewhere.

use std::sync::Arc;

use ishigaki_txn::{Savepoint, Transaction};
use parking_lot::Mutex;
use tokio::task::block_in_place;

use crate::catalog::Catalog;
use crate::interrupt::CancelHandle;
use crate::table::TableDefinition;
use crate::{Error, Result};

/// A transaction that can be ended once, by whoever began it.
///
/// Parts of a query that was dropped may outlive their statement by a moment. They hold this, and find it empty: nothing
/// of the database stays open because of them.
pub(crate) struct Current {
    live: Mutex<Option<Live>>,
    /// An error found where there was no way to return one.
    deferred: Mutex<Option<Error>>,
}

struct Live {
    transaction: Transaction,
    catalog: Catalog,
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Current").finish_non_exhaustive()
    }
}

impl Current {
    /// Shares a transaction; a cancellation interrupts its waits.
    pub(crate) fn new(catalog: &Catalog, mut transaction: Transaction, cancel: &CancelHandle) -> Self {
        transaction.set_interrupt(cancel.flag());
        let live = Live { transaction, catalog: catalog.clone() };
        Self { live: Mutex::new(Some(live)), deferred: Mutex::new(None) }
    }

    /// Works with the transaction. May block; only for the database's own threads.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.with_catalog(|_, transaction| work(transaction))
    }

    /// Works with the tables of the database within the transaction. May block, as [`Current::with`].
    pub(crate) fn with_catalog<T>(&self, work: impl FnOnce(&Catalog, &mut Transaction) -> Result<T>) -> Result<T> {
        block_in_place(|| match self.live.lock().as_mut() {
            Some(Live { transaction, catalog }) => work(catalog, transaction).map_err(interrupted),
            // A part of a query outlived its statement.
            None => Err(Error::Cancelled),
        })
    }

    /// The definition of a table, under a shared lock until the transaction ends.
    pub(crate) fn definition(&self, name: &str) -> Result<Arc<TableDefinition>> {
        self.with_catalog(|catalog, transaction| catalog.require(transaction, name))
    }

    /// The definition of a table that may not be there.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Arc<TableDefinition>>> {
        self.with_catalog(|catalog, transaction| catalog.get(transaction, name))
    }

    /// The names of all tables, in order. An error is kept for [`Current::take_deferred`].
    pub(crate) fn names(&self) -> Vec<String> {
        match self.with_catalog(Catalog::list) {
            Ok(tables) => tables.iter().map(|table| table.name().to_owned()).collect(),
            Err(error) => {
                self.deferred.lock().get_or_insert(error);
                Vec::new()
            }
        }
    }

    /// The first error that could not be returned, once.
    pub(crate) fn take_deferred(&self) -> Option<Error> {
        self.deferred.lock().take()
    }

    pub(crate) fn savepoint(&self) -> Result<Savepoint> {
        self.with(|transaction| Ok(transaction.savepoint()))
    }

    pub(crate) fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        self.with(|transaction| {
            transaction.rollback_to(savepoint);
            Ok(())
        })
    }

    /// Commits, and waits until all that the transaction wrote and read is durable.
    pub(crate) fn commit(&self) -> Result<()> {
        block_in_place(|| match self.live.lock().take() {
            Some(Live { transaction, .. }) => {
                transaction.commit()?.wait()?;
                Ok(())
            }
            None => Err(Error::Cancelled),
        })
    }

    /// Undoes everything and lets the locks go.
    pub(crate) fn rollback(&self) {
        block_in_place(|| {
            if let Some(Live { transaction, .. }) = self.live.lock().take() {
                transaction.rollback();
            }
        });
    }
}

/// An interrupted wait is a cancelled statement.
fn interrupted(error: Error) -> Error {
    match error {
        Error::Txn(ishigaki_txn::Error::Interrupted) => Error::Cancelled,
        other => other,
    }
}
