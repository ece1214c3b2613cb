//! Databases of ours whose logs are members of a pool, over rings in shared memory: beside each other, cut off from power, and
//! with either side killed.

mod below;
mod crash;
mod kill;
mod together;

use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_device::{Directory, Error};
use ishigaki_logpool::{MemberSettings, Quota};
use ishigaki_logpool_fs::{Access, Calendar, MountSettings, Place, Served};
use ishigaki_shm::ShmDirectory;
use ishigaki_txn::{CheckpointSettings, Database, LogPlace, Progress, Result, Settings};

/// A member with a ring.
fn served(name: &str, path: &Path) -> Served {
    let quota = Quota { share: ByteSize::mib(1), home: ByteSize::mib(16), files: 128 };
    Served {
        name: name.to_owned(),
        member: MemberSettings { quota, ..MemberSettings::default() },
        place: Place::Ring(path.to_owned()),
        mount: MountSettings {
            access: Access::own(),
            threads: MountSettings::THREADS,
            calendar: Calendar::new(std::time::SystemTime::now),
        },
    }
}

/// A pool that is small, and does all its work in the threads of those who ask.
fn pool_settings(background: bool) -> ishigaki_logpool::Settings {
    ishigaki_logpool::Settings {
        log: ByteSize::mib(32),
        segment: ByteSize::kib(256),
        region: ByteSize::kib(256),
        cache: ByteSize::kib(64),
        background,
        ..ishigaki_logpool::Settings::default()
    }
}

fn settings(background: bool) -> Settings {
    let log = ishigaki_wal::Settings {
        streams: 2,
        relief: 0,
        segment: ByteSize::kib(64),
        space: ByteSize::mib(4),
        background,
        ..ishigaki_wal::Settings::default()
    };
    let checkpoint = CheckpointSettings { automatic: false, part: ByteSize::kib(4), ..Default::default() };
    Settings { log, checkpoint, memory: ByteSize::mib(64), ..Settings::default() }
}

/// Longer than anything takes.
const LONG: Duration = Duration::from_mins(1);

/// The place of a member's log, as soon as nobody else is in.
fn enter(path: &Path) -> LogPlace {
    let began = Instant::now();
    loop {
        match log_at(path) {
            Ok(place) => return place,
            Err(Error::Locked { .. }) if began.elapsed() < LONG => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The place of a member's log.
fn log_at(path: &Path) -> ishigaki_device::Result<LogPlace> {
    let directory = Arc::new(ShmDirectory::connect(path)?);
    Ok(LogPlace { directory, name: format!("pool:{}", path.display()) })
}

fn open(tables: Arc<dyn Directory>, log: &LogPlace, settings: Settings) -> Result<Database> {
    Database::open_apart(tables, log, settings, &Progress::default())
}

/// The rows of a table of numbers, by key.
fn rows(database: &Database) -> Vec<(u64, Vec<u8>)> {
    let session = database.session();
    let mut transaction = session.begin().unwrap();
    let Some(table) = transaction.table("t").unwrap() else { return Vec::new() };
    let mut rows = Vec::new();
    let scanned = transaction.scan(table, (Bound::Unbounded, Bound::Unbounded), |key, value| {
        rows.push((u64::from_be_bytes(key.try_into().unwrap()), value.to_vec()));
        ControlFlow::Continue(())
    });
    scanned.unwrap();
    transaction.rollback();
    rows
}
