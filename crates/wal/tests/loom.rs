//! Every interleaving of two streams and an observer over the watermark, of three streams over their dependencies
//! (invariants 2 and 3 of the log), and of a stream's herald with those who leave work to it and with closing.
//!
//! Runs only under the model checker: `RUSTFLAGS="--cfg loom" cargo test -p ishigaki-wal --test loom --release`.

#![cfg(loom)]

use ishigaki_base::{Lsn, Position, StreamId};
use ishigaki_wal::model::{Post, Task};
use ishigaki_wal::{Dependencies, Receipt, Standing, Watermark};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread::{self, JoinHandle};

/// Commits of each stream.
const COMMITS: usize = 2;

/// What the medium holds: by LSN, whether the record is durable.
struct Medium {
    durable: [AtomicBool; 2 * COMMITS],
}

impl Medium {
    fn new() -> Self {
        Self { durable: std::array::from_fn(|_| AtomicBool::new(false)) }
    }

    fn write(&self, lsn: Lsn) {
        self.durable[lsn.0 as usize - 1].store(true, Ordering::Release);
    }

    fn holds(&self, lsn: u64) -> bool {
        self.durable[lsn as usize - 1].load(Ordering::Acquire)
    }
}

fn assert_all_durable(medium: &Medium, watermark: Lsn) {
    for lsn in 1..=watermark.0 {
        assert!(medium.holds(lsn), "the watermark is {watermark} and record {lsn} is not durable");
    }
}

#[test]
fn the_watermark_never_passes_an_undurable_record() {
    loom::model(|| {
        let watermark = Arc::new(Watermark::new(2, Lsn::FIRST));
        let medium = Arc::new(Medium::new());
        let worker = |stream: u16| {
            let (watermark, medium) = (watermark.clone(), medium.clone());
            move || {
                for _ in 0..COMMITS {
                    let lsn = watermark.draw(StreamId(stream), true);
                    medium.write(lsn);
                    watermark.settle(StreamId(stream), None);
                }
            }
        };
        let workers = [thread::spawn(worker(0)), thread::spawn(worker(1))];
        assert_all_durable(&medium, watermark.observe());
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(watermark.observe(), Lsn(2 * COMMITS as u64));
    });
}

#[test]
fn a_group_left_in_the_buffer_still_bounds_the_watermark() {
    loom::model(|| {
        let watermark = Arc::new(Watermark::new(2, Lsn::FIRST));
        let medium = Arc::new(Medium::new());
        let grouping = thread::spawn({
            let (watermark, medium) = (watermark.clone(), medium.clone());
            move || {
                let first = watermark.draw(StreamId(0), true);
                let second = watermark.draw(StreamId(0), false);
                medium.write(first);
                watermark.settle(StreamId(0), Some(second));
                medium.write(second);
                watermark.settle(StreamId(0), None);
            }
        });
        let other = thread::spawn({
            let (watermark, medium) = (watermark.clone(), medium.clone());
            move || {
                let lsn = watermark.draw(StreamId(1), true);
                medium.write(lsn);
                watermark.settle(StreamId(1), None);
            }
        });
        assert_all_durable(&medium, watermark.observe());
        grouping.join().unwrap();
        other.join().unwrap();
        assert_eq!(watermark.observe(), Lsn(3));
    });
}

/// Three streams, and a transaction in each: the second depends on the first, the third on the second.
struct Chain {
    streams: [Standing; 3],
    medium: Medium,
}

impl Chain {
    fn position(place: usize) -> Position {
        Position::new(Lsn(place as u64 + 1), StreamId(place as u16))
    }

    fn has_settled(&self, position: Position) -> bool {
        self.streams[usize::from(position.stream().0)].settled() >= position.lsn()
    }

    /// Appends the transaction of that place, which depends on the one before.
    fn append(&self, place: usize) -> Receipt {
        let mut dependencies = Dependencies::default();
        dependencies.add(Self::position(place - 1));
        let named = self.streams[place].unsettled(&dependencies, |position| self.has_settled(position));
        let receipt = Receipt::of_record(Self::position(place), named);
        if !receipt.dependencies().is_empty() {
            self.streams[place].expect(receipt.clone());
        }
        receipt
    }

    fn write(&self, place: usize) {
        let lsn = Self::position(place).lsn();
        self.medium.write(lsn);
        self.streams[place].written(lsn);
        self.streams[place].advance(|position| self.has_settled(position));
    }

