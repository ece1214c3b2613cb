//! Connections over libfabric: a stream of bytes that one side writes into the other one's memory.
//!
//! Each side has a *landing ring* that its peer may write into, one-sidedly, and nothing else of its memory. What is to be
//! sent goes into our own ring, from there by one write into the same place of the peer's, and a message says how far it is
//! filled; little goes within the message itself. The peer takes bytes out of its ring as it would from a socket: the frames are
//! those of TCP, and so is all that is looked at before bytes get into a region.
//!
//! ```text
//!   send     frames ─▶ own ring ── write with number n ──▶ landing ring ─▶ frames ─▶ regions, events
//!                         │  └──── message n: filled so far, taken so far ──▶ │
//!            room again ◀─┴──── messages of the peer: taken so far ───────────┘
//! ```
//!
//! *Why not straight into regions.* A region's memory comes and goes, and its owner may take it elsewhere meanwhile. Providers in
//! software (tcp, net, sockets) go on with a write that had begun when its memory was unregistered; a peer could so write into
//! memory that is somebody else's by then. The ring stays as long as the endpoint, is registered once (which costs a
//! device more than copying some pages), works with both ways of registration, and a batch of many writes is one.
//!
//! *Why writes have numbers.* A write's completion at the target (remote CQ data) comes after its bytes with every provider,
//! while not every one keeps a message behind a write that was sent before it (shm promises nothing). So the message tells
//! what belongs to it, and waits for that. Only over `tcp;ofi_rxm`, which keeps them in order, have they none: it does not survive
//! that such a write is cut short.
//!
//! *What guards what.* The provider's key guards the ring, as far as it guards anything: over shm, processes of one user
//! can write into each other anyway. Messages begin with a secret that was told over the handshake's connection, because anybody can
//! reach an endpoint; those without it are passed over. A region needs its own key, as ever. Nothing is encrypted.
//!
//! *Life.* The connection of the handshake stays open and says nothing until one side ends: then how many messages it has
//! sent, so that none is missed. If it ends without that, the peer is dead. Providers work while they are called; so both
//! directions do, and a thread that sends may find what another one waits for, and [rings](bell).
//!
//! Parts: [`words`] are the bytes, [`incoming`] and [`leaving`] the accounts of both directions, [`state`] what is under the lock, [`bell`]
//! what threads sleep on, [`meeting`] the handshake.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::connection::Stream;
use crate::endpoint::Outgoing;
use crate::frame::{HEADER, TARGET};
use crate::source::{Block, Fault, Source};
use crate::tcp::wire::Wire;
use bell::Bell;
use incoming::spans;
use state::State;
use words::{INLINE, RING};

mod bell;
#[cfg(fuzzing)]
pub(crate) mod fuzz;
mod incoming;
mod leaving;
mod meeting;
mod state;
mod words;

pub(crate) use meeting::meet;

/// A message has no more bytes in the ring than this, so that the peer can begin to take them.
const PIECE: usize = RING / 4;

/// How long nobody sleeps without looking again, where descriptors show all that happens, and where they do not.
const SLICE: Duration = Duration::from_millis(100);
const NAP: Duration = Duration::from_millis(1);

/// How long a stream that ends waits for its provider, and then for its peer's end.
const FLUSH: Duration = Duration::from_millis(200);
const LINGER: Duration = Duration::from_millis(100);

/// How long after the peer's end somebody may still wait for it to take something.
const GONE: Duration = Duration::from_millis(200);

/// A stream. Its peer is one that was met.
#[derive(Debug)]
pub(crate) struct Ofi {
    /// The connection of the handshake.
    wire: Wire,
    stall: Duration,
    state: Mutex<State>,
    /// Held by who sends. Within are the beginnings of frames.
    turn: Mutex<Vec<u8>>,
    /// The provider's descriptor, if there is one, and everything that there is to wake up for.
    queue: Option<OwnedFd>,
    all: Option<OwnedFd>,
    bell: Bell,
    /// Somebody polls, so what was found must show.
    polled: AtomicBool,
    deaf: AtomicBool,
    closed: AtomicBool,
}

