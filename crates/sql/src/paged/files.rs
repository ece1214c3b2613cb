//! Page files whose fate hangs on a transaction: made by it, or of a table that it has dropped.
//!
//! Until the transaction has ended, and what must go has gone, no other session makes or finds a file of that name in that place
//! ([`Claims`]); and a file is removed only if it is the one that was meant.

use std::sync::Arc;

use super::Store;
use super::store::Claims;
use crate::catalog::PageFile;
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
    waiting: Vec<Waiting>,
    /// The identities of files that are gone, whose notes may go with the transaction's end.
    gone: Vec<u64>,
}

/// The files of one table.
#[derive(Debug)]
struct Waiting {
    when: When,
    table: String,
    paged: Paged,
    claims: Claims,
}

impl Files {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store, waiting: Vec::new(), gone: Vec::new() }
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The files of a new table, which go if the transaction comes to nothing.
    pub(crate) fn made(&mut self, table: &str, paged: &Paged, claims: Claims) {
        self.waiting.push(Waiting { when: When::RolledBack, table: table.to_owned(), paged: paged.clone(), claims });
    }

    /// The files of a dropped table, which go when that is durable; those that could be looked at.
    pub(crate) fn dropped(&mut self, table: &str, paged: &Paged) -> Vec<PageFile> {
        let claims = self.store.claim_dropped(table, paged);
        let own = claims.own();
        self.waiting.push(Waiting { when: When::Committed, table: table.to_owned(), paged: paged.clone(), claims });
        own
    }

    /// Refuses a file that will be removed at the transaction's end.
    pub(crate) fn check_free(&self, table: &str, location: &Location) -> Result<()> {
        let doomed = self.waiting.iter().any(|Waiting { when, table: dropped, paged, .. }| {
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
        for waiting in self.waiting.split_off(mark.min(self.waiting.len())).into_iter().rev() {
            if waiting.when == When::RolledBack {
                self.gone.extend(self.store.remove(&waiting.table, &waiting.paged, &waiting.claims));
            }
            tables.push(waiting.table);
        }
        tables
    }

    /// The transaction is durable.
    pub(crate) fn committed(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.when == When::Committed {
                self.gone.extend(self.store.remove(&waiting.table, &waiting.paged, &waiting.claims));
            }
        }
    }

    /// The files that are gone, once.
    pub(crate) fn take_gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
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

#[cfg(test)]
mod tests {
    use ishigaki_base::ByteSize;
    use ishigaki_page::{Reader, Settings, Writer};

    use super::*;
    use crate::table::{Column, TableDefinition};
    use crate::types::SqlType;

    /// A table with one column whose file is in that folder.
    fn table(folder: &tempfile::TempDir, existing: bool) -> (TableDefinition, Paged) {
        let place = folder.path().display().to_string();
        let paged = Paged { page_size: ByteSize::kib(4), locations: vec![Location { place, existing }] };
        let columns = vec![Column { name: "n".to_owned(), sql_type: SqlType::BigInt, nullable: true, default: None }];
        (TableDefinition::paged("t".to_owned(), columns, paged.clone()).expect("a table"), paged)
    }

    fn files(store: &Arc<Store>) -> Files {
        Files::new(Arc::clone(store))
    }

    fn prepare(store: &Store, table: &TableDefinition, paged: &Paged) -> Result<Claims> {
        let claims = store.claim(table.name(), paged)?;
        store.prepare(table, paged, &claims, &[]).map(|()| claims)
    }

    /// As it is in one session, from `CREATE TABLE` to the commit.
    fn made(store: &Arc<Store>, table: &TableDefinition, paged: &Paged) {
        let mut files = files(store);
        files.made(table.name(), paged, prepare(store, table, paged).expect("made"));
        files.committed();
    }

    #[test]
    fn a_file_whose_fate_is_open_is_nobody_elses_until_that_is_settled() {
        let (folder, store) = (tempfile::tempdir().expect("a folder"), Arc::new(Store::new(ByteSize(0))));
        let ((own, paged), (other, existing)) = (table(&folder, false), table(&folder, true));
        let unsettled = |table, paged| matches!(prepare(&store, table, paged), Err(Error::Unsettled { .. }));
        made(&store, &own, &paged);
        drop(prepare(&store, &other, &existing).expect("it is settled"));
        // A session has dropped the table, and its commit is durable, but the file is not gone yet.
        let mut first = files(&store);
        first.dropped("t", &paged);
        assert!(unsettled(&other, &existing) && unsettled(&own, &paged));
        first.committed();
        made(&store, &own, &paged);
        // One has made it, and undoes that.
        let mut second = files(&store);
        second.dropped("t", &paged);
        second.committed();
        second.made("t", &paged, prepare(&store, &own, &paged).expect("made"));
        assert!(unsettled(&other, &existing));
        drop(second);
        assert!(matches!(prepare(&store, &other, &existing), Err(Error::Location { .. })), "it is gone");
    }

    #[test]
    fn only_the_file_that_was_dropped_is_removed_and_not_another_one_of_its_name() {
        let (folder, store) = (tempfile::tempdir().expect("a folder"), Arc::new(Store::new(ByteSize(0))));
        let (own, paged) = table(&folder, false);
        made(&store, &own, &paged);
        let mut first = files(&store);
        first.dropped("t", &paged);
        let directory: Arc<dyn ishigaki_device::Directory> =
            Arc::new(ishigaki_device::FileDirectory::open(folder.path()).expect("a folder"));
        ishigaki_page::remove(directory.as_ref(), "t").expect("by another program");
        let other = Writer::create(Arc::clone(&directory), "t", Arc::clone(own.schema()), Settings::default());
        let identity = other.expect("a new one").identity();
        first.committed();
        assert_eq!(Reader::open(directory, "t").expect("it stays").identity(), identity);
    }
}
