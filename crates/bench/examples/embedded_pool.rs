//! Several embedded databases on one modelled disk: each with a log of its own there, and all with theirs in one pool, over rings
//! in shared memory or over mounts.
//!
//! ```sh
//! cargo run --release -p ishigaki-bench --example embedded_pool -- hdd 1,2,4 3 2
//! ```
//!
//! The disk, how many databases, rounds, seconds a round; without any of them a moment on a modelled SSD, to see that it works.
//! A database has one session, which puts a row of 100 bytes and waits until that is durable, again and again; its tables are in
//! memory, so the disk has logs alone. The pool is another process, and its disk is a model of its own, with nobody else on it.
//! The sides take turns. After each round the databases are opened again, and all that was acknowledged must be there. Mounts take
//! root; without, that side is left out.

use std::io::{BufRead, BufReader};
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ishigaki_base::ByteSize;
use ishigaki_device::{
    Device, Directory, DirectoryLock, FileDirectory, Medium, MemoryDirectory, ModelledDirectory, Pace,
};
use ishigaki_logpool::{MemberSettings, Pool, Quota, Settings};
use ishigaki_logpool_fs::{Access, Calendar, MountSettings, Place, Served, Service};
use ishigaki_shm::ShmDirectory;
use ishigaki_txn::{CheckpointSettings, Database, LogPlace, Progress};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const SIDES: [&str; 3] = ["own", "ring", "mount"];

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", medium, side, most, place] => serve(medium, side, most.parse()?, place.as_ref()),
        [medium, counts, rounds, seconds] => {
            let counts = counts.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
            measure(medium, &counts, rounds.parse()?, Duration::from_secs_f64(seconds.parse()?))
        }
        [] => measure("ssd", &[1, 2], 1, Duration::from_millis(200)),
        _ => Err("usage: embedded_pool hdd|ssd|nvm:TIME DATABASES[,DATABASES …] ROUNDS SECONDS".into()),
    }
}

fn modelled(medium: &str) -> Result<ModelledDirectory, Failure> {
    Ok(ModelledDirectory::in_memory(medium.parse::<Medium>()?, Pace::Real))
}

/// The pool's process: a ring or a mount for each member, until its input ends.
fn serve(medium: &str, side: &str, most: usize, place: &Path) -> Result<(), Failure> {
    let pool = Pool::open_together(Arc::new(modelled(medium)?), Settings::default())?;
    let mount = MountSettings {
        access: Access::own(),
        threads: MountSettings::THREADS,
        calendar: Calendar::new(SystemTime::now),
    };
    let members: Vec<_> = (0..most)
        .map(|number| {
            let path = place.join(number.to_string());
            let quota = Quota { home: ByteSize::gib(2), ..Quota::default() };
            Served {
                name: format!("m{number}"),
                member: MemberSettings { quota, ..MemberSettings::default() },
                place: if side == "ring" { Place::Ring(path) } else { Place::Mount(path) },
                mount: mount.clone(),
            }
        })
        .collect();
    if side == "mount" {
        members.iter().try_for_each(|member| std::fs::create_dir(member.place.path()))?;
    }
    let service = Service::start(pool, &members)?;
    println!("serving");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(service.stop()?)
}

/// A pool in another process, or the disk itself.
enum Side {
    Own { medium: String },
    Pool { child: Child, ring: bool, place: tempfile::TempDir },
}

