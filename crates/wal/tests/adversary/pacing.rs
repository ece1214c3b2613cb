//! How writes follow the load: who shares one, and how much goes into it.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use ishigaki_base::{ByteSize, StreamId};
use ishigaki_wal::{CommitRule, Dependencies, Group, Log, Settings, Stream};

use super::watched::*;
use super::workbench::*;

/// A log of one stream with one for relief. The first one's writes pass the gate.
fn relieved() -> (Arc<Log>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let directory = Arc::new(Watched::before("write", "wal-000", move || at.pass()));
    let settings = Settings { commit: CommitRule::Dependencies, relief: 1, ..quiet(1) };
    (open(directory, settings).unwrap().0, gate)
}

/// Appends so many records, waits for them in another thread until the gate holds their write, then says which stream takes
/// the next record. That one is durable before the gate opens if it does not have to wait.
fn taken_while_written(records: usize) -> StreamId {
    let (log, gate) = relieved();
    let stream = log.assign();
    gate.shut();
    let append = |stream: &Stream| stream.append_after(&Dependencies::default(), b"a record").unwrap();
    let before: Vec<_> = (0..records).map(|_| append(&stream)).collect();
    let waiting = stream.clone();
    let writer = thread::spawn(move || before.iter().try_for_each(|receipt| waiting.settle(receipt)));
    gate.wait_for_somebody();
    let receipt = append(&log.assign());
    let taken = receipt.position().stream();
    if taken != StreamId(0) {
        watchdog({
            let (stream, receipt) = (stream.clone(), receipt.clone());
            move || stream.settle(&receipt)
        })
        .unwrap();
    }
    gate.open();
    writer.join().unwrap().unwrap();
    stream.settle(&receipt).unwrap();
    taken
}

#[test]
fn a_commit_beside_the_write_of_a_few_has_one_of_its_own_and_beside_a_crowd_waits_for_the_next() {
    assert_eq!(taken_while_written(1), StreamId(1));
    assert_eq!(taken_while_written(3), StreamId(1));
    assert_eq!(taken_while_written(4), StreamId(0));
}

#[test]
fn a_herald_that_waits_for_the_next_group_itself_is_not_relied_on_to_write_it() {
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let directory = Arc::new(Watched::before("write", "wal-000", move || at.pass()));
    // No thread looks after a group that is left alone.
    let group = Group { time: Duration::from_hours(1), ..Group::default() };
    let commit = CommitRule::Dependencies;
    let settings = Settings { group, commit, relief: 0, background: true, hold: Duration::ZERO, ..quiet(1) };
    let (log, ..) = open(directory, settings).unwrap();
    let stream = log.assign();
    let append = || stream.append_after(&Dependencies::default(), b"a record").unwrap();
    gate.shut();
    let (waiting, first) = (stream.clone(), append());
    let writer = thread::spawn(move || waiting.settle(&first));
    gate.wait_for_somebody();
    // A crowd gathers behind that write, and the herald waits for one of it.
    let mut settled = Box::pin(stream.settled(append()));
    (0..4).for_each(|_| drop(append()));
    let waker = Waker::from(Arc::new(Waking(thread::current())));
    // It gives way once, then it asks.
    for _ in 0..2 {
        assert!(settled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    thread::sleep(Duration::from_millis(200)); // long enough for the herald to fall asleep
    gate.open();
    watchdog(move || writer.join().unwrap()).unwrap();
    watchdog(move || {
        let waker = Waker::from(Arc::new(Waking(thread::current())));
        while settled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            thread::park();
        }
    });
}

/// Where a write takes two milliseconds and two records are enough for a group.
struct Slow {
    log: Arc<Log>,
    stream: Stream,
    writes: Arc<AtomicUsize>,
}

impl Slow {
    fn new(background: bool) -> Self {
        let writes = Arc::new(AtomicUsize::new(0));
        let count = writes.clone();
        let directory = Arc::new(Watched::before("write", "wal-000", move || {
            count.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(2));
        }));
        let group = Group { transactions: 2, time: Duration::from_hours(1), ..Group::default() };
        let settings = Settings { group, segment: ByteSize::mib(1), background, ..quiet(1) };
        let (log, ..) = open(directory, settings).unwrap();
        let stream = log.assign();
        for _ in 0..20 {
            commit(&stream, b"so the log knows how long a write takes");
        }
        Self { log, stream, writes }
    }

    /// How many writes so many records take that nobody waits for and that come at such intervals.
    fn writes_of(&self, records: usize, interval: Duration) -> usize {
        let before = self.writes.load(Ordering::SeqCst);
        for _ in 0..records {
            self.stream.append(b"a record").unwrap();
            self.stream.pace();
            thread::sleep(interval);
        }
        self.log.flush().unwrap();
        self.writes.load(Ordering::SeqCst) - before
    }
}

#[test]
fn a_slow_device_gets_few_large_writes() {
    let writes = Slow::new(true).writes_of(1000, Duration::ZERO);
    assert!((1..=100).contains(&writes), "{writes} writes");
}

#[test]
fn records_that_come_faster_than_a_write_takes_go_into_one() {
    let slow = Slow::new(true);
    // This thread may be held up between two records, but not each time.
    assert!((0..20).any(|_| slow.writes_of(4, Duration::from_micros(100)) == 1));
}

#[test]
fn without_threads_of_its_own_a_log_writes_every_full_group() {
    assert_eq!(Slow::new(false).writes_of(1000, Duration::ZERO), 500);
}

/// In which thread the log writes what a task waits for, if a task may hold its executor up that long.
fn writes_for_a_task(hold: Duration) -> thread::ThreadId {
    let writers = Arc::new(Mutex::new(Vec::new()));
    let seen = writers.clone();
    let note = move || seen.lock().unwrap().push(thread::current().id());
    let directory = Arc::new(Watched::before("write", "wal-000", note));
    let (log, ..) = open(directory, Settings { hold, background: true, ..quiet(1) }).unwrap();
    let stream = log.assign();
    let receipt = stream.append_after(&Dependencies::default(), b"a record").unwrap();
    writers.lock().unwrap().clear();
    let mut settled = pin!(stream.settled(receipt));
    let waker = Waker::from(Arc::new(Waking(thread::current())));
    while settled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        thread::park_timeout(PATIENCE);
    }
    let writers = writers.lock().unwrap();
    writers[0]
}

struct Waking(thread::Thread);

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_task_writes_itself_where_that_is_short() {
    assert_eq!(writes_for_a_task(Duration::from_hours(1)), thread::current().id());
    assert_ne!(writes_for_a_task(Duration::ZERO), thread::current().id());
}
