//! How a transaction commits.

use std::sync::Arc;

use ishigaki_base::{ErrorKind, Position};
use ishigaki_wal::Receipt;
use sdd::Guard;

use super::Transaction;
use crate::copied::Copied;
use crate::protocol::Protocol;
use crate::redo::{self, Encoder};
use crate::session::Home;
use crate::snapshot::Keeper;
use crate::table::TableId;
use crate::version::Retirement;
use crate::write_set::{TableWrites, Write};
use crate::{Release, Result, Ticket};

impl Transaction {
    /// Makes the writes visible to all, together, and lets go of all locks. Durable is the transaction only after
    /// [`Ticket::wait`].
    ///
    /// Errors come before anything is visible, and the transaction is then rolled back: a conflict, also one that had ended it
    /// already, or a log that failed, was closed, or has no space left.
    pub fn commit(mut self) -> Result<Ticket> {
        self.check_alive()?;
        let Self { protocol, writes, .. } = &mut self;
        protocol.prepare(writes.len(), |table, key, record| {
            writes.get(table.id, key).is_some_and(|write| write.record == record)
        })?;
        let home = Arc::clone(&self.home);
        let receipt = if self.writes.is_empty() {
            // It comes between others wherever it fits: what a snapshot shows is not its business.
            self.protocol.decide(0)?;
            self.commit_unchanged()?
        } else {
            self.depend_on_deleted();
            let changes_tables = !(self.created.is_empty() && self.dropped.is_empty());
            let receipt = self.append_and_install(&home)?;
            self.let_go(&home, &receipt, changes_tables);
            home.stream.pace_after(&receipt);
            receipt
        };
        Ok(Ticket::new(home, receipt))
    }

    /// Lets go of all locks: now, or when the transaction is durable.
    fn let_go(&mut self, home: &Home, receipt: &Receipt, changes_tables: bool) {
        if home.database.release() == Release::Normal {
            // Tables come and go one at a time.
            let held = if changes_tables { None } else { self.protocol.hold() };
            match held {
                Some(held) => home.park(receipt.clone(), held),
                // Whoever waits for the ticket is told why, if the log has failed.
                None => drop(home.stream.settle(receipt)),
            }
        }
        self.release(true);
    }

    /// Decides, draws the LSN and makes the writes visible. Neither a checkpoint nor a snapshot ever begins between these; but
    /// one does while this waits for space in the log, since nothing but a checkpoint can make any. Then it is decided again.
    fn append_and_install(&mut self, home: &Home) -> Result<Receipt> {
        let mut encoded = None;
        loop {
            let passage = home.database.checkpointer.gates.enter(home.stream.id());
            self.protocol.decide(passage.floor())?;
            let payload = encoded.get_or_insert_with(|| self.encode());
            match home.stream.try_append_after(self.protocol.depends_on(), payload) {
                Ok(receipt) => {
                    let keeper = self.install(home, receipt.position());
                    if passage.leave(receipt.position(), payload.len(), self.protocol.timestamp()) {
                        home.database.look_after_the_log();
                    }
                    self.writes.redo = encoded.unwrap_or_default();
                    // To count what was kept, and to make room for it, is nothing that a cut should wait for.
                    drop(keeper);
                    return Ok(receipt);
                }
                Err(refusal) => {
                    drop(passage);
                    self.wait_for_space(home, refusal, payload.len())?;
                }
            }
        }
    }

    /// Waits for space in the log if that is what an append lacked.
    #[cold]
    fn wait_for_space(&self, home: &Home, refusal: ishigaki_wal::Error, payload: usize) -> Result<()> {
        match refusal {
            ishigaki_wal::Error::Full { .. } => {
                home.database.look_after_the_log();
                Ok(home.stream.wait_for_room(self.protocol.depends_on(), payload)?)
            }
            // The medium is full.
            other if other.kind() == ErrorKind::Exhausted && home.database.checkpointer.give_up_previous() => Ok(()),
            other => Err(other.into()),
        }
    }

    /// A deletion makes sense only after what it deletes, and one that is left out because nothing is there only after
    /// whoever had deleted that. Who overwrote a key first, without reading it, and then deleted it has not said so yet.
    fn depend_on_deleted(&mut self) {
        for writes in self.writes.tables() {
            for (_, write) in self.writes.of(writes).filter(|(_, write)| write.value.is_none()) {
                let record = writes.table.rows.at(write.record);
                if record.is_absent() {
                    self.protocol.depend_on_absence(&writes.table);
                } else {
                    self.protocol.depend(record.position());
                }
            }
        }
    }

    /// Ends a transaction that changed nothing: it draws no LSN, and is durable when what it read is.
    fn commit_unchanged(&mut self) -> Result<Receipt> {
        self.database().check_open()?;
        let receipt = Receipt::of_reader(self.protocol.depends_on().clone());
        self.end();
        Ok(receipt)
    }

    /// The redo record. A transaction whose writes cancel out has a place in the order all the same, and so a record without
    /// operations.
    fn encode(&mut self) -> Vec<u8> {
        let mut encoder = Encoder::within(std::mem::take(&mut self.writes.redo));
        let tables = || self.writes.tables().iter();
        for system in tables().filter(|table| table.table.id == TableId::SYSTEM) {
            self.encode_tables(system, &mut encoder);
        }
        let lives = |table: &&TableWrites| table.table.id != TableId::SYSTEM && !self.dropped.contains(&table.table.id);
        for writes in tables().filter(lives) {
            for (key, write) in self.writes.of(writes).filter(|(_, write)| changes(writes, write)) {
                encoder.write(writes.table.id, key, write.value);
            }
        }
        encoder.finish()
    }

