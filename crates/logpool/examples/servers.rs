//! Database servers that commit, each one transaction after the other: a log file of their own each, with a sync for each
//! commit, against one pool for all, in every way of waiting.
//!
//! ```sh
//! cargo run --release -p ishigaki-logpool --example servers -- [MEDIUM …] [--servers 1,4] [--commits 20] [--fresh 346]
//! ```
//!
//! A medium is `hdd` or `ssd` (modelled, in memory, in real time) or a directory of a file system. A commit writes the tail
//! block of the server's log again, 4 KiB, with so many fresh bytes in it. Sides alternate within a round; medians of three.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_device::{AlignedBuffer, Directory, open_place};
use ishigaki_logpool::{Durability, MemberSettings, Pool, Quota, Settings, Waiting};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const BLOCK: usize = 4096;
const ROUNDS: usize = 3;
/// Bytes of a server's log file.
const FILE: usize = 4 << 20;

/// What the servers do.
#[derive(Clone, Copy)]
struct Load {
    servers: usize,
    commits: usize,
    fresh: usize,
}

/// One side of the comparison in one round.
#[derive(Clone, Copy)]
struct Figure {
    /// Of all servers' commits.
    seconds: f64,
    /// Bytes of entries, and of the log's medium, for each byte that a server wrote.
    logged: f64,
    medium: f64,
    /// Commits for each write of the log.
    batch: f64,
    /// Seconds that half of the commits stayed within.
    latency: f64,
}

fn main() -> Result<(), Failure> {
    let mut media = Vec::new();
    let (mut servers, mut load) = (vec![1, 4], Load { servers: 1, commits: 20, fresh: 346 });
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--servers" => servers = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--commits" => load.commits = value()?.parse()?,
            "--fresh" => load.fresh = value()?.parse()?,
            _ => media.push(argument),
        }
    }
    if media.is_empty() {
        media = vec!["hdd".to_owned(), "ssd".to_owned()];
    }
    let delay = |medium: &str| Duration::from_micros(if medium == "hdd" { 1000 } else { 50 });
    println!(
        "{:>10} {:>7} {:>18} {:>11} {:>7} {:>9} {:>7} {:>8} {:>8}",
        "medium", "servers", "side", "commits/s", "time", "p50", "batch", "logged", "medium"
    );
    for medium in &media {
        let fixed = |polling, delay| Some(Waiting::Fixed { polling, delay });
        let sides = [
            ("separate", None),
            ("pool", fixed(false, Duration::ZERO)),
            ("pool+polling", fixed(true, Duration::ZERO)),
            ("pool+delay", fixed(false, delay(medium))),
            ("pool+polling+delay", fixed(true, delay(medium))),
            ("pool auto", Some(Waiting::Auto)),
        ];
        for &servers in &servers {
            let load = Load { servers, ..load };
            let mut figures: Vec<Vec<Figure>> = vec![Vec::new(); sides.len()];
            for round in 0..ROUNDS {
                for (side, figures) in sides.iter().zip(&mut figures) {
                    figures.push(run(medium, side.1, load, round)?);
                }
            }
            let medians: Vec<Figure> = figures.into_iter().map(median).collect();
            for ((name, _), figure) in sides.iter().zip(&medians) {
                println!(
                    "{medium:>10} {servers:>7} {name:>18} {:>11.0} {:>7.2} {:>6.2} ms {:>7.2} {:>8.3} {:>8.3}",
                    (load.commits * servers) as f64 / figure.seconds,
                    figure.seconds / medians[0].seconds,
                    figure.latency * 1e3,
                    figure.batch,
                    figure.logged,
                    figure.medium,
                );
            }
        }
    }
    Ok(())
}

/// The one with the median time.
fn median(mut figures: Vec<Figure>) -> Figure {
    figures.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    figures[figures.len() / 2]
}

fn run(medium: &str, waiting: Option<Waiting>, load: Load, round: usize) -> Result<Figure, Failure> {
    let path = format!("{medium}/servers-{round}");
    let is_modelled = matches!(medium, "hdd" | "ssd");
    let directory = open_place(if is_modelled { medium } else { &path })?;
    let figure = match waiting {
        None => separate(directory.as_ref(), load),
        Some(waiting) => pooled(directory, waiting, load),
    };
    if !is_modelled {
        std::fs::remove_dir_all(&path)?;
    }
    figure
}

