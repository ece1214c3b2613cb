//! A client: transactions of a few operations on drawn records.

use std::hint::black_box;

use fastrand::Rng;
use ishigaki_txn::{TableId, Transaction};

use super::record::Stamp;
use super::workload::{Operation, Workload};
use super::zipf::Zipf;
use crate::oltp::{Client, Ended, Stop};

/// Draws transactions, the same ones each time that it begins in the same way.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    pub(super) workload: Workload,
    pub(super) zipf: Zipf,
    pub(super) random: Rng,
}

impl Draws {
    /// Operations by their keys.
    fn draw(&mut self, operations: &mut [(u64, Operation)]) {
        for operation in operations {
            *operation = (self.zipf.draw(&mut self.random), self.workload.draw(&mut self.random));
        }
    }
}

/// What a worker's transactions have written, when all that were drawn have committed.
#[derive(Debug)]
pub(super) struct Written {
    /// By record: the last transaction that wrote it, 0 for none.
    pub(super) last: Vec<u32>,
    /// How many records were modified.
    pub(super) modified: u64,
}

/// One worker's side.
#[derive(Debug)]
pub(super) struct Reader {
    table: TableId,
    number: u32,
    records: usize,
    /// As they were in the beginning.
    beginning: Draws,
    draws: Draws,
    /// Operations of the transaction that is to be attempted; as many as each has.
    operations: Vec<(u64, Operation)>,
    /// Whether the engine is told of all keys before the first one is used.
    prefetch: bool,
    /// The keys, for that.
    keys: Vec<[u8; 8]>,
    /// What is written, and what was read.
    buffer: Vec<u8>,
    /// The number of that transaction; they count from 1.
    sequence: u32,
}

impl Reader {
    pub(super) fn new(
        table: TableId,
        number: u32,
        draws: Draws,
        (records, operations, payload): (usize, usize, usize),
        prefetch: bool,
    ) -> Self {
        Self {
            table,
            number,
            records,
            beginning: draws.clone(),
            draws,
            operations: vec![(0, Operation::Read); operations],
            prefetch,
            keys: Vec::with_capacity(operations),
            buffer: vec![0; payload],
            sequence: 0,
        }
    }

    /// What its transactions have written: draws them again, so that nothing has to be noted while they run.
    pub(super) fn written(&self) -> Written {
        let (mut draws, mut operations) = (self.beginning.clone(), self.operations.clone());
        let mut written = Written { last: vec![0; self.records], modified: 0 };
        for sequence in 1..=self.sequence {
            draws.draw(&mut operations);
            for (key, operation) in &operations {
                if *operation != Operation::Read {
                    written.last[*key as usize] = sequence;
                }
                written.modified += u64::from(*operation == Operation::Modify);
            }
        }
        written
    }

    /// Reads a record whole; how often it was modified.
    fn read(&mut self, transaction: &mut Transaction, key: u64) -> Result<u64, Stop> {
        let buffer = &mut self.buffer;
        let read = |record: &[u8]| {
            let fits = buffer.len() == record.len();
            if fits {
                buffer.copy_from_slice(record);
            }
            fits
        };
        if transaction.get_with(self.table, &key.to_be_bytes(), read)? != Some(true) {
            return Err(Stop::Wrong(format!("record {key} is not there, or of another length")));
        }
        let (stamp, _) = zerocopy::FromBytes::read_from_prefix(black_box(&self.buffer))
            .map_err(|_| Stop::Wrong(format!("record {key} is too short")))?;
        let stamp: Stamp = stamp;
        Ok(stamp.modified.get())
    }

    fn write(&mut self, transaction: &mut Transaction, key: u64, modified: u64) -> Result<(), Stop> {
        Stamp::new(self.number, self.sequence, modified).write(key, &mut self.buffer);
        Ok(transaction.put(self.table, &key.to_be_bytes(), &self.buffer)?)
    }
}

impl Client for Reader {
    type Receipt = ();

    fn draw(&mut self) -> usize {
        // It is attempted until it commits, so it counts as written.
        self.sequence += 1;
        self.draws.draw(&mut self.operations);
        0
    }

    fn attempt(&mut self, transaction: &mut Transaction) -> Result<Ended<()>, Stop> {
        if self.prefetch {
            self.keys.clear();
            self.keys.extend(self.operations.iter().map(|(key, _)| key.to_be_bytes()));
            transaction.prefetch(self.table, &self.keys);
        }
        for place in 0..self.operations.len() {
            match self.operations[place] {
                (key, Operation::Read) => drop(self.read(transaction, key)?),
                (key, Operation::Update) => self.write(transaction, key, 0)?,
                (key, Operation::Modify) => {
                    let modified = self.read(transaction, key)?;
                    self.write(transaction, key, modified + 1)?;
                }
            }
        }
        Ok(Ended::Commit(()))
    }

    fn acknowledge(&mut self, (): ()) -> Result<(), Stop> {
        Ok(())
    }
}
