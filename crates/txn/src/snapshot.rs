//! Snapshots: all that was committed at one moment, read for as long as one likes, in nobody's way.
//!
//! ```text
//!              S: the last LSN at a moment when no commit is half done
//!  commits ────┼──────────────────▶ each that replaces a version of S or before keeps it first (`history`)
//!              │
//!  get, scan   └─ the table: a version of S or before is the one ─ else the history: the one, or nothing
//! ```
//!
//! A [cut](cuts) is what a snapshot stands on; several may share one. Reading takes no lock of any protocol and leaves
//! nothing behind, so it meets no conflict and makes none. That the snapshot has a place in the serial order, between what it
//! shows and what it does not, is the work of the [gates](crate::checkpoint).

mod cuts;
mod stretch;

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_base::{Lsn, Position};
use ishigaki_wal::{Dependencies, Receipt};
use sdd::Guard;

use crate::copied::Copied;
use crate::key::{self, KeyRange};
use crate::protocol::Interrupt;
use crate::record::Record;
use crate::redo::decode_id;
use crate::rows::behind;
use crate::session::Home;
use crate::table::{Table, TableId};
use crate::{Error, Result, Ticket};
use cuts::Cut;
pub(crate) use cuts::{Keeper, Snapshots};
use stretch::Stretch;

/// What all tables held at one moment: everything that was committed before [`Session::snapshot`](crate::Session::snapshot)
/// was called, all or nothing of each transaction, and nothing that was committed later.
///
/// Reading waits for nobody, keeps nobody waiting, and meets no conflict. It fits between the transactions: what one
/// snapshot shows is what a serializable transaction could have read that ran alone at that moment.
///
/// *Memory*: as long as the snapshot is there, what others replace or delete is kept for it, and shown as
/// [`MemoryUse::old`](crate::MemoryUse). If that takes more than [`Settings::snapshot_memory`](crate::Settings), the oldest
/// snapshot is given up, and its calls return [`Error::SnapshotTooOld`]; nobody else is bothered. *Threads*: by shared
/// reference any number of threads may read at once. *Drop* ends it. *A crash*: what it shows may not be durable yet; tell
/// nobody outside of the process before the ticket of [`finish`](Snapshot::finish) has been waited for.
///
/// ```
/// # fn main() -> ishigaki_txn::Result<()> {
/// # use std::{ops::{Bound, ControlFlow}, sync::Arc};
/// # let database = ishigaki_txn::Database::open_in(Arc::new(ishigaki_device::MemoryDirectory::new()), Default::default())?;
/// let session = database.session();
/// let fruit = session.run(|txn| txn.create_table("fruit"))?;
/// session.run(|txn| txn.put(fruit, b"apple", b"red"))?;
///
/// let snapshot = session.snapshot()?;
/// session.run(|txn| txn.put(fruit, b"apple", b"green"))?;
/// session.run(|txn| txn.put(fruit, b"pear", b"yellow"))?;
///
/// assert_eq!(snapshot.get(fruit, b"apple")?.as_deref(), Some(b"red".as_slice()));
/// let mut seen = 0;
/// snapshot.scan(fruit, (Bound::Unbounded, Bound::Unbounded), |_, _| {
///     seen += 1;
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(seen, 1);
/// snapshot.finish()?.wait()
/// # }
/// ```
pub struct Snapshot {
    home: Arc<Home>,
    cut: Arc<Cut>,
    interrupt: Interrupt,
    /// Whether it has shown something that was not durable at the cut.
    shown_early: AtomicBool,
}

/// Shows the version of a record, and whose it is; nothing if it is absent.
pub(crate) fn see<R>(record: Record<'_>, guard: &Guard, look: impl FnOnce(Option<(Position, &[u8])>) -> R) -> R {
    let mut copied = Copied::borrow();
    let row = record.settled(&mut copied, guard);
    look(row.map(|row| (row.position, row.value)))
}

impl Snapshot {
    /// Takes one.
    pub(crate) fn take(home: Arc<Home>) -> Self {
        let database = &home.database;
        let cut = database.snapshots.take(&database.checkpointer.gates, &database.log);
        Self { home, cut, interrupt: Interrupt(None), shown_early: AtomicBool::new(false) }
    }

    /// Its place in the order of all commits: it shows those with this LSN or a smaller one.
    pub fn lsn(&self) -> Lsn {
        self.cut.lsn
    }

