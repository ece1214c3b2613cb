//! Recovery's upper half: the tables take back what a checkpoint holds, and then the log's records, in any order.
//!
//! ```text
//!  checkpoint ── rows, each with the LSN that wrote it ──┐
//!                                                        ├─▶ per key the largest LSN wins ─▶ finish ─▶ tables
//!  log ── records from several threads, in any order ────┘
//! ```
//!
//! Every record says what the state is afterwards, so order does not matter as long as each key ends with its newest write:
//!
//! - [`stripes`]: a key's writes come one at a time, and one that is older than what is there changes nothing. A deletion
//!   leaves a tombstone until nothing older can come any more.
//! - [`fates`]: tables are made and dropped once each, and their numbers are never used again. A write may come before its
//!   table's creation, and for a table that turns out to be dropped; what does not add up in the end is refused.
//! - [`lane`]: what a thread has at hand, so that threads rarely meet.
//!
//! A record that can only come from damage which the log could not see, or from another program, is refused as corrupt. What
//! can still be told where order is unknown, and where a checkpoint shows some of what the log says again, is in
//! `docs/format/redo.md`. Nobody else is there yet: there are no transactions, no locks, and no dependencies, since
//! everything that is replayed is durable.

mod fates;
mod lane;
mod stripes;
#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_base::{Lsn, Position, StreamId};
use ishigaki_wal::Sink;
use sdd::Guard;

use crate::key::Key;
use crate::memory::Memory;
use crate::record::{Value, outside_cost};
use crate::redo::{self, Decoder, Operation};
use crate::table::{Table, TableId, Tables};
use crate::{Error, Result};
use fates::Fates;
use lane::{Account, Lanes, Written};
use stripes::Stripes;

/// How much a checkpoint says already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpointed {
    /// Every record below this is in the checkpoint.
    pub(crate) start: Lsn,
    /// Records up to this one may be in it, or parts of them.
    pub(crate) end: Lsn,
}

impl Checkpointed {
    /// There is no checkpoint.
    pub(crate) const NOTHING: Self = Self { start: Lsn::FIRST, end: Lsn::ZERO };
}

/// Tables on their way back. Any number of threads may work on it.
#[derive(Debug)]
pub(crate) struct Replay {
    memory: Arc<Memory>,
    checkpointed: Checkpointed,
    /// Nothing below this comes any more.
    passed: AtomicU64,
    fates: Fates,
    stripes: Stripes,
    lanes: Lanes,
}

impl Replay {
    pub(crate) fn new(streams: u16, memory: &Arc<Memory>, checkpointed: Checkpointed) -> Self {
        Self {
            memory: Arc::clone(memory),
            checkpointed,
            passed: AtomicU64::new(0),
            fates: Fates::new(streams),
            stripes: Stripes::default(),
            lanes: Lanes::default(),
        }
    }