    fn is_acknowledged(&self, place: usize, receipt: &Receipt) -> bool {
        self.streams[place].durable() >= receipt.position().lsn()
            && receipt.dependencies().iter().all(|position| self.has_settled(position))
    }
}

#[test]
fn nothing_is_acknowledged_before_what_it_depends_on() {
    loom::model(|| {
        let chain = Arc::new(Chain {
            streams: std::array::from_fn(|place| Standing::new(StreamId(place as u16), Lsn::ZERO)),
            medium: Medium::new(),
        });
        let writer = |place| {
            let chain = chain.clone();
            thread::spawn(move || chain.write(place))
        };
        let first = writer(0);
        let receipt = chain.append(1);
        let second = writer(1);
        let last = chain.append(2);
        chain.write(2);
        for (place, receipt) in [(1, &receipt), (2, &last)] {
            if chain.is_acknowledged(place, receipt) {
                (0..=place as u64).for_each(|lsn| assert!(chain.medium.holds(lsn + 1), "{place} came too early"));
            }
        }
        first.join().unwrap();
        second.join().unwrap();
        // Whoever waits looks again at the streams that are in his way, the first one first.
        for stream in &chain.streams {
            assert_eq!(stream.advance(|position| chain.has_settled(position)), None);
        }
        assert!(chain.is_acknowledged(1, &receipt) && chain.is_acknowledged(2, &last), "somebody waits for ever");
    });
}

/// A stream with a group to write, and its herald.
struct Heralded {
    post: Post<JoinHandle<()>, ()>,
    /// The group was written.
    written: Flag,
    /// Who asked was served.
    served: Flag,
    /// Threads that run.
    heralds: AtomicUsize,
}

/// Something that a thread waits for.
#[derive(Default)]
struct Flag {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Flag {
    fn raise(&self) {
        *self.raised.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut raised = self.raised.lock().unwrap();
        while !*raised {
            raised = self.changed.wait(raised).unwrap();
        }
    }
}

impl Heralded {
    fn new() -> Arc<Self> {
        let heralds = AtomicUsize::new(0);
        Arc::new(Self { post: Post::default(), written: Flag::default(), served: Flag::default(), heralds })
    }

    fn start(stream: &Arc<Self>) -> Result<JoinHandle<()>, ()> {
        stream.heralds.fetch_add(1, Ordering::SeqCst);
        let own = stream.clone();
        Ok(thread::spawn(move || own.run()))
    }

    /// The herald. Who asks it waits for the group, so it does, too.
    fn run(&self) {
        loop {
            match self.post.next() {
                Task::Write => self.written.raise(),
                Task::Serve(_) => {
                    self.written.wait();
                    self.served.raise();
                }
                Task::Sleep => thread::park(),
                Task::End => break,
            }
        }
        self.heralds.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whoever has a group written leaves it to the herald, or sees to it.
    fn leave(stream: &Arc<Self>) {
        if !stream.post.leave(|| Self::start(stream), |herald| herald.thread().unpark()) {
            stream.written.raise();
        }
    }

    fn give_up(&self) {
        if let (Some(herald), _) = self.post.give_up() {
            herald.thread().unpark();
            herald.join().unwrap();
        }
    }
}

#[test]
fn what_is_left_to_a_herald_is_written_and_none_is_left_behind_when_the_log_closes() {
    loom::model(|| {
        let stream = Heralded::new();
        let writer = thread::spawn({
            let stream = stream.clone();
            move || Heralded::leave(&stream)
        });
        stream.give_up();
        writer.join().unwrap();
        stream.written.wait();
        assert_eq!(stream.heralds.load(Ordering::SeqCst), 0, "a herald of a closed log");
    });
}

#[test]
fn a_herald_that_waits_for_a_group_is_not_the_one_to_write_it() {
    loom::model(|| {
        let stream = Heralded::new();
        let asked = stream.post.ask((), || Heralded::start(&stream), |herald| herald.thread().unpark());
        assert_eq!(asked, Ok(true));
        let writer = thread::spawn({
            let stream = stream.clone();
            move || Heralded::leave(&stream)
        });
        stream.served.wait();
        writer.join().unwrap();
        stream.give_up();
        assert_eq!(stream.heralds.load(Ordering::SeqCst), 0);
    });
}
