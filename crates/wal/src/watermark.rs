//! The watermark: up to which LSN everything is durable, known without a lock.
//!
//! Every stream publishes a *lower bound* of the LSNs that it has drawn and not yet made durable, or [`IDLE`] when there
//! are none. The watermark is the LSN before the smallest bound. Two rules make the minimum safe at every moment:
//!
//! 1. A stream publishes its bound *before* it draws: the counter's value, which no later draw can be below. An observer
//!    who reads a drawn LSN out of the counter therefore sees a bound that covers it (or a later, settled one).
//! 2. An observer reads the counter *before* the bounds. What is drawn after that is above what it may answer.
//!
//! A stream without undurable records stands at `IDLE` and never holds the others back, which the paper leaves open
//! (paper 1, section 3, publishes each worker's flushed LSN). The model in `tests/loom.rs` runs every interleaving.

use ishigaki_base::sync::atomic::{AtomicU64, Ordering};
use ishigaki_base::{Lsn, StreamId};

/// The bound of a stream that holds nothing undurable.
const IDLE: u64 = u64::MAX;

/// The shared LSN counter and the streams' bounds.
///
/// Calls for *one* stream must come one at a time (the stream's lock sees to it); different streams and observers run
/// freely beside each other.
#[derive(Debug)]
pub struct Watermark {
    /// The LSN that the next draw gets. The one cache line that all writers share.
    next: Line,
    /// By stream: no undurable LSN of it is below this.
    bounds: Box<[Line]>,
    /// The largest watermark that anybody has computed.
    reached: Line,
}

/// An atomic on a cache line of its own, or two streams would slow each other down.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

impl Watermark {
    /// For `streams` idle streams, where `next` is the first LSN that will be drawn.
    pub fn new(streams: u16, next: Lsn) -> Self {
        let line = |value| Line(AtomicU64::new(value));
        Self {
            next: line(next.0),
            bounds: (0..streams).map(|_| line(IDLE)).collect(),
            reached: line(next.previous().0),
        }
    }

    /// Draws the next LSN for a stream. `idle` says that the stream holds nothing undurable so far: only then must a bound
    /// be published first, since an earlier one covers the new LSN as well.
    pub fn draw(&self, stream: StreamId, idle: bool) -> Lsn {
        if idle {
            let bound = self.next.0.load(Ordering::SeqCst);
            self.bounds[usize::from(stream.0)].0.store(bound, Ordering::SeqCst);
        }
        Lsn(self.next.0.fetch_add(1, Ordering::SeqCst))
    }

    /// Everything that the stream drew below `bound` is durable; `None` when it holds nothing undurable at all.
    pub fn settle(&self, stream: StreamId, bound: Option<Lsn>) {
        let bound = bound.map_or(IDLE, |lsn| lsn.0);
        self.bounds[usize::from(stream.0)].0.store(bound, Ordering::SeqCst);
    }

    /// The lower bound of what the stream has not made durable; [`Lsn::MAX`] when it is idle.
    pub fn bound(&self, stream: StreamId) -> Lsn {
        Lsn(self.bounds[usize::from(stream.0)].0.load(Ordering::SeqCst))
    }

    /// Computes the watermark: every record with an LSN up to it is durable. It never goes back.
    pub fn observe(&self) -> Lsn {
        let next = self.next.0.load(Ordering::SeqCst);
        let bound = self.bounds.iter().fold(next, |least, bound| least.min(bound.0.load(Ordering::SeqCst)));
        let now = bound - 1;
        Lsn(self.reached.0.fetch_max(now, Ordering::SeqCst).max(now))
    }

    /// The largest watermark computed so far: one read of one cache line.
    pub fn reached(&self) -> Lsn {
        Lsn(self.reached.0.load(Ordering::SeqCst))
    }

    /// The largest LSN drawn so far.
    pub fn last_drawn(&self) -> Lsn {
        Lsn(self.next.0.load(Ordering::SeqCst)).previous()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const A: StreamId = StreamId(0);
    const B: StreamId = StreamId(1);

    #[test]
    fn an_undurable_record_holds_the_watermark_below_itself() {
        let watermark = Watermark::new(2, Lsn::FIRST);
        let first = watermark.draw(A, true);
        let second = watermark.draw(B, true);
        watermark.settle(B, None);
        assert_eq!(watermark.observe(), Lsn::ZERO);
        watermark.settle(A, None);
        assert_eq!((first, watermark.observe()), (Lsn(1), second));
    }

    #[test]
    fn an_idle_stream_does_not_hold_the_watermark_back() {
        let watermark = Watermark::new(2, Lsn::FIRST);
        for _ in 0..3 {
            let lsn = watermark.draw(A, true);
            watermark.settle(A, None);
            assert_eq!(watermark.observe(), lsn);
        }
    }

    #[test]
    fn what_is_left_in_the_buffer_becomes_the_bound() {
        let watermark = Watermark::new(1, Lsn(10));
        watermark.draw(A, true);
        let second = watermark.draw(A, false);
        watermark.settle(A, Some(second));
        assert_eq!(watermark.observe(), Lsn(10));
        assert_eq!(watermark.last_drawn(), Lsn(11));
    }
}
