//! SQLite: WAL, `synchronous = FULL`, prepared statements, one connection that the clients take in turn.
//!
//! - `FULL` is what makes each commit durable in WAL mode.
//! - Connections of their own would poll and sleep for the one write lock; a mutex in the program is better for all.
//!   `locking_mode = EXCLUSIVE` then keeps the index of the log in plain memory.
//! - A checkpoint every 10,000 pages instead of 1,000: in between the same page is written back once. The log is as long
//!   as that before the run and starts over at its beginning, so that a commit does not change the file's size.
//! - An integer primary key is its cheapest table. Compiled with `HAVE_FDATASYNC`, see `.cargo/config.toml`.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Result, ensure};
use ishigaki_bench::pace::Run;
use parking_lot::Mutex;
use rusqlite::Connection;

use super::{Engine, Side, Store};
use crate::drive::{self, Plan};
use crate::workload::{self, History, Row};

const FILE: &str = "rows.sqlite";
const LOG: &str = "rows.sqlite-wal";

/// Pages in the log between checkpoints.
const CHECKPOINT: u32 = 10_000;

/// Bytes of a page, its default.
const PAGE: u64 = 4096;

/// Passes over all rows that are enough for a log of that length, and some.
const MOST_PASSES: u32 = 20;

const UPDATE: &str = "UPDATE row SET value = ?2 WHERE key = ?1";

/// SQLite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sqlite;

fn open(directory: &Path) -> Result<Connection> {
    let connection = Connection::open(directory.join(FILE))?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT)?;
    connection.pragma_update(None, "cache_size", -65_536)?;
    Ok(connection)
}

impl Engine for Sqlite {
    fn name(&self) -> String {
        "sqlite".to_owned()
    }

    fn side(&self) -> Side {
        Side::Rival
    }

    fn version(&self) -> String {
        rusqlite::version().to_owned()
    }

    fn settings(&self) -> String {
        format!("WAL, synchronous=FULL, exclusive, checkpoint every {CHECKPOINT} pages, one connection")
    }

    fn create(&self, directory: &Path, plan: &Plan) -> Result<Box<dyn Store>> {
        let mut connection = open(directory)?;
        prepare(&mut connection, directory, plan)?;
        Ok(Box::new(Open { connection: Mutex::new(connection) }))
    }

    fn check(&self, directory: &Path, history: &History) -> Result<Result<(), String>> {
        let connection = open(directory)?;
        let mut all = connection.prepare("SELECT key, value FROM row")?;
        history.compare(|see| {
            let mut rows = all.query([])?;
            while let Some(row) = rows.next()? {
                see(row.get(0).ok(), row.get_ref(1)?.as_blob()?);
            }
            Ok(())
        })
    }
}

/// Loads the rows and lengthens the log to what it will be for ever after; then everything is on the medium.
fn prepare(connection: &mut Connection, directory: &Path, plan: &Plan) -> Result<()> {
    let rows: Vec<Row> = workload::loaded(plan.seed).collect();
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.execute("CREATE TABLE row (key INTEGER PRIMARY KEY, value BLOB NOT NULL)", [])?;
    let transaction = connection.transaction()?;
    let mut insert = transaction.prepare("INSERT INTO row (key, value) VALUES (?1, ?2)")?;
    rows.iter().try_for_each(|row| insert.execute((row.key, row.value)).map(|_| ()))?;
    drop(insert);
    transaction.commit()?;
    // SQLite writes no page that stays as it is: other values first, and the right ones again at the end.
    let others: Vec<Row> = workload::loaded(plan.seed.derive(1)).collect();
    for pass in 0.. {
        let long = fs::metadata(directory.join(LOG))?.len() >= u64::from(CHECKPOINT) * PAGE;
        if long && pass % 2 == 0 {
            break;
        }
        ensure!(pass < MOST_PASSES, "the log has not become {CHECKPOINT} pages long after {pass} passes");
        let transaction = connection.transaction()?;
        let mut update = transaction.prepare(UPDATE)?;
        let values = if pass % 2 == 0 { &others } else { &rows };
        values.iter().try_for_each(|row| update.execute((row.key, row.value)).map(|_| ()))?;
        drop(update);
        transaction.commit()?;
    }
    connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
    [FILE, LOG].iter().try_for_each(|file| File::open(directory.join(file))?.sync_all())?;
    Ok(connection.pragma_update(None, "synchronous", "FULL")?)
}

struct Open {
    connection: Mutex<Connection>,
}

impl Open {
    fn update(&self, rows: &[Row]) -> Result<()> {
        let connection = self.connection.lock();
        let mut update = connection.prepare_cached(UPDATE)?;
        if let [row] = rows {
            update.execute((row.key, row.value))?;
            return Ok(());
        }
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        rows.iter().try_for_each(|row| update.execute((row.key, row.value)).map(|_| ()))?;
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

impl Store for Open {
    fn drive(&self, plan: &Plan) -> Result<Run> {
        drive::threads(plan, |_| Ok(|rows: &[Row]| self.update(rows)))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.connection.into_inner().close().map_err(|(_, error)| error.into())
    }
}
