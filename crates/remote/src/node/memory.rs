//! One bound for what all connections of a node have in memory.
//!
//! ```text
//!   NodeSettings::memory ┬ connections, staging, results   a quarter each, held as long as a client likes
//!                        ├ requests                        a quarter, held while a request is served
//!                        └ idle buffers                    in what is left, given up as soon as anything else needs the room
//! ```
//!
//! Whatever a connection holds is a [`Taken`] share, which is given back when it is dropped. Each [`Use`] has a quarter of
//! its own, so clients that hold one kind of memory and are silent keep no other client from the rest. A request waits for
//! room, since requests end by themselves: a client that takes no bytes is cut off. Nothing else waits; it is refused, and
//! the client is told what to do instead.
//!
//! Aligned buffers are used again, by all connections: to get one from the system and to zero it would cost more than a
//! read.

use std::sync::Arc;
use std::time::Instant;

use ishigaki_device::{AlignedBuffer, MAX_BLOCK_SIZE};
use parking_lot::{Condvar, Mutex};

/// Sizes of buffers are powers of two from a block to the longest read.
const CLASSES: usize = (crate::protocol::MAX_READ / MAX_BLOCK_SIZE).ilog2() as usize + 1;

/// A node needs this much: so that each use has room for a few of what it holds.
pub(super) const LEAST: usize = 16 << 20;

/// More bytes of idle buffers are not kept.
const MOST_IDLE: usize = 64 << 20;

/// What memory is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A connection's own buffers.
    Connection,
    /// Slots that a client may put bytes to be written into.
    Staging,
    /// Results that the client has not asked for yet.
    Results,
    /// Bytes that are being read, and orders that are being taken in.
    Request,
}

const USES: usize = 4;

/// The memory of a node's connections.
#[derive(Debug)]
pub(super) struct Memory {
    most: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    used: [usize; USES],
    /// Bytes of idle buffers.
    idle: usize,
    classes: [Vec<AlignedBuffer>; CLASSES],
}

impl State {
    fn all(&self) -> usize {
        self.used.iter().sum()
    }

    /// Gives up idle buffers until no more than so many bytes of them are left.
    fn shrink(&mut self, most: usize) {
        for class in self.classes.iter_mut().rev() {
            while self.idle > most
                && let Some(buffer) = class.pop()
            {
                self.idle -= buffer.len();
            }
        }
    }
}

impl Memory {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default(), freed: Condvar::new() })
    }

    /// How much there is.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Whether requests may take so many bytes more.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.state.lock().used[Use::Request as usize] + bytes <= self.most / USES
    }

    /// How much is taken.
    #[cfg(test)]
    fn used(&self) -> usize {
        self.state.lock().all()
    }

    /// Takes so many bytes, if they are free.
    pub(super) fn take(self: &Arc<Self>, of: Use, bytes: usize) -> Option<Taken> {
        self.grant(&mut self.state.lock(), of, bytes)
    }

    /// The same, or waits until then for others to give back what they have.
    pub(super) fn take_until(self: &Arc<Self>, of: Use, bytes: usize, until: Instant) -> Option<Taken> {
        let mut state = self.state.lock();
        loop {
            if let Some(taken) = self.grant(&mut state, of, bytes) {
                return Some(taken);
            }
            if self.freed.wait_until(&mut state, until).timed_out() {
                return self.grant(&mut state, of, bytes);
            }
        }
    }

    fn grant(self: &Arc<Self>, state: &mut State, of: Use, bytes: usize) -> Option<Taken> {
        let own = state.used[of as usize] + bytes;
        if own > self.most / USES {
            return None;
        }
        state.used[of as usize] = own;
        let room = self.most - state.all();
        state.shrink(room);
        Some(Taken { memory: Arc::clone(self), of, bytes })
    }

    fn give_back(&self, of: Use, bytes: usize) {
        if bytes > 0 {
            self.state.lock().used[of as usize] -= bytes;
            self.freed.notify_all();
        }
    }

    /// A buffer of at least `length` bytes, and the share that it is counted by; what is in it is left from others. Nothing: there
    /// was no room until then.
    pub(super) fn buffer_until(self: &Arc<Self>, length: usize, until: Instant) -> Option<Buffer> {
        let share = self.take_until(Use::Request, size_of_buffer(length), until)?;
        Some(self.buffer_of(share))
    }

    /// The same, if there is room now.
    pub(super) fn buffer(self: &Arc<Self>, length: usize) -> Option<Buffer> {
        let share = self.take(Use::Request, size_of_buffer(length))?;
        Some(self.buffer_of(share))
    }

    fn buffer_of(&self, share: Taken) -> Buffer {
        let size = share.bytes;
        let idle = {
            let mut state = self.state.lock();
            let idle = class(size).and_then(|class| state.classes.get_mut(class)?.pop());
            state.idle -= idle.as_ref().map_or(0, |buffer| buffer.len());
            idle
        };
        Buffer { bytes: idle.unwrap_or_else(|| AlignedBuffer::zeroed(size)), share }
    }

    /// Gives a buffer back, to be used again if there is room to keep it.
    pub(super) fn put(&self, buffer: Buffer) {
        let Buffer { bytes, share } = buffer;
        drop(share);
        let size = bytes.len();
        let Some(class) = class(size) else { return };
        let mut state = self.state.lock();
        if state.idle + size <= MOST_IDLE.min(self.most / 4) && state.all() + state.idle + size <= self.most {
            state.idle += size;
            state.classes[class].push(bytes);
        }
    }
}

