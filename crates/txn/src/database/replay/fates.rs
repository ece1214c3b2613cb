//! The fates of tables: made once, dropped once at most, told in any order.

use std::collections::HashMap;
use std::sync::Arc;

use ishigaki_base::Lsn;
use parking_lot::Mutex;

use super::lane::Written;
use super::{Memory, Result, Table, TableId, Tables, insert, refuse};
use crate::key::Key;
use crate::redo;

/// What is known of each table.
#[derive(Debug)]
pub(super) struct Fates {
    /// Of the log.
    streams: u16,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    fates: HashMap<TableId, Fate>,
    /// The largest number of a table.
    largest: u32,
    dropped: usize,
    /// When as many as this are dropped, those that nothing can come for any more are forgotten.
    look_at: usize,
}

/// One table.
#[derive(Debug)]
pub(super) struct Fate {
    /// None once it is dropped.
    table: Option<Arc<Table>>,
    created: Option<(Lsn, Key)>,
    /// A checkpoint says so. The record that made the table may have a larger LSN, and then comes, too.
    provisional: bool,
    dropped: Option<(Lsn, Key)>,
    written: Written,
}

impl Fate {
    fn new(table: Option<Arc<Table>>) -> Self {
        Self { table, created: None, provisional: false, dropped: None, written: Written::NEVER }
    }

    /// Says what of a table's life can not be.
    fn check(&self, id: TableId) -> Result<()> {
        if let Some((dropped, _)) = self.dropped.as_ref().filter(|(dropped, _)| *dropped <= self.written.last) {
            return Err(refuse(self.written.last, format!("it writes to table {id}, which was dropped by {dropped}")));
        }
        let Some((created, name)) = &self.created else { return Ok(()) };
        if self.written.first < *created {
            let what = format!("it writes to table {id}, which does not exist before {created}");
            return Err(refuse(self.written.first, what));
        }
        match &self.dropped {
            Some((dropped, _)) if dropped <= created => {
                Err(refuse(*dropped, format!("it drops table {id}, which does not exist before {created}")))
            }
            Some((dropped, other)) if other != name => {
                Err(refuse(*dropped, format!("it drops table {id} by a name that is not its own")))
            }
            _ => Ok(()),
        }
    }
}

/// Dropped tables that are remembered in any case.
const FEW: usize = 64;

impl Fates {
    pub(super) fn new(streams: u16) -> Self {
        Self { streams, known: Mutex::default() }
    }

    /// The table of that number, which need not have been made yet; `None` if it is dropped.
    pub(super) fn table(&self, memory: &Arc<Memory>, id: TableId) -> Option<Arc<Table>> {
        self.known.lock().of(id, self.streams, memory).table.clone()
    }

    /// Which record dropped a table, if one did.
    pub(super) fn dropped_at(&self, id: TableId) -> Option<Lsn> {
        self.known.lock().fates.get(&id).and_then(|fate| fate.dropped.as_ref()).map(|(lsn, _)| *lsn)
    }

    /// Notes which records wrote to a table.
    pub(super) fn note_written(&self, id: TableId, written: Written) {
        if let Some(fate) = self.known.lock().fates.get_mut(&id) {
            fate.written = fate.written.and(written);
        }
    }

    /// A record, or a checkpoint, makes a table. What a checkpoint says, the log may say again.
    pub(super) fn create(
        &self,
        memory: &Arc<Memory>,
        lsn: Lsn,
        id: TableId,
        name: &[u8],
        provisional: bool,
    ) -> Result<()> {
        let made = (lsn, Key::new(name)?);
        let mut known = self.known.lock();
        known.largest = known.largest.max(id.0);
        let fate = known.of(id, self.streams, memory);
        let again = |before: &(Lsn, Key)| fate.provisional && !provisional && before.1 == made.1 && before.0 <= lsn;
        if fate.created.as_ref().is_some_and(|before| !again(before)) {
            return Err(refuse(lsn, format!("it makes table {id}, which exists")));
        }
        (fate.created, fate.provisional) = (Some(made), provisional);
        fate.check(id)
    }

