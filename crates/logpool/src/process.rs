//! The log process: makes entries durable for all who wait, many with one write and one sync (paper 4, sections 4.1.2 and
//! 4.1.3).
//!
//! ```text
//!  request ─▶ desk ─┐                                    sleep: a thread of its own waits for the first request
//!  request ─▶ desk ─┼─▶ one write, one sync ─▶ answers   poll:  it spins instead
//!  request ─▶ desk ─┘                                    delay: after the first request it waits for more
//!                                                        auto:  the first one who comes writes, in its own thread
//! ```
//!
//! Entries are in the log's buffer before their request comes to the desk, so a write takes all that are there, those that
//! nobody waits for as well. What comes during a write is the next write.
//!
//! *Auto* needs no thread and no handing over. Whoever finds nobody writing writes; the others wait, first polling, as long
//! as that has paid lately and there are cores for it. Before it writes it may wait for members that are about to come
//! back: [`tempo`] knows how long each stays away and how long a write takes, and says for how long waiting saves more than
//! it costs. With nobody about to come that is no time at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use ishigaki_base::Lsn;
use ishigaki_wal::{Log, Stream};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{MemberId, Result, Waiting};

mod polling;
mod tempo;

use polling::Polling;
use tempo::Tempo;

/// Shorter delays are spun, since a thread does not wake up in time for them.
const SPUN: Duration = Duration::from_micros(100);

/// The log process.
#[derive(Debug)]
pub(crate) struct Process {
    log: Arc<Log>,
    stream: Stream,
    waiting: Waiting,
    /// There is a thread that writes; else the callers do.
    has_thread: bool,
    desk: Mutex<Desk>,
    /// Told when a request comes.
    arrived: Condvar,
    /// Told when requests are answered, and when nobody writes any more.
    answered: Condvar,
    /// Requests that came to the desk, ever.
    arrivals: AtomicU64,
    /// Everything up to here is durable.
    durable: AtomicU64,
    polling: Polling,
    stopping: AtomicBool,
    batches: Mutex<Batches>,
}

/// Who waits, and whether somebody writes.
#[derive(Debug)]
struct Desk {
    /// Requests that the next write answers, by the number of their arrival.
    queued: Vec<(u64, MemberId)>,
    writing: bool,
    tempo: Tempo,
}

/// What became of requests together.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    /// Writes of the log.
    pub(crate) writes: u64,
    /// Requests that were answered by them.
    pub(crate) requests: u64,
    /// Requests per write.
    pub(crate) sizes: Histogram<u64>,
    /// How long a write takes, in nanoseconds.
    pub(crate) times: Histogram<u64>,
    /// Writes that were held back for members about to come, and for how long together.
    pub(crate) delayed: u64,
    pub(crate) delay: Duration,
}

impl Default for Batches {
    fn default() -> Self {
        let histogram = || Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("fixed bounds that it accepts");
        let (sizes, times) = (histogram(), histogram());
        Self { writes: 0, requests: 0, sizes, times, delayed: 0, delay: Duration::ZERO }
    }
}

impl Process {
    pub(crate) fn new(log: Arc<Log>, waiting: Waiting, background: bool) -> Self {
        let stream = log.assign();
        Self {
            stream,
            waiting,
            has_thread: background && waiting != Waiting::Auto,
            desk: Mutex::new(Desk { queued: Vec::new(), writing: false, tempo: Tempo::default() }),
            arrived: Condvar::new(),
            answered: Condvar::new(),
            arrivals: AtomicU64::new(0),
            durable: AtomicU64::new(log.watermark().0),
            polling: Polling::new(background && waiting == Waiting::Auto),
            stopping: AtomicBool::new(false),
            batches: Mutex::default(),
            log,
        }
    }

    /// Whether [`run`](Self::run) is needed.
    pub(crate) fn has_thread(&self) -> bool {
        self.has_thread
    }

    /// What became of requests so far.
    pub(crate) fn batches(&self) -> Batches {
        self.batches.lock().clone()
    }

    /// Returns when every entry up to `lsn` is durable; true if a write was made for this request alone or by its caller.
    pub(crate) fn commit(&self, member: MemberId, lsn: Lsn) -> Result<bool> {
        // The order matters: nothing that settles after a failure is acknowledged.
        let is_durable = self.is_durable(lsn);
        self.check()?;
        if is_durable {
            return Ok(false);
        }
        let mut desk = self.desk.lock();
        let arrival = self.arrivals.fetch_add(1, Ordering::SeqCst);
        desk.queued.push((arrival, member));
        desk.tempo.arrives(member);
        self.arrived.notify_all();
        loop {
            let is_durable = self.is_durable(lsn);
            self.check()?;
            if is_durable {
                self.leave(&mut desk, arrival);
                return Ok(false);
            }
            if desk.writing || self.has_thread && !self.stopping.load(Ordering::SeqCst) {
                desk = self.wait(desk, lsn);
                continue;
            }
            desk.writing = true;
            if self.waiting == Waiting::Auto && self.polling.is_on() {
                desk = self.hold_back(desk);
            }
            self.write(desk)?;
            return Ok(true);
        }
    }

