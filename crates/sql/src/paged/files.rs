//! Page files whose fate hangs on a transaction: made by it, or of a table that it has dropped.

use std::sync::Arc;

use super::Store;
use crate::table::{Location, Paged};
use crate::{Error, Result};

/// When files are to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// The table was dropped.
    Committed,
    /// The table was made.
    RolledBack,
}

/// What is to be removed at the end of a transaction. Dropping it is a rollback.
#[derive(Debug)]
pub(crate) struct Files {
    store: Arc<Store>,
    waiting: Vec<(When, String, Paged)>,
}

impl Files {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store, waiting: Vec::new() }
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The files of a new table, which go if the transaction comes to nothing.
    pub(crate) fn made(&mut self, table: &str, paged: &Paged) {
        self.waiting.push((When::RolledBack, table.to_owned(), paged.clone()));
    }

    /// The files of a dropped table, which go when that is durable.
    pub(crate) fn dropped(&mut self, table: &str, paged: &Paged) {
        self.waiting.push((When::Committed, table.to_owned(), paged.clone()));
    }

    /// Refuses a file that will be removed at the transaction's end.
    pub(crate) fn check_free(&self, table: &str, location: &Location) -> Result<()> {
        let doomed = self.waiting.iter().any(|(when, dropped, paged)| {
            *when == When::Committed && dropped == table && paged.locations.iter().any(|other| other.is_at(location))
        });
        if !doomed {
            return Ok(());
        }
        let reason = format!("this transaction has dropped a table of that name in {}; COMMIT first", location.place);
        Err(Error::Definition { table: table.to_owned(), reason })
    }

    /// A point to go back to.
    pub(crate) fn mark(&self) -> usize {
        self.waiting.len()
    }

    /// Undoes what came after a mark. The tables that it was about.
    pub(crate) fn rollback_to(&mut self, mark: usize) -> Vec<String> {
        let mut tables = Vec::new();
        for (when, table, paged) in self.waiting.split_off(mark.min(self.waiting.len())).into_iter().rev() {
            if when == When::RolledBack {
                self.store.remove(&table, &paged);
            }
            tables.push(table);
        }
        tables
    }

    /// The transaction is durable.
    pub(crate) fn committed(&mut self) {
        for (when, table, paged) in std::mem::take(&mut self.waiting) {
            if when == When::Committed {
                self.store.remove(&table, &paged);
            }
        }
    }

    /// It is not known whether the transaction is durable: everything stays.
    pub(crate) fn unknown(&mut self) {
        self.waiting.clear();
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.rollback_to(0);
    }
}
