//! Runs workers beside each other for a while and takes their times.
//!
//! A [`Pace`] says for how long. Each worker is a loop of operations, in a thread of its own ([`Pace::run`]) or one of many
//! in a thread ([`Pace::threads`]); its [`Times`] tell it when to begin the next operation and when to stop, and
//! [`Run`] is what all of them come to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::Latencies;

/// How long a round takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Not measured: threads start, caches and the medium's queue fill.
    pub warm: Duration,
    /// Measured.
    pub measured: Duration,
}

/// What came of a round.
#[derive(Clone, Debug)]
pub struct Run {
    /// Of the operations that began in the measured time.
    pub latencies: Latencies,
    /// From the first measured operation's begin to the last one's end.
    pub elapsed: Duration,
    /// Operations of each worker, measured or not, in the order of the workers.
    pub done: Vec<u64>,
}

impl Run {
    /// Measured operations in a second.
    pub fn throughput(&self) -> f64 {
        self.latencies.count() as f64 / self.elapsed.as_secs_f64()
    }

    fn of(workers: Vec<Times>) -> Self {
        let first = workers.iter().map(|times| times.first).min();
        let last = workers.iter().map(|times| times.last).max();
        let elapsed = last.zip(first).map_or(Duration::ZERO, |(last, first)| last - first);
        let mut run = Self { latencies: Latencies::new(), elapsed, done: Vec::new() };
        for times in workers {
            run.latencies.add(&times.latencies);
            run.done.push(times.done);
        }
        run
    }
}

impl Pace {
    /// A tenth more than `measured`, at most half a second, goes by before.
    pub fn new(measured: Duration) -> Self {
        Self { warm: (measured / 10).min(Duration::from_millis(500)), measured }
    }

    /// Calls each worker with 0, 1, 2, … in a thread of its own until the time is over or one of them fails.
    pub fn run<E: Send, W: FnMut(u64) -> Result<(), E> + Send>(self, workers: Vec<W>) -> Result<Run, E> {
        let body = |mut worker: W| {
            move |round: &Round| {
                let mut times = round.times();
                while let Some(begun) = times.begin() {
                    worker(times.done)?;
                    times.end(begun);
                }
                Ok(vec![times])
            }
        };
        self.threads(workers.into_iter().map(body).collect())
    }

    /// Runs each body in a thread of its own, all at once. A body has one worker or several, each with
    /// [times](Round::times) of its own, and returns them all, or the error of one of them, which ends the round.
    #[expect(clippy::missing_panics_doc, reason = "passes on what a body panics with")]
    pub fn threads<E: Send, B>(self, bodies: Vec<B>) -> Result<Run, E>
    where
        B: FnOnce(&Round) -> Result<Vec<Times>, E> + Send,
    {
        let together = Barrier::new(bodies.len());
        let round = Round { pace: self, failed: Arc::default() };
        let parts: Result<Vec<Vec<Times>>, E> = std::thread::scope(|scope| {
            let (together, round) = (&together, &round);
            let start = |body: B| {
                scope.spawn(move || {
                    together.wait();
                    let part = body(round);
                    round.failed.fetch_or(part.is_err(), Ordering::Relaxed);
                    part
                })
            };
            let threads: Vec<_> = bodies.into_iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("a body returns its errors")).collect()
        });
        Ok(Run::of(parts?.into_iter().flatten().collect()))
    }
}

/// A round that has begun.
#[derive(Clone, Debug)]
pub struct Round {
    pace: Pace,
    failed: Arc<AtomicBool>,
}

impl Round {
    /// For one worker, who begins now.
    pub fn times(&self) -> Times {
        let first = Instant::now() + self.pace.warm;
        Times {
            failed: Arc::clone(&self.failed),
            first,
            end: first + self.pace.measured,
            last: first,
            latencies: Latencies::new(),
            measured: 0,
            done: 0,
        }
    }
}

/// The times of one worker's operations.
#[derive(Debug)]
pub struct Times {
    failed: Arc<AtomicBool>,
    first: Instant,
    end: Instant,
    last: Instant,
    latencies: Latencies,
    measured: u64,
    done: u64,
}

impl Times {
    /// When the next operation begins: now. None when the time is over or another worker has failed. At least one
    /// operation is measured, however slow the medium.
    pub fn begin(&self) -> Option<Instant> {
        let now = Instant::now();
        let over = now >= self.end && self.measured > 0;
        (!over && !self.failed.load(Ordering::Relaxed)).then_some(now)
    }

    /// The operation that began then is done. It is measured if it began in the measured time.
    pub fn end(&mut self, begun: Instant) {
        if let Some(time) = self.end_apart(begun) {
            self.latencies.record(time);
        }
    }

    /// The same, but how long the operation took is told to the caller, if it is measured, and nowhere kept.
    pub fn end_apart(&mut self, begun: Instant) -> Option<Duration> {
        self.done += 1;
        if !self.measures(begun) {
            return None;
        }
        self.measured += 1;
        self.last = Instant::now();
        Some(self.last - begun)
    }

    /// Whether an operation that began then is measured.
    pub fn measures(&self, begun: Instant) -> bool {
        begun >= self.first
    }

    /// How many operations are done, measured or not.
    pub fn done(&self) -> u64 {
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, Result};

    #[test]
    fn throughput_and_latency_agree() {
        let nap = Duration::from_millis(2);
        let worker = || {
            move |_| {
                std::thread::sleep(nap);
                Ok::<_, Error>(())
            }
        };
        let run = Pace::new(Duration::from_millis(100)).run(vec![worker(), worker()]).unwrap();
        assert!(run.latencies.quantile(0.5) >= nap.as_secs_f64() * 0.99);
        assert!(run.throughput() > 10.0 && run.throughput() <= 1001.0);
        assert!(run.done.iter().sum::<u64>() > run.latencies.count(), "the warm part is done and not measured");
    }

    #[test]
    fn the_error_of_one_worker_ends_the_round() {
        let worker = |fails: bool| {
            move |turn: u64| {
                std::thread::sleep(Duration::from_micros(100));
                if fails && turn == 3 {
                    return Err(Error::Invalid { setting: "turn", reason: "on purpose".to_owned() });
                }
                Ok(())
            }
        };
        let started = Instant::now();
        let result = Pace::new(Duration::from_mins(1)).run(vec![worker(true), worker(false)]);
        assert!(matches!(result, Err(Error::Invalid { .. })));
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn many_workers_of_one_thread_are_told_apart_and_keep_their_order() {
        let body = |shares: [u64; 2]| {
            move |round: &Round| -> Result<Vec<Times>> {
                let mut workers = shares.map(|share| (share, round.times()));
                while let Some(begun) = workers[0].1.begin() {
                    std::thread::sleep(Duration::from_millis(1));
                    for (share, times) in &mut workers {
                        (0..*share).for_each(|_| times.end(begun));
                    }
                }
                Ok(workers.map(|(_, times)| times).into())
            }
        };
        let run = Pace::new(Duration::from_millis(20)).threads(vec![body([1, 2]), body([3, 4])]).unwrap();
        let [one, two, three, four] = run.done[..] else { panic!("not four workers: {:?}", run.done) };
        assert_eq!((two, four * 3), (one * 2, three * 4));
        assert!(run.latencies.count() > 0);
    }
}
