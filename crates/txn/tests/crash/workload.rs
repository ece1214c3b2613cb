//! A workload that does the same for the same seed: several sessions in one thread, their transactions open side by side,
//! until the medium stops it.
//!
//! Every transaction writes several keys with its own mark in every value, so that a part of one is seen at once. Some keys
//! are overwritten, some deleted; tables come and go; some transactions roll back, some to a savepoint; some commits
//! are waited for, others are left to the next group.

use ishigaki_base::Lsn;
use ishigaki_base::random::Seed;
use ishigaki_txn::{Database, Error, Result, Session, TableId, Ticket, Transaction};

use super::model::{Effect, MARKS, Model};

/// Turns that the sessions take.
const TURNS: usize = 900;

/// Tables that come and go.
const TABLES: u8 = 3;

/// A transaction under way, and what it has done.
struct Open {
    txn: Transaction,
    mark: usize,
    effects: Vec<Effect>,
}

struct Workload<'a> {
    random: fastrand::Rng,
    model: &'a mut Model,
    turn: usize,
    tickets: Vec<Ticket>,
}

/// Runs until all is done or the database stops; the error is what stopped it.
pub(crate) fn run(database: &Database, seed: Seed, model: &mut Model) -> Result<()> {
    run_with(database, seed, model, |_| Ok(()))
}

/// Runs likewise, and calls `between` between the turns, with their number.
pub(crate) fn run_with(
    database: &Database,
    seed: Seed,
    model: &mut Model,
    mut between: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    make_marks(database, model)?;
    let mut sessions: Vec<(Session, Option<Open>)> = (0..3).map(|_| (database.session(), None)).collect();
    let mut workload = Workload { random: seed.generator(), model, turn: 0, tickets: Vec::new() };
    while workload.turn < TURNS {
        let place = workload.random.usize(..sessions.len());
        let (session, open) = &mut sessions[place];
        *open = workload.take_turn(session, open.take())?;
        workload.turn += 1;
        between(workload.turn)?;
    }
    Ok(())
}

/// Makes the table of marks where there is none, and waits for it.
fn make_marks(database: &Database, model: &mut Model) -> Result<()> {
    let session = database.session();
    loop {
        let mut txn = session.begin()?;
        let made = match txn.table(MARKS) {
            Ok(Some(_)) => Ok(false),
            Ok(None) => txn.create_table(MARKS).map(|_| true),
            Err(error) => Err(error),
        };
        let ticket = match made {
            Ok(true) => match txn.commit() {
                Err(Error::Conflict { .. }) => continue,
                committed => committed?,
            },
            Ok(false) => return txn.commit()?.wait(),
            Err(Error::Conflict { .. }) => continue,
            Err(error) => return Err(error),
        };
        let lsn = ticket.lsn();
        model.commit(lsn, None, vec![Effect::Create(MARKS.to_owned())]);
        ticket.wait()?;
        model.acknowledge(lsn);
        return Ok(());
    }
}

/// Leaves a mark of this transaction alone. A conflict is somebody else's making the table anew after a crash.
fn leave_mark(open: &mut Open, random: &mut fastrand::Rng, model: &mut Model) -> Result<Vec<u8>> {
    let mark = model.next_mark(random);
    let marks = open.txn.table(MARKS)?.expect("the table of marks was made and waited for");
    open.txn.insert(marks, &mark, b"")?;
    open.effects.push(Effect::Put(MARKS.to_owned(), mark.clone(), Vec::new()));
    Ok(mark)
}

