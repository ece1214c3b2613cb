//! A worker: one transaction after the other, acknowledging earlier ones in between.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use ishigaki_wal::{self as wal, Dependencies, Log, Receipt, Stream};
use parking_lot::MutexGuard;
use smallvec::SmallVec;

use super::Workload;
use super::marks::Marks;
use super::record::{Update, Writer};
use super::round::Point;
use super::rows::{Row, Rows};
use crate::counting::{Count, Counting};
use crate::latency::Latencies;

/// The measured time of a run, the same for all workers. The first worker that finds it begun, or over, makes it so for all.
#[derive(Debug)]
pub(super) struct Window<'a> {
    /// It begins no earlier.
    warm: Instant,
    measured: Duration,
    counting: &'a Counting,
    /// Something was acknowledged in it. Before that it does not end, however slow the medium.
    some: AtomicBool,
    /// Begin and end, and what the device had written then.
    edges: [OnceLock<(Instant, Count)>; 2],
}

impl<'a> Window<'a> {
    /// Begins when `warm` is over.
    pub(super) fn new(warm: Duration, measured: Duration, counting: &'a Counting) -> Self {
        Self {
            warm: Instant::now() + warm,
            measured,
            counting,
            some: AtomicBool::new(false),
            edges: Default::default(),
        }
    }

    fn begin(&self) -> Option<Instant> {
        self.edges[0].get().map(|(begin, _)| *begin)
    }

    /// Begins and ends the window as the time says. True when it is over.
    fn pass(&self, now: Instant) -> bool {
        let edge = |edge: usize| self.edges[edge].get_or_init(|| (Instant::now(), self.counting.count()));
        match self.begin() {
            None if now >= self.warm => edge(0),
            Some(begin) if now >= begin + self.measured && self.some.load(Ordering::Relaxed) => edge(1),
            _ => return false,
        };
        self.edges[1].get().is_some()
    }

    /// Whether what happens at that time is measured.
    fn holds(&self, now: Instant) -> bool {
        self.begin().is_some_and(|begin| now >= begin) && self.edges[1].get().is_none()
    }

    /// How long it was, and how many bytes in a second the device wrote in it.
    pub(super) fn extent(&self) -> (Duration, f64) {
        let [Some((begin, before)), Some((end, after))] = [&self.edges[0], &self.edges[1]].map(OnceLock::get) else {
            return (Duration::ZERO, 0.0);
        };
        let time = *end - *begin;
        (time, after.since(*before).bytes as f64 / time.as_secs_f64())
    }
}

/// What a worker saw.
#[derive(Debug)]
pub(super) struct Tally {
    /// Of what was acknowledged in the window: from begin to being acknowledged.
    pub(super) known: Latencies,
    /// Of the same transactions: from begin to their record being found durable.
    pub(super) flushed: Latencies,
    /// The sum of all times in `known`, and of what of them came after being durable.
    pub(super) spent: [Duration; 2],
    /// In the window or not.
    pub(super) acknowledged: Marks,
    pub(super) appended: u64,
}

/// A transaction that is not acknowledged yet.
#[derive(Debug)]
struct Pending {
    begun: Instant,
    /// When its record was found durable.
    flushed: Instant,
    number: u64,
    receipt: Receipt,
}

/// Transactions whose records are in one stream, in its order.
#[derive(Debug, Default)]
struct Queue {
    pending: VecDeque<Pending>,
    /// How many at the front are durable.
    flushed: usize,
}

/// One thread of the workload.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    log: &'a Log,
    rows: &'a Rows,
    stream: Stream,
    workload: Workload,
    number: u32,
    writer: Writer,
    random: Rng,
    /// By stream: a record goes to another one if the worker's own is busy.
    queues: Vec<Queue>,
    outstanding: usize,
    most: usize,
    tally: Tally,
}

impl<'a> Worker<'a> {
    pub(super) fn new(log: &'a Log, rows: &'a Rows, point: &Point, number: u32, mut random: Rng) -> Self {
        let tally = Tally {
            known: Latencies::new(),
            flushed: Latencies::new(),
            spent: [Duration::ZERO; 2],
            acknowledged: Marks::default(),
            appended: 0,
        };
        Self {
            log,
            rows,
            stream: log.assign(),
            workload: point.workload,
            number,
            writer: Writer::new(number, &mut random),
            random,
            queues: (0..point.workers).map(|_| Queue::default()).collect(),
            outstanding: 0,
            most: point.outstanding,
            tally,
        }
    }

    /// Works until the window is over, `failed` is set, or the log fails, which sets it. What is outstanding then stays
    /// unacknowledged.
    pub(super) fn work(mut self, window: &Window<'_>, failed: &AtomicBool) -> (Tally, wal::Result<()>) {
        let result = self.run(window, failed);
        if result.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        (self.tally, result)
    }

    fn run(&mut self, window: &Window<'_>, failed: &AtomicBool) -> wal::Result<()> {
        while !failed.load(Ordering::Relaxed) {
            let begun = Instant::now();
            if window.pass(begun) {
                break;
            }
            let receipt = self.transact()?;
            self.push(begun, receipt);
            self.notice(window);
            while self.outstanding >= self.most {
                let fronts = self.queues.iter().filter_map(|queue| queue.pending.front());
                let Some(oldest) = fronts.min_by_key(|pending| pending.begun) else { break };
                self.stream.settle(&oldest.receipt)?;
                self.notice(window);
            }
        }
        Ok(())
    }

