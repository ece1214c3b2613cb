//! `ycsb`: reads and updates of skewed keys on the transaction engine.
//!
//! One table of records with keys from 0 on; a transaction has ten operations, each on a key of its own draw: Zipf's
//! distribution with a skew from 0 (all alike) to 0.99 (YCSB's), and not scrambled: the record that is used most lies
//! beside the next most used, as in `CCBench`. Workloads A, B, C and F of YCSB (Cooper et al. 2010), and any share of
//! reads ([`Workload`]).
//!
//! A run counts only if, in the database opened again (with the medium `none`: as it is), each record was written whole,
//! by the last transaction of its writer that wrote this record, and if modified records were modified as often as
//! transactions did it. A lost update, or one that came back after a later one of the same worker, would show.

mod client;
mod record;
mod workload;
mod zipf;

use std::ops::{Bound, ControlFlow};

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_txn::{Database, TableId};

use crate::oltp::{Batch, Experiment, Stop, Sweep, fill};
use crate::{Case, Error, Line, Progress, Result};
use client::{Draws, Reader, Written};
use record::{NOBODY, Stamp};
use zipf::Zipf;

pub use workload::Workload;

/// The workload's name in figures and errors.
const NAME: &str = "ycsb";

/// The one table.
const TABLE: &str = "usertable";

/// Records that one thread loads at a time.
const PART: u64 = 20_000;

/// What is measured. Each workload runs with each skew.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Default: A.
    pub workloads: Vec<Workload>,
    /// From 0 to 0.99. Default: 0.
    pub skews: Vec<f64>,
    /// Default: a million.
    pub records: u64,
    /// Bytes of a record, its key aside; at least 16. Default 100.
    pub payload: ByteSize,
    /// Operations of a transaction. Default 10.
    pub operations: usize,
    /// Whether a transaction announces all its keys before it uses the first one. Default: false.
    pub prefetch: bool,
    /// Engines, workers and times.
    pub sweep: Sweep,
}

impl Settings {
    /// The defaults.
    pub fn new(sweep: Sweep) -> Self {
        Self {
            workloads: vec![Workload::A],
            skews: vec![0.0],
            records: 1_000_000,
            payload: ByteSize::b(100),
            operations: 10,
            prefetch: false,
            sweep,
        }
    }

    fn validate(&self) -> Result<()> {
        let invalid = |setting, reason: &str| Err(Error::invalid(setting, reason));
        if self.workloads.is_empty() {
            return invalid("workload", "give at least one, such as a");
        }
        if self.skews.is_empty() || self.skews.iter().any(|skew| !(0.0..=0.99).contains(skew)) {
            return invalid("skew", "give one or more from 0 to 0.99");
        }
        if !(10..=1 << 32).contains(&self.records) {
            return invalid("records", "give 10 to 4294967296");
        }
        if !(Stamp::LENGTH as u64..=1 << 20).contains(&self.payload.0) {
            return invalid("payload", "give 16 bytes to 1 MiB");
        }
        if !(1..=10_000).contains(&self.operations) {
            return invalid("operations", "give 1 to 10000");
        }
        Ok(())
    }
}

/// Measures and checks. The figures come case by case, by workload, skew, workers and engine.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    settings.validate()?;
    let mut experiments = Vec::new();
    for &workload in &settings.workloads {
        for &skew in &settings.skews {
            let Settings { records, payload, operations, prefetch, .. } = *settings;
            let zipf = Zipf::new(records, skew);
            let payload = payload.0 as usize;
            experiments.push(Work { workload, skew, zipf, records, payload, operations, prefetch });
        }
    }
    settings.sweep.run(NAME, &experiments, progress)
}

/// Records and what is done to them.
#[derive(Clone, Copy, Debug)]
struct Work {
    workload: Workload,
    skew: f64,
    zipf: Zipf,
    records: u64,
    payload: usize,
    operations: usize,
    prefetch: bool,
}

impl Experiment for Work {
    type Client = Reader;