impl Workload<'_> {
    fn take_turn(&mut self, session: &Session, open: Option<Open>) -> Result<Option<Open>> {
        let Some(mut open) = open else {
            return Ok(Some(Open { txn: session.begin()?, mark: self.turn, effects: Vec::new() }));
        };
        if open.effects.len() >= 2 && self.random.u8(..3) > 0 {
            return self.end(open).map(|()| None);
        }
        let savepoint = (self.random.u8(..8) == 0).then(|| (open.txn.savepoint(), open.effects.len()));
        match self.act(&mut open) {
            Ok(()) => {}
            // A table may go between two looks where looking locks nothing.
            Err(Error::Conflict { .. } | Error::NoSuchTable { .. }) => return Ok(None),
            Err(other) => return Err(other),
        }
        if let Some((savepoint, effects)) = savepoint {
            open.txn.rollback_to(&savepoint);
            open.effects.truncate(effects);
        }
        Ok(Some(open))
    }

    fn end(&mut self, mut open: Open) -> Result<()> {
        if self.random.u8(..8) == 0 {
            open.txn.rollback();
            return Ok(());
        }
        let mark = match leave_mark(&mut open, &mut self.random, self.model) {
            Ok(mark) => mark,
            Err(Error::Conflict { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let ticket = match open.txn.commit() {
            Err(Error::Conflict { .. }) => return Ok(()),
            committed => committed?,
        };
        self.model.commit(ticket.lsn(), Some(mark), open.effects);
        self.tickets.push(ticket);
        if self.random.u8(..3) == 0 {
            let ticket = self.tickets.swap_remove(self.random.usize(..self.tickets.len()));
            let lsn = ticket.lsn();
            ticket.wait()?;
            self.model.acknowledge(lsn);
        }
        Ok(())
    }

    /// Changes something in one table.
    fn act(&mut self, open: &mut Open) -> Result<()> {
        let name = format!("table {}", self.random.u8(..TABLES));
        let Some(table) = open.txn.table(&name)? else {
            open.txn.create_table(&name)?;
            open.effects.push(Effect::Create(name));
            return Ok(());
        };
        if self.random.u8(..40) == 0 {
            open.txn.drop_table(&name)?;
            open.effects.push(Effect::Drop(name));
            return Ok(());
        }
        for _ in 0..self.random.usize(1..5) {
            self.change(open, &name, table)?;
        }
        Ok(())
    }

    fn change(&mut self, open: &mut Open, name: &str, table: TableId) -> Result<()> {
        let key = format!("key {:02}", self.random.u8(..40)).into_bytes();
        if self.random.u8(..4) == 0 {
            if open.txn.delete(table, &key)? {
                open.effects.push(Effect::Delete(name.to_owned(), key));
            }
            return Ok(());
        }
        let value = self.value(open.mark);
        if self.random.bool() {
            open.txn.put(table, &key, &value)?;
        } else {
            match open.txn.insert(table, &key, &value) {
                Err(Error::DuplicateKey { .. }) => return Ok(()),
                other => other?,
            }
        }
        open.effects.push(Effect::Put(name.to_owned(), key, value));
        Ok(())
    }

    /// A value with the transaction's mark; now and then one that spans several chunks of the log.
    fn value(&mut self, mark: usize) -> Vec<u8> {
        let length = if self.random.u8(..40) == 0 { 9000 } else { self.random.usize(..100) };
        let mut value = format!("mark {mark} ").into_bytes();
        value.resize(value.len() + length, mark as u8);
        value
    }
}

/// A few commits of one session, all waited for.
pub(crate) fn a_few_more(database: &Database, seed: Seed, model: &mut Model) -> Result<()> {
    make_marks(database, model)?;
    let session = database.session();
    let mut random = seed.generator();
    for number in 0..3 {
        let mut open = Open { txn: session.begin()?, mark: number, effects: Vec::new() };
        let name = format!("more {}", random.u8(..2));
        let table = if let Some(table) = open.txn.table(&name)? {
            table
        } else {
            open.effects.push(Effect::Create(name.clone()));
            open.txn.create_table(&name)?
        };
        let (key, value) = (vec![random.u8(..4)], vec![random.u8(..); random.usize(..300)]);
        open.txn.put(table, &key, &value)?;
        open.effects.push(Effect::Put(name, key, value));
        let mark = leave_mark(&mut open, &mut random, model)?;
        let ticket = open.txn.commit()?;
        let lsn: Lsn = ticket.lsn();
        model.commit(lsn, Some(mark), open.effects);
        ticket.wait()?;
        model.acknowledge(lsn);
    }
    Ok(())
}
