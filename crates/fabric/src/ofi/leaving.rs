//! The sending direction's account: what is on its way, and for how much more there is room.
//!
//! There is room when the peer has said that it took what was there, and when the provider needs our own copy no more.

use super::words::{EXTRA, Head, MESSAGES, RING};

/// Writes that may be on their way.
pub(super) const WRITES: usize = 16;

/// No message has more writes: the ring's end may lie within its bytes.
pub(super) const WRITES_OF_ONE: usize = 2;

/// What was sent, and what of it was taken.
#[derive(Debug)]
pub(super) struct Leaving {
    /// Slots that can be sent from.
    slots: Vec<usize>,
    /// Numbers for writes.
    writes: Vec<usize>,
    /// Where in the ring the writes under way begin, by their numbers.
    begins: [Option<u64>; WRITES],
    pub(super) messages: u64,
    pub(super) ring: u64,
    /// What the peer has said.
    messages_taken: u64,
    ring_taken: u64,
}

impl Leaving {
    pub(super) fn new() -> Self {
        Self {
            slots: (0..MESSAGES + EXTRA).collect(),
            writes: (0..WRITES).collect(),
            begins: [None; WRITES],
            messages: 0,
            ring: 0,
            messages_taken: 0,
            ring_taken: 0,
        }
    }

    /// How many bytes of the ring may be filled by one more message; nothing: not even a message may be sent.
    pub(super) fn room(&self) -> Option<usize> {
        let may = self.messages - self.messages_taken < MESSAGES as u64
            && self.slots.len() > 1
            && self.writes.len() >= WRITES_OF_ONE;
        let kept = self.begins.iter().flatten().copied().min().unwrap_or(self.ring).min(self.ring_taken);
        may.then(|| RING - (self.ring - kept) as usize)
    }

    /// A slot for a message.
    pub(super) fn slot(&mut self) -> Option<usize> {
        self.slots.pop()
    }

    /// The message in this slot was sent, or was not and will not be.
    pub(super) fn sent(&mut self, slot: usize) {
        self.slots.push(slot);
    }

    /// A number for a write of bytes from position `begin` on.
    pub(super) fn write(&mut self, begin: u64) -> Option<usize> {
        let write = self.writes.pop()?;
        self.begins[write] = Some(begin);
        Some(write)
    }

    /// This write is done, or was never begun.
    pub(super) fn wrote(&mut self, write: usize) {
        if self.begins.get_mut(write).and_then(Option::take).is_some() {
            self.writes.push(write);
        }
    }

    /// What the peer says about what it has taken; true if that is more than before.
    pub(super) fn taken(&mut self, head: &Head) -> Result<bool, String> {
        let known = self.messages_taken..=self.messages;
        let filled = self.ring_taken..=self.ring;
        if !known.contains(&head.messages_taken) || !filled.contains(&head.ring_taken) {
            return Err("it says that it took what was not sent".to_owned());
        }
        let more = head.messages_taken > self.messages_taken || head.ring_taken > self.ring_taken;
        (self.messages_taken, self.ring_taken) = (head.messages_taken, head.ring_taken);
        Ok(more)
    }

    /// A number that grows when the peer takes something.
    pub(super) fn progress(&self) -> u64 {
        self.messages_taken + self.ring_taken
    }

    /// Nothing is left for the provider to do.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.len() == MESSAGES + EXTRA && self.writes.len() == WRITES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(messages_taken: u64, ring_taken: u64) -> Head {
        Head { secret: [0; 16], messages: 0, ring: 0, messages_taken, ring_taken }
    }

    #[test]
    fn there_is_room_when_the_peer_has_taken_bytes_and_the_provider_has_sent_them() {
        let mut leaving = Leaving::new();
        assert_eq!(leaving.room(), Some(RING));
        let write = leaving.write(0).expect("there are some");
        (leaving.messages, leaving.ring) = (1, RING as u64);
        assert_eq!(leaving.room(), Some(0));
        assert_eq!(leaving.taken(&taken(1, RING as u64)), Ok(true));
        assert_eq!(leaving.room(), Some(0), "the write is under way");
        leaving.wrote(write);
        assert_eq!(leaving.room(), Some(RING));
        assert_eq!(leaving.taken(&taken(1, RING as u64)), Ok(false));
        assert!(leaving.is_idle());
    }

    #[test]
    fn no_more_is_sent_than_the_peer_has_said_that_it_takes() {
        let mut leaving = Leaving::new();
        leaving.messages = MESSAGES as u64 - 1;
        assert!(leaving.room().is_some());
        leaving.messages += 1;
        assert_eq!(leaving.room(), None);
        leaving.taken(&taken(1, 0)).expect("it may");
        assert!(leaving.room().is_some());
        let mut leaving = Leaving::new();
        while leaving.slots.len() > 1 {
            leaving.slot();
        }
        assert_eq!(leaving.room(), None, "the last slot is for what we have to say");
    }

    #[test]
    fn a_peer_that_took_what_was_not_sent_is_refused() {
        let mut leaving = Leaving::new();
        (leaving.messages, leaving.ring) = (3, 100);
        assert!(leaving.taken(&taken(4, 0)).is_err() && leaving.taken(&taken(0, 101)).is_err());
        leaving.taken(&taken(2, 50)).expect("it may");
        assert!(leaving.taken(&taken(1, 50)).is_err() && leaving.taken(&taken(2, 49)).is_err(), "backwards");
    }
}
