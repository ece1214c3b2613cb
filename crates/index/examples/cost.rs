//! What the operations of an index cost: nanoseconds of processor time in one thread and in two.
//!
//! `cargo run --release -p ishigaki-index --example cost -- [KEYS]`

use std::ops::{Bound, ControlFlow};
use std::sync::Barrier;
use std::time::Duration;

use ishigaki_index::{Guard, Index, Seen};
use rustix::time::{ClockId, clock_gettime};

/// Keys of a step, under one guard.
const STEP: usize = 10;
/// Keys that a walk shows.
const WALK: usize = 100;

fn main() {
    let keys = std::env::args().nth(1).and_then(|keys| keys.parse().ok()).unwrap_or(20_000);
    let (mut order, mut random) = ((0..keys).collect::<Vec<u64>>(), fastrand::Rng::with_seed(7));
    random.shuffle(&mut order);
    for threads in [1, 2] {
        let index = Index::new();
        let records: Vec<_> = order.iter().map(|key| (key.to_be_bytes(), *key)).collect();
        let share = order.len() / threads;
        let show = |what: &str, cost: f64| println!("{what:<24} {threads} threads {cost:>8.1} ns");
        let insert = measure(threads, |thread| {
            for (key, record) in &records[thread * share..(thread + 1) * share] {
                assert!(index.insert(key, *record, &Guard::new()).is_ok());
            }
            share
        });
        show("insert", insert);
        println!("memory of nodes for {keys} keys: {}", index.memory());
        let uniform = Draw::uniform(keys);
        let skewed = Draw::zipf(keys, 0.9);
        for (name, draw) in [("get, uniform", &uniform), ("get, Zipf 0.9", &skewed)] {
            let drawn: Vec<Vec<[u8; 8]>> =
                (0..threads).map(|seed| draw.keys(order.len(), &order, seed as u64)).collect();
            let get = measure(threads, |thread| {
                let mut sum = 0;
                for step in drawn[thread].chunks(STEP) {
                    let guard = Guard::new();
                    for key in step {
                        sum ^= index.get(key, &guard).expect("it is there");
                    }
                }
                std::hint::black_box(sum);
                drawn[thread].len()
            });
            show(name, get);
        }
        let starts = uniform.keys(order.len() / WALK, &order, 9);
        let walk = measure(threads, |_| {
            let mut shown = 0;
            for start in &starts {
                let (mut left, mut seen) = (WALK, Seen::new());
                let range = (Bound::Included(start.as_slice()), Bound::Unbounded);
                let _ = index.walk(
                    range,
                    Some(&mut seen),
                    &Guard::new(),
                    |_| (),
                    |_, record| {
                        shown += usize::from(record < keys);
                        left -= 1;
                        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    },
                );
            }
            std::hint::black_box(shown);
            starts.len()
        });
        show("walk of 100", walk);
        let remove = measure(threads, |thread| {
            for (key, _) in &records[thread * share..(thread + 1) * share] {
                assert!(index.remove_if(key, |_| true, &Guard::new()).is_some());
            }
            share
        });
        show("remove", remove);
    }
}

/// Runs `work` in some threads at once; the processor time of one of its operations, on the average.
fn measure(threads: usize, work: impl Fn(usize) -> usize + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let costs: Vec<f64> = std::thread::scope(|scope| {
        let run = |thread| {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                let start = processor_time();
                let operations = work(thread);
                processor_time().saturating_sub(start).as_nanos() as f64 / operations as f64
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        running.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    costs.iter().sum::<f64>() / threads as f64
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Which keys are asked for.
struct Draw {
    /// For each rank the share of draws up to it; none if all keys are drawn alike.
    shares: Vec<f64>,
}

impl Draw {
    fn uniform(_: u64) -> Self {
        Self { shares: Vec::new() }
    }

    fn zipf(keys: u64, theta: f64) -> Self {
        let mut sum = 0.0;
        let mut shares: Vec<f64> = (1..=keys)
            .map(|rank| {
                sum += 1.0 / (rank as f64).powf(theta);
                sum
            })
            .collect();
        for share in &mut shares {
            *share /= sum;
        }
        Self { shares }
    }

    /// Some keys; the key of a rank is that of its place in `order`.
    fn keys(&self, count: usize, order: &[u64], seed: u64) -> Vec<[u8; 8]> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rank = || match self.shares.len() {
            0 => random.usize(..order.len()),
            ranks => self.shares.partition_point(|share| *share < random.f64()).min(ranks - 1),
        };
        (0..count).map(|_| order[rank()].to_be_bytes()).collect()
    }
}
