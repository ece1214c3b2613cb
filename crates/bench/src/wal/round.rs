//! One run of one case: a fresh log, the workers, the bare device, the check.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_device::{Directory, ProbeCase, ProbeSettings, SECTOR, probe};
use ishigaki_wal::{self as wal, Group, Log};

use super::check::{Promised, check};
use super::rows::Rows;
use super::worker::{Tally, Window, Worker};
use super::{Settings, Variant, Workload};
use crate::Result;
use crate::counting::{Count, Counting};
use crate::latency::Latencies;

/// One case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) workload: Workload,
    pub(super) variant: Variant,
    pub(super) workers: usize,
    pub(super) group: usize,
    pub(super) outstanding: usize,
}

impl Point {
    /// The settings of its log: a stream for each worker, where the log has several, and space for all that a run writes,
    /// so that none waits for a trim.
    fn log(&self, settings: &Settings) -> wal::Settings {
        wal::Settings {
            kind: self.variant.log,
            commit: self.variant.commit,
            streams: self.workers as u16,
            relief: 0,
            group: Group { transactions: self.group, ..settings.log.group.clone() },
            space: ByteSize::tib(1),
            ..settings.log.clone()
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Variant { log, commit } = self.variant;
        write!(f, "{}, {log} log by {commit}, {} workers", self.workload, self.workers)
    }
}

/// What one run gave.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Acknowledged in a second.
    pub(super) throughput: f64,
    /// Bytes that reached the device in a second.
    pub(super) bandwidth: f64,
    /// The same, divided by what the bare device took.
    pub(super) share_of_device: f64,
    /// From begin to acknowledged, in seconds: p50 and p99.
    pub(super) known: [f64; 2],
    /// From begin to the record being durable: p50 and p99.
    pub(super) flushed: [f64; 2],
    /// Of all time until acknowledged, what came after the record was durable.
    pub(super) share_of_waiting: f64,
    /// Device writes per transaction.
    pub(super) writes: f64,
}

/// Runs, measures the device with as many threads and bytes, and checks.
pub(super) fn run(settings: &Settings, point: &Point, round: usize) -> Result<Outcome> {
    let log = point.log(settings);
    let counting = Arc::new(Counting::new(settings.target.directory().clone()));
    let directory: Arc<dyn Directory> = counting.clone();
    let measured = measure(settings, point, &log, &counting, round)?;
    check(point.workload, directory, log, &measured.promised, &settings.target)?;
    let block = block_size(settings.target.directory().as_ref())?;
    settings.target.clear()?;

    let Measured { known, flushed, spent, promised, extent: (time, bandwidth), count } = measured;
    let appended: u64 = promised.left.iter().flat_map(|(appended, _)| appended).sum();
    let quantiles = |latencies: &Latencies| [0.5, 0.99].map(|share| latencies.quantile(share));
    Ok(Outcome {
        throughput: known.count() as f64 / time.as_secs_f64(),
        bandwidth,
        share_of_device: bandwidth / bare_bandwidth(settings, point, count, block)?,
        known: quantiles(&known),
        flushed: quantiles(&flushed),
        share_of_waiting: spent[1].as_secs_f64() / spent[0].as_secs_f64(),
        writes: count.writes as f64 / appended as f64,
    })
}

struct Measured {
    known: Latencies,
    flushed: Latencies,
    spent: [Duration; 2],
    promised: Promised,
    /// How long was measured, and the bandwidth in that time.
    extent: (Duration, f64),
    /// What the device wrote in all, until everything was durable.
    count: Count,
}

fn measure(
    settings: &Settings,
    point: &Point,
    log: &wal::Settings,
    counting: &Arc<Counting>,
    round: usize,
) -> Result<Measured> {
    let (log, _) = Log::open(counting.clone(), log.clone(), &mut |_, _| Ok(()))?;
    let rows = Rows::new(point.workload.rows());
    let before = counting.count();
    let Work { tallies, extent, result } = work(settings, point, &log, &rows, counting, round);
    result?;
    log.flush()?;
    let count = counting.count().since(before);
    log.close()?;

    let (mut known, mut flushed, mut spent) = (Latencies::new(), Latencies::new(), [Duration::ZERO; 2]);
    let (mut acknowledged, mut appended) = (Vec::new(), Vec::new());
    for tally in tallies {
        known.add(&tally.known);
        flushed.add(&tally.flushed);
        spent.iter_mut().zip(tally.spent).for_each(|(sum, time)| *sum += time);
        acknowledged.push(tally.acknowledged);
        appended.push(tally.appended);
    }
    let promised = Promised { acknowledged, left: Some((appended, rows.values())) };
    Ok(Measured { known, flushed, spent, promised, extent, count })
}

/// What the workers of a run saw.
struct Work {
    tallies: Vec<Tally>,
    /// How long was measured, and the bandwidth in that time.
    extent: (Duration, f64),
    /// The first worker's failure, if there was one.
    result: wal::Result<()>,
}

