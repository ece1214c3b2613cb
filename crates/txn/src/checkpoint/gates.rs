//! The gates of commits: how a checkpoint finds a moment at which none is half done.
//!
//! A commit holds the gate of its own stream from before its LSN is drawn until all its writes are installed. Commits share
//! a gate, and those of different streams do not even share a cache line. Who holds all gates exclusively sees, for every
//! LSN drawn so far, everything that its record says in the tables.

use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_base::StreamId;
use parking_lot::{RwLock, RwLockReadGuard};

/// One gate per stream of the log.
#[derive(Debug)]
pub(crate) struct Gates {
    gates: Box<[Gate]>,
    /// Bytes through one gate after which the log's space deserves a look.
    step: u64,
}

/// A gate on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Gate {
    passage: RwLock<()>,
    /// Bytes of redo that went through.
    bytes: AtomicU64,
}

impl Gates {
    pub(crate) fn new(streams: u16, step: u64) -> Self {
        Self { gates: (0..streams).map(|_| Gate::default()).collect(), step: step.max(1) }
    }

    /// Lets a commit in. What is returned is held until all its writes are installed; a checkpoint waits for that, so
    /// nobody waits for a checkpoint meanwhile.
    pub(crate) fn enter(&self, stream: StreamId) -> Passage<'_> {
        let gate = &self.gates[usize::from(stream.0)];
        Passage { gate, step: self.step, _open: gate.passage.read() }
    }

    /// Looks at something while no commit is between its draw and the last of its writes.
    pub(crate) fn while_still<R>(&self, look: impl FnOnce() -> R) -> R {
        let closed: Vec<_> = self.gates.iter().map(|gate| gate.passage.write()).collect();
        let seen = look();
        drop(closed);
        seen
    }

    /// Bytes of redo that went through all gates so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.gates.iter().map(|gate| gate.bytes.load(Ordering::Relaxed)).sum()
    }
}

/// A commit's way through a gate, until it is dropped.
#[derive(Debug)]
pub(crate) struct Passage<'a> {
    gate: &'a Gate,
    step: u64,
    _open: RwLockReadGuard<'a, ()>,
}

impl Passage<'_> {
    /// So many bytes of redo went through. True once in a while, when the log's space deserves a look.
    pub(crate) fn leave(self, bytes: usize) -> bool {
        let before = self.gate.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        before / self.step != (before + bytes as u64) / self.step
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

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
                        looks.fetch_add(passage.leave(3).into(), Ordering::SeqCst);
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
}