    /// Gives a flag that may be raised from anywhere. It is looked at during scans, which then end with
    /// [`Error::Interrupted`].
    pub fn set_interrupt(&mut self, flag: Arc<AtomicBool>) {
        self.interrupt = Interrupt(Some(flag));
    }

    /// The value of a key.
    pub fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let table = self.enter(table)?;
        self.read(&table, key)
    }

    /// Shows the value of a key.
    pub fn get_with<R>(&self, table: TableId, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        Ok(self.get(table, key)?.map(|value| read(&value)))
    }

    /// Visits the keys of a range and their values in key order, until `visit` breaks. It may take its time.
    pub fn scan(
        &self,
        table: TableId,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let table = self.enter(table)?;
        self.walk(&table, range, visit)
    }

    /// The number of a table; `None` if there was no table of that name.
    pub fn table(&self, name: &str) -> Result<Option<TableId>> {
        let found = self.read(self.home.database.tables.system(), name.as_bytes())?;
        Ok(found.and_then(|id| decode_id(&id)))
    }

    /// The names and numbers of all tables, by name.
    pub fn tables(&self) -> Result<Vec<(String, TableId)>> {
        let mut tables = Vec::new();
        self.walk(self.home.database.tables.system(), (Bound::Unbounded, Bound::Unbounded), |name, id| {
            tables.extend(decode_id(id).map(|id| (String::from_utf8_lossy(name).into_owned(), id)));
            ControlFlow::Continue(())
        })?;
        Ok(tables)
    }

    /// Ends it. What it has shown is durable when the ticket has been waited for.
    pub fn finish(self) -> Result<Ticket> {
        self.home.database.check_open()?;
        let early = self.shown_early.load(Ordering::Relaxed);
        let records = if early { self.cut.records.clone() } else { Dependencies::default() };
        Ok(Ticket::new(Arc::clone(&self.home), Receipt::of_reader(records)))
    }

    fn snapshots(&self) -> &Snapshots {
        &self.home.database.snapshots
    }

    fn enter(&self, id: TableId) -> Result<Arc<Table>> {
        // Whoever drops it keeps it before it is gone here.
        let found = self.home.database.tables.get(id).or_else(|| self.snapshots().dropped(id, self.cut.lsn));
        let there = found.filter(|table| table.created().lsn() <= self.cut.lsn);
        let Some(table) = there else {
            self.cut.check(self.snapshots())?;
            self.note_absence(self.home.database.tables.system());
            return Err(Error::no_such_id(id));
        };
        self.note(table.created().lsn());
        Ok(table)
    }

    fn read(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let snapshot = self.cut.lsn;
        let guard = Guard::new();
        let seen = table.rows.find(key, &guard).and_then(|(_, record)| {
            see(record, &guard, |version| {
                let shown = version.filter(|(position, _)| position.lsn() <= snapshot);
                shown.map(|(position, value)| (position.lsn(), value.to_vec()))
            })
        });
        drop(guard);
        let found = seen.or_else(|| {
            let mut value = Vec::new();
            table.history.find(key, snapshot, &mut value).map(|from| (from, value))
        });
        self.cut.check(self.snapshots())?;
        match &found {
            Some((from, _)) => self.note(*from),
            None => self.note_absence(table),
        }
        Ok(found.map(|(_, value)| value))
    }

    fn walk(
        &self,
        table: &Table,
        (mut start, end): KeyRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut stretch = Stretch::default();
        let mut reached;
        while !key::is_empty((start, end)) {
            self.interrupt.check()?;
            let next = stretch.read(table, (start, end), self.cut.lsn);
            self.cut.check(self.snapshots())?;
            self.note(stretch.newest());
            self.note_absence(table);
            if stretch.show(&mut visit).is_break() {
                return Ok(());
            }
            let Some(key) = next else { return Ok(()) };
            reached = key;
            (start, _) = behind(&reached, end);
        }
        Ok(())
    }

    /// It shows something that was written with that LSN.
    fn note(&self, lsn: Lsn) {
        if lsn > self.cut.durable {
            self.shown_early.store(true, Ordering::Relaxed);
        }
    }

    /// It shows that something is not in a table.
    fn note_absence(&self, table: &Table) {
        table.deletions().for_each(|position| self.note(position.lsn()));
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.snapshots().end(&self.cut);
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("lsn", &self.cut.lsn).finish_non_exhaustive()
    }
}
