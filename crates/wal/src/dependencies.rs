//! What a record depends on, and how far each stream has settled (P1.B2: commit on real dependencies).
//!
//! A transaction must not be acknowledged, nor kept by recovery, before what it read is. P-WAL waits until *everything*
//! with a smaller LSN is durable; here a record names, for each stream, the last record that it depends on and that had
//! not settled when it was appended.
//!
//! A stream has *settled* up to an LSN when all its records up to there are durable and everything that they name has
//! settled. Dependencies have smaller LSNs than what names them, so this is well-founded: no circle can form, and the
//! undecided record with the smallest LSN can always be decided. Recovery decides in the same way from the bytes, with
//! "is there" in place of "is durable"; so what was acknowledged is kept, and what is kept has all that it read.

use std::collections::VecDeque;

use ishigaki_base::sync::Mutex;
use ishigaki_base::sync::atomic::{AtomicU64, Ordering};
use ishigaki_base::{Lsn, Position, StreamId};
use smallvec::SmallVec;

use crate::format::MAX_DEPENDENCIES;

/// For each stream at most one position: the last record of it that somebody depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies(SmallVec<[Position; 4]>);

impl Dependencies {
    /// Depends on that record, too. [`Position::NONE`] is nothing to depend on.
    #[inline]
    pub fn add(&mut self, position: Position) {
        match self.0.as_mut_slice() {
            // More often than not the last one's stream writes again.
            [.., last] if last.stream() == position.stream() => *last = position.max(*last),
            _ => self.add_apart(position),
        }
    }

    fn add_apart(&mut self, position: Position) {
        if position == Position::NONE {
            return;
        }
        match self.0.iter_mut().find(|known| known.stream() == position.stream()) {
            Some(known) => *known = position.max(*known),
            None => self.0.push(position),
        }
    }

    /// One position per stream.
    pub fn iter(&self) -> impl Iterator<Item = Position> + '_ {
        self.0.iter().copied()
    }

    /// Depends on nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The largest LSN among them; [`Lsn::ZERO`] when there are none.
    pub fn latest(&self) -> Lsn {
        self.0.iter().max().map_or(Lsn::ZERO, |position| position.lsn())
    }

    /// How many streams there are dependencies on.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Those for which `keep` holds. More than a record can name do not occur: a log has at most as many streams, and
    /// [`Shared::check_drawn`](crate::log::Shared::check_drawn) refuses positions in others.
    pub(crate) fn filtered(&self, keep: impl Fn(Position) -> bool) -> Self {
        let kept: SmallVec<[Position; 4]> = self.iter().filter(|&position| keep(position)).collect();
        debug_assert!(kept.len() <= MAX_DEPENDENCIES);
        Self(kept)
    }
}

/// A record that has an LSN, and what must be durable before it may be acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    pub(crate) position: Position,
    pub(crate) dependencies: Dependencies,
}

impl Receipt {
    /// Of a record in that place.
    #[doc(hidden)]
    pub fn of_record(position: Position, dependencies: Dependencies) -> Self {
        Self { position, dependencies }
    }

    /// Of somebody who wrote no record and waits for what he read.
    pub fn of_reader(dependencies: Dependencies) -> Self {
        Self { position: Position::NONE, dependencies }
    }

    /// Where the record is; [`Position::NONE`] for a reader.
    pub fn position(&self) -> Position {
        self.position
    }

    /// What must be durable before it.
    pub fn dependencies(&self) -> &Dependencies {
        &self.dependencies
    }

    /// The record's LSN; for a reader the largest one that it depends on.
    pub fn lsn(&self) -> Lsn {
        self.position.lsn().max(self.dependencies.latest())
    }
}

/// How far one stream has come. Public only for the model checker.
#[doc(hidden)]
#[derive(Debug)]
pub struct Standing {
    stream: StreamId,
    /// The last LSN that the stream has drawn.
    drawn: Line,
    /// All records of the stream up to here are durable.
    durable: Line,
    /// And everything that they depend on is.
    settled: Line,
    /// Records with dependencies that had not settled when last looked at, in LSN order.
    pending: Mutex<VecDeque<Receipt>>,
}

/// On a cache line of its own: read by all, written by one.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

impl Standing {
    /// Of a stream whose records up to `lsn` are all durable and settled.
    pub fn new(stream: StreamId, lsn: Lsn) -> Self {
        let line = || Line(AtomicU64::new(lsn.0));
        Self { stream, drawn: line(), durable: line(), settled: line(), pending: Mutex::new(VecDeque::new()) }
    }