    /// Takes rows of one table from a checkpoint, each key once in all of it, before the log's records: name, value, LSN.
    pub(crate) fn restore<'a>(
        &self,
        id: TableId,
        rows: impl Iterator<Item = Result<(Lsn, &'a [u8], &'a [u8])>>,
    ) -> Result<()> {
        if id == TableId::SYSTEM {
            for row in rows {
                let (lsn, name, number) = row?;
                let table = redo::decode_id(number).filter(|&table| table != TableId::SYSTEM);
                let table = table.ok_or_else(|| refuse(lsn, "a name stands for no table".to_owned()))?;
                self.fates.create(&self.memory, lsn, table, name, true)?;
            }
            return Ok(());
        }
        let table = self.fates.table(&self.memory, id).ok_or_else(|| refuse(Lsn::ZERO, format!("{id} is dropped")))?;
        let mut account = Account::default();
        let restored = rows.into_iter().try_for_each(|row| {
            let (lsn, key, value) = row?;
            let key = Key::new(key)?;
            let insert = insert(&table, &key, value, lsn, |cost| account.take(&self.memory, cost))?;
            if !insert {
                return Err(refuse(lsn, format!("a key of table {id} is there twice")));
            }
            Ok(())
        });
        account.settle(&table);
        account.empty(&self.memory);
        restored
    }

    /// Bytes of all records taken.
    pub(crate) fn bytes(&self) -> u64 {
        self.lanes.enter_all().iter().map(|lane| lane.bytes).sum()
    }

    /// The tables, when everything has been taken. `next` is a number that no table ever had, if a checkpoint told one.
    pub(crate) fn finish(mut self, next: Option<TableId>) -> Result<Tables> {
        let mut account = Account::default();
        self.stripes.forget_all(&mut account, &self.memory);
        account.empty(&self.memory);
        for lane in self.lanes.iter_mut() {
            lane.close(&self.memory, &self.fates);
        }
        // Until here there was some slack in the budget; the names of the tables have none.
        self.fates.finish(&self.memory, next)
    }

    /// Applies one record.
    fn apply(&self, lsn: Lsn, payload: &[u8]) -> Result<()> {
        let corrupt = |reason| refuse(lsn, reason);
        let mut lane = self.lanes.enter();
        lane.bytes += payload.len() as u64;
        for operation in Decoder::new(payload).map_err(corrupt)? {
            match operation.map_err(corrupt)? {
                Operation::Put { table, key, value } => {
                    if let Some(place) = lane.enter(&self.memory, &self.fates, lsn, table)? {
                        let (table, account) = lane.at(place);
                        self.stripes.put(table, account, &self.memory, lsn, key, value)?;
                    }
                }
                Operation::Delete { table, key } => {
                    if let Some(place) = lane.enter(&self.memory, &self.fates, lsn, table)? {
                        let (table, account) = lane.at(place);
                        // Asked first: what is below may come while this looks.
                        let is_complete = self.is_complete_below(lsn);
                        let found = self.stripes.delete(table, account, &self.memory, lsn, key, self.passed())?;
                        if !found && is_complete {
                            return Err(refuse(
                                lsn,
                                format!("it deletes a key of table {} that is not there", table.id),
                            ));
                        }
                    }
                }
                Operation::Create { table, name } => self.fates.create(&self.memory, lsn, table, name, false)?,
                Operation::Drop { table, name } => {
                    drop(lane);
                    self.drop_table(lsn, table, name)?;
                    lane = self.lanes.enter();
                }
            }
        }
        Ok(())
    }

    fn drop_table(&self, lsn: Lsn, id: TableId, name: &[u8]) -> Result<()> {
        let is_complete = self.is_complete_below(lsn);
        let known = self.fates.drop_table(lsn, id, name, self.passed())?;
        if !known && is_complete {
            return Err(refuse(lsn, format!("it drops table {id}, which does not exist")));
        }
        // Nobody is writing to it while all lanes are held; then its memory is exact, and free.
        let mut lanes = self.lanes.enter_all();
        let written = lanes.iter_mut().fold(Written::NEVER, |written, lane| written.and(lane.forget(id)));
        self.fates.clear(id, written)
    }

    fn passed(&self) -> Lsn {
        Lsn(self.passed.load(Ordering::Acquire))
    }

    /// True if the state before the record is known exactly: everything below it is here, and no checkpoint shows any of
    /// what it or a later one says.
    fn is_complete_below(&self, lsn: Lsn) -> bool {
        self.passed() >= lsn && lsn > self.checkpointed.end
    }
}

impl Sink for Replay {
    fn take(&self, position: Position, payload: &[u8]) -> Result<(), Box<dyn StdError + Send + Sync>> {
        if position.lsn() < self.checkpointed.start {
            return Ok(());
        }
        Ok(self.apply(position.lsn(), payload)?)
    }

    fn passed(&self, below: Lsn) {
        if self.passed.load(Ordering::Relaxed) < below.0 {
            self.passed.fetch_max(below.0, Ordering::AcqRel);
        }
    }
}

/// Gives a key its first value, for memory that `take` takes out of the budget; false if it has one.
fn insert(table: &Table, key: &[u8], value: &[u8], lsn: Lsn, take: impl FnOnce(u64) -> Result<()>) -> Result<bool> {
    let (id, record) = table.claim_for_recovery(value.len());
    if let Err(error) = take(table.cost(id.bytes()) + outside_cost(record, value)) {
        table.disclaim(id);
        return Err(error);
    }
    drop(record.overwrite(Some(Value::Bytes(value)), recovered(lsn)));
    let is_new = table.rows.insert(key, id, &Guard::new()).is_some();
    table.count_index();
    Ok(is_new)
}

/// Where a record is that was replayed or is in a checkpoint. All of it is durable, so which stream it was in does not matter
/// to those who depend on it.
fn recovered(lsn: Lsn) -> Position {
    Position::new(lsn, StreamId(0))
}

/// The error of a record that can not be.
fn refuse(lsn: Lsn, reason: String) -> Error {
    Error::Corrupt { lsn: lsn.0, reason }
}