/// The tail block that a commit writes, and where.
fn tail(server: usize, commit: usize, fresh: usize, block: &mut [u8]) -> u64 {
    let end = (commit + 1) * fresh;
    let first = (end - 1) / BLOCK * BLOCK;
    for (at, byte) in block.iter_mut().enumerate() {
        let place = first + at;
        *byte = if place < end { (place / fresh * 31 + place * 7 + server) as u8 | 1 } else { 0 };
    }
    (first % FILE) as u64
}

/// Runs every server's commits beside the others'; gives the seconds, and the median latency.
fn race(load: Load, commit: impl Fn(usize, usize) -> Result<(), Failure> + Sync) -> Result<(f64, f64), Failure> {
    let began = Instant::now();
    let outcomes: Vec<Result<Vec<f64>, Failure>> = thread::scope(|scope| {
        let server = |server| {
            let commit = &commit;
            scope.spawn(move || {
                (0..load.commits)
                    .map(|number| {
                        let began = Instant::now();
                        commit(server, number).map(|()| began.elapsed().as_secs_f64())
                    })
                    .collect()
            })
        };
        let threads: Vec<_> = (0..load.servers).map(server).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a server panicked".into()))).collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let mut latencies = Vec::new();
    for outcome in outcomes {
        latencies.extend(outcome?);
    }
    latencies.sort_by(f64::total_cmp);
    Ok((seconds, latencies[latencies.len() / 2]))
}

fn separate(directory: &dyn Directory, load: Load) -> Result<Figure, Failure> {
    let devices: Vec<_> = (0..load.servers)
        .map(|server| directory.create(&format!("log{server}"), FILE as u64))
        .collect::<Result<_, _>>()?;
    directory.sync()?;
    let (seconds, latency) = race(load, |server, number| {
        let mut block = AlignedBuffer::zeroed(BLOCK);
        let at = tail(server, number, load.fresh, &mut block);
        devices[server].write_at(at, &block)?;
        Ok(devices[server].sync()?)
    })?;
    Ok(Figure { seconds, logged: 1.0, medium: 1.0, batch: 1.0, latency })
}

fn pooled(directory: Arc<dyn Directory>, waiting: Waiting, load: Load) -> Result<Figure, Failure> {
    let settings = Settings { waiting, log: ByteSize::mib(256), segment: ByteSize::mib(4), ..Settings::default() };
    let pool = Pool::open_together(directory, settings)?;
    let mut files = Vec::new();
    for server in 0..load.servers {
        let quota = Quota { share: ByteSize::mib(4), ..Quota::default() };
        let member = pool.add(&format!("server{server}"), MemberSettings { quota, ..MemberSettings::default() })?;
        let file = member.create("log")?;
        file.zero(0, FILE as u64, false, Durability::Now)?;
        files.push(file);
    }
    let before = pool.statistics();
    let (seconds, latency) = race(load, |server, number| {
        let mut block = [0; BLOCK];
        let at = tail(server, number, load.fresh, &mut block);
        files[server].write(at, &block, Durability::Later)?;
        Ok(files[server].sync(true)?)
    })?;
    let after = pool.statistics();
    let mut block = [0; BLOCK];
    for (server, file) in files.iter().enumerate() {
        let mut read = [0; BLOCK];
        file.read(tail(server, load.commits - 1, load.fresh, &mut block), &mut read)?;
        if read != block {
            return Err(format!("server {server} does not read what it wrote").into());
        }
    }
    let written = (load.servers * load.commits * BLOCK) as f64;
    let mut logged = 0;
    for server in 0..load.servers {
        logged += pool.member(&format!("server{server}"))?.statistics().logged;
    }
    let figure = Figure {
        seconds,
        logged: logged as f64 / written,
        medium: (after.medium_bytes - before.medium_bytes) as f64 / written,
        batch: (after.requests - before.requests) as f64 / (after.writes - before.writes).max(1) as f64,
        latency,
    };
    drop(files);
    pool.close()?;
    Ok(figure)
}
