//! How the history checker's programs run on a transaction.

use std::ops::{Bound, ControlFlow, Range};

use ishigaki_base::ByteSize;
use ishigaki_testkit::history::Key;
use ishigaki_testkit::program::Target;
use ishigaki_txn::{Error, Savepoint, Settings, Snapshot, TableId, Transaction};

/// Settings that open in no time and start no thread.
pub(crate) fn small_settings() -> Settings {
    let log = ishigaki_wal::Settings {
        streams: 2,
        segment: ByteSize::kib(16),
        background: false,
        ..ishigaki_wal::Settings::default()
    };
    Settings { log, ..Settings::default() }
}

/// An open transaction as the target of a program.
pub(crate) struct InTransaction<'a> {
    txn: &'a mut Transaction,
    table: TableId,
    pause: Option<&'a mut dyn FnMut()>,
    steps: u64,
}

impl<'a> InTransaction<'a> {
    pub(crate) fn new(txn: &'a mut Transaction, table: TableId) -> Self {
        Self { txn, table, pause: None, steps: 0 }
    }

    /// Something to do between the steps.
    pub(crate) fn before_each_step(&mut self, pause: &'a mut dyn FnMut()) {
        self.pause = Some(pause);
    }

    fn pause(&mut self) {
        self.steps += 1;
        if self.steps.is_multiple_of(3) {
            // It may say so and then do something else. Others come between this and whatever it does.
            let keys: Vec<_> = (0..12).map(Key::to_be_bytes).collect();
            self.txn.prefetch(self.table, &keys);
        }
        if let Some(pause) = &mut self.pause {
            pause();
        }
    }
}

impl Target for InTransaction<'_> {
    type Error = Error;
    type Savepoint = Savepoint;

    fn read(&mut self, key: Key) -> Result<Option<Vec<u8>>, Error> {
        self.pause();
        self.txn.get(self.table, &key.to_be_bytes())
    }

    fn put(&mut self, key: Key, value: &[u8]) -> Result<(), Error> {
        self.pause();
        self.txn.put(self.table, &key.to_be_bytes(), value)
    }

    fn insert(&mut self, key: Key, value: &[u8]) -> Result<bool, Error> {
        self.pause();
        match self.txn.insert(self.table, &key.to_be_bytes(), value) {
            Ok(()) => Ok(true),
            Err(Error::DuplicateKey { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    fn delete(&mut self, key: Key) -> Result<bool, Error> {
        self.pause();
        self.txn.delete(self.table, &key.to_be_bytes())
    }

    fn scan(&mut self, range: Range<Key>) -> Result<Vec<(Key, Vec<u8>)>, Error> {
        self.pause();
        let (start, end) = (range.start.to_be_bytes(), range.end.to_be_bytes());
        let mut rows = Vec::new();
        self.txn.scan(self.table, (Bound::Included(&start), Bound::Excluded(&end)), |key, value| {
            rows.push((Key::from_be_bytes(key.try_into().unwrap()), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    fn savepoint(&mut self) -> Result<Savepoint, Error> {
        Ok(self.txn.savepoint())
    }

    fn roll_back_to(&mut self, savepoint: &Savepoint) -> Result<(), Error> {
        self.pause();
        self.txn.rollback_to(savepoint);
        Ok(())
    }
}

/// A snapshot as the target of a program that only reads.
pub(crate) struct InSnapshot<'a> {
    snapshot: &'a Snapshot,
    table: TableId,
}

impl<'a> InSnapshot<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, table: TableId) -> Self {
        Self { snapshot, table }
    }
}

impl Target for InSnapshot<'_> {
    type Error = Error;
    type Savepoint = Savepoint;

    fn read(&mut self, key: Key) -> Result<Option<Vec<u8>>, Error> {
        self.snapshot.get(self.table, &key.to_be_bytes())
    }

    fn put(&mut self, _: Key, _: &[u8]) -> Result<(), Error> {
        unreachable!("a program for a snapshot only reads")
    }

    fn insert(&mut self, _: Key, _: &[u8]) -> Result<bool, Error> {
        unreachable!("a program for a snapshot only reads")
    }

    fn delete(&mut self, _: Key) -> Result<bool, Error> {
        unreachable!("a program for a snapshot only reads")
    }

    fn scan(&mut self, range: Range<Key>) -> Result<Vec<(Key, Vec<u8>)>, Error> {
        let (start, end) = (range.start.to_be_bytes(), range.end.to_be_bytes());
        let mut rows = Vec::new();
        self.snapshot.scan(self.table, (Bound::Included(&start), Bound::Excluded(&end)), |key, value| {
            rows.push((Key::from_be_bytes(key.try_into().unwrap()), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    fn savepoint(&mut self) -> Result<Savepoint, Error> {
        unreachable!("a program for a snapshot only reads")
    }

    fn roll_back_to(&mut self, _: &Savepoint) -> Result<(), Error> {
        unreachable!("a program for a snapshot only reads")
    }
}