    fn kinds(&self) -> &'static [&'static str] {
        &["transaction"]
    }

    fn case(&self) -> Case {
        Case::from_iter([
            ("workload".to_owned(), self.workload.to_string().into()),
            ("skew".to_owned(), self.skew.into()),
            ("records".to_owned(), self.records.into()),
            ("payload".to_owned(), self.payload.into()),
            ("operations".to_owned(), self.operations.into()),
            ("prefetch".to_owned(), self.prefetch.into()),
        ])
    }

    fn populate(&self, database: &Database, tell: &mut dyn FnMut(&str)) -> Result<(), Stop> {
        let table = database.session().run(|transaction| transaction.create_table(TABLE))?;
        let load = |part: usize, batch: &mut Batch<'_>| {
            let first = part as u64 * PART;
            let mut record = vec![0; self.payload];
            (first..self.records.min(first + PART)).try_for_each(|key| {
                Stamp::new(NOBODY, 0, 0).write(key, &mut record);
                batch.add(table, &key.to_be_bytes(), &record)
            })
        };
        let parts = self.records.div_ceil(PART) as usize;
        fill(database, parts, load, &mut |done, of| tell(&format!("filling, {} %", done * 100 / of.max(1))))
    }

    fn client(&self, database: &Database, number: u32, seed: Seed) -> Result<Reader, Stop> {
        let Self { workload, zipf, records, payload, operations, prefetch, .. } = *self;
        let draws = Draws { workload, zipf, random: seed.generator() };
        Ok(Reader::new(find(database)?, number, draws, (records as usize, operations, payload), prefetch))
    }

    fn check(&self, database: &Database, clients: &[Reader]) -> Result<(), Stop> {
        let table = find(database)?;
        let written: Vec<Written> = clients.iter().map(Reader::written).collect();
        database.session().run(|transaction| {
            let (mut next, mut modified, mut wrong) = (0, 0, None);
            transaction.scan(table, (Bound::Unbounded, Bound::Unbounded), |key, record| {
                wrong = match judge(next, key, record, &written) {
                    Ok(times) => {
                        modified += times;
                        None
                    }
                    Err(reason) => Some(reason),
                };
                next += 1;
                if wrong.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if let Some(reason) = wrong {
                return Err(Stop::Wrong(reason));
            }
            let expected: u64 = written.iter().map(|client| client.modified).sum();
            if (next, modified) != (self.records, expected) {
                let should = format!("{} records, modified {expected} times", self.records);
                return Err(Stop::Wrong(format!(
                    "there are {next} records, modified {modified} times, and not {should}"
                )));
            }
            Ok(())
        })
    }
}

fn find(database: &Database) -> Result<TableId, Stop> {
    let missing = || Stop::Wrong(format!("there is no table {TABLE}"));
    database.session().run(|transaction| transaction.table(TABLE)?.ok_or_else(missing))
}

/// How often the record was modified, if it is the one of that key, whole, and its writer's last.
fn judge(expected: u64, key: &[u8], record: &[u8], written: &[Written]) -> std::result::Result<u64, String> {
    if key != expected.to_be_bytes() {
        return Err(format!("record {expected} is not there, but {key:02x?}"));
    }
    let stamp = Stamp::read(expected, record).ok_or_else(|| format!("record {expected} was not written whole"))?;
    let last = |client: &Written| client.last[expected as usize];
    let (writer, sequence) = (stamp.writer.get(), stamp.sequence.get());
    match written.get(writer as usize) {
        Some(client) if last(client) == sequence => Ok(stamp.modified.get()),
        Some(client) => Err(format!(
            "record {expected} has write {sequence} of worker {writer}, whose last one was {}",
            last(client)
        )),
        None if writer == NOBODY && written.iter().all(|client| last(client) == 0) => Ok(stamp.modified.get()),
        None => Err(format!("record {expected} lost all writes, or is by worker {writer}, which there is not")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oltp::{Client, Ended, Engine};
    use ishigaki_device::MemoryDirectory;
    use std::sync::Arc;

    fn work(workload: Workload) -> Work {
        let (records, skew) = (50, 0.5);
        Work { workload, skew, zipf: Zipf::new(records, skew), records, payload: 100, operations: 10, prefetch: true }
    }

    /// A database on which two clients have done five transactions each, one after the other.
    fn worked(work: &Work) -> (Database, Vec<Reader>) {
        let database = Database::open_in(Arc::new(MemoryDirectory::new()), Engine::roomy()).unwrap();
        work.populate(&database, &mut |_| ()).unwrap();
        let mut clients: Vec<Reader> =
            (0..2).map(|number| work.client(&database, number, Seed(number.into())).unwrap()).collect();
        for turn in 0..10 {
            let client = &mut clients[turn % 2];
            assert_eq!(client.draw(), 0);
            database
                .session()
                .run(|transaction| client.attempt(transaction).map(|ended| assert_eq!(ended, Ended::Commit(()))))
                .unwrap();
        }
        (database, clients)
    }

    #[test]
    fn what_clients_did_is_right_under_every_workload() {
        for workload in Workload::ALL.into_iter().chain([Workload::Reads(0)]) {
            let work = work(workload);
            let (database, clients) = worked(&work);
            work.check(&database, &clients).unwrap();
            let written: Vec<Written> = clients.iter().map(Reader::written).collect();
            let modified: u64 = written.iter().map(|client| client.modified).sum();
            assert_eq!(modified > 0, workload == Workload::F);
            let any = written.iter().any(|client| client.last.iter().any(|last| *last > 0));
            assert_eq!(any, workload != Workload::C);
        }
    }

    #[test]
    fn lost_torn_and_foreign_writes_are_found() {
        let work = work(Workload::F);
        let (database, clients) = worked(&work);
        let written: Vec<Written> = clients.iter().map(Reader::written).collect();
        let table = find(&database).unwrap();
        let (key, writer) = (0..50)
            .find_map(|key| (0..2).find(|&writer| written[writer].last[key] > 0).map(|writer| (key as u64, writer)))
            .unwrap();
        let get = || database.session().run(|transaction| transaction.get(table, &key.to_be_bytes())).unwrap().unwrap();
        let put = |record: &[u8]| {
            database.session().run(|transaction| transaction.put(table, &key.to_be_bytes(), record)).unwrap();
        };
        let found = |stamp: Stamp| {
            let mut record = vec![0; 100];
            stamp.write(key, &mut record);
            put(&record);
            work.check(&database, &clients).unwrap_err().to_string()
        };
        let right = get();
        let stamp = Stamp::read(key, &right).unwrap();
        let last = written[writer].last[key as usize];
        assert!(found(Stamp::new(writer as u32, last + 1, 1)).contains("whose last one was"));
        assert!(found(Stamp::new(NOBODY, 0, 0)).contains("lost all writes"));
        assert!(found(Stamp::new(2, 1, 0)).contains("which there is not"));
        assert!(found(Stamp { modified: (stamp.modified.get() + 1).into(), ..stamp }).contains("modified"));
        let mut torn = right.clone();
        torn[99] ^= 1;
        put(&torn);
        assert!(work.check(&database, &clients).unwrap_err().to_string().contains("not written whole"));
        put(&right);
        work.check(&database, &clients).unwrap();
        database.session().run(|transaction| transaction.delete(table, &key.to_be_bytes())).unwrap();
        assert!(work.check(&database, &clients).unwrap_err().to_string().contains("is not there"));
    }
}
