//! What a medium can do: synchronous appends by several threads, in several sizes.
//!
//! The device write test of the P-WAL paper (P1.11): every thread appends to a preallocated region of its own, each write
//! durable before the next, beginning anew at the end of the region. Rounds alternate over all cases, so that a slow
//! moment of the machine falls on all of them. At the end of each run every thread reads its last write back; only a run
//! that holds it counts.

use std::ops::ControlFlow;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;

use crate::{Directory, Error, Pace, Promise, Result};
use latency::Latencies;
use region::{Region, Work, regions};

mod latency;
mod region;

/// The most threads that a probe starts.
const MAX_THREADS: usize = 1024;

/// What to measure.
#[derive(Clone, Debug)]
pub struct ProbeSettings {
    /// Counts of threads; each with each size is a case.
    pub threads: Vec<usize>,
    /// Bytes of a write. What is not a multiple of the medium's block size is left out and said.
    pub sizes: Vec<ByteSize>,
    /// The time of one case in one round.
    pub duration: Duration,
    /// How often each case is measured.
    pub rounds: usize,
    /// Bytes that a thread writes before it begins anew; rounded up to the largest write.
    pub region: ByteSize,
    /// Decides the bytes that are written.
    pub seed: Seed,
    /// The time that counts; the one of a modelled medium if that is virtual.
    pub pace: Pace,
}

impl Default for ProbeSettings {
    /// 1, 2 and 4 threads; 512 B, 4, 16 and 64 KiB; 3 rounds of half a second; regions of 8 MiB; real time.
    fn default() -> Self {
        Self {
            threads: vec![1, 2, 4],
            sizes: vec![ByteSize::b(512), ByteSize::kib(4), ByteSize::kib(16), ByteSize::kib(64)],
            duration: Duration::from_millis(500),
            rounds: 3,
            region: ByteSize::mib(8),
            seed: Seed(0),
            pace: Pace::Real,
        }
    }
}

/// What a medium did.
#[derive(Clone, Debug)]
pub struct ProbeReport {
    /// What it promises: block size, atomic writes, direct transfers, trim.
    pub promise: Promise,
    /// Whether a durable write is one command of the drive (forced unit access, FUA, or no volatile cache); see
    /// [`Device::writes_through`](crate::Device::writes_through). `None`: not known.
    pub writes_through: Option<bool>,
    /// A case for each count of threads and each size that the medium takes.
    pub cases: Vec<ProbeCase>,
    /// Sizes that are not multiples of the block size.
    pub left_out: Vec<ByteSize>,
    /// False if it was stopped; then some cases have fewer runs than rounds were asked for.
    pub complete: bool,
}

/// One count of threads with one size.
#[derive(Clone, Debug)]
pub struct ProbeCase {
    /// Threads that write beside each other.
    pub threads: usize,
    /// Bytes of a write.
    pub size: ByteSize,
    /// What each round gave, in the order of the rounds.
    pub runs: Vec<ProbeRun>,
}

/// One case in one round.
#[derive(Clone, Copy, Debug)]
pub struct ProbeRun {
    /// Durable writes of all threads in a second.
    pub throughput: f64,
    /// Durable bytes of all threads in a second.
    pub bandwidth: f64,
    /// The time that half of the writes stayed within.
    pub latency_p50: Duration,
    /// The time that 99% of the writes stayed within.
    pub latency_p99: Duration,
}

impl ProbeCase {
    /// The middle of what the rounds gave; 0 if there was none.
    pub fn median(&self, figure: impl Fn(&ProbeRun) -> f64) -> f64 {
        let mut values: Vec<f64> = self.runs.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
        f64::midpoint(at(values.len().saturating_sub(1) / 2), at(values.len() / 2))
    }

    /// Durable bytes in a second, the middle of the rounds.
    pub fn bandwidth(&self) -> f64 {
        self.median(|run| run.bandwidth)
    }
}

/// How far a probe is.
#[derive(Clone, Copy, Debug)]
pub struct ProbeStep {
    /// Threads of the case that comes next.
    pub threads: usize,
    /// Its bytes of a write.
    pub size: ByteSize,
    /// Runs done.
    pub done: u64,
    /// Runs there will be.
    pub of: u64,
}

