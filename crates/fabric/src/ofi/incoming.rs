//! The receiving direction's account: which bytes of the stream are here, where, and in what order.
//!
//! A message says how far the ring is filled when its own bytes come. The writes that fill it have the message's number, and
//! arrive on their own: before the message, or after it where the provider promises no order between the two. Bytes count as here
//! when the message and all of its writes are. Where writes have no numbers, the message itself says that they are here.

use std::collections::VecDeque;

use super::words::{Head, INLINE, MESSAGES, RING};

/// Bytes of the stream, in the order in which they are to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// In the landing ring.
    Ring { at: usize, length: usize },
    /// In a slot, so many bytes behind the message's head.
    Slot { slot: usize, at: usize, length: usize },
}

/// A message that has come, and what is left of it.
#[derive(Clone, Copy, Debug)]
struct Message {
    /// Writes that belong to it and are not here yet.
    missing: u8,
    /// Bytes in the ring, then bytes in the slot.
    ring: usize,
    slot: usize,
    at: usize,
    rest: usize,
}

/// What has come, and what of it was taken.
#[derive(Debug)]
pub(super) struct Incoming {
    /// Writes have numbers.
    numbered: bool,
    messages: VecDeque<Message>,
    /// Writes that have come before their message, by its number.
    early: [u8; MESSAGES],
    /// Of the last message that has come.
    pub(super) number: u64,
    ring: u64,
    pub(super) messages_taken: u64,
    pub(super) ring_taken: u64,
}

impl Incoming {
    pub(super) fn new(numbered: bool) -> Self {
        let (messages, early) = (VecDeque::new(), [0; MESSAGES]);
        Self { numbered, messages, early, number: 0, ring: 0, messages_taken: 0, ring_taken: 0 }
    }

    /// A message has come, with `length` bytes behind its head; true if its slot is needed for them.
    pub(super) fn message(&mut self, head: &Head, slot: usize, length: usize) -> Result<bool, String> {
        let filled = head.ring.checked_sub(self.ring);
        let Some(filled) = filled.filter(|_| head.ring - self.ring_taken.min(head.ring) <= RING as u64) else {
            return Err("more bytes than the ring has room for".to_owned());
        };
        if head.messages == self.number && filled == 0 && length == 0 {
            // It only says what was taken.
            return Ok(false);
        }
        if head.messages != self.number + 1 || self.messages.len() == MESSAGES || length > INLINE {
            return Err("a message out of turn".to_owned());
        }
        let writes = if self.numbered { spans(self.ring, filled as usize).count() as u8 } else { 0 };
        let early = std::mem::take(&mut self.early[place(head.messages)]);
        let missing = writes.checked_sub(early).ok_or("more writes than a message has")?;
        (self.number, self.ring) = (head.messages, head.ring);
        self.messages.push_back(Message { missing, ring: filled as usize, slot, at: 0, rest: length });
        // Nothing at all to be taken would never be taken.
        if filled == 0 && length == 0 {
            return Err("a message without bytes".to_owned());
        }
        Ok(length > 0)
    }

    /// A write of the message with this number is here.
    pub(super) fn placed(&mut self, number: u32) -> Result<(), String> {
        if !self.numbered {
            return Err("a write with a number, where none has one".to_owned());
        }
        // The first of those that are here is the last but so many.
        let ahead = number.wrapping_sub((self.number as u32).wrapping_sub(self.messages.len() as u32)) as usize;
        match ahead {
            1.. if ahead <= self.messages.len() => {
                let missing = &mut self.messages[ahead - 1].missing;
                *missing = missing.checked_sub(1).ok_or("more writes than a message has")?;
            }
            1.. if ahead <= MESSAGES => {
                let early = &mut self.early[place(number.into())];
                *early = if *early < 2 { *early + 1 } else { return Err("more writes than a message has".to_owned()) };
            }
            _ => return Err("a write of a message that there is not".to_owned()),
        }
        Ok(())
    }

    /// The next bytes that can be taken.
    pub(super) fn next(&self) -> Option<Piece> {
        let message = self.messages.front().filter(|message| message.missing == 0)?;
        if message.ring > 0 {
            return spans(self.ring_taken, message.ring).next().map(|(at, length)| Piece::Ring { at, length });
        }
        Some(Piece::Slot { slot: message.slot, at: message.at, length: message.rest })
    }

    /// So many of the next bytes were taken. A slot that is not needed any more, if they were its last.
    pub(super) fn take(&mut self, length: usize) -> Option<usize> {
        let message = self.messages.front_mut()?;
        if message.ring > 0 {
            message.ring -= length;
            self.ring_taken += length as u64;
        } else {
            message.at += length;
            message.rest -= length;
        }
        if message.ring > 0 || message.rest > 0 {
            return None;
        }
        let slot = (message.at > 0).then_some(message.slot);
        self.messages.pop_front();
        self.messages_taken += 1;
        slot
    }

