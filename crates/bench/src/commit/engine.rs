//! The engine's side: one put, one commit, one wait.

use std::fs;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use ishigaki_device::{Directory, FileDirectory};
use ishigaki_txn::{self as txn, Database, Session, TableId, Transaction};

use super::{NAME, Settings};
use crate::counting::Counting;
use crate::pace::{Pace, Run};
use crate::site::Site;
use crate::{Error, Result};

/// The table that is put into.
const TABLE: &str = "commit";

/// Lone commits that are looked at for the size of their write.
const LOOKED_AT: u64 = 33;

/// The bytes that the commit of a lone transaction writes to the device: the median of a few.
pub(super) fn bytes_of_commit(settings: &Settings, site: &Site) -> Result<usize> {
    let path = site.join("single");
    let directory = Arc::new(Counting::new(Arc::new(FileDirectory::open(&path)?)));
    let (database, table) = create(settings, &directory)?;
    let session = database.session();
    let mut sizes = Vec::new();
    for sequence in 0..LOOKED_AT {
        let before = directory.count();
        put(&session, table, 0, sequence, &mut filling(settings, 0))?;
        sizes.push(directory.count().bytes - before.bytes);
    }
    sizes.sort_unstable();
    database.close()?;
    remove(&path)?;
    Ok(sizes[sizes.len() / 2] as usize)
}

/// One round in a fresh database. Also answers how many device writes a commit took on average.
pub(super) fn round(settings: &Settings, site: &Site, sessions: usize, round: usize, pace: Pace) -> Result<(Run, f64)> {
    let path = site.join(&format!("engine-{sessions}-{round}"));
    let directory = Arc::new(Counting::new(Arc::new(FileDirectory::open(&path)?)));
    let (database, table) = create(settings, &directory)?;
    let workers: Vec<_> = (0..sessions as u32)
        .map(|number| {
            let session = database.session();
            let mut value = filling(settings, number);
            move |sequence: u64| put(&session, table, number, sequence, &mut value)
        })
        .collect();
    let before = directory.count();
    let run = pace.run(workers)?;
    let writes = directory.count().writes - before.writes;
    database.close()?;
    check(settings, &path, &directory, &run.done)?;
    remove(&path)?;
    let commits: u64 = run.done.iter().sum();
    Ok((run, writes as f64 / commits as f64))
}

type Medium = Arc<Counting>;

fn open(settings: &Settings, directory: &Medium) -> Result<Database> {
    let settings = txn::Settings { log: settings.log.clone(), ..txn::Settings::default() };
    Ok(Database::open_in(Arc::clone(directory) as Arc<dyn Directory>, settings)?)
}

fn create(settings: &Settings, directory: &Medium) -> Result<(Database, TableId)> {
    let database = open(settings, directory)?;
    let table = database.session().run(|transaction| transaction.create_table(TABLE))?;
    Ok((database, table))
}

/// What a session puts, before the sequence number is written over its beginning.
fn filling(settings: &Settings, session: u32) -> Vec<u8> {
    let mut value = vec![0; settings.value.0 as usize];
    settings.origin.seed.derive(u64::from(session)).generator().fill(&mut value);
    value
}

fn number(value: &mut [u8], sequence: u64) {
    for (to, from) in value.iter_mut().zip(sequence.to_be_bytes()) {
        *to = from;
    }
}

fn key(session: u32, sequence: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&session.to_be_bytes());
    key[4..].copy_from_slice(&sequence.to_be_bytes());
    key
}

/// The measured transaction. It has its own key, so there is nothing to conflict with; waits until it is durable.
fn put(session: &Session, table: TableId, at: u32, sequence: u64, value: &mut [u8]) -> Result<()> {
    number(value, sequence);
    Ok(session.run(|transaction: &mut Transaction| transaction.put(table, &key(at, sequence), value))?)
}

/// Opens the database again; every put that was acknowledged must be there, and nothing else.
fn check(settings: &Settings, path: &Path, directory: &Medium, done: &[u64]) -> Result<()> {
    let database = open(settings, directory)?;
    let wrong = database.session().run(|transaction| -> txn::Result<Option<String>> {
        let Some(table) = transaction.table(TABLE)? else {
            return Ok(Some(format!("table {TABLE} is gone")));
        };
        let mut expected = (0..done.len() as u32).flat_map(|at| (0..done[at as usize]).map(move |turn| (at, turn)));
        let mut values: Vec<Vec<u8>> = (0..done.len() as u32).map(|at| filling(settings, at)).collect();
        let mut wrong = None;
        transaction.scan(table, (Bound::Unbounded, Bound::Unbounded), |found, value| {
            wrong = match expected.next() {
                None => Some("there are more keys than were put".to_owned()),
                Some((at, sequence)) if found != key(at, sequence) => {
                    Some(format!("put {sequence} of session {at} was acknowledged and is not there"))
                }
                Some((at, sequence)) => {
                    let right = &mut values[at as usize];
                    number(right, sequence);
                    (value != right.as_slice()).then(|| format!("put {sequence} of session {at} has other bytes"))
                }
            };
            if wrong.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let missing = expected
            .next()
            .map(|(at, sequence)| format!("put {sequence} of session {at} was acknowledged and is not there"));
        Ok(wrong.or(missing))
    })?;
    database.close()?;
    wrong.map_or(Ok(()), |reason| Err(Error::Wrong { workload: NAME, reason, path: path.to_owned() }))
}

fn remove(path: &Path) -> Result<()> {
    let failed = |source| Error::Io { path: path.to_owned(), operation: "removing what was measured", source };
    fs::remove_dir_all(path).map_err(failed)
}