/// Measures the medium below a directory.
///
/// Makes a device `probe-N` for each thread and removes its name at once, so that nothing is left behind whatever happens.
/// `tell` hears of every run before it begins and may stop there; by then the names are gone.
///
/// # Errors
///
/// [`Error::Invalid`] for settings that leave nothing to measure; [`Error::AlreadyExists`] if the directory has a device
/// of that name; what the devices fail with; [`Error::Io`] if a device does not hold what was written.
pub fn probe(
    directory: &dyn Directory,
    settings: &ProbeSettings,
    tell: &mut dyn FnMut(ProbeStep) -> ControlFlow<()>,
) -> Result<ProbeReport> {
    settings.validate()?;
    let most = settings.threads.iter().copied().max().unwrap_or(0);
    let largest = settings.sizes.iter().max().map_or(0, ByteSize::as_u64);
    let length = settings.region.as_u64().max(largest);
    let mut regions = regions(directory, most, length, largest as usize, settings.seed)?;
    let promise = regions.first().map(|region| region.device().promise());
    let writes_through = regions.first().and_then(|region| region.device().writes_through());
    let promise = promise.ok_or_else(|| invalid("threads", "there must be at least one"))?;
    let (sizes, left_out): (Vec<ByteSize>, Vec<ByteSize>) =
        settings.sizes.iter().partition(|size| size.as_u64().is_multiple_of(promise.block_size as u64));
    if sizes.is_empty() {
        return Err(invalid("sizes", &format!("none is a multiple of the medium's blocks of {}", promise.block_size)));
    }
    let of_threads = |&threads| sizes.iter().map(move |&size| ProbeCase { threads, size, runs: Vec::new() });
    let mut cases: Vec<ProbeCase> = settings.threads.iter().flat_map(of_threads).collect();
    let (mut done, of) = (0, (cases.len() * settings.rounds) as u64);
    let mut complete = true;
    'rounds: for _ in 0..settings.rounds {
        for case in &mut cases {
            if tell(ProbeStep { threads: case.threads, size: case.size, done, of }).is_break() {
                complete = false;
                break 'rounds;
            }
            case.runs.push(run(&mut regions[..case.threads], case.size, settings)?);
            done += 1;
        }
    }
    Ok(ProbeReport { promise, writes_through, cases, left_out, complete })
}

impl ProbeSettings {
    /// Says what about the settings can not be, as a probe with them does.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for settings that leave nothing to measure.
    pub fn validate(&self) -> Result<()> {
        if self.threads.is_empty() || self.threads.iter().any(|threads| !(1..=MAX_THREADS).contains(threads)) {
            return Err(invalid("threads", &format!("one or more numbers from 1 to {MAX_THREADS} are needed")));
        }
        let sizes = ByteSize::b(1)..=ByteSize::gib(1);
        if self.sizes.is_empty() || self.sizes.iter().any(|size| !sizes.contains(size)) {
            return Err(invalid("sizes", "one or more sizes up to 1 GiB are needed, as in 4KiB"));
        }
        if self.rounds == 0 {
            return Err(invalid("rounds", "at least one is needed"));
        }
        Ok(())
    }
}

fn invalid(setting: &str, reason: &str) -> Error {
    Error::Invalid { name: setting.to_owned(), reason: reason.to_owned() }
}

/// One case once: a thread for each region, begun together.
fn run(regions: &mut [Region], size: ByteSize, settings: &ProbeSettings) -> Result<ProbeRun> {
    let ProbeSettings { duration, pace, .. } = settings;
    let bytes = size.as_u64() as usize;
    pace.barrier();
    let together = Barrier::new(regions.len());
    let works: Vec<Result<Work>> = thread::scope(|scope| {
        let mut threads = Vec::with_capacity(regions.len());
        for (rank, region) in regions.iter_mut().enumerate() {
            let together = &together;
            threads.push(scope.spawn(move || {
                let _turns = pace.take_turns(rank);
                together.wait();
                region.append(bytes, *duration, pace)
            }));
        }
        threads.into_iter().map(|thread| thread.join().expect("a thread of the probe does not panic")).collect()
    });
    pace.barrier();
    let works: Vec<Work> = works.into_iter().collect::<Result<_>>()?;
    // Only now: reads among the last writes of others would be in their way.
    regions.iter().zip(&works).try_for_each(|(region, work)| region.check(work, bytes))?;
    let mut latencies = Latencies::new();
    for work in &works {
        latencies.add(&work.latencies);
    }
    let begin = works.iter().map(|work| work.begin).min().unwrap_or_default();
    let end = works.iter().map(|work| work.end).max().unwrap_or_default();
    // No clock is finer than this; a medium that takes no time at all has no speed to speak of.
    let seconds = end.saturating_sub(begin).max(Duration::from_nanos(1)).as_secs_f64();
    let throughput = latencies.count() as f64 / seconds;
    Ok(ProbeRun {
        throughput,
        bandwidth: throughput * bytes as f64,
        latency_p50: latencies.quantile(0.5),
        latency_p99: latencies.quantile(0.99),
    })
}
