//! What the threads of one stream share: the provider's endpoint and both directions' accounts.

use std::io::IoSliceMut;
use std::time::{Duration, Instant};

use super::incoming::{Incoming, Piece, spans};
use super::leaving::Leaving;
use super::words::{HEAD, Head, MESSAGES, Offer, RING};
use crate::libfabric::channel::{Channel, Done};
use crate::source::Fault;

/// How long bytes may still come after the peer has told its end, and after its end without a word.
const LATE: Duration = Duration::from_secs(1);
const LATE_OF_DEAD: Duration = Duration::from_millis(50);

/// Where no descriptor shows what the provider does, sleep is short at first, and longer while nothing happens.
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(2));

/// The peer's end.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// How many messages it said that it has sent; nothing if it went without a word.
    messages: Option<u64>,
    /// Since when nothing has come.
    since: Instant,
}

/// All under one lock: the provider wants calls about one endpoint one at a time.
#[expect(clippy::struct_excessive_bools, reason = "any combination occurs")]
#[derive(Debug)]
pub(super) struct State {
    pub(super) channel: Channel,
    secret: [u8; 16],
    theirs: Offer,
    pub(super) incoming: Incoming,
    pub(super) leaving: Leaving,
    /// What was last said of what we took, in messages and bytes of the ring.
    told: (u64, u64),
    /// There is something to be told, and the provider did not take it.
    pub(super) untold: bool,
    done: Vec<Done>,
    /// The first thing that went wrong.
    pub(super) fault: Option<Fault>,
    /// A message of the peer's has come.
    pub(super) met: bool,
    pub(super) end: Option<End>,
    /// We have told our end.
    pub(super) finished: bool,
    /// For how long to sleep where no descriptor shows what the provider does.
    nap: Duration,
    /// The bell is rung.
    pub(super) rung: bool,
    /// When the connection of the handshake was last looked at, and what came over it.
    pub(super) looked: Instant,
    pub(super) last_words: Vec<u8>,
}

impl State {
    pub(super) fn new(channel: Channel, secret: [u8; 16], theirs: Offer) -> Self {
        Self {
            incoming: Incoming::new(channel.numbers()),
            channel,
            secret,
            theirs,
            leaving: Leaving::new(),
            told: (0, 0),
            untold: false,
            done: Vec::new(),
            fault: None,
            met: false,
            end: None,
            finished: false,
            nap: NAPS.0,
            rung: false,
            looked: Instant::now(),
            last_words: Vec::new(),
        }
    }

