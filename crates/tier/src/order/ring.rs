//! Three queues of slots, of which each slot is in one at most.

use crate::record::SlotId;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Small,
    Main,
    Leaving,
}

/// How many there are.
const QUEUES: usize = 3;

/// All of them, as rings of links with a head each, behind the slots.
#[derive(Debug)]
pub(super) struct Rings {
    /// By slot, and then by queue: the neighbours. A head's `after` is the first one of its queue, its `before` the last one.
    links: Vec<Link>,
    of: Vec<Option<Which>>,
    lengths: [usize; QUEUES],
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

impl Rings {
    /// For that many slots, which are in none.
    pub(super) fn new(slots: usize) -> Self {
        let alone = |at| Link { before: at, after: at };
        Self { links: (0..(slots + QUEUES) as u32).map(alone).collect(), of: vec![None; slots], lengths: [0; QUEUES] }
    }

    fn head(&self, which: Which) -> u32 {
        self.of.len() as u32 + which as u32
    }

    fn link(&mut self, at: u32) -> &mut Link {
        &mut self.links[at as usize]
    }

    /// The queue that a slot is in.
    pub(super) fn of(&self, slot: SlotId) -> Option<Which> {
        self.of[slot.0 as usize]
    }

    pub(super) fn len(&self, which: Which) -> usize {
        self.lengths[which as usize]
    }

    /// Puts a slot before all others of a queue, wherever it was.
    pub(super) fn put(&mut self, slot: SlotId, which: Which) {
        self.take(slot);
        let head = self.head(which);
        let first = self.link(head).after;
        *self.link(slot.0) = Link { before: head, after: first };
        self.link(head).after = slot.0;
        self.link(first).before = slot.0;
        self.of[slot.0 as usize] = Some(which);
        self.lengths[which as usize] += 1;
    }

    /// Takes a slot out of its queue, if it is in one.
    pub(super) fn take(&mut self, slot: SlotId) {
        let Some(which) = self.of[slot.0 as usize].take() else { return };
        let Link { before, after } = *self.link(slot.0);
        self.link(before).after = after;
        self.link(after).before = before;
        self.lengths[which as usize] -= 1;
    }

    /// The last one of a queue.
    pub(super) fn last(&self, which: Which) -> Option<SlotId> {
        self.slot(self.links[self.head(which) as usize].before)
    }

    /// The one before a slot in its queue.
    pub(super) fn before(&self, slot: SlotId) -> Option<SlotId> {
        self.slot(self.links[slot.0 as usize].before)
    }

    fn slot(&self, at: u32) -> Option<SlotId> {
        ((at as usize) < self.of.len()).then_some(SlotId(at))
    }
}