    /// A table is dropped; says whether anything was known of it. Its rows stay until [`clear`](Self::clear).
    pub(super) fn drop_table(&self, lsn: Lsn, id: TableId, name: &[u8], passed: Lsn) -> Result<bool> {
        let gone = (lsn, Key::new(name)?);
        let mut known = self.known.lock();
        known.largest = known.largest.max(id.0);
        let fate = known.fates.entry(id).or_insert_with(|| Fate::new(None));
        if fate.dropped.is_some() {
            return Err(refuse(lsn, format!("it drops table {id}, which is dropped already")));
        }
        let existed = fate.created.is_some();
        fate.dropped = Some(gone);
        fate.check(id)?;
        known.dropped += 1;
        known.forget(passed);
        Ok(existed)
    }

    /// Gives the rows of a dropped table free, and judges what was written to it.
    pub(super) fn clear(&self, id: TableId, written: Written) -> Result<()> {
        let mut known = self.known.lock();
        let Some(fate) = known.fates.get_mut(&id) else { return Ok(()) };
        fate.written = fate.written.and(written);
        let judged = fate.check(id);
        let table = fate.table.take();
        drop(known);
        drop(table);
        judged
    }

    /// The tables that are not dropped.
    #[cfg(test)]
    pub(super) fn living(&self) -> Vec<TableId> {
        self.known.lock().fates.iter().filter(|(_, fate)| fate.table.is_some()).map(|(&id, _)| id).collect()
    }

    /// What a table is called as long as it is not dropped, and since when.
    #[cfg(test)]
    pub(super) fn name_of(&self, id: TableId) -> Option<(Lsn, Key)> {
        let known = self.known.lock();
        known.fates.get(&id).filter(|fate| fate.table.is_some())?.created.clone()
    }

    /// The tables that exist in the end.
    pub(super) fn finish(self, memory: &Arc<Memory>, next: Option<TableId>) -> Result<Tables> {
        let known = self.known.into_inner();
        let tables = Tables::new(self.streams, memory);
        tables.reserve_ids(TableId(known.largest));
        tables.reserve_ids(TableId(next.map_or(0, |next| next.0.saturating_sub(1))));
        for (id, fate) in known.fates {
            fate.check(id)?;
            let Some(table) = fate.table else { continue };
            let Some((created, name)) = fate.created else {
                let what = format!("it writes to table {id}, which does not exist");
                return Err(refuse(if fate.written.first == Lsn::MAX { Lsn::ZERO } else { fate.written.first }, what));
            };
            name_table(memory, &tables, created, &name, id)?;
            tables.add(table);
        }
        Ok(tables)
    }
}

impl Known {
    fn of(&mut self, id: TableId, streams: u16, memory: &Arc<Memory>) -> &mut Fate {
        self.fates.entry(id).or_insert_with(|| Fate::new(Some(Table::new(id, streams, memory))))
    }

    /// Forgets dropped tables, now and then, for which nothing can come any more.
    fn forget(&mut self, passed: Lsn) {
        if self.dropped < self.look_at.max(FEW) {
            return;
        }
        self.fates.retain(|_, fate| fate.dropped.as_ref().is_none_or(|(lsn, _)| *lsn >= passed));
        self.dropped = self.fates.values().filter(|fate| fate.dropped.is_some()).count();
        self.look_at = 2 * self.dropped;
    }
}

/// Puts a table's name into the system table.
fn name_table(memory: &Memory, tables: &Tables, created: Lsn, name: &Key, id: TableId) -> Result<()> {
    let system = tables.system();
    let take = |cost| {
        memory.reserve(cost)?;
        system.take_over(cost);
        Ok(())
    };
    if insert(system, name, &redo::encode_id(id), created, take)? {
        return Ok(());
    }
    Err(refuse(created, format!("it makes table {id} by a name that another table has")))
}
