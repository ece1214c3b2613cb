//! The transaction that a statement runs in, or the snapshot that it reads, shared between the statement and DataFusion's
//! operators.
//!
//! Several scans of one query take turns at it. A call may wait for a lock of another transaction, so every call tells the
//! runtime that it may block; the other tasks of the thread move elsewhere.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ishigaki_page::State;
use ishigaki_scan::PagedTable;
use ishigaki_txn::{Savepoint, Snapshot, Transaction};
use parking_lot::Mutex;
use tokio::task::block_in_place;

use crate::catalog::{Catalog, Relation};
use crate::interrupt::CancelHandle;
use crate::paged::{Appender, Files, Store};
use crate::readable::Readable;
use crate::table::{Paged, TableDefinition};
use crate::view::ViewDefinition;
use crate::{Error, Result};

/// A transaction or a snapshot that can be ended once, by whoever began it.
///
/// Parts of a query that was dropped may outlive their statement by a moment. They hold this, and find it empty: nothing
/// of the database stays open because of them.
pub(crate) struct Current {
    live: Mutex<Option<Live>>,
    /// Page files that were made or are to go; locked after `live`, if both are.
    files: Mutex<Files>,
    /// Paged tables as they were when they were first looked at.
    paged: Mutex<HashMap<String, Arc<PagedTable>>>,
    /// An error found where there was no way to return one.
    deferred: Mutex<Option<Error>>,
    /// A pipe or a device that the statement has read from.
    read_once: Mutex<Option<PathBuf>>,
}

struct Live {
    stage: Stage,
    catalog: Catalog,
}

/// A point of a transaction to go back to.
#[derive(Debug)]
pub(crate) struct Mark {
    savepoint: Savepoint,
    files: usize,
}

/// What statements run on.
enum Stage {
    Transaction(Box<Transaction>),
    Snapshot(Snapshot),
    /// A snapshot that has done its part: all that it showed is durable.
    Settled,
}

impl Stage {
    fn readable(&mut self) -> Result<Readable<'_>> {
        match self {
            Self::Transaction(transaction) => Ok(Readable::Transaction(transaction)),
            Self::Snapshot(snapshot) => Ok(Readable::Snapshot(snapshot)),
            // A part of a query outlived its statement.
            Self::Settled => Err(Error::Cancelled),
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
    pub(crate) fn new(
        catalog: &Catalog,
        store: &Arc<Store>,
        mut transaction: Transaction,
        cancel: &CancelHandle,
    ) -> Self {
        transaction.set_interrupt(cancel.flag());
        Self::on(catalog, store, Stage::Transaction(Box::new(transaction)))
    }

    /// Shares a snapshot, for a statement that only reads.
    pub(crate) fn on_snapshot(
        catalog: &Catalog,
        store: &Arc<Store>,
        mut snapshot: Snapshot,
        cancel: &CancelHandle,
    ) -> Self {
        snapshot.set_interrupt(cancel.flag());
        Self::on(catalog, store, Stage::Snapshot(snapshot))
    }

    fn on(catalog: &Catalog, store: &Arc<Store>, stage: Stage) -> Self {
        let live = Live { stage, catalog: catalog.clone() };
        Self {
            live: Mutex::new(Some(live)),
            files: Mutex::new(Files::new(Arc::clone(store))),
            paged: Mutex::default(),
            deferred: Mutex::new(None),
            read_once: Mutex::new(None),
        }
    }

    /// Works with the transaction. May block; only for the database's own threads.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.with_catalog(|_, transaction| work(transaction))
    }

    /// Works with the tables of the database within the transaction. May block, as [`Current::with`].
    pub(crate) fn with_catalog<T>(&self, work: impl FnOnce(&Catalog, &mut Transaction) -> Result<T>) -> Result<T> {
        self.on_stage(|catalog, stage| match stage {
            Stage::Transaction(transaction) => work(catalog, transaction),
            // An append was begun for a paged table, and what has its name now is a table of rows.
            Stage::Snapshot(_) => Err(Error::TableReplaced),
            Stage::Settled => Err(Error::Cancelled),
        })
    }

