//! A worker: one transaction after the other, acknowledging earlier ones in between.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use ishigaki_wal::{self as wal, Dependencies, Log, Receipt, Stream};
use parking_lot::MutexGuard;
use smallvec::SmallVec;

use super::marks::Marks;
use super::pages::{PAGES, Page, Pages};
use super::record::{Update, Writer};
use super::round::Point;
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
    pages: &'a Pages,
    stream: Stream,
    writer: Writer,
    random: Rng,
    updates: usize,
    /// By stream: a record goes to another one if the worker's own is busy.
    queues: Vec<Queue>,
    outstanding: usize,
    most: usize,
    tally: Tally,
}

impl<'a> Worker<'a> {
    pub(super) fn new(log: &'a Log, pages: &'a Pages, point: &Point, number: u32, mut random: Rng) -> Self {
        let tally = Tally {
            known: Latencies::new(),
            flushed: Latencies::new(),
            spent: [Duration::ZERO; 2],
            acknowledged: Marks::default(),
            appended: 0,
        };
        Self {
            log,
            pages,
            stream: log.assign(),
            writer: Writer::new(point.workload, number, &mut random),
            random,
            updates: point.workload.updates(),
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

    /// Updates random pages and appends the record: locks are held from before the first update until it has its LSN.
    fn transact(&mut self) -> wal::Result<Receipt> {
        let pages = self.draw_pages();
        let mut locked: SmallVec<[MutexGuard<'_, Page>; 10]> =
            pages.iter().map(|&page| self.pages.lock(page)).collect();
        let mut dependencies = Dependencies::default();
        for (place, (page, locked)) in pages.iter().zip(&mut locked).enumerate() {
            dependencies.add(locked.writer);
            let before = locked.value;
            self.writer.update(place, Update { page: *page, before, after: before + 1 });
        }
        let receipt = self.stream.append_after(&dependencies, self.writer.finish(self.tally.appended))?;
        for page in &mut locked {
            page.value += 1;
            page.writer = receipt.position();
        }
        drop(locked);
        self.stream.pace_after(&receipt);
        Ok(receipt)
    }

    /// Different ones, in the order in which they are locked.
    fn draw_pages(&mut self) -> SmallVec<[u32; 10]> {
        let mut pages = SmallVec::new();
        while pages.len() < self.updates {
            let page = self.random.u32(0..PAGES);
            if !pages.contains(&page) {
                pages.push(page);
            }
        }
        pages.sort_unstable();
        pages
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
