//! What is updated: a fixed set of rows, each owned by one client, and for each client an endless stream of transactions
//! that can be played again.
//!
//! Key `k` belongs to client `k % clients`, so the rows of all clients lie side by side on every page, and yet no two
//! transactions ever write the same row. That keeps the comparison even: an engine without concurrency control (RocksDB's
//! plain write batches) gives the same answer as a serializable one. And it makes the answer known: after a run, each row
//! must hold exactly what its owner wrote last.

use clap::ValueEnum;
use ishigaki_base::random::Seed;

/// Rows in the table.
pub(crate) const ROWS: u32 = 65_536;

/// Bytes of a value.
pub(crate) const VALUE: usize = 100;

/// The most clients: each then owns as many rows as the longest transaction updates, and some.
pub(crate) const MOST_CLIENTS: usize = 1024;

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Workload {
    /// One update
    One,
    /// Ten updates of different rows
    Ten,
}

impl Workload {
    /// Its word in figures and arguments.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Ten => "ten",
        }
    }

    /// Updates in each transaction.
    pub(crate) fn updates(self) -> usize {
        match self {
            Self::One => 1,
            Self::Ten => 10,
        }
    }
}

/// One update: this key gets this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: u32,
    pub(crate) value: [u8; VALUE],
}

impl Row {
    /// The key as engines of byte keys see it; ordered as the numbers are.
    pub(crate) fn key_bytes(&self) -> [u8; 8] {
        u64::from(self.key).to_be_bytes()
    }
}

/// The key that [`Row::key_bytes`] stands for.
pub(crate) fn key_of(bytes: &[u8]) -> Option<u32> {
    u32::try_from(u64::from_be_bytes(bytes.try_into().ok()?)).ok()
}

/// What every row holds before the first update.
pub(crate) fn loaded(seed: Seed) -> impl Iterator<Item = Row> {
    let value = filling(seed.derive(u64::MAX));
    (0..ROWS).map(move |key| Row { key, value: stamped(value, u32::MAX, 0, key) })
}

/// The transactions of one client, in order, for ever.
#[derive(Clone, Debug)]
pub(crate) struct Transactions {
    client: u32,
    clients: u32,
    updates: usize,
    random: fastrand::Rng,
    filling: [u8; VALUE],
    turn: u64,
    rows: Vec<Row>,
}

impl Transactions {
    pub(crate) fn new(workload: Workload, seed: Seed, client: usize, clients: usize) -> Self {
        let seed = seed.derive(client as u64);
        Self {
            client: client as u32,
            clients: clients as u32,
            updates: workload.updates(),
            random: seed.generator(),
            filling: filling(seed.derive(0)),
            turn: 0,
            rows: Vec::with_capacity(workload.updates()),
        }
    }

    /// The rows that the next transaction writes: different ones, all of them this client's.
    pub(crate) fn next(&mut self) -> &[Row] {
        let owned = (ROWS - self.client).div_ceil(self.clients);
        self.rows.clear();
        while self.rows.len() < self.updates {
            let key = self.random.u32(0..owned) * self.clients + self.client;
            if self.rows.iter().all(|row| row.key != key) {
                self.rows.push(Row { key, value: stamped(self.filling, self.client, self.turn, key) });
            }
        }
        self.turn += 1;
        &self.rows
    }
}

/// Random bytes: nothing that an engine or a medium could make smaller.
fn filling(seed: Seed) -> [u8; VALUE] {
    let mut bytes = [0; VALUE];
    seed.generator().fill(&mut bytes);
    bytes
}

fn stamped(mut value: [u8; VALUE], client: u32, turn: u64, key: u32) -> [u8; VALUE] {
    value[..4].copy_from_slice(&client.to_le_bytes());
    value[4..12].copy_from_slice(&turn.to_le_bytes());
    value[12..16].copy_from_slice(&key.to_le_bytes());
    value
}

/// A finished run: which transactions were acknowledged. Nothing is in flight, since every client waits for its last one.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) workload: Workload,
    pub(crate) seed: Seed,
    /// Of each client, how many of its transactions.
    pub(crate) done: Vec<u64>,
}