    /// The stream has drawn that LSN. Called in LSN order, under the stream's lock.
    pub(crate) fn draws(&self, lsn: Lsn) {
        self.drawn.0.store(lsn.0, Ordering::Release);
    }

    /// The last LSN that the stream has drawn. Exact under the stream's lock; without it a thread that has learnt of a
    /// record sees at least that one.
    pub(crate) fn drawn(&self) -> Lsn {
        Lsn(self.drawn.0.load(Ordering::Acquire))
    }

    /// Every record of the stream up to here is durable.
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.0.load(Ordering::Acquire))
    }

    /// Every record of the stream up to here is durable with all that it depends on.
    pub fn settled(&self) -> Lsn {
        Lsn(self.settled.0.load(Ordering::Acquire))
    }

    /// What a record that is appended to this stream now must name: not what has settled, and nothing of the stream itself
    /// as long as that depends on nobody else, since a stream is durable from its beginning. Called in LSN order, under
    /// the stream's lock.
    pub fn unsettled(&self, dependencies: &Dependencies, settled: impl Fn(Position) -> bool) -> Dependencies {
        if dependencies.is_empty() {
            return Dependencies::default();
        }
        let alone = self.pending.lock().is_empty();
        dependencies.filtered(|position| !(settled(position) || alone && position.stream() == self.stream))
    }

    /// Notes a record that names something. Called in LSN order, under the stream's lock.
    pub fn expect(&self, receipt: Receipt) {
        self.pending.lock().push_back(receipt);
    }

    /// The stream's records up to `lsn` have become durable.
    pub fn written(&self, lsn: Lsn) {
        self.durable.0.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// Settles what can be. If a durable record is in the way, returns what that one waits for.
    pub fn advance(&self, settled: impl Fn(Position) -> bool) -> Option<Dependencies> {
        let mut pending = self.pending.lock();
        let durable = self.durable();
        let ready = |receipt: &Receipt| {
            // What the stream itself holds is settled as soon as all before it is.
            receipt.dependencies.iter().all(|position| position.stream() == self.stream || settled(position))
        };
        while pending.front().is_some_and(|front| front.position.lsn() <= durable && ready(front)) {
            pending.pop_front();
        }
        let front = pending.front().filter(|front| front.position.lsn() <= durable);
        let reached = front.map_or(durable, |front| front.position.lsn().previous());
        self.settled.0.fetch_max(reached.0, Ordering::AcqRel);
        front.map(|front| front.dependencies.filtered(|position| position.stream() != self.stream))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(lsn: u64, stream: u16) -> Position {
        Position::new(Lsn(lsn), StreamId(stream))
    }

    fn on(positions: &[Position]) -> Dependencies {
        let mut dependencies = Dependencies::default();
        for &position in positions {
            dependencies.add(position);
        }
        dependencies
    }

    #[test]
    fn of_each_stream_only_the_last_record_counts() {
        let dependencies = on(&[at(5, 1), at(7, 0), at(3, 1), at(9, 0), Position::NONE]);
        assert_eq!(dependencies.iter().collect::<Vec<_>>(), [at(5, 1), at(9, 0)]);
        assert_eq!(dependencies.latest(), Lsn(9));
    }

    #[test]
    fn a_durable_record_settles_when_what_it_depends_on_has() {
        let standing = Standing::new(StreamId(0), Lsn::ZERO);
        standing.expect(Receipt { position: at(2, 0), dependencies: on(&[at(1, 1)]) });
        standing.written(Lsn(3));
        assert_eq!(standing.advance(|_| false), Some(on(&[at(1, 1)])));
        assert_eq!((standing.durable(), standing.settled()), (Lsn(3), Lsn(1)));
        assert_eq!(standing.advance(|_| true), None);
        assert_eq!(standing.settled(), Lsn(3));
    }

    #[test]
    fn own_records_need_no_name_unless_one_of_them_waits_for_another_stream() {
        let standing = Standing::new(StreamId(0), Lsn::ZERO);
        let own = on(&[at(2, 0)]);
        assert!(standing.unsettled(&own, |_| false).is_empty());
        standing.expect(Receipt { position: at(2, 0), dependencies: on(&[at(1, 1)]) });
        assert_eq!(standing.unsettled(&own, |_| false), own);
        assert!(standing.unsettled(&own, |_| true).is_empty());
    }

    #[test]
    fn what_is_not_durable_does_not_settle() {
        let standing = Standing::new(StreamId(0), Lsn::ZERO);
        standing.expect(Receipt { position: at(4, 0), dependencies: on(&[at(1, 1)]) });
        standing.written(Lsn(3));
        assert_eq!(standing.advance(|_| true), None);
        assert_eq!(standing.settled(), Lsn(3));
    }
}