    /// Lets the provider work, and takes account of what it has done; true if it was something.
    pub(super) fn progress(&mut self) -> Result<bool, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let worked = self.work();
        if let Err(fault) = &worked {
            self.fault = Some(fault.clone());
        }
        worked
    }

    fn work(&mut self) -> Result<bool, Fault> {
        let mut done = std::mem::take(&mut self.done);
        let polled = self.channel.poll(&mut done);
        let some = !done.is_empty();
        if some {
            self.nap = NAPS.0;
        }
        let accounted = done.drain(..).try_for_each(|one| self.account(one));
        self.done = done;
        accounted?;
        polled.map_err(Fault::Broken)?;
        self.tell()?;
        Ok(some)
    }

    fn account(&mut self, done: Done) -> Result<(), Fault> {
        match done {
            Done::Sent(slot) => self.leaving.sent(slot),
            Done::Wrote(write) => self.leaving.wrote(write),
            Done::Placed(number) => self.incoming.placed(number).map_err(Fault::Refused)?,
            Done::Spoilt(slot) => self.channel.receive(slot).map_err(Fault::Broken)?,
            Done::Received(slot, length) => {
                if !self.message(slot, length).map_err(Fault::Refused)? {
                    self.channel.receive(slot).map_err(Fault::Broken)?;
                }
            }
        }
        Ok(())
    }

    /// A message has come; true if its slot is needed still.
    fn message(&mut self, slot: usize, length: usize) -> Result<bool, String> {
        let mut bytes = [0; HEAD];
        // Anybody may reach the provider's endpoint. Who does not know the secret is nobody.
        let Some(rest) = length.checked_sub(HEAD) else { return Ok(false) };
        self.channel.received(slot, 0, &mut bytes);
        let head = Head::decode(&bytes);
        let differs = head.secret.iter().zip(&self.secret).fold(0, |differs, (one, other)| differs | (one ^ other));
        if differs != 0 {
            return Ok(false);
        }
        self.met = true;
        if let Some(end) = &mut self.end {
            end.since = Instant::now();
        }
        self.leaving.taken(&head)?;
        self.incoming.message(&head, slot, rest)
    }

    /// Says what was taken, if the peer may be waiting for that.
    fn tell(&mut self) -> Result<(), Fault> {
        let (messages, ring) = (self.incoming.messages_taken - self.told.0, self.incoming.ring_taken - self.told.1);
        if messages >= MESSAGES as u64 / 2 || ring >= RING as u64 / 4 {
            self.untold = !self.say()?;
        }
        Ok(())
    }

    /// Sends a message without bytes; false if that can not be now.
    pub(super) fn say(&mut self) -> Result<bool, Fault> {
        let Some(slot) = self.leaving.slot() else { return Ok(false) };
        let (messages, ring) = (self.leaving.messages, self.leaving.ring);
        self.send(slot, messages, ring, &[]).map_err(Fault::Broken)
    }

    /// Sends a message from this slot, which it gives back if that can not be now.
    pub(super) fn send(&mut self, slot: usize, messages: u64, ring: u64, bytes: &[u8]) -> Result<bool, String> {
        let (messages_taken, ring_taken) = (self.incoming.messages_taken, self.incoming.ring_taken);
        let head = Head { secret: self.theirs.secret, messages, ring, messages_taken, ring_taken };
        self.channel.compose(slot, 0, &head.encode());
        self.channel.compose(slot, HEAD, bytes);
        let sent = self.channel.send(slot, HEAD + bytes.len())?;
        if sent {
            self.told = (messages_taken, ring_taken);
        } else {
            self.leaving.sent(slot);
        }
        Ok(sent)
    }

    /// Writes a run of staged bytes, which begin at `position`, for the next message; false if that can not be now.
    pub(super) fn write(&mut self, position: u64, at: usize, length: usize) -> Result<bool, String> {
        let Some(write) = self.leaving.write(position) else { return Ok(false) };
        let number = (self.leaving.messages + 1) as u32;
        let begun = self.channel.write(write, at, length, self.theirs.landing, number)?;
        if !begun {
            self.leaving.wrote(write);
        }
        Ok(begun)
    }

    /// Copies bytes to where they will be written from, so many behind those that were.
    pub(super) fn stage(&mut self, behind: usize, mut bytes: &[u8]) {
        for (at, length) in spans(self.leaving.ring + behind as u64, bytes.len()) {
            let (now, later) = bytes.split_at(length);
            self.channel.stage(at, now);
            bytes = later;
        }
    }

    /// Takes what is here into the slices; how many bytes.
    pub(super) fn take(&mut self, slices: &mut [IoSliceMut<'_>]) -> Result<usize, Fault> {
        let mut taken = 0;
        for slice in slices {
            let mut free = &mut slice[..];
            while !free.is_empty() {
                let Some(piece) = self.incoming.next() else { return Ok(taken) };
                let length = match piece {
                    Piece::Ring { at, length } => {
                        let length = length.min(free.len());
                        self.channel.landed(at, &mut free[..length]);
                        length
                    }
                    Piece::Slot { slot, at, length } => {
                        let length = length.min(free.len());
                        self.channel.received(slot, HEAD + at, &mut free[..length]);
                        length
                    }
                };
                free = &mut free[length..];
                taken += length;
                self.pass(length)?;
            }
        }
        Ok(taken)
    }

    /// Takes what is here and throws it away.
    pub(super) fn discard(&mut self) -> Result<(), Fault> {
        while let Some(Piece::Ring { length, .. } | Piece::Slot { length, .. }) = self.incoming.next() {
            self.pass(length)?;
        }
        self.tell()
    }

    fn pass(&mut self, length: usize) -> Result<(), Fault> {
        match self.incoming.take(length) {
            Some(slot) => self.channel.receive(slot).map_err(Fault::Broken),
            None => Ok(()),
        }
    }

    /// How long to sleep without a descriptor.
    pub(super) fn doze(&mut self) -> Duration {
        let nap = self.nap;
        self.nap = (nap * 2).min(NAPS.1);
        nap
    }

    /// The connection of the handshake has ended.
    pub(super) fn ends(&mut self) {
        let messages = self.last_words.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        self.end = Some(End { messages, since: Instant::now() });
    }

    #[cfg(test)]
    pub(super) fn theirs_secret(&self) -> [u8; 16] {
        self.theirs.secret
    }

    /// Why nothing more comes, if that is so.
    pub(super) fn is_over(&self, now: Instant) -> Option<String> {
        let end = self.end?;
        match end.messages {
            Some(messages) if messages == self.incoming.number && !self.incoming.is_ready() => {
                Some("the peer closed it".to_owned())
            }
            Some(_) if now > end.since + LATE => {
                Some("the peer closed it, and not all that it sent has come".to_owned())
            }
            None if now > end.since + LATE_OF_DEAD => Some("the peer is gone without a word".to_owned()),
            _ => None,
        }
    }
}
