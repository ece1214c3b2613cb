//! `arrivals`: the one log by itself, on a modelled medium and without any server, in every way of waiting (paper 4, section
//! 4.1.3, and `auto`, which is ours), under commits that come in different ways.
//!
//! A commit writes the tail block of a member's log again, 4 KiB with 346 fresh bytes, and waits until that is durable, as a
//! server does. Who commits *steadily* begins the next one at once; in *bursts* it does so a few times, and then is away for
//! a while; *alone* is one member, with nobody to wait for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use ishigaki_base::ByteSize;
use ishigaki_device::{Directory, Medium, Place};
use ishigaki_logpool::{Durability, File, MemberSettings, Pool, Quota, Settings as PoolSettings, Waiting};

use crate::inserts::way;
use crate::{Case, Error, Latencies, Line, Metric, Origin, Progress, Result};

/// The workload's name in figures.
const NAME: &str = "arrivals";

/// Members that commit, save in [`Pattern::Alone`].
const MEMBERS: usize = 4;

/// Fresh bytes of a commit, as an insert of `InnoDB`'s has.
const FRESH: usize = 346;

/// Bytes of a block.
const BLOCK: usize = 4096;

/// Bytes of a member's log file.
const FILE: usize = 1 << 20;

/// Commits of a burst.
const BURST: usize = 5;

/// How commits come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Each member's next one begins when the one before is durable.
    Steady,
    /// A few, then nothing for a while.
    Bursty,
    /// One member, steadily.
    Alone,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Steady, Self::Bursty, Self::Alone];

    fn members(self) -> usize {
        if self == Self::Alone { 1 } else { MEMBERS }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Steady => "steady",
            Self::Bursty => "bursty",
            Self::Alone => "alone",
        })
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The log's medium.
    pub medium: Medium,
    /// The ways of waiting that are compared.
    pub ways: Vec<Waiting>,
    /// How commits come.
    pub patterns: Vec<Pattern>,
    /// Commits of each member in a run.
    pub commits: usize,
    /// Runs of each way.
    pub rounds: usize,
    /// Mean time between bursts.
    pub pause: Duration,
    /// Where the figures come from.
    pub origin: Origin,
    /// When set, all ends as soon as it can.
    pub stop: &'static AtomicBool,
}

/// What a run came to.
struct Run {
    throughput: f64,
    latencies: Latencies,
}

/// Measures every way with every pattern; ways alternate, in an order drawn anew for each round.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    if settings.commits == 0 || settings.rounds == 0 {
        return Err(Error::invalid("transactions", "at least one commit and one round are needed"));
    }
    let steps = (settings.patterns.len() * settings.rounds * settings.ways.len()) as u64;
    let (mut random, mut done, mut lines) = (Rng::with_seed(settings.origin.seed.0), 0, Vec::new());
    for &pattern in &settings.patterns {
        let mut runs: Vec<Vec<Run>> = settings.ways.iter().map(|_| Vec::new()).collect();
        for _ in 0..settings.rounds {
            // All ways have the same pauses.
            let seed = random.u64(..);
            let mut order: Vec<usize> = (0..settings.ways.len()).collect();
            random.shuffle(&mut order);
            for place in order {
                progress.step(&format!("arrivals, {pattern}: {}", way(settings.ways[place])), done, steps);
                runs[place].push(once(settings, pattern, settings.ways[place], seed)?);
                done += 1;
            }
        }
        for (&waiting, runs) in settings.ways.iter().zip(&runs) {
            lines.extend(report(settings, pattern, waiting, runs));
        }
    }
    Ok(lines)
}

fn report(settings: &Settings, pattern: Pattern, waiting: Waiting, runs: &[Run]) -> Vec<Line> {
    let case = Case::from_iter([
        ("device".to_owned(), settings.medium.to_string().into()),
        ("pattern".to_owned(), pattern.to_string().into()),
        ("side".to_owned(), way(waiting).into()),
        ("waiting".to_owned(), waiting.to_string().into()),
        ("members".to_owned(), pattern.members().into()),
        ("commits".to_owned(), settings.commits.into()),
    ]);
    let line = |metric, figure: &dyn Fn(&Run) -> f64| {
        Line::new(NAME, case.clone(), metric, runs.iter().map(figure).collect(), &settings.origin)
    };
    vec![
        line(Metric::Throughput, &|run| run.throughput),
        line(Metric::LatencyP50, &|run| run.latencies.quantile(0.5)),
        line(Metric::LatencyP99, &|run| run.latencies.quantile(0.99)),
    ]
}

