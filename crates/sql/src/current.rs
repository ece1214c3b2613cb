//! The transaction that a statement runs in, or the snapshot that it reads, shared between the statement and DataFusion's
//! operators.
//!
//! Several scans of one query take turns at it. A call may wait for a lock of another transaction, so every call tells the
//! runtime that it may block; the other tasks of the thread move elsewhere.

use std::sync::Arc;

use ishigaki_txn::{Savepoint, Snapshot, Transaction};
use parking_lot::Mutex;
use tokio::task::block_in_place;

use crate::catalog::Catalog;
use crate::interrupt::CancelHandle;
use crate::table::TableDefinition;
use crate::view::View;
use crate::{Error, Result};

/// A transaction or a snapshot that can be ended once, by whoever began it.
///
/// Parts of a query that was dropped may outlive their statement by a moment. They hold this, and find it empty: nothing
/// of the database stays open because of them.
pub(crate) struct Current {
    live: Mutex<Option<Live>>,
    /// An error found where there was no way to return one.
    deferred: Mutex<Option<Error>>,
}

struct Live {
    stage: Stage,
    catalog: Catalog,
}

/// What statements run on.
enum Stage {
    Transaction(Box<Transaction>),
    Snapshot(Snapshot),
}

impl Stage {
    fn view(&mut self) -> View<'_> {
        match self {
            Self::Transaction(transaction) => View::Transaction(transaction),
            Self::Snapshot(snapshot) => View::Snapshot(snapshot),
        }
    }
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
        Self::on(catalog, Stage::Transaction(Box::new(transaction)))
    }

    /// Shares a snapshot, for a statement that only reads.
    pub(crate) fn on_snapshot(catalog: &Catalog, mut snapshot: Snapshot, cancel: &CancelHandle) -> Self {
        snapshot.set_interrupt(cancel.flag());
        Self::on(catalog, Stage::Snapshot(snapshot))
    }

    fn on(catalog: &Catalog, stage: Stage) -> Self {
        let live = Live { stage, catalog: catalog.clone() };
        Self { live: Mutex::new(Some(live)), deferred: Mutex::new(None) }
    }

    /// Works with the transaction. May block; only for the database's own threads.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.with_catalog(|_, transaction| work(transaction))
    }

    /// Works with the tables of the database within the transaction. May block, as [`Current::with`].
    pub(crate) fn with_catalog<T>(&self, work: impl FnOnce(&Catalog, &mut Transaction) -> Result<T>) -> Result<T> {
        self.on_stage(|catalog, stage| match stage {
            Stage::Transaction(transaction) => work(catalog, transaction),
            Stage::Snapshot(_) => unreachable!("only statements that read run on a snapshot"),
        })
    }

    /// Reads. May block, as [`Current::with`].
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Catalog, View<'_>) -> Result<T>) -> Result<T> {
        self.on_stage(|catalog, stage| work(catalog, stage.view()))
    }

    fn on_stage<T>(&self, work: impl FnOnce(&Catalog, &mut Stage) -> Result<T>) -> Result<T> {
        block_in_place(|| match self.live.lock().as_mut() {
            Some(Live { stage, catalog }) => work(catalog, stage).map_err(interrupted),
            // A part of a query outlived its statement.
            None => Err(Error::Cancelled),
        })
    }

    /// Fails if what was read so far does not fit together.
    pub(crate) fn validate(&self) -> Result<()> {
        self.on_stage(|_, stage| match stage {
            Stage::Transaction(transaction) => Ok(transaction.validate()?),
            Stage::Snapshot(_) => Ok(()),
        })
    }

    /// The definition of a table, which stays so until the transaction ends.
    pub(crate) fn definition(&self, name: &str) -> Result<Arc<TableDefinition>> {
        self.read(|catalog, view| catalog.require(view, name))
    }

    /// The definition of a table that may not be there.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Arc<TableDefinition>>> {
        self.read(|catalog, view| catalog.get(view, name))
    }

    /// The names of all tables, in order. An error is kept for [`Current::take_deferred`].
    pub(crate) fn names(&self) -> Vec<String> {
        match self.read(|catalog, view| catalog.list(view)) {
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
            Some(Live { stage, .. }) => {
                let ticket = match stage {
                    Stage::Transaction(transaction) => transaction.commit()?,
                    Stage::Snapshot(snapshot) => snapshot.finish()?,
                };
                Ok(ticket.wait()?)
            }
            None => Err(Error::Cancelled),
        })
    }

    /// Undoes everything and lets the locks go.
    pub(crate) fn rollback(&self) {
        block_in_place(|| drop(self.live.lock().take()));
    }
}

/// An interrupted wait is a cancelled statement.
fn interrupted(error: Error) -> Error {
    match error {
        Error::Txn(ishigaki_txn::Error::Interrupted) => Error::Cancelled,
        other => other,
    }
}