    /// Changes rows and appends the record: locks are held from before the first change until it has its LSN.
    fn transact(&mut self) -> wal::Result<Receipt> {
        let rows = self.workload.draw(self.number, &mut self.random);
        let mut locked: SmallVec<[MutexGuard<'_, Row>; 16]> = rows.iter().map(|&row| self.rows.lock(row)).collect();
        let mut dependencies = Dependencies::default();
        let update = |(&row, locked): (&u32, &MutexGuard<'_, Row>)| {
            dependencies.add(locked.writer);
            Update { row, before: locked.value, after: locked.value + 1 }
        };
        let updates: SmallVec<[Update; 16]> = rows.iter().zip(&locked).map(update).collect();
        let record = self.writer.write(self.tally.appended, &updates, self.workload.inserts(&updates));
        let receipt = self.stream.append_after(&dependencies, record)?;
        for (row, update) in locked.iter_mut().zip(&updates) {
            row.value = update.after;
            row.writer = receipt.position();
        }
        drop(locked);
        self.stream.pace_after(&receipt);
        Ok(receipt)
    }

    fn push(&mut self, begun: Instant, receipt: Receipt) {
        let stream = usize::from(receipt.position().stream().0);
        let pending = Pending { begun, flushed: begun, number: self.tally.appended, receipt };
        self.queues[stream].pending.push_back(pending);
        self.tally.appended += 1;
        self.outstanding += 1;
    }

    /// Notes what has become durable, and acknowledges what may be (P-WAL algorithm 4, with a queue per stream).
    fn notice(&mut self, window: &Window<'_>) {
        let mut clock = None;
        for queue in &mut self.queues {
            while let Some(next) = queue.pending.get_mut(queue.flushed)
                && self.log.has_written(next.receipt.position())
            {
                next.flushed = *clock.get_or_insert_with(Instant::now);
                queue.flushed += 1;
            }
            while queue.flushed > 0
                && let Some(next) = queue.pending.pop_front_if(|next| self.log.has_settled(&next.receipt))
            {
                let now = *clock.get_or_insert_with(Instant::now);
                queue.flushed -= 1;
                self.outstanding -= 1;
                self.tally.acknowledged.add(next.number);
                if window.holds(now) {
                    window.some.store(true, Ordering::Relaxed);
                    self.tally.known.record(now - next.begun);
                    self.tally.flushed.record(next.flushed - next.begun);
                    self.tally.spent[0] += now - next.begun;
                    self.tally.spent[1] += now.saturating_duration_since(next.flushed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Variant;
    use ishigaki_base::Position;
    use ishigaki_base::random::Seed;
    use ishigaki_device::MemoryDirectory;
    use ishigaki_wal::{CommitRule, Group, LogKind};
    use std::collections::HashMap;
    use std::sync::Arc;

    /// A log that writes nothing by itself, so that nothing settles and every dependency is named.
    fn still(workers: u16) -> Arc<Log> {
        let settings = wal::Settings {
            kind: LogKind::Parallel,
            commit: CommitRule::Dependencies,
            streams: workers,
            group: Group { transactions: 4096, ..Group::default() },
            background: false,
            ..wal::Settings::default()
        };
        Log::open(Arc::new(MemoryDirectory::new()), settings, &mut |_, _| Ok(())).unwrap().0
    }

    #[test]
    fn an_order_depends_on_the_one_before_it_in_its_district_and_on_those_that_changed_its_stock() {
        let workload = Workload::Tpcc { warehouses: 1 };
        let variant = Variant { log: LogKind::Parallel, commit: CommitRule::Dependencies };
        let point = Point { workload, variant, workers: 3, group: 4096, outstanding: 4096 };
        let (log, rows) = (still(3), Rows::new(workload.rows()));
        let mut workers =
            [0, 1, 2].map(|number| Worker::new(&log, &rows, &point, number, Seed(1).derive(number.into()).generator()));
        let mut writers: HashMap<u32, Position> = HashMap::new();
        let (mut districts, mut stock) = (0, 0);
        for _ in 0..10 {
            for (number, worker) in workers.iter_mut().enumerate() {
                let drawn = workload.draw(number as u32, &mut worker.random.clone());
                let receipt = worker.transact().unwrap();
                let mut expected = Dependencies::default();
                for (place, &row) in drawn.iter().enumerate() {
                    let last = writers.insert(row, receipt.position()).unwrap_or(Position::NONE);
                    expected.add(last);
                    let other = last != Position::NONE && last.stream() != receipt.position().stream();
                    *if place == 0 { &mut districts } else { &mut stock } += u32::from(other);
                    let row = rows.lock(row);
                    assert_eq!(row.writer, receipt.position());
                    assert!(row.value > 0);
                }
                let others = |dependencies: &Dependencies| {
                    let all = dependencies.iter().filter(|position| position.stream() != receipt.position().stream());
                    let mut all: Vec<Position> = all.collect();
                    all.sort_unstable();
                    all
                };
                assert_eq!(others(receipt.dependencies()), others(&expected));
            }
        }
        assert!(districts >= 5 && stock > 0, "workers met in {districts} districts and {stock} items' stock");
    }
}