/// A part of the memory. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Taken {
    memory: Arc<Memory>,
    of: Use,
    bytes: usize,
}

impl Taken {
    /// Makes it `bytes` large. False: there is no room for more, and it stays as it was.
    pub(super) fn resize(&mut self, bytes: usize) -> bool {
        if bytes < self.bytes {
            self.memory.give_back(self.of, self.bytes - bytes);
        } else if bytes > self.bytes {
            let Some(mut more) = self.memory.take(self.of, bytes - self.bytes) else { return false };
            // It is ours from now on.
            more.bytes = 0;
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.memory.give_back(self.of, self.bytes);
    }
}

/// Aligned memory of one request.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) bytes: AlignedBuffer,
    pub(super) share: Taken,
}

fn size_of_buffer(length: usize) -> usize {
    length.next_power_of_two().max(MAX_BLOCK_SIZE)
}

fn class(size: usize) -> Option<usize> {
    let whole = size.is_power_of_two() && size >= MAX_BLOCK_SIZE;
    whole.then(|| (size / MAX_BLOCK_SIZE).ilog2() as usize).filter(|&class| class < CLASSES)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ishigaki_testkit::seeded_runs;

    use super::*;

    fn memory() -> Arc<Memory> {
        Memory::new(LEAST)
    }

    #[test]
    fn each_use_has_a_quarter_and_takes_nothing_of_the_others() {
        let memory = memory();
        let mut held = Vec::new();
        for of in [Use::Results, Use::Staging, Use::Connection] {
            held.extend(std::iter::from_fn(|| memory.take(of, 1 << 20)));
        }
        assert_eq!(held.len(), 12);
        let requests: Vec<_> = std::iter::from_fn(|| memory.buffer(1 << 20)).collect();
        assert_eq!((requests.len(), memory.used()), (4, LEAST));
        held.clear();
        assert_eq!(std::iter::from_fn(|| memory.take(Use::Results, 1 << 20)).collect::<Vec<_>>().len(), 4);
        assert!(memory.take(Use::Request, 1).is_none());
        drop(requests);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_request_waits_for_room_and_not_for_ever() {
        let memory = memory();
        let taken = memory.take(Use::Request, LEAST / 4).expect("all of it");
        assert!(memory.buffer_until(1, Instant::now() + Duration::from_millis(10)).is_none());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| memory.buffer_until(1, Instant::now() + Duration::from_mins(1)));
            drop(taken);
            assert!(waits.join().expect("no panic").is_some());
        });
    }

    #[test]
    fn a_buffer_is_used_again_and_idle_ones_give_way() {
        let memory = memory();
        let buffer = memory.buffer(4000).expect("room");
        let place = buffer.bytes.as_ptr();
        memory.put(buffer);
        let again = memory.buffer(1).expect("room");
        assert_eq!((again.bytes.as_ptr(), again.bytes.len()), (place, 4096));
        drop(again);
        let many: Vec<_> = (0..4).map(|_| memory.buffer(1 << 20).expect("room")).collect();
        for buffer in many {
            memory.put(buffer);
        }
        assert_eq!(memory.state.lock().idle, LEAST / 4);
        let all = [Use::Connection, Use::Staging, Use::Results, Use::Request].map(|of| memory.take(of, LEAST / 4));
        assert!(all.iter().all(Option::is_some));
        assert_eq!(memory.state.lock().idle, 0);
    }

    #[test]
    fn the_bound_holds_whatever_is_taken_and_given_back() {
        seeded_runs("the_bound_holds_whatever_is_taken_and_given_back", 50, |seed| {
            let (mut random, memory) = (seed.generator(), memory());
            let (mut shares, mut buffers) = (Vec::new(), Vec::new());
            for _ in 0..400 {
                let bytes = random.usize(1..3 << 20);
                match random.usize(0..7) {
                    0 => shares.extend(memory.take(Use::Connection, bytes)),
                    1 => shares.extend(memory.take(Use::Staging, bytes)),
                    2 => shares.extend(memory.take(Use::Results, bytes)),
                    3 => buffers.extend(memory.buffer(bytes.min(1 << 20))),
                    4 if !shares.is_empty() => drop(shares.swap_remove(random.usize(0..shares.len()))),
                    5 if !shares.is_empty() => {
                        let at = random.usize(0..shares.len());
                        shares[at].resize(bytes);
                    }
                    6 if !buffers.is_empty() => memory.put(buffers.swap_remove(random.usize(0..buffers.len()))),
                    _ => {}
                }
                let counted: usize = shares
                    .iter()
                    .chain(buffers.iter().map(|buffer: &Buffer| &buffer.share))
                    .map(|share| share.bytes)
                    .sum();
                let state = memory.state.lock();
                assert_eq!(state.all(), counted);
                assert!(state.all() + state.idle <= LEAST, "{} used and {} idle", state.all(), state.idle);
                assert_eq!(state.idle, state.classes.iter().flatten().map(|buffer| buffer.len()).sum::<usize>());
            }
            drop((shares, buffers));
            assert_eq!(memory.used(), 0);
        });
    }
}
