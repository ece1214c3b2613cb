//! The gates of commits: how a checkpoint or a snapshot finds a moment at which none is half done.
//!
//! A commit holds the gate of its own stream from before it decides that it can commit until all its writes are installed.
//! Commits share a gate, and those of different streams do not even share a cache line. Who holds all gates exclusively
//! sees, for every LSN drawn so far, everything that its record says in the tables.
//!
//! A [`cut`](Gates::cut) parts all commits in two, those before and those behind it, in the order of LSNs. Under an optimistic
//! protocol that alone would not part the serial order, which is the order of timestamps: a commit behind the cut could
//! have read what one before it has overwritten, and so come before that one. Hence the *floor*: with all gates closed, a cut
//! takes the largest timestamp that went through them and lets nobody commit at or below it any more. Whoever comes behind
//! the cut decides only then, since a commit decides while it holds its gate; so no timestamp before the cut is larger than
//! one behind it, and who reads at the cut has one place in the serial order: between them.

use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_base::{Position, StreamId};
use ishigaki_wal::Dependencies;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::protocol::Timestamp;

/// One gate per stream of the log.
#[derive(Debug)]
pub(crate) struct Gates {
    each: Box<[Gate]>,
    /// Bytes through one gate after which the log's space deserves a look.
    step: u64,
    floor: Floor,
}

/// The least timestamp that commits may have now. All read it and only cuts write it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Floor(AtomicU64);

/// A gate on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Gate {
    passage: RwLock<()>,
    /// Bytes of redo that went through.
    bytes: AtomicU64,
    /// The largest timestamp that went through.
    timestamp: AtomicU64,
    /// The last record that went into this gate's stream, through whichever gate.
    record: AtomicU64,
}

impl Gates {
    pub(crate) fn new(streams: u16, step: u64) -> Self {
        Self { each: (0..streams).map(|_| Gate::default()).collect(), step: step.max(1), floor: Floor::default() }
    }

    /// Lets a commit in. What is returned is held until all its writes are installed; a checkpoint waits for that, so
    /// nobody waits for a checkpoint meanwhile.
    pub(crate) fn enter(&self, stream: StreamId) -> Passage<'_> {
        let gate = &self.each[usize::from(stream.0)];
        Passage { gate, gates: self, _open: gate.passage.read() }
    }

    /// Looks at something while no commit is between its decision and the last of its writes.
    pub(crate) fn while_still<R>(&self, look: impl FnOnce() -> R) -> R {
        let closed = self.close();
        let seen = look();
        drop(closed);
        seen
    }

    /// The same; and whoever commits later does so with a larger timestamp than all before. `look` gets the last record of
    /// each stream.
    pub(crate) fn cut<R>(&self, look: impl FnOnce(Dependencies) -> R) -> R {
        let closed = self.close();
        self.raise_floor();
        let mut records = Dependencies::default();
        self.each.iter().for_each(|gate| records.add(Position::from_bits(gate.record.load(Ordering::Relaxed))));
        let seen = look(records);
        drop(closed);
        seen
    }

    /// A cut for which the gate of a stream is closed some time before the others.
    #[cfg(test)]
    pub(crate) fn cut_slowly(&self, first: StreamId, meanwhile: impl FnOnce()) {
        let _first = self.each[usize::from(first.0)].passage.write();
        meanwhile();
        let others = self.each.iter().enumerate().filter(|(at, _)| *at != usize::from(first.0));
        let _others: Vec<_> = others.map(|(_, gate)| gate.passage.write()).collect();
        self.raise_floor();
    }

    /// With all gates closed.
    fn raise_floor(&self) {
        let last = |gate: &Gate| gate.timestamp.load(Ordering::Relaxed);
        self.floor.0.store(self.each.iter().map(last).max().unwrap_or(0) + 1, Ordering::Relaxed);
    }

    fn close(&self) -> Vec<RwLockWriteGuard<'_, ()>> {
        self.each.iter().map(|gate| gate.passage.write()).collect()
    }

    /// Bytes of redo that went through all gates so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.each.iter().map(|gate| gate.bytes.load(Ordering::Relaxed)).sum()
    }
}

/// A commit's way through a gate, until it is dropped.
#[derive(Debug)]
pub(crate) struct Passage<'a> {
    gate: &'a Gate,
    gates: &'a Gates,
    _open: RwLockReadGuard<'a, ()>,
}

impl Passage<'_> {
    /// The least timestamp that whoever holds this may commit with.
    pub(crate) fn floor(&self) -> Timestamp {
        self.gates.floor.0.load(Ordering::Relaxed)
    }

    /// This record with so many bytes went through, with that timestamp. True once in a while, when the log's space deserves
    /// a look.
    pub(crate) fn leave(self, record: Position, bytes: usize, timestamp: Timestamp) -> bool {
        raise(&self.gate.timestamp, timestamp);
        if let Some(gate) = self.gates.each.get(usize::from(record.stream().0)) {
            raise(&gate.record, record.to_bits());
        }
        let step = self.gates.step;
        let before = self.gate.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        before / step != (before + bytes as u64) / step
    }
}

/// The gates order these for who closes them.
fn raise(largest: &AtomicU64, to: u64) {
    if largest.load(Ordering::Relaxed) < to {
        largest.fetch_max(to, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use ishigaki_base::Lsn;

    use super::*;

    #[test]
    fn while_still_no_commit_is_half_done() {
        let gates = Gates::new(2, 1000);
        let looks = AtomicU64::new(0);
        let (drawn, installed) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for stream in 0..4 {
                let (gates, drawn, installed, looks) = (&gates, &drawn, &installed, &looks);
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let passage = gates.enter(StreamId(stream % 2));
                        drawn.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        installed.fetch_add(1, Ordering::SeqCst);
                        looks.fetch_add(passage.leave(Position::NONE, 3, 0).into(), Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..300 {
                let look = || (drawn.load(Ordering::SeqCst), installed.load(Ordering::SeqCst));
                let (drawn, installed) = gates.while_still(look);
                assert_eq!(drawn, installed);
            }
        });
        assert_eq!(gates.bytes(), 4 * 2000 * 3);
        assert_eq!(looks.into_inner(), 24, "one for every thousand bytes through a gate");
    }
    #[test]
    fn behind_a_cut_timestamps_are_larger_than_all_before() {
        let gates = Gates::new(3, 1000);
        let (clock, before, behind) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let cut = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for stream in 0..3_u16 {
                let (gates, clock, before, behind, cut) = (&gates, &clock, &before, &behind, &cut);
                scope.spawn(move || {
                    for step in 0..2000_u64 {
                        let passage = gates.enter(StreamId(stream));
                        // As transactions do that have little to do with each other.
                        let timestamp = passage.floor().max(step % 7 * u64::from(stream));
                        if cut.load(Ordering::SeqCst) == 0 {
                            before.fetch_max(timestamp, Ordering::SeqCst);
                        } else {
                            behind.fetch_min(timestamp, Ordering::SeqCst);
                        }
                        let lsn = Lsn(clock.fetch_add(1, Ordering::SeqCst) + 1);
                        passage.leave(Position::new(lsn, StreamId(stream)), 1, timestamp);
                    }
                });
            }
            std::thread::yield_now();
            gates.cut(|records| {
                cut.store(1, Ordering::SeqCst);
                assert_eq!(records.latest().0, clock.load(Ordering::SeqCst));
            });
        });
        assert!(behind.into_inner() > before.into_inner());
    }
}