    /// Writes to the system table are told as what they mean. Dropped before created: a name may change its table.
    fn encode_tables(&self, system: &TableWrites, encoder: &mut Encoder) {
        let (guard, mut copied) = (Guard::new(), Copied::borrow());
        for (name, write) in self.writes.of(system) {
            let record = system.table.rows.at(write.record);
            let latest = record.settled(&mut copied, &guard);
            if let Some(id) = latest.and_then(|id| redo::decode_id(id.value)) {
                encoder.drop(id, name);
            }
        }
        for (name, write) in self.writes.of(system) {
            if let Some(id) = write.value.and_then(redo::decode_id) {
                encoder.create(id, name);
            }
        }
    }

    /// Makes every write visible, under locks that nobody can get past yet. What a snapshot needs of what they replace is
    /// kept for it.
    fn install<'h>(&mut self, home: &'h Home, position: Position) -> Option<Keeper<'h>> {
        let mut keeper = home.database.snapshots.keeper(position);
        let Self { writes, protocol, purse, .. } = self;
        let (guard, mut retirement) = (Guard::new(), Retirement::default());
        writes.install(|table, key, id, value| {
            let record = table.rows.at(id);
            if let Some(keeper) = &mut keeper {
                keeper.keep(table, key, record, value.is_none());
            }
            if value.is_none() {
                table.note_deletion(position);
            }
            let freed = record.outside(&guard);
            if let Some(old) = protocol.install(record, value, position) {
                retirement.add(old);
            }
            let added = record.outside(&guard);
            if added > 0 {
                purse.hand_over(added);
                table.take_over(added);
            }
            if freed > 0 {
                table.give_back(freed);
            }
        });
        self.install_tables(keeper.as_mut(), position);
        keeper
    }

    fn install_tables(&mut self, mut keeper: Option<&mut Keeper<'_>>, position: Position) {
        let tables = &self.home.database.tables;
        for table in self.created.drain(..).filter(|table| !self.dropped.contains(&table.id)) {
            table.note_creation(position);
            self.protocol.installed_table(&table);
            tables.add(Arc::clone(&table));
        }
        if !self.dropped.is_empty() {
            self.protocol.dropping_table(tables.system());
        }
        for &id in &self.dropped {
            if let Some((keeper, table)) = keeper.as_mut().zip(tables.get(id)) {
                keeper.keep_table(table);
            }
            let Some(table) = tables.remove(id) else { continue };
            // For those who still have it and are about to find that it is gone.
            table.note_deletion(position);
        }
        if !self.dropped.is_empty() {
            self.home.database.homes.forget_tables(&self.dropped);
        }
    }
}

/// True unless the write deletes what is not there: a key that the transaction itself had inserted.
fn changes(writes: &TableWrites, write: &Write<'_>) -> bool {
    write.value.is_some() || !writes.table.rows.at(write.record).is_absent()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ishigaki_base::ByteSize;
    use ishigaki_device::MemoryDirectory;

    use super::*;
    use crate::{ConflictReason, Database, Error, ProtocolKind, Session, Settings};

    fn open() -> Database {
        let log =
            ishigaki_wal::Settings { streams: 2, segment: ByteSize::kib(64), background: false, ..Default::default() };
        let settings = Settings { log, protocol: ProtocolKind::TicToc, ..Settings::default() };
        Database::open_in(Arc::new(MemoryDirectory::new()), settings).unwrap()
    }

    /// One reads what the other overwrites, and could well come before it. But the other one is before a cut, and he stands
    /// before his gate when that is made: a snapshot would show the one without the other.
    #[test]
    fn whoever_stands_before_his_gate_during_a_cut_decides_behind_it() {
        for cuts in [false, true] {
            let database = open();
            let (late, early) = (database.session(), database.session());
            assert_ne!(late.stream(), early.stream());
            let table = early.run(|txn| txn.create_table("table")).unwrap();
            let put = |session: &Session, key: &[u8]| session.run(|txn| txn.put(table, key, b"")).unwrap();
            for key in [b"x", b"y", b"z", b"z", b"z", b"z"] {
                put(&early, key);
            }
            // For all that its readers know, `y` is valid for long.
            early.run(|txn| txn.get(table, b"z").and_then(|_| txn.get(table, b"y"))).unwrap();
            let mut txn = late.begin().unwrap();
            txn.get(table, b"y").unwrap();
            txn.put(table, b"x", b"late").unwrap();
            let x = late.home().table(table).unwrap();
            let is_locked = || {
                let (_, record) = x.rows.find(b"x", &Guard::new()).unwrap();
                record.word().load().is_locked()
            };
            let committed = std::thread::scope(|scope| {
                if !cuts {
                    put(&early, b"y");
                    return txn.commit();
                }
                let mut thread = None;
                late.home().database.checkpointer.gates.cut_slowly(late.stream(), || {
                    thread = Some(scope.spawn(|| txn.commit()));
                    while !is_locked() {
                        std::thread::yield_now();
                    }
                    // It is on its way to the gate.
                    std::thread::sleep(Duration::from_millis(20));
                    put(&early, b"y");
                });
                thread.expect("it was begun").join().expect("no panic")
            });
            let refused = matches!(committed, Err(Error::Conflict { reason: ConflictReason::Overwritten }));
            assert_eq!(refused, cuts, "{:?}", committed.err());
        }
    }
}