impl History {
    /// Tells each acknowledged transaction: client, turn, rows. Client after client.
    pub(crate) fn replay(&self, mut tell: impl FnMut(usize, u64, &[Row])) {
        for (client, &done) in self.done.iter().enumerate() {
            let mut transactions = Transactions::new(self.workload, self.seed, client, self.done.len());
            (0..done).for_each(|turn| tell(client, turn, transactions.next()));
        }
    }

    /// What each row must hold now, by key.
    pub(crate) fn outcome(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = loaded(self.seed).collect();
        self.replay(|_, _, written| written.iter().for_each(|row| rows[row.key as usize] = *row));
        rows
    }

    /// Compares the outcome with what a reopened engine shows. `visit` calls its argument with every key and value.
    ///
    /// The answer says what is wrong; the outer error is the engine's own.
    pub(crate) fn compare<E>(
        &self,
        visit: impl FnOnce(&mut dyn FnMut(Option<u32>, &[u8])) -> Result<(), E>,
    ) -> Result<Result<(), String>, E> {
        let outcome = self.outcome();
        let mut seen = vec![false; outcome.len()];
        let mut wrong = None;
        visit(&mut |key, value| {
            let Some(row) = key.and_then(|key| outcome.get(key as usize)) else {
                wrong.get_or_insert_with(|| format!("there is a key that was never written: {key:?}"));
                return;
            };
            seen[row.key as usize] = true;
            if row.value != value {
                wrong.get_or_insert_with(|| format!("row {} does not hold its last acknowledged update", row.key));
            }
        })?;
        let missing = || seen.iter().position(|seen| !seen).map(|key| format!("row {key} is gone"));
        Ok(wrong.or_else(missing).map_or(Ok(()), Err))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SEED: Seed = Seed(11);

    fn history() -> History {
        History { workload: Workload::Ten, seed: SEED, done: vec![3, 0, 40] }
    }

    fn show(rows: &[Row]) -> Result<(), String> {
        let compared = history().compare(|see| {
            for row in rows {
                see(key_of(&row.key_bytes()), &row.value);
            }
            Ok::<_, ()>(())
        });
        compared.expect("showing does not fail")
    }

    #[test]
    fn the_same_transactions_come_again() {
        let stream = || Transactions::new(Workload::Ten, SEED, 5, 64);
        let (mut once, mut again) = (stream(), stream());
        for _ in 0..100 {
            let rows = once.next();
            assert_eq!(rows, again.next());
            assert!(rows.iter().all(|row| row.key % 64 == 5));
        }
    }

    #[test]
    fn a_transaction_updates_ten_different_rows_however_few_a_client_owns() {
        let mut last = Transactions::new(Workload::Ten, SEED, MOST_CLIENTS - 1, MOST_CLIENTS);
        for _ in 0..100 {
            let keys: BTreeSet<u32> = last.next().iter().map(|row| row.key).collect();
            assert_eq!(keys.len(), 10);
        }
    }

    #[test]
    fn what_was_acknowledged_is_the_outcome() {
        assert_eq!(show(&history().outcome()), Ok(()));
    }

    #[test]
    fn a_lost_update_is_noticed() {
        let mut rows = history().outcome();
        let updated = rows.iter_mut().find(|row| row.value[..4] == 2_u32.to_le_bytes()).expect("client 2 wrote");
        *updated = loaded(SEED).nth(updated.key as usize).expect("it was loaded");
        let key = updated.key;
        assert_eq!(show(&rows), Err(format!("row {key} does not hold its last acknowledged update")));
    }

    #[test]
    fn a_lost_row_and_a_foreign_row_are_noticed() {
        let rows = history().outcome();
        assert_eq!(show(&rows[1..]), Err("row 0 is gone".to_owned()));
        let foreign = Row { key: ROWS, value: [0; VALUE] };
        assert!(show(&[rows, vec![foreign]].concat()).unwrap_err().contains("never written"));
    }
}
