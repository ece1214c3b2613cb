//! Filling tables: parts taken by as many threads as there are cores, rows committed some at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::available_parallelism;

use ishigaki_txn::{Database, Session, TableId};

use super::Stop;

/// Bytes of rows that are committed together.
const BATCH: usize = 48 << 10;

/// Loads each part, in any order, in some thread; `tell` hears how many of how many are done. What a part holds must not
/// depend on the order.
pub(crate) fn fill(
    database: &Database,
    parts: usize,
    load: impl Fn(usize, &mut Batch<'_>) -> Result<(), Stop> + Sync,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<(), Stop> {
    let next = AtomicUsize::new(0);
    let (done, heard) = mpsc::channel::<Result<(), Stop>>();
    let threads = available_parallelism().map_or(1, usize::from).min(parts);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (done, next, load) = (done.clone(), &next, &load);
            let session = database.session();
            scope.spawn(move || {
                loop {
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    if part >= parts {
                        return;
                    }
                    let mut batch = Batch { session: &session, rows: Vec::new(), bytes: 0 };
                    let result = load(part, &mut batch).and_then(|()| batch.commit());
                    // Nobody listens any more after an error.
                    if done.send(result).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        tell(0, parts as u64);
        for (count, result) in (1..).zip(heard) {
            result?;
            tell(count, parts as u64);
        }
        Ok(())
    })
}

/// Rows on their way into a database.
pub(crate) struct Batch<'a> {
    session: &'a Session,
    rows: Vec<(TableId, Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl Batch<'_> {
    /// Adds a row whose key nobody has.
    pub(crate) fn add(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), Stop> {
        self.bytes += key.len() + row.len();
        self.rows.push((table, key.to_vec(), row.to_vec()));
        if self.bytes >= BATCH { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<(), Stop> {
        self.session.run(|transaction| -> Result<(), Stop> {
            for (table, key, row) in &self.rows {
                transaction.insert(*table, key, row)?;
            }
            Ok(())
        })?;
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }
}