impl Ofi {
    fn new(wire: Wire, stall: Duration, state: State) -> Result<Self, Fault> {
        let broken = |error: std::io::Error| Fault::Broken(error.to_string());
        let queue = state.channel.descriptor().map(|queue| queue.try_clone_to_owned()).transpose().map_err(broken)?;
        let bell = Bell::new()?;
        let all = queue.as_ref().map(|queue| bell::together(&[queue.as_fd(), bell.as_fd(), wire.socket().as_fd()]));
        Ok(Self {
            wire,
            stall,
            state: Mutex::new(state),
            turn: Mutex::default(),
            queue,
            all: all.transpose()?,
            bell,
            polled: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }

    /// Sleeps until the provider has done something, or the peer ends, or for so long.
    fn sleep(&self, mut state: MutexGuard<'_, State>, with_bell: bool, most: Duration) {
        if state.untold || !state.channel.may_sleep() {
            // Soon again.
            MutexGuard::unlock_fair(state);
            std::thread::yield_now();
            return;
        }
        let mut descriptors = smallvec::SmallVec::<[BorrowedFd<'_>; 3]>::new();
        descriptors.extend(self.queue.as_ref().map(AsFd::as_fd));
        descriptors.extend(with_bell.then(|| self.bell.as_fd()));
        // Once it has ended, it would be readable all the time.
        descriptors.extend(state.end.is_none().then(|| self.wire.socket().as_fd()));
        let most = match &self.queue {
            None => most.min(state.doze()),
            Some(_) if state.end.is_some() => most.min(NAP),
            Some(_) => most,
        };
        drop(state);
        bell::sleep(&descriptors, most);
    }

    /// Looks whether the connection of the handshake has ended.
    fn look(&self, state: &mut State, now: Instant) {
        state.looked = now;
        while state.end.is_none() {
            let mut bytes = [0; 8];
            match self.wire.receive(&mut [IoSliceMut::new(&mut bytes)], Block::No) {
                Ok(0) => return,
                Ok(received) if state.last_words.len() + received <= bytes.len() => {
                    state.last_words.extend_from_slice(&bytes[..received]);
                }
                Ok(_) => {
                    state.fault.get_or_insert(Fault::Refused("too many last words".to_owned()));
                    return;
                }
                Err(_) => state.ends(),
            }
        }
    }

    /// Sees that the descriptors show what is there, for whoever polls or sleeps.
    fn settle(&self, state: &mut State) {
        if self.polled.load(Ordering::Relaxed) {
            // An error is told to who receives next, and an end is what the descriptors show.
            while !state.channel.may_sleep() && state.progress().is_ok() {}
        }
        let ring = state.incoming.is_ready() || state.fault.is_some() || self.is_ending();
        if ring != state.rung {
            state.rung = ring;
            if ring { self.bell.ring() } else { self.bell.still() }
        }
    }

    fn is_ending(&self) -> bool {
        self.closed.load(Ordering::Relaxed) || self.deaf.load(Ordering::Relaxed)
    }

    /// Lets the provider work for a thread that sends; wakes who waits for what was found meanwhile.
    fn progress_aside(&self, state: &mut State) -> Result<bool, Fault> {
        let progress = state.progress();
        self.settle(state);
        progress
    }

    /// Waits until `begin` does what it is to do, which it tries again whenever the provider has worked.
    fn until<'s, T>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        mut begin: impl FnMut(&mut State) -> Result<Option<T>, String>,
    ) -> Result<(MutexGuard<'s, State>, T), Fault> {
        let mut since: Option<Instant> = None;
        let mut round = 0;
        loop {
            if state.finished {
                return Err(Fault::Broken("closed".to_owned()));
            }
            if let Some(fault) = &state.fault {
                return Err(fault.clone());
            }
            if let Some(begun) = begin(&mut state).map_err(Fault::Broken)? {
                return Ok((state, begun));
            }
            let now = Instant::now();
            let waited = now - *since.get_or_insert(now);
            let before = state.leaving.progress();
            let some = self.progress_aside(&mut state)?;
            if state.leaving.progress() > before {
                // The peer is taking something.
                since = None;
            } else if waited > self.stall {
                return Err(Fault::Late);
            } else if waited > GONE {
                self.look(&mut state, now);
                if state.end.is_some() {
                    return Err(Fault::Broken("the peer closed it".to_owned()));
                }
            }
            if some {
                continue;
            }
            round += 1;
            if round < 8 {
                MutexGuard::bump(&mut state);
                std::thread::yield_now();
            } else {
                self.sleep(state, false, NAP);
                state = self.state.lock();
            }
        }
    }

    /// Sends what fits into a message.
    fn send_short(&self, bytes: &[u8]) -> Result<(), Fault> {
        let send = |state: &mut State| {
            if state.leaving.room().is_none() {
                return Ok(None);
            }
            let Some(slot) = state.leaving.slot() else { return Ok(None) };
            let (messages, ring) = (state.leaving.messages + 1, state.leaving.ring);
            if !state.send(slot, messages, ring, bytes)? {
                return Ok(None);
            }
            state.leaving.messages = messages;
            Ok(Some(()))
        };
        self.until(self.state.lock(), send).map(|_| ())
    }

    /// Sends through the ring, in pieces.
    fn send_long<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> Result<(), Fault> {
        let mut parts = parts.filter(|part| !part.is_empty());
        let mut part = parts.next();
        while part.is_some() {
            let room = |state: &mut State| Ok(state.leaving.room().filter(|&room| room > 0));
            let (mut state, room) = self.until(self.state.lock(), room)?;
            let (most, mut staged) = (room.min(PIECE), 0);
            while let Some(bytes) = part.filter(|_| staged < most) {
                let (now, later) = bytes.split_at(bytes.len().min(most - staged));
                state.stage(staged, now);
                staged += now.len();
                part = if later.is_empty() { parts.next() } else { Some(later) };
            }
            let begin = state.leaving.ring;
            let mut position = begin;
            for (at, length) in spans(begin, staged) {
                let write = |state: &mut State| state.write(position, at, length).map(|begun| begun.then_some(()));
                (state, ()) = self.until(state, write)?;
                position += length as u64;
            }
            let send = |state: &mut State| {
                let Some(slot) = state.leaving.slot() else { return Ok(None) };
                let messages = state.leaving.messages + 1;
                if !state.send(slot, messages, position, &[])? {
                    return Ok(None);
                }
                (state.leaving.messages, state.leaving.ring) = (messages, position);
                Ok(Some(()))
            };
            drop(self.until(state, send)?);
        }
        Ok(())
    }

    /// Tells the peer that nothing more comes, once.
    fn finish(&self) {
        let until = Instant::now() + FLUSH;
        let messages = {
            let mut state = self.state.lock();
            if std::mem::replace(&mut state.finished, true) {
                return;
            }
            while !state.leaving.is_idle() && Instant::now() < until {
                match self.progress_aside(&mut state) {
                    Err(_) => break,
                    Ok(true) => {}
                    Ok(false) => {
                        self.sleep(state, false, NAP);
                        state = self.state.lock();
                    }
                }
            }
            state.leaving.messages
        };
        // If it can not be told, the peer has ended or finds out by itself.
        let _ = self.wire.send(&mut [IoSlice::new(&messages.to_le_bytes())]);
        self.wire.finish();
    }

    /// Takes and throws away what comes until the peer has ended.
    fn drain(&self, deadline: Instant) {
        loop {
            let (mut state, now) = (self.state.lock(), Instant::now());
            self.look(&mut state, now);
            let worked = state.progress().and_then(|_| state.discard());
            if worked.is_err() || state.end.is_some() || now >= deadline {
                return;
            }
            self.sleep(state, false, (deadline - now).min(SLICE));
        }
    }
}

impl Source for Ofi {
    fn receive(&self, slices: &mut [IoSliceMut<'_>], block: Block) -> Result<usize, Fault> {
        loop {
            let mut state = self.state.lock();
            let worked = state.progress();
            let taken = state.take(slices)?;
            if taken > 0 {
                // What there is to be told is told by whoever lets the provider work next, if not at once.
                let _ = state.progress();
                self.settle(&mut state);
                return Ok(taken);
            }
            worked?;
            let now = Instant::now();
            // Looking is a system call, which somebody who spins had better not make each time.
            let spins = matches!(block, Block::No) && !self.polled.load(Ordering::Relaxed);
            if !spins || now > state.looked + NAP {
                self.look(&mut state, now);
            }
            if let Some(reason) = state.is_over(now) {
                return Err(Fault::Broken(reason));
            }
            if self.is_ending() {
                let reason = if self.is_deaf() { "we take nothing more" } else { "closed" };
                return Err(Fault::Broken(reason.to_owned()));
            }
            self.settle(&mut state);
            if state.incoming.is_ready() {
                continue;
            }
            match block {
                Block::No => return Ok(0),
                Block::Until(deadline) if now >= deadline => return Err(Fault::Late),
                Block::Until(deadline) => self.sleep(state, true, (deadline - now).min(SLICE)),
            }
        }
    }

    fn is_plain(&self) -> bool {
        true
    }
}

impl Stream for Ofi {
    fn send(&self, batch: &[Outgoing<'_>]) -> Result<(), Fault> {
        let mut heads = self.turn.lock();
        heads.clear();
        let size: usize = batch.iter().map(|one| HEADER + TARGET + one.bytes().len()).sum();
        if size <= INLINE {
            for one in batch {
                one.head().encode(&mut heads);
                heads.extend_from_slice(one.bytes());
            }
            return if heads.is_empty() { Ok(()) } else { self.send_short(&heads) };
        }
        let mut ends = Vec::with_capacity(batch.len());
        for one in batch {
            let begin = heads.len();
            one.head().encode(&mut heads);
            ends.push(begin..heads.len());
        }
        let heads = &heads[..];
        self.send_long(batch.iter().zip(ends).flat_map(|(one, head)| [&heads[head], one.bytes()]))
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        let all = self.all.as_ref()?;
        if !self.polled.swap(true, Ordering::Relaxed) {
            self.settle(&mut self.state.lock());
        }
        Some(all.as_fd())
    }

    fn close_incoming(&self) {
        self.deaf.store(true, Ordering::SeqCst);
        self.settle(&mut self.state.lock());
    }

    fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::Relaxed)
    }

    fn close_outgoing(&self, deadline: Instant) {
        self.finish();
        self.drain(deadline);
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.settle(&mut self.state.lock());
        self.finish();
    }
}

impl Drop for Ofi {
    fn drop(&mut self) {
        self.close();
        // What was sent last may still be under way, and would be lost with the provider's endpoint.
        self.drain(Instant::now() + LINGER);
    }
}

#[cfg(test)]
mod tests;