    /// Reads. May block, as [`Current::with`].
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Catalog, Readable<'_>) -> Result<T>) -> Result<T> {
        self.on_stage(|catalog, stage| work(catalog, stage.readable()?))
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
            Stage::Snapshot(_) | Stage::Settled => Ok(()),
        })
    }

    /// The definition of a table, which stays so until the transaction ends. `verb` is what needs it to be a table.
    pub(crate) fn definition(&self, name: &str, verb: &str) -> Result<Arc<TableDefinition>> {
        match self.find(name)? {
            Some(Relation::Table(table)) => Ok(table),
            Some(Relation::View(_)) => Err(Error::IsView { view: name.to_owned(), verb: verb.to_owned() }),
            None => Err(Error::NoSuchTable { table: name.to_owned() }),
        }
    }

    /// The table or view of a name that may be no one's.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Relation>> {
        self.read(|catalog, from| catalog.find(from, name))
    }

    /// The view of a name, if it is one's.
    pub(crate) fn view(&self, name: &str) -> Result<Option<Arc<ViewDefinition>>> {
        self.read(|catalog, from| catalog.view(from, name))
    }

    /// All views by name.
    pub(crate) fn views(&self) -> Result<Vec<Arc<ViewDefinition>>> {
        self.read(|catalog, from| catalog.views(from))
    }

    /// A paged table, which stays as it is now until the transaction ends.
    pub(crate) fn paged(&self, definition: &TableDefinition, paged: &Paged) -> Result<Arc<PagedTable>> {
        if let Some(table) = self.paged.lock().get(definition.name()) {
            return Ok(Arc::clone(table));
        }
        let store = Arc::clone(self.files.lock().store());
        let opened = Arc::new(block_in_place(|| store.open(definition, paged))?);
        // Should another part of the query have been faster, its word counts.
        Ok(Arc::clone(self.paged.lock().entry(definition.name().to_owned()).or_insert(opened)))
    }

    /// Makes or finds the files of a new table. They go with the transaction.
    pub(crate) fn make_files(&self, definition: &TableDefinition, paged: &Paged) -> Result<()> {
        let catalog = self.read(|catalog, _| Ok(catalog.clone()))?;
        let (own, states) = block_in_place(|| {
            let mut files = self.files.lock();
            paged.locations.iter().try_for_each(|location| files.check_free(definition.name(), location))?;
            let store = Arc::clone(files.store());
            let claims = store.claim(definition.name(), paged)?;
            let own: Vec<u64> = claims.own().iter().map(|file| file.identity).collect();
            catalog.announce(&claims.own())?;
            let prepared = catalog.noted().and_then(|noted| store.prepare(definition, paged, &claims, &noted));
            if let Err(error) = prepared {
                forget(&catalog, &own);
                return Err(error);
            }
            files.made(definition.name(), paged, claims);
            let states = paged.locations.iter().filter_map(|location| store.known(definition.name(), location));
            Ok((own, states.collect::<Vec<_>>()))
        })?;
        self.with_catalog(|catalog, transaction| {
            catalog.put_states(transaction, definition.name(), &states)?;
            catalog.unnote(transaction, &own)
        })
    }

    /// Lets the files of a table go when the transaction is durable.
    pub(crate) fn drop_files(&self, definition: &TableDefinition, paged: &Paged) -> Result<()> {
        self.paged.lock().remove(definition.name());
        let dropped = block_in_place(|| self.files.lock().dropped(definition.name(), paged));
        self.with_catalog(|catalog, transaction| catalog.note(transaction, &dropped))
    }

    /// Begins an append to a paged table. It is durable by itself, so it can not be a part of a transaction.
    pub(crate) fn append(&self, definition: &TableDefinition, paged: &Paged) -> Result<Appender> {
        self.on_stage(|_, stage| match stage {
            Stage::Transaction(_) => Err(Error::InTransaction),
            Stage::Snapshot(_) | Stage::Settled => Ok(()),
        })?;
        let store = Arc::clone(self.files.lock().store());
        block_in_place(|| store.append(definition, paged))
    }

    /// Notes an append that has become current, so that an older manifest in its place is noticed.
    pub(crate) fn appended(&self, definition: &TableDefinition, position: usize, state: State) {
        let store = Arc::clone(self.files.lock().store());
        if let Some(location) = definition.pages().and_then(|paged| paged.locations.get(position)) {
            store.learn(definition.name(), location, state);
        }
        let catalog = self.live.lock().as_ref().map(|live| live.catalog.clone());
        let place = (definition.name().to_owned(), position as u16);
        let noted = catalog.map_or(Ok(()), |catalog| block_in_place(|| catalog.note_states(&[(place, state)])));
        if let Err(error) = noted {
            // The rows are there.
            tracing::warn!(table = definition.name(), %error, "an append is not noted; the next one or the next opening does it");
        }
    }

    /// Ends a snapshot before its statement does: waits until all that it showed is durable.
    pub(crate) fn settle(&self) -> Result<()> {
        block_in_place(|| match self.live.lock().as_mut() {
            None => Err(Error::Cancelled),
            Some(Live { stage, .. }) => match std::mem::replace(stage, Stage::Settled) {
                Stage::Snapshot(snapshot) => Ok(snapshot.finish()?.wait()?),
                other => {
                    *stage = other;
                    Ok(())
                }
            },
        })
    }

    /// The names of all tables and views, in order. An error is kept for [`Current::take_deferred`].
    pub(crate) fn names(&self) -> Vec<String> {
        let names = || {
            let tables = self.read(|catalog, from| catalog.list(from))?;
            let mut names: Vec<String> = tables.iter().map(|table| table.name().to_owned()).collect();
            names.extend(self.views()?.iter().map(|view| view.name().to_owned()));
            names.sort();
            Ok(names)
        };
        match names() {
            Ok(names) => names,
            Err(error) => {
                self.deferred.lock().get_or_insert(error);
                Vec::new()
            }
        }
    }

    /// The statement reads from what can not be read again, so it can not be run again by itself.
    pub(crate) fn reads_once(&self, path: &Path) {
        *self.read_once.lock() = Some(path.to_owned());
    }

    /// What it has read from, if it is that.
    pub(crate) fn was_read_once(&self) -> Option<PathBuf> {
        self.read_once.lock().clone()
    }

    /// The first error that could not be returned, once.
    pub(crate) fn take_deferred(&self) -> Option<Error> {
        self.deferred.lock().take()
    }

    pub(crate) fn mark(&self) -> Result<Mark> {
        let savepoint = self.with(|transaction| Ok(transaction.savepoint()))?;
        Ok(Mark { savepoint, files: self.files.lock().mark() })
    }

    pub(crate) fn rollback_to(&self, mark: &Mark) -> Result<()> {
        self.with(|transaction| {
            transaction.rollback_to(&mark.savepoint);
            Ok(())
        })?;
        // What was opened since may be gone, and its name a new table's next.
        for table in block_in_place(|| self.files.lock().rollback_to(mark.files)) {
            self.paged.lock().remove(&table);
        }
        Ok(())
    }

    /// Commits, and waits until all that the transaction wrote and read is durable.
    pub(crate) fn commit(&self) -> Result<()> {
        block_in_place(|| {
            let Some(Live { stage, catalog }) = self.live.lock().take() else { return Err(Error::Cancelled) };
            let committed = match stage {
                Stage::Transaction(transaction) => transaction.commit(),
                Stage::Snapshot(snapshot) => snapshot.finish(),
                Stage::Settled => return Ok(()),
            };
            let mut files = self.files.lock();
            let ticket = committed.inspect_err(|_| {
                files.rollback_to(0);
                forget(&catalog, &files.take_gone());
            })?;
            ticket.wait().inspect_err(|_| files.unknown())?;
            files.committed();
            forget(&catalog, &files.take_gone());
            Ok(())
        })
    }

    /// Undoes everything and lets the locks go.
    pub(crate) fn rollback(&self) {
        block_in_place(|| {
            let catalog = self.live.lock().take().map(|Live { catalog, .. }| catalog);
            let mut files = self.files.lock();
            files.rollback_to(0);
            if let Some(catalog) = catalog {
                forget(&catalog, &files.take_gone());
            }
        });
    }
}

/// Lets the notes go of files that are gone. One that stays is looked at when the database is opened again.
fn forget(catalog: &Catalog, files: &[u64]) {
    if let Err(error) = catalog.forget(files) {
        tracing::info!(%error, "notes of page files that are gone stay until the database is opened again");
    }
}

/// An interrupted wait is a cancelled statement.
fn interrupted(error: Error) -> Error {
    match error {
        Error::Txn(ishigaki_txn::Error::Interrupted) => Error::Cancelled,
        other => other,
    }
}
