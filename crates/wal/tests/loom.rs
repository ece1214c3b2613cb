//! Every interleaving of two streams and an observer over the watermark (invariant 2 of the log).
//!
//! Runs only under the model checker: `RUSTFLAGS="--cfg loom" cargo test -p ishigaki-wal --test loom --release`.

#![cfg(loom)]

use ishigaki_base::{Lsn, StreamId};
use ishigaki_wal::Watermark;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

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