    /// Whether there is something to be taken.
    pub(super) fn is_ready(&self) -> bool {
        self.messages.front().is_some_and(|message| message.missing == 0)
    }
}

/// Where in the ring so many bytes from position `from` of it lie: in one run, or in two around its end.
pub(super) fn spans(from: u64, length: usize) -> impl Iterator<Item = (usize, usize)> {
    let at = (from % RING as u64) as usize;
    let first = length.min(RING - at);
    [(at, first), (0, length - first)].into_iter().filter(|&(_, length)| length > 0)
}

fn place(number: u64) -> usize {
    (number % MESSAGES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(messages: u64, ring: u64) -> Head {
        Head { secret: [0; 16], messages, ring, messages_taken: 0, ring_taken: 0 }
    }

    #[test]
    fn bytes_are_taken_in_order_and_only_when_all_of_their_message_is_here() {
        let mut incoming = Incoming::new(true);
        assert_eq!(incoming.message(&head(1, 100), 5, 0), Ok(false), "the slot has no bytes");
        assert_eq!(incoming.message(&head(2, 100), 6, 10), Ok(true));
        assert_eq!(incoming.next(), None, "the write is not here");
        incoming.placed(1).expect("it is expected");
        assert_eq!(incoming.next(), Some(Piece::Ring { at: 0, length: 100 }));
        assert_eq!(incoming.take(60), None);
        assert_eq!(incoming.next(), Some(Piece::Ring { at: 60, length: 40 }));
        assert_eq!(incoming.take(40), None);
        assert_eq!(incoming.next(), Some(Piece::Slot { slot: 6, at: 0, length: 10 }));
        assert_eq!((incoming.take(4), incoming.take(6)), (None, Some(6)));
        assert!(!incoming.is_ready());
        assert_eq!((incoming.messages_taken, incoming.ring_taken), (2, 100));
    }

    #[test]
    fn a_write_may_come_before_its_message_and_around_the_end_of_the_ring() {
        let (mut incoming, end) = (Incoming::new(true), RING as u64);
        incoming.placed(1).expect("early");
        incoming.message(&head(1, end - 10), 0, 0).expect("it fits");
        incoming.take(RING - 10);
        incoming.placed(2).expect("early");
        incoming.message(&head(2, end + 10), 0, 0).expect("it fits");
        assert_eq!(incoming.next(), None, "the second half is missing");
        incoming.placed(2).expect("there are two");
        assert_eq!(incoming.next(), Some(Piece::Ring { at: RING - 10, length: 10 }));
        incoming.take(10);
        assert_eq!(incoming.next(), Some(Piece::Ring { at: 0, length: 10 }));
        assert_eq!(spans(0, 0).count(), 0);
    }

    #[test]
    fn where_writes_have_no_numbers_a_message_says_that_they_are_here() {
        let mut incoming = Incoming::new(false);
        assert_eq!(incoming.message(&head(1, 100), 5, 0), Ok(false));
        assert_eq!(incoming.next(), Some(Piece::Ring { at: 0, length: 100 }));
        assert!(incoming.placed(1).is_err() && incoming.placed(2).is_err());
    }

    #[test]
    fn what_no_peer_may_say_is_refused() {
        let full = RING as u64;
        let fresh = || Incoming::new(true);
        assert!(fresh().message(&head(1, full + 1), 0, 0).is_err(), "beyond the ring");
        assert!(fresh().message(&head(2, 10), 0, 0).is_err(), "one left out");
        assert!(fresh().message(&head(0, 10), 0, 0).is_err() && fresh().message(&head(0, 0), 0, 1).is_err());
        assert!(fresh().message(&head(1, 0), 0, 0).is_err(), "no bytes");
        assert!(fresh().message(&head(1, 0), 0, INLINE + 1).is_err());
        assert!(fresh().placed(0).is_err() && fresh().placed(MESSAGES as u32 + 1).is_err());
        let mut incoming = fresh();
        incoming.message(&head(1, full), 0, 0).expect("all of the ring");
        assert!(incoming.message(&head(2, full + 1), 0, 0).is_err(), "nothing was taken");
        assert!(incoming.message(&head(2, 5), 0, 0).is_err(), "backwards");
        incoming.placed(1).expect("it is expected");
        assert!(incoming.placed(1).is_err(), "twice");
        let mut incoming = fresh();
        for number in 1..=MESSAGES as u64 {
            incoming.message(&head(number, 0), 0, 1).expect("so many may");
        }
        assert!(incoming.message(&head(MESSAGES as u64 + 1, 0), 0, 1).is_err());
        assert!((0..3).any(|_| incoming.placed(MESSAGES as u32 + 1).is_err()), "more than two writes");
    }
}