/// All workers beside each other, until the time is over or the log fails.
fn work(settings: &Settings, point: &Point, log: &Log, rows: &Rows, counting: &Counting, round: usize) -> Work {
    let (together, failed, window) = (Barrier::new(point.workers), AtomicBool::new(false), OnceLock::new());
    let warm = (settings.duration / 10).min(Duration::from_millis(500));
    let begin = || {
        together.wait();
        window.get_or_init(|| Window::new(warm, settings.duration, counting))
    };
    let seed = settings.origin.seed.derive(round as u64).derive(point.workers as u64);
    let done: Vec<(Tally, wal::Result<()>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..point.workers as u32)
            .map(|number| {
                let worker = Worker::new(log, rows, point, number, seed.derive(u64::from(number)).generator());
                let (begin, failed) = (&begin, &failed);
                scope.spawn(move || worker.work(begin(), failed))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker returns its errors")).collect()
    });
    let (tallies, results): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    let extent = window.get().map_or_else(Default::default, Window::extent);
    Work { tallies, extent, result: results.into_iter().collect() }
}

/// What as many threads write in a second, each as many bytes at a time as the log wrote on average.
fn bare_bandwidth(settings: &Settings, point: &Point, count: Count, block: usize) -> Result<f64> {
    let mean = count.bytes / count.writes.max(1);
    let probing = ProbeSettings {
        threads: vec![point.workers],
        sizes: vec![ByteSize(mean.max(1).next_multiple_of(block as u64))],
        duration: settings.duration,
        rounds: 1,
        seed: settings.origin.seed,
        ..ProbeSettings::default()
    };
    let report = probe(settings.target.directory().as_ref(), &probing, &mut |_| ControlFlow::Continue(()))?;
    Ok(report.cases.first().map_or(0.0, ProbeCase::bandwidth))
}

/// The block size of the medium that the log lies on.
fn block_size(directory: &dyn Directory) -> Result<usize> {
    let names = directory.list()?;
    let device = names.first().map(|name| directory.open(name)).transpose()?;
    Ok(device.map_or(SECTOR, |device| device.promise().block_size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, Target};
    use ishigaki_base::random::Seed;
    use ishigaki_device::{Fault, SimDirectory};
    use ishigaki_testkit::seeded_runs;
    use ishigaki_wal::{CommitRule, LogKind};

    /// Works on a medium whose power is cut at that operation, and checks what survived.
    fn cut_at(operation: u64, point: &Point, seed: Seed) {
        let medium = SimDirectory::with_seed(seed);
        medium.inject(Fault::PowerCut { operation });
        let target = |medium: &SimDirectory| Target::new("sim", Arc::new(medium.clone()));
        let origin = Origin { machine: String::new(), commit: String::new(), seed };
        let settings = Settings {
            duration: Duration::from_mins(1),
            log: wal::Settings { segment: ByteSize::mib(1), ..wal::Settings::default() },
            ..Settings::new(target(&medium), origin)
        };
        let counting = Arc::new(Counting::new(settings.target.directory().clone()));
        let (log, _) = Log::open(counting.clone(), point.log(&settings), &mut |_, _| Ok(())).unwrap();
        let Work { tallies, result, .. } =
            work(&settings, point, &log, &Rows::new(point.workload.rows()), &counting, 0);
        assert!(result.is_err(), "the cut is noticed");
        drop(log);
        let acknowledged: Vec<_> = tallies.into_iter().map(|tally| tally.acknowledged).collect();
        assert!(acknowledged.iter().any(|marks| marks.count() > 0), "something was acknowledged before the cut");
        let promised = Promised { acknowledged, left: None };
        for survivor in 0..5 {
            let medium: Arc<dyn Directory> = Arc::new(medium.survivors(seed.derive(survivor)));
            check(point.workload, medium, point.log(&settings), &promised, &settings.target).unwrap();
        }
    }

    #[test]
    fn what_workers_acknowledged_survives_a_power_cut_and_nothing_is_there_in_part() {
        let name = "what_workers_acknowledged_survives_a_power_cut_and_nothing_is_there_in_part";
        seeded_runs(name, 5, |seed| {
            // Orders of two warehouses, so that the workers meet in districts and in stock.
            let workloads = [Workload::U1, Workload::U10, Workload::Tpcc { warehouses: 2 }];
            for (place, workload) in (0..).zip(workloads) {
                for commit in [CommitRule::Watermark, CommitRule::Dependencies] {
                    let variant = Variant { log: LogKind::Parallel, commit };
                    let point = Point { workload, variant, workers: 3, group: 4, outstanding: 40 };
                    cut_at(seed.derive(place).generator().u64(60..300), &point, seed);
                }
            }
        });
    }
}
