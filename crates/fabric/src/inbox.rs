//! Receiving: what has come in is taken all at once.
//!
//! Frames are taken apart from a buffer. Bytes of a one-sided write go into their region from there; what is still missing
//! of a long one comes straight from its [source](Source), together with what follows it.

use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::endpoint::{Event, Message, Wait};
use crate::frame::{Decoded, HEADER, Head, Kind, TARGET};
use crate::region::{Region, Regions};
use crate::source::{Block, Fault, Source};
use crate::wait::{Patience, Spin};

/// Bytes of the buffer. Longer messages make it grow while they last.
const ROOM: usize = 128 << 10;

/// About so many bytes are taken from a source by one call.
const MOST_AT_ONCE: usize = 1 << 20;

/// The receiving direction.
#[derive(Debug)]
pub(crate) struct Inbox {
    regions: Regions,
    /// What has come in is in `buffer[begin..end]`.
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// A write of which bytes are missing.
    placing: Option<Placing>,
    /// How many requests the peer may still send. Whoever gives it credits counts them before they are on their way.
    allowed: Arc<AtomicU32>,
    patience: Patience,
    /// The end that was found behind the last events, until somebody is told.
    end_of_all: Option<Fault>,
}

#[derive(Debug)]
struct Placing {
    head: Head,
    region: Region,
    /// Where in the region the next byte goes, and how many do.
    at: usize,
    rest: usize,
    completes: bool,
}

impl Inbox {
    pub(crate) fn new(regions: Regions, allowed: Arc<AtomicU32>) -> Self {
        let (buffer, patience) = (vec![0; ROOM], Patience::default());
        Self { regions, buffer, begin: 0, end: 0, placing: None, allowed, patience, end_of_all: None }
    }

    /// Takes what is there; waits for at least one event if that is wanted. What came before the end of the connection is
    /// not lost with it: the end is told to who receives next.
    pub(crate) fn receive(&mut self, source: &impl Source, events: &mut Vec<Event>, wait: Wait) -> Result<(), Fault> {
        if let Some(fault) = self.end_of_all.take() {
            return Err(fault);
        }
        let before = events.len();
        self.receive_some(source, events, wait).or_else(|fault| {
            if events.len() == before {
                return Err(fault);
            }
            self.end_of_all = Some(fault);
            Ok(())
        })
    }

    fn receive_some(&mut self, source: &impl Source, events: &mut Vec<Event>, wait: Wait) -> Result<(), Fault> {
        let before = events.len();
        self.take_apart(events)?;
        if events.len() > before {
            return Ok(());
        }
        match wait {
            Wait::No => self.receive_now(source, events),
            Wait::Until(deadline) => {
                let begin = Instant::now();
                self.receive_until(source, events, begin, deadline)?;
                self.patience.learn(begin.elapsed());
                // Records that were taken from the socket and not opened would make it look empty to who polls it.
                if source.is_plain() { Ok(()) } else { self.receive_now(source, events) }
            }
        }
    }

    /// Until nothing more is there.
    fn receive_now(&mut self, source: &impl Source, events: &mut Vec<Event>) -> Result<(), Fault> {
        let mut taken = 0;
        loop {
            let (received, room) = self.fill(source, Block::No)?;
            self.take_apart(events)?;
            taken += received;
            // A socket that gave less than there was room for is empty. Of TLS that can not be said.
            if received == 0 || (received < room && source.is_plain()) {
                return Ok(());
            }
            // A peer that sends without end must not have all of it in memory at once.
            if taken >= MOST_AT_ONCE && source.keeps_rest_readable() {
                return Ok(());
            }
        }
    }

    fn receive_until(
        &mut self,
        source: &impl Source,
        events: &mut Vec<Event>,
        begin: Instant,
        deadline: Instant,
    ) -> Result<(), Fault> {
        let before = events.len();
        if let Some(mut spin) = self.patience.spin(begin) {
            let outcome = self.spin(source, events, &mut spin);
            self.patience.spun(&spin);
            outcome?;
        }
        while events.len() == before {
            self.fill(source, Block::Until(deadline))?;
            self.take_apart(events)?;
        }
        Ok(())
    }

    /// Looks again and again, until something has come or it has been long enough.
    fn spin(&mut self, source: &impl Source, events: &mut Vec<Event>, spin: &mut Spin) -> Result<(), Fault> {
        let before = events.len();
        loop {
            if self.fill(source, Block::No)?.0 > 0 {
                self.take_apart(events)?;
                if events.len() > before {
                    return Ok(());
                }
            }
            if !spin.again() {
                return Ok(());
            }
        }
    }

