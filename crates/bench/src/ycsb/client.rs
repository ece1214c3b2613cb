//! A client: transactions of a few operations on drawn records.

use std::hint::black_box;

use fastrand::Rng;
use ishigaki_txn::{TableId, Transaction};

use super::record::Stamp;
use super::workload::{Operation, Workload};
use super::zipf::Zipf;
use crate::oltp::{Client, Ended, Stop};

/// One worker's side.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) table: TableId,
    pub(super) workload: Workload,
    pub(super) zipf: Zipf,
    pub(super) number: u32,
    pub(super) random: Rng,
    /// Operations of the transaction that is to be attempted, by their keys; as many as each has.
    pub(super) operations: Vec<(u64, Operation)>,
    /// Whether the engine is told of all keys before the first one is used.
    prefetch: bool,
    /// The keys, for that.
    keys: Vec<[u8; 8]>,
    /// What is written, and what was read.
    buffer: Vec<u8>,
    /// The number of that transaction; they count from 1.
    pub(super) sequence: u32,
    /// By record: the last of its transactions that wrote it, 0 for none.
    pub(super) last: Vec<u32>,
    /// How many records were modified by those that were drawn.
    pub(super) modified: u64,
}

impl Reader {
    #[expect(clippy::too_many_arguments, reason = "a client is all this")]
    pub(super) fn new(
        table: TableId,
        workload: Workload,
        zipf: Zipf,
        number: u32,
        random: Rng,
        records: usize,
        operations: usize,
        payload: usize,
        prefetch: bool,
    ) -> Self {
        Self {
            table,
            workload,
            zipf,
            number,
            random,
            operations: vec![(0, Operation::Read); operations],
            prefetch,
            keys: Vec::with_capacity(operations),
            buffer: vec![0; payload],
            sequence: 0,
            last: vec![0; records],
            modified: 0,
        }
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
        self.sequence += 1;
        for operation in &mut self.operations {
            *operation = (self.zipf.draw(&mut self.random), self.workload.draw(&mut self.random));
            // It is attempted until it commits, so this will be true.
            if operation.1 != Operation::Read {
                self.last[operation.0 as usize] = self.sequence;
            }
            self.modified += u64::from(operation.1 == Operation::Modify);
        }
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