/// A new pool on a new medium, in real time.
fn once(settings: &Settings, pattern: Pattern, waiting: Waiting, seed: u64) -> Result<Run> {
    let directory: Arc<dyn Directory> = Place::Modelled(settings.medium.clone()).open()?;
    let pool_settings =
        PoolSettings { waiting, log: ByteSize::mib(64), segment: ByteSize::mib(4), ..PoolSettings::default() };
    let pool = Pool::open_together(directory, pool_settings)?;
    let mut files = Vec::new();
    for member in 0..pattern.members() {
        let quota = Quota { share: ByteSize::mib(4), ..Quota::default() };
        let member = pool.add(&format!("member-{member}"), MemberSettings { quota, ..MemberSettings::default() })?;
        let file = member.create("log")?;
        file.zero(0, FILE as u64, false, Durability::Now)?;
        files.push(file);
    }
    let began = Instant::now();
    let latencies: Result<Vec<Latencies>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, file) in files.iter().enumerate() {
            let random = Rng::with_seed(seed.wrapping_add(number as u64));
            threads.push(scope.spawn(move || commits(settings, pattern, file, random)));
        }
        threads.into_iter().map(|thread| thread.join().expect("a member returns its errors")).collect()
    });
    let elapsed = began.elapsed();
    let mut all = Latencies::new();
    latencies?.iter().for_each(|own| all.add(own));
    for file in &files {
        check(settings, file)?;
    }
    drop(files);
    pool.close()?;
    Ok(Run { throughput: all.count() as f64 / elapsed.as_secs_f64(), latencies: all })
}

/// One member's commits.
fn commits(settings: &Settings, pattern: Pattern, file: &File, mut random: Rng) -> Result<Latencies> {
    let mut latencies = Latencies::new();
    for number in 0..settings.commits {
        if settings.stop.load(Ordering::Acquire) {
            return Err(ishigaki_servers::Error::Stopped.into());
        }
        if pattern == Pattern::Bursty && number.is_multiple_of(BURST) {
            thread::sleep(settings.pause.mul_f64(2.0 * random.f64()));
        }
        let begun = Instant::now();
        let (at, block) = tail(number);
        file.write(at, &block, Durability::Later)?;
        file.sync(true)?;
        latencies.record(begun.elapsed());
    }
    Ok(latencies)
}

/// The tail block as a commit writes it, and where.
fn tail(number: usize) -> (u64, [u8; BLOCK]) {
    let end = (number + 1) * FRESH;
    let first = (end - 1) / BLOCK * BLOCK;
    let byte = |at: usize| if first + at < end { ((first + at) / FRESH * 31) as u8 | 1 } else { 0 };
    ((first % FILE) as u64, std::array::from_fn(byte))
}

/// The file has what the last commit wrote.
fn check(settings: &Settings, file: &File) -> Result<()> {
    let (at, expected) = tail(settings.commits - 1);
    let mut found = [0; BLOCK];
    file.read(at, &mut found)?;
    if found == expected {
        return Ok(());
    }
    let (reason, path) = ("a member does not read what it wrote".to_owned(), settings.medium.to_string().into());
    Err(Error::Wrong { workload: NAME, reason, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use ishigaki_base::random::Seed;

    static STOP: AtomicBool = AtomicBool::new(false);

    #[test]
    fn every_way_of_waiting_is_measured_with_every_pattern() {
        let settings = Settings {
            medium: "nvm:1us".parse().unwrap(),
            ways: vec![Waiting::SLEEP, Waiting::Auto],
            patterns: Pattern::ALL.to_vec(),
            commits: 20,
            rounds: 1,
            pause: Duration::from_micros(10),
            origin: Origin { machine: "a machine".into(), commit: "abc".into(), seed: Seed(1) },
            stop: &STOP,
        };
        let lines = run(&settings, &mut Silent).unwrap();
        assert_eq!(lines.len(), 2 * 3 * 3);
        assert!(lines.iter().all(|line| line.median > 0.0), "{lines:?}");
        let none = Settings { commits: 0, ..settings };
        assert!(matches!(run(&none, &mut Silent), Err(Error::Invalid { .. })));
    }

    #[test]
    fn a_tail_block_has_all_that_was_committed_in_it_and_nothing_behind() {
        let (at, block) = tail(12);
        assert_eq!(at, 4096);
        let fresh = 13 * FRESH - 4096;
        assert!(block[..fresh].iter().all(|byte| *byte != 0) && block[fresh..].iter().all(|byte| *byte == 0));
    }
}