    /// Receives bytes; returns how many, and for how many there was room.
    fn fill(&mut self, source: &impl Source, block: Block) -> Result<(usize, usize), Fault> {
        if self.begin > 0 && (self.begin == self.end || self.buffer.len() - self.end < ROOM / 2) {
            self.buffer.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        }
        let free = &mut self.buffer[self.end..];
        let room = free.len();
        let Some(placing) = self.placing.as_mut().filter(|_| source.is_plain()) else {
            let received = source.receive(&mut [IoSliceMut::new(free)], block)?;
            self.end += received;
            return Ok((received, room));
        };
        // The buffer is empty while bytes are missing, so nothing is out of order.
        let missing = placing.rest;
        let mut memory = placing.region.memory().ok_or_else(taken)?;
        let place = &mut memory[placing.at..placing.at + missing];
        let received = source.receive(&mut [IoSliceMut::new(place), IoSliceMut::new(free)], block)?;
        drop(memory);
        let placed = received.min(missing);
        placing.at += placed;
        placing.rest -= placed;
        self.end += received - placed;
        Ok((received, missing + room))
    }

    /// Makes events of the bytes that are there.
    pub(crate) fn take_apart(&mut self, events: &mut Vec<Event>) -> Result<(), Fault> {
        loop {
            if let Some(placing) = &mut self.placing {
                let here = placing.rest.min(self.end - self.begin);
                if here > 0 {
                    let mut memory = placing.region.memory().ok_or_else(taken)?;
                    let bytes = &self.buffer[self.begin..self.begin + here];
                    memory[placing.at..placing.at + here].copy_from_slice(bytes);
                    drop(memory);
                    placing.at += here;
                    placing.rest -= here;
                    self.begin += here;
                }
                if placing.rest > 0 {
                    return Ok(());
                }
                if placing.completes {
                    let Head { id, credits, length, .. } = placing.head;
                    events.push(Event::Written { id, credits, length });
                }
                self.placing = None;
            }
            let (head, size) = match Head::decode(&self.buffer[self.begin..self.end]) {
                Decoded::Head(head, size) => (head, size),
                Decoded::Short => {
                    self.make_room(HEADER + TARGET);
                    return Ok(());
                }
                Decoded::Wrong(reason) => return Err(Fault::Refused(reason.to_owned())),
            };
            let length = head.length as usize;
            if let Kind::Write { target, completes } = head.kind {
                let region = self.regions.find(target, length).map_err(Fault::Refused)?;
                self.begin += size;
                self.placing = Some(Placing { head, region, at: target.offset as usize, rest: length, completes });
                continue;
            }
            let Some(bytes) = self.buffer[self.begin..self.end].get(size..size + length) else {
                self.make_room(size + length);
                return Ok(());
            };
            let bytes = Message::from_slice(bytes);
            self.begin += size + length;
            events.push(match head.kind {
                Kind::Reply => Event::Reply { id: head.id, credits: head.credits, bytes },
                _ => self.request(head.id, bytes)?,
            });
        }
    }

    /// Sees that a frame of this size fits behind `begin`, and gives memory back that only a long one needed.
    fn make_room(&mut self, size: usize) {
        if self.buffer.len() - self.begin < size {
            self.buffer.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        }
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        } else if self.begin == self.end && self.buffer.len() > ROOM {
            self.buffer = vec![0; ROOM];
            (self.begin, self.end) = (0, 0);
        }
    }

    fn request(&self, id: u32, bytes: Message) -> Result<Event, Fault> {
        let spent = self.allowed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |allowed| allowed.checked_sub(1));
        if spent.is_err() {
            return Err(Fault::Refused("more requests than it was given credits for".to_owned()));
        }
        Ok(Event::Request { id, bytes })
    }

    /// Bytes as if they had come from a socket, so many at a time.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn feed(&mut self, bytes: &[u8], piece: usize, events: &mut Vec<Event>) -> Result<(), Fault> {
        for piece in bytes.chunks(piece) {
            if self.buffer.len() - self.end < piece.len() {
                self.buffer.copy_within(self.begin..self.end, 0);
                self.end -= self.begin;
                self.begin = 0;
                self.buffer.resize(self.buffer.len().max(self.end + piece.len()), 0);
            }
            self.buffer[self.end..self.end + piece.len()].copy_from_slice(piece);
            self.end += piece.len();
            self.take_apart(events)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

fn taken() -> Fault {
    Fault::Refused("a write into a region while its owner has the memory elsewhere".to_owned())
}