    /// Who is answered by a write that had begun before it came to the desk is not there for the next one.
    fn leave(&self, desk: &mut Desk, arrival: u64) {
        if let Some(place) = desk.queued.iter().position(|(other, _)| *other == arrival) {
            let (_, member) = desk.queued.swap_remove(place);
            desk.tempo.answered(member);
            self.batches.lock().requests += 1;
        }
    }

    fn check(&self) -> Result<()> {
        self.log.failure().map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn is_durable(&self, lsn: Lsn) -> bool {
        self.durable.load(Ordering::SeqCst) >= lsn.0
    }

    /// Waits until something was answered, or nobody writes.
    fn wait<'a>(&'a self, mut desk: MutexGuard<'a, Desk>, lsn: Lsn) -> MutexGuard<'a, Desk> {
        let expected = desk.tempo.write_time();
        if self.polling.pays(expected) {
            drop(desk);
            self.polling.poll(|| self.is_durable(lsn));
            desk = self.desk.lock();
            if self.is_durable(lsn) || !desk.writing && !self.has_thread {
                return desk;
            }
        }
        self.answered.wait(&mut desk);
        desk
    }

    /// Waits for members that are about to come, as long as that saves more than it costs.
    fn hold_back<'a>(&'a self, mut desk: MutexGuard<'a, Desk>) -> MutexGuard<'a, Desk> {
        let began = Instant::now();
        let mut held = false;
        while let Some((expected, time)) = desk.tempo.worth_waiting(desk.queued.len()) {
            held = true;
            let came;
            (desk, came) = self.wait_for(desk, expected as u64, Instant::now() + time);
            if !came {
                break;
            }
        }
        if held {
            let mut batches = self.batches.lock();
            batches.delayed += 1;
            batches.delay += began.elapsed();
        }
        desk
    }

    /// Waits for so many more requests; says whether they came in time.
    fn wait_for<'a>(
        &'a self,
        mut desk: MutexGuard<'a, Desk>,
        expected: u64,
        until: Instant,
    ) -> (MutexGuard<'a, Desk>, bool) {
        let enough = self.arrivals.load(Ordering::SeqCst) + expected;
        let here = || self.arrivals.load(Ordering::SeqCst) >= enough;
        if until.saturating_duration_since(Instant::now()) < SPUN {
            drop(desk);
            while !here() && Instant::now() < until {
                thread::yield_now();
            }
            desk = self.desk.lock();
        } else {
            while !here() && !self.arrived.wait_until(&mut desk, until).timed_out() {}
        }
        (desk, here())
    }

    /// Writes all there is and answers; gives the desk back to whoever comes next.
    fn write(&self, mut desk: MutexGuard<'_, Desk>) -> Result<()> {
        let answered = std::mem::take(&mut desk.queued);
        drop(desk);
        let began = Instant::now();
        let last = self.log.last_drawn();
        let outcome = self.stream.wait(last);
        let took = began.elapsed();
        let mut desk = self.desk.lock();
        desk.writing = false;
        if outcome.is_ok() {
            self.durable.fetch_max(last.0, Ordering::SeqCst);
            desk.tempo.wrote(took, answered.iter().map(|(_, member)| *member));
            let mut batches = self.batches.lock();
            batches.writes += 1;
            batches.requests += answered.len() as u64;
            batches.sizes.saturating_record(answered.len() as u64);
            batches.times.saturating_record(took.as_nanos() as u64);
        }
        self.answered.notify_all();
        drop(desk);
        outcome.map_err(Into::into)
    }

    /// The body of the log process' own thread. Ends when it is told to, or when the log has failed.
    pub(crate) fn run(&self) {
        let Waiting::Fixed { polling, delay } = self.waiting else { return };
        loop {
            let mut desk = self.desk.lock();
            while desk.queued.is_empty() && !self.stopping.load(Ordering::SeqCst) {
                if polling {
                    let seen = self.arrivals.load(Ordering::SeqCst);
                    drop(desk);
                    while self.arrivals.load(Ordering::SeqCst) == seen && !self.stopping.load(Ordering::SeqCst) {
                        thread::yield_now();
                    }
                    desk = self.desk.lock();
                } else {
                    self.arrived.wait(&mut desk);
                }
            }
            if desk.queued.is_empty() {
                return;
            }
            desk.writing = true;
            if !delay.is_zero() {
                drop(desk);
                pause(delay);
                desk = self.desk.lock();
            }
            if self.write(desk).is_err() {
                return;
            }
        }
    }

    /// Ends [`run`](Self::run) once everything queued was answered; whoever comes later writes in its own thread.
    pub(crate) fn stop(&self) {
        let _desk = self.desk.lock();
        self.stopping.store(true, Ordering::SeqCst);
        self.arrived.notify_all();
        self.answered.notify_all();
    }
}

/// Lets exactly so much time go by.
fn pause(time: Duration) {
    let began = Instant::now();
    if time > SPUN {
        thread::sleep(time.saturating_sub(SPUN / 2));
    }
    while began.elapsed() < time {
        thread::yield_now();
    }
}
