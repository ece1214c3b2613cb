//! The server's side of the region: which slots wait, and when to sleep.
//!
//! A slot is taken by clearing its bit, so any value of that word means something, and several workers take side by side. Before
//! a worker sleeps, and before it begins something that may take long, it arms the bell and looks again: so a request that is
//! posted either finds the bell armed or is seen.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

use crate::layout::{SLOTS, states};
use crate::region::Region;

/// The bits that mean anything.
const ALL: u64 = u64::MAX >> (64 - SLOTS);

/// Takes turns over the slots.
#[derive(Debug, Default)]
pub(super) struct Board {
    next: AtomicU32,
}

impl Board {
    /// A slot with a request, which is the caller's now.
    pub(super) fn take(&self, region: &Region) -> Option<usize> {
        loop {
            let posted = region.posted().load(Ordering::SeqCst) & ALL;
            if posted == 0 {
                return None;
            }
            // The first one at or behind the next: so none waits while others come again and again.
            let next = self.next.load(Ordering::Relaxed) % SLOTS as u32;
            let behind = posted & (u64::MAX << next);
            let slot = if behind == 0 { posted } else { behind }.trailing_zeros();
            if region.posted().fetch_and(!(1 << slot), Ordering::SeqCst) & (1 << slot) != 0 {
                self.next.store(slot + 1, Ordering::Relaxed);
                return Some(slot as usize);
            }
        }
    }

    /// Whether a request waits.
    pub(super) fn has_posted(region: &Region) -> bool {
        region.posted().load(Ordering::SeqCst) & ALL != 0
    }

    /// Has the bell rung for the next request. True if one is there already.
    pub(super) fn arm(region: &Region) -> bool {
        region.armed().store(1, Ordering::SeqCst);
        Self::has_posted(region)
    }

    /// Somebody polls, and no bell is needed.
    pub(super) fn disarm(region: &Region) {
        region.armed().store(0, Ordering::SeqCst);
    }

    /// The answer is in its place.
    pub(super) fn finish(region: &Region, slot: usize) {
        let state = region.state(slot);
        if state.swap(states::ANSWERED, Ordering::SeqCst) == states::AWAITED {
            // It can only fail for want of the memory, which is there.
            let _ = futex::wake(state, futex::Flags::empty(), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_take_turns_and_bits_beyond_them_mean_nothing() {
        let (region, board) = (Region::create().unwrap(), Board::default());
        region.posted().store(u64::MAX, Ordering::SeqCst);
        for slot in 0..SLOTS {
            assert_eq!(board.take(&region), Some(slot));
            // It comes again at once, and has to wait for the others.
            region.posted().fetch_or(1, Ordering::SeqCst);
        }
        assert_eq!((board.take(&region), board.take(&region)), (Some(0), None));
        assert!(!Board::has_posted(&region) && !Board::arm(&region));
        region.posted().store(1 << 5, Ordering::SeqCst);
        assert!(Board::arm(&region));
    }
}