impl Side {
    fn start(side: &str, medium: &str, most: usize) -> Result<Self, Failure> {
        if side == "own" {
            return Ok(Self::Own { medium: medium.to_owned() });
        }
        let place = tempfile::tempdir()?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", medium, side, &most.to_string()])
            .arg(place.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        if line.trim() != "serving" {
            child.wait()?;
            return Err(format!("the pool of the side `{side}` does not serve").into());
        }
        Ok(Self::Pool { child, ring: side == "ring", place })
    }

    /// An empty directory for each log.
    fn logs(&self, count: usize) -> Result<Vec<Arc<dyn Directory>>, Failure> {
        match self {
            Self::Own { medium } => {
                let disk = modelled(medium)?;
                Ok((0..count).map(|number| Arc::new(Below { disk: disk.clone(), number }) as _).collect())
            }
            Self::Pool { ring, place, .. } => (0..count)
                .map(|number| {
                    let directory = open(*ring, place.path().join(number.to_string()))?;
                    for name in directory.list()? {
                        directory.remove(&name)?;
                    }
                    directory.sync()?;
                    Ok(directory)
                })
                .collect(),
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Self::Pool { child, .. } = self {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

fn open(ring: bool, path: PathBuf) -> Result<Arc<dyn Directory>, Failure> {
    if !ring {
        return Ok(Arc::new(FileDirectory::open(path)?));
    }
    let began = Instant::now();
    loop {
        match ShmDirectory::connect(&path) {
            Ok(directory) => return Ok(Arc::new(directory)),
            // Whoever was in is about to be gone.
            Err(ishigaki_device::Error::Locked { .. }) if began.elapsed().as_secs() < 10 => std::thread::yield_now(),
            Err(error) => return Err(error.into()),
        }
    }
}

fn measure(medium: &str, counts: &[usize], rounds: usize, time: Duration) -> Result<(), Failure> {
    let most = counts.iter().copied().max().unwrap_or(1);
    let mut sides = Vec::new();
    for name in SIDES {
        match Side::start(name, medium, most) {
            Ok(side) => sides.push((name, side)),
            Err(error) => eprintln!("left out: {error}"),
        }
    }
    for &count in counts {
        let mut rates = vec![Vec::new(); sides.len()];
        for round in 0..rounds {
            for turn in 0..sides.len() {
                let at = (round + turn) % sides.len();
                rates[at].push(run(&sides[at].1, count, time)?);
            }
        }
        for ((name, _), mut rates) in sides.iter().zip(rates) {
            rates.sort_by(f64::total_cmp);
            println!(
                "{medium} {count} {name:<5} median {:.0} commits/s, {:.0} to {:.0}",
                rates[rates.len() / 2],
                rates[0],
                rates[rates.len() - 1]
            );
        }
    }
    Ok(())
}

/// Commits a second of all databases together.
fn run(side: &Side, count: usize, time: Duration) -> Result<f64, Failure> {
    let logs = side.logs(count)?;
    let tables: Vec<Arc<dyn Directory>> = (0..count).map(|_| Arc::new(MemoryDirectory::new()) as _).collect();
    let databases =
        logs.iter().zip(&tables).map(|(log, tables)| database(log, tables)).collect::<Result<Vec<_>, _>>()?;
    let counts: Vec<_> = std::thread::scope(|scope| {
        let work: Vec<_> = databases.iter().map(|database| scope.spawn(|| insert(database, time))).collect();
        work.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked")).collect()
    });
    let counts = counts.into_iter().map(|count| count?).collect::<Result<Vec<(u64, f64)>, Failure>>()?;
    databases.into_iter().try_for_each(Database::close)?;
    for ((log, tables), (expected, _)) in logs.iter().zip(&tables).zip(&counts) {
        let found = rows(&database(log, tables)?)?;
        if found != *expected {
            return Err(format!("{expected} rows were acknowledged, and {found} are there").into());
        }
    }
    Ok(counts.iter().map(|(count, seconds)| *count as f64 / seconds).sum())
}

fn database(log: &Arc<dyn Directory>, tables: &Arc<dyn Directory>) -> Result<Database, Failure> {
    let wal = ishigaki_wal::Settings { segment: ByteSize::mib(1), space: ByteSize::mib(256), ..Default::default() };
    let checkpoint = CheckpointSettings { automatic: false, ..CheckpointSettings::default() };
    let settings = ishigaki_txn::Settings { log: wal, checkpoint, ..Default::default() };
    let place = LogPlace { directory: log.clone(), name: "measured".to_owned() };
    Ok(Database::open_apart(tables.clone(), &place, settings, &Progress::default())?)
}

fn insert(database: &Database, time: Duration) -> Result<(u64, f64), Failure> {
    let session = database.session();
    let table = session.run(|transaction| transaction.create_table("t"))?;
    let (began, mut count) = (Instant::now(), 0_u64);
    while began.elapsed() < time {
        session.run(|transaction| transaction.insert(table, &count.to_be_bytes(), &[7; 100]))?;
        count += 1;
    }
    Ok((count, began.elapsed().as_secs_f64()))
}

fn rows(database: &Database) -> Result<u64, Failure> {
    let mut transaction = database.session().begin()?;
    let Some(table) = transaction.table("t")? else { return Ok(0) };
    let mut count = 0;
    transaction.scan(table, (Bound::Unbounded, Bound::Unbounded), |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    transaction.rollback();
    Ok(count)
}

/// One of several directories on a disk.
#[derive(Debug)]
struct Below {
    disk: ModelledDirectory,
    number: usize,
}

impl Below {
    fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.number)
    }
}

impl Directory for Below {
    fn create(&self, name: &str, length: u64) -> ishigaki_device::Result<Arc<dyn Device>> {
        self.disk.create(&self.name(name), length)
    }

    fn open(&self, name: &str) -> ishigaki_device::Result<Arc<dyn Device>> {
        self.disk.open(&self.name(name))
    }

    fn list(&self) -> ishigaki_device::Result<Vec<String>> {
        let (all, prefix) = (self.disk.list()?, self.name(""));
        Ok(all.iter().filter_map(|name| name.strip_prefix(&prefix)).map(str::to_owned).collect())
    }

    fn rename(&self, from: &str, to: &str) -> ishigaki_device::Result<()> {
        self.disk.rename(&self.name(from), &self.name(to))
    }

    fn remove(&self, name: &str) -> ishigaki_device::Result<()> {
        self.disk.remove(&self.name(name))
    }

    fn sync(&self) -> ishigaki_device::Result<()> {
        self.disk.sync()
    }

    fn lock(&self) -> ishigaki_device::Result<DirectoryLock> {
        Ok(DirectoryLock::new(()))
    }
}
