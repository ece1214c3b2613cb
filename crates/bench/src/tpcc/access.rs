//! Reading and writing rows in a transaction.

use std::ops::{Bound, ControlFlow};

use ishigaki_txn::{self as txn, Database, TableId, Transaction};
use smallvec::SmallVec;
use zerocopy::{FromBytes, IntoBytes};

use super::keys::{Stored, Table};
use crate::oltp::Stop;

/// The numbers of the tables, in the order of [`Table::ALL`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables([TableId; Table::ALL.len()]);

impl Tables {
    /// Makes them all.
    pub(super) fn create(database: &Database) -> txn::Result<Self> {
        database.session().run(|transaction| {
            let ids: txn::Result<Vec<TableId>> =
                Table::ALL.iter().map(|table| transaction.create_table(table.name())).collect();
            ids.map(|ids| Self::of(&ids))
        })
    }

    /// Finds them all.
    pub(super) fn find(database: &Database) -> Result<Self, Stop> {
        database.session().run(|transaction| {
            let find = |table: &Table| {
                let missing = || Stop::Wrong(format!("there is no table {}", table.name()));
                transaction.table(table.name())?.ok_or_else(missing)
            };
            let ids: Result<Vec<TableId>, Stop> = Table::ALL.iter().map(find).collect();
            ids.map(|ids| Self::of(&ids))
        })
    }

    fn of(ids: &[TableId]) -> Self {
        Self(std::array::from_fn(|place| ids[place]))
    }

    /// The number of a table.
    pub(super) fn id(&self, table: Table) -> TableId {
        self.0[table as usize]
    }
}

/// A transaction and its tables.
pub(super) struct Access<'a> {
    pub(super) transaction: &'a mut Transaction,
    pub(super) tables: &'a Tables,
}

impl<'a> Access<'a> {
    pub(super) fn new(transaction: &'a mut Transaction, tables: &'a Tables) -> Self {
        Self { transaction, tables }
    }

    /// Announces rows that are about to be looked at.
    pub(super) fn prefetch<R: Stored>(&mut self, keys: impl Iterator<Item = R::Key>) {
        let keys: SmallVec<[R::Key; 16]> = keys.collect();
        let bytes: SmallVec<[&[u8]; 16]> = keys.iter().map(IntoBytes::as_bytes).collect();
        self.transaction.prefetch(self.tables.id(R::TABLE), &bytes);
    }

    /// Looks at a row where it lies; `None` if there is none.
    pub(super) fn find<R: Stored, T>(&mut self, key: &R::Key, look: impl FnOnce(&R) -> T) -> Result<Option<T>, Stop> {
        let id = self.tables.id(R::TABLE);
        let found = self.transaction.get_with(id, key.as_bytes(), |bytes| R::ref_from_bytes(bytes).ok().map(look))?;
        match found {
            Some(None) => Err(malformed::<R>(key)),
            found => Ok(found.flatten()),
        }
    }

    /// Looks at a row that must be there.
    pub(super) fn look<R: Stored, T>(&mut self, key: &R::Key, look: impl FnOnce(&R) -> T) -> Result<T, Stop> {
        self.find(key, look)?.ok_or_else(|| Stop::Wrong(format!("{} {key:?} is not there", R::TABLE.name())))
    }

    /// A copy of a row that must be there, to be changed.
    pub(super) fn fetch<R: Stored>(&mut self, key: &R::Key) -> Result<R, Stop> {
        self.look(key, |row: &R| *row)
    }

    /// Stores a row, new or not.
    pub(super) fn put<R: Stored>(&mut self, key: &R::Key, row: &R) -> Result<(), Stop> {
        Ok(self.transaction.put(self.tables.id(R::TABLE), key.as_bytes(), row.as_bytes())?)
    }

    /// Stores a row whose key nobody has.
    pub(super) fn insert<R: Stored>(&mut self, key: &R::Key, row: &R) -> Result<(), Stop> {
        match self.transaction.insert(self.tables.id(R::TABLE), key.as_bytes(), row.as_bytes()) {
            Err(txn::Error::DuplicateKey { .. }) => {
                Err(Stop::Wrong(format!("{} {key:?} is there already", R::TABLE.name())))
            }
            done => Ok(done?),
        }
    }

    /// Removes a row that must be there.
    pub(super) fn delete<R: Stored>(&mut self, key: &R::Key) -> Result<(), Stop> {
        if self.transaction.delete(self.tables.id(R::TABLE), key.as_bytes())? {
            return Ok(());
        }
        Err(Stop::Wrong(format!("{} {key:?} is not there to be removed", R::TABLE.name())))
    }

    /// Visits the rows from one key to another, both included, until `visit` breaks.
    pub(super) fn scan<R: Stored>(
        &mut self,
        from: &R::Key,
        to: &R::Key,
        visit: impl FnMut(&R::Key, &R) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        self.scan_range((Bound::Included(from.as_bytes()), Bound::Included(to.as_bytes())), visit)
    }

    /// Visits all rows.
    pub(super) fn scan_all<R: Stored>(&mut self, mut visit: impl FnMut(&R::Key, &R)) -> Result<(), Stop> {
        self.scan_range((Bound::Unbounded, Bound::Unbounded), |key, row| {
            visit(key, row);
            ControlFlow::Continue(())
        })
    }

    fn scan_range<R: Stored>(
        &mut self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        mut visit: impl FnMut(&R::Key, &R) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        let mut wrong = None;
        self.transaction.scan(self.tables.id(R::TABLE), range, |key, bytes| {
            if let (Ok(key), Ok(row)) = (<R::Key as FromBytes>::ref_from_bytes(key), R::ref_from_bytes(bytes)) {
                return visit(key, row);
            }
            wrong = Some(malformed::<R>(&key));
            ControlFlow::Break(())
        })?;
        wrong.map_or(Ok(()), Err)
    }
}

fn malformed<R: Stored>(key: &dyn std::fmt::Debug) -> Stop {
    Stop::Wrong(format!("{} {key:02x?} has a row of another layout", R::TABLE.name()))
}
