//! RocksDB: write batches with `sync = true`, group commit as it comes.
//!
//! - `recycle_log_file_num`: synchronous writes go over files that already have their size and their blocks, so that
//!   `fdatasync` writes no metadata; RocksDB's wiki recommends it for this case ("WAL Performance"). New files are only
//!   recycled once they have been written, therefore [`prepare`] fills and flushes a few before the run. Without it
//!   throughput was a fifth to a third lower here.
//! - `enable_pipelined_write`: one group writes the log while the one before writes the memtable; a few percent better.
//! - 64 MiB memtables, four of them: no run waits for a flush.
//! - No compression: values are random bytes.
//! - Plain batches and no `TransactionDB`: clients write different rows, so the cheapest way is also serializable here.

use std::path::Path;

use anyhow::Result;
use ishigaki_bench::pace::Run;
use rocksdb::{DB, IteratorMode, Options, WriteBatch, WriteOptions};

use super::{Engine, Side, Store};
use crate::drive::{self, Plan};
use crate::workload::{self, History, Row, key_of};

/// Bytes of a memtable.
const MEMTABLE: usize = 64 << 20;

/// Passes over all rows that make a file of the log at least as long as any that comes to one memtable later.
const PASSES: usize = 8;

/// Files of the log that are kept for use again.
const RECYCLED: usize = 4;

/// RocksDB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RocksDb;

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(MEMTABLE);
    options.set_max_write_buffer_number(4);
    options.set_recycle_log_file_num(RECYCLED);
    options.set_enable_pipelined_write(true);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options
}

impl Engine for RocksDb {
    fn name(&self) -> String {
        "rocksdb".to_owned()
    }

    fn side(&self) -> Side {
        Side::Rival
    }

    fn version(&self) -> String {
        let version = env!("PEERS_LIBROCKSDB_SYS");
        version.split_once('+').map_or(version, |(_, bundled)| bundled).to_owned()
    }

    fn settings(&self) -> String {
        format!("sync writes, pipelined, {RECYCLED} recycled log files, memtables of {} MiB", MEMTABLE >> 20)
    }

    fn create(&self, directory: &Path, plan: &Plan) -> Result<Box<dyn Store>> {
        let mut options = options();
        options.set_write_buffer_size(2 * MEMTABLE);
        let database = DB::open(&options, directory)?;
        prepare(&database, plan)?;
        Ok(Box::new(Open { database }))
    }

    fn check(&self, directory: &Path, history: &History) -> Result<Result<(), String>> {
        let database = DB::open(&options(), directory)?;
        history.compare(|see| {
            for row in database.iterator(IteratorMode::Start) {
                let (key, value) = row?;
                see(key_of(&key), &value);
            }
            Ok(())
        })
    }
}

/// Loads the rows, again and again, until there are log files to recycle, written and on the medium. Memtables are larger
/// for so long, so that none is flushed before its log file is as long as it should be.
fn prepare(database: &DB, plan: &Plan) -> Result<()> {
    let rows: Vec<Row> = workload::loaded(plan.seed).collect();
    for file in 1..RECYCLED {
        for _ in 0..PASSES {
            for rows in rows.chunks(64) {
                database.write(batch(rows))?;
            }
        }
        database.flush_wal(true)?;
        if file == RECYCLED - 1 {
            database.set_options(&[("write_buffer_size", &MEMTABLE.to_string())])?;
        }
        database.flush()?;
    }
    Ok(())
}

fn batch(rows: &[Row]) -> WriteBatch {
    let mut batch = WriteBatch::default();
    for row in rows {
        batch.put(row.key_bytes(), row.value);
    }
    batch
}

struct Open {
    database: DB,
}

impl Store for Open {
    fn drive(&self, plan: &Plan) -> Result<Run> {
        drive::threads(plan, |_| {
            let mut durable = WriteOptions::default();
            durable.set_sync(true);
            Ok(move |rows: &[Row]| Ok(self.database.write_opt(batch(rows), &durable)?))
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.database.cancel_all_background_work(true);
        Ok(())
    }
}
