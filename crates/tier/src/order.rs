//! Which slot is given up next.
//!
//! - [`Eviction::Lru`]: the one that was used longest ago (paper 5, section 3.3).
//! - [`Eviction::S3Fifo`]: slots come into a small queue, and go on to the main one if they are used again before they leave it; the main queue
//!   gives those that were used another round. So rows that are read once do not drive out what is read often. (Yang, Zhang, Qiu, Yue, Rashmi:
//!   "FIFO queues are all you need for cache eviction", SOSP 2023, section 4.)
//!
//! Before all these come slots that [were told](Order::give_up) by what knows better than their uses do.

mod ring;

use std::collections::{HashMap, VecDeque};

use crate::Eviction;
use crate::record::{SlotId, VolumeId};
use ring::{Rings, Which};

/// What a slot holds.
type Owner = (VolumeId, u32);

/// The most uses that are counted of a slot.
const MOST_USES: u8 = 3;

/// One of how many slots the small queue may have.
const SMALL: usize = 10;

/// The slots that hold something, in order.
#[derive(Debug)]
pub(crate) struct Order {
    eviction: Eviction,
    rings: Rings,
    /// By slot: how often it was used since it came, or had its last round.
    uses: Vec<u8>,
    /// A use that follows another one of the same slot is none: a chunk that is read in small pieces was read once.
    last: Option<SlotId>,
    ghosts: Ghosts,
}

impl Order {
    /// An order that may have that many slots, and has none.
    pub(crate) fn new(slots: usize, eviction: Eviction) -> Self {
        let most = if eviction == Eviction::S3Fifo { slots } else { 0 };
        Self { eviction, rings: Rings::new(slots), uses: vec![0; slots], last: None, ghosts: Ghosts::new(most) }
    }

    /// A slot holds a chunk from now on.
    pub(crate) fn entered(&mut self, slot: SlotId, owner: Owner) {
        self.uses[slot.0 as usize] = 0;
        self.last = Some(slot);
        let is_known = self.eviction == Eviction::Lru || self.ghosts.take(owner);
        self.rings.put(slot, if is_known { Which::Main } else { Which::Small });
    }

    /// A slot holds what was asked for as what will be used: it need not be used again in a while to stay, as others need.
    pub(crate) fn asked_for(&mut self, slot: SlotId) {
        if self.rings.of(slot).is_some() {
            self.rings.put(slot, Which::Main);
        }
    }

    /// A slot was used.
    pub(crate) fn used(&mut self, slot: SlotId) {
        // Those of pinned volumes are in no order.
        if self.last == Some(slot) || matches!(self.rings.of(slot), None | Some(Which::Leaving)) {
            return;
        }
        self.last = Some(slot);
        if self.eviction == Eviction::Lru {
            self.rings.put(slot, Which::Main);
            return;
        }
        let uses = &mut self.uses[slot.0 as usize];
        *uses = MOST_USES.min(*uses + 1);
    }

    /// These are given up before all others, the first one first, until they are asked for. Of those that were told before, nothing is known.
    pub(crate) fn give_up(&mut self, slots: impl Iterator<Item = SlotId>) {
        while let Some(slot) = self.rings.last(Which::Leaving) {
            self.rings.put(slot, Which::Main);
        }
        for slot in slots {
            // Those of pinned volumes are in no order.
            if self.rings.of(slot).is_some() {
                self.rings.put(slot, Which::Leaving);
            }
        }
    }

    /// Whether it was told what is given up next.
    pub(crate) fn is_told(&self) -> bool {
        self.rings.len(Which::Leaving) > 0
    }

    /// It holds nothing any more.
    pub(crate) fn removed(&mut self, slot: SlotId) {
        if self.last == Some(slot) {
            self.last = None;
        }
        self.rings.take(slot);
    }

    /// It was given up, and held this.
    pub(crate) fn evicted(&mut self, slot: SlotId, owner: Owner) {
        if self.rings.of(slot) == Some(Which::Small) {
            self.ghosts.put(owner);
        }
        self.removed(slot);
    }

    /// It can not be given up now: others come before it. What was told of it counts no more, or others would never come where none of those that were told can.
    pub(crate) fn deferred(&mut self, slot: SlotId) {
        if let Some(ring) = self.rings.of(slot) {
            self.rings.put(slot, if ring == Which::Leaving { Which::Main } else { ring });
        }
    }

    /// Some of those that are to be given up, the first one first.
    pub(crate) fn coldest(&mut self, most: usize) -> Vec<SlotId> {
        let mut found = Vec::with_capacity(most);
        let mut told = self.rings.last(Which::Leaving);
        while let Some(slot) = told.filter(|_| found.len() < most) {
            found.push(slot);
            told = self.rings.before(slot);
        }
        if !found.is_empty() {
            return found;
        }
        // Each round takes one use from every slot that it finds used.
        for round in 0..=MOST_USES + 1 {
            let room = if round == 0 { self.uses.len().div_ceil(SMALL) } else { 0 };
            self.look_through_small(room, most, &mut found);
            if !found.is_empty() {
                break;
            }
            self.look_through_main(most, &mut found);
            if !found.is_empty() {
                break;
            }
        }
        found
    }

    /// Those beyond what the small queue has room for. Slots that were used go on to the main one.
    fn look_through_small(&mut self, room: usize, most: usize, found: &mut Vec<SlotId>) {
        let mut next = self.rings.last(Which::Small);
        while let Some(slot) = next
            && found.len() < most
            && self.rings.len(Which::Small) > room + found.len()
        {
            next = self.rings.before(slot);
            if self.uses[slot.0 as usize] > 0 {
                self.uses[slot.0 as usize] = 0;
                self.rings.put(slot, Which::Main);
            } else {
                found.push(slot);
            }
        }
    }

    /// Those that were not used for a round.
    fn look_through_main(&mut self, most: usize, found: &mut Vec<SlotId>) {
        let mut next = self.rings.last(Which::Main);
        // Those that have another round come again at the other end.
        for _ in 0..self.rings.len(Which::Main) {
            let Some(slot) = next.filter(|_| found.len() < most) else { return };
            next = self.rings.before(slot);
            let uses = &mut self.uses[slot.0 as usize];
            if *uses > 0 {
                *uses -= 1;
                self.rings.put(slot, Which::Main);
            } else {
                found.push(slot);
            }
        }
    }
}

/// What was given up from the small queue lately: if it comes back, it was given up too early.
#[derive(Debug)]
struct Ghosts {
    most: usize,
    queue: VecDeque<(Owner, u64)>,
    known: HashMap<Owner, u64>,
    next: u64,
}

impl Ghosts {
    fn new(most: usize) -> Self {
        Self { most, queue: VecDeque::new(), known: HashMap::new(), next: 0 }
    }

    fn put(&mut self, owner: Owner) {
        self.next += 1;
        self.known.insert(owner, self.next);
        self.queue.push_back((owner, self.next));
        while self.queue.len() > self.most {
            let Some((owner, number)) = self.queue.pop_front() else { break };
            if self.known.get(&owner) == Some(&number) {
                self.known.remove(&owner);
            }
        }
    }

    fn take(&mut self, owner: Owner) -> bool {
        self.known.remove(&owner).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: VolumeId = VolumeId(1);

    #[test]
    fn what_was_asked_for_stays_while_others_come_and_go_that_are_read_once() {
        let mut order = Order::new(40, Eviction::S3Fifo);
        for slot in 0..30 {
            order.entered(SlotId(slot), (VOLUME, slot));
            order.asked_for(SlotId(slot));
        }
        for (slot, chunk) in (30..40).cycle().zip(100..300) {
            order.entered(SlotId(slot), (VOLUME, chunk));
            if order.rings.len(Which::Small) > 9 {
                let [coldest] = order.coldest(1)[..] else { panic!("one is over") };
                assert!(coldest.0 >= 30, "{coldest:?}");
            }
        }
    }

    #[test]
    fn what_is_told_is_given_up_first_until_it_is_asked_for_or_another_is_told() {
        for eviction in [Eviction::Lru, Eviction::S3Fifo] {
            let mut order = Order::new(8, eviction);
            (0..8).for_each(|slot| order.entered(SlotId(slot), (VOLUME, slot)));
            let named = |slots: &[u32]| slots.iter().copied().map(SlotId).collect::<Vec<_>>();
            order.give_up(named(&[5, 2, 7]).into_iter());
            order.used(SlotId(2));
            assert_eq!(order.coldest(2), named(&[5, 2]), "{eviction:?}");
            assert_eq!(order.coldest(8), named(&[5, 2, 7]), "{eviction:?}");
            order.asked_for(SlotId(5));
            order.deferred(SlotId(2));
            assert_eq!(order.coldest(8), named(&[7]), "{eviction:?}");
            order.evicted(SlotId(7), (VOLUME, 7));
            order.give_up(named(&[7, 6]).into_iter());
            assert_eq!(order.coldest(8), named(&[6]), "{eviction:?}: one that holds nothing is in no order");
            assert!(order.is_told(), "{eviction:?}");
            order.give_up(std::iter::empty());
            assert!(!order.is_told() && !order.coldest(1).is_empty(), "{eviction:?}");
        }
    }

    #[test]
    fn what_was_used_longest_ago_is_the_coldest() {
        let mut order = Order::new(4, Eviction::Lru);
        let mut known: Vec<u32> = Vec::new();
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let slot = random.u32(0..4);
            let was_known = known.contains(&slot);
            known.retain(|&other| other != slot);
            if random.bool() {
                known.push(slot);
                if was_known {
                    order.used(SlotId(slot));
                } else {
                    order.entered(SlotId(slot), (VOLUME, slot));
                }
            } else {
                order.removed(SlotId(slot));
            }
            assert_eq!(order.coldest(4).iter().map(|slot| slot.0).collect::<Vec<_>>(), known);
        }
    }

    /// How many of some uses of chunks find them in a cache of `slots`.
    fn hits(eviction: Eviction, slots: usize, chunks: impl Iterator<Item = u32>) -> usize {
        let mut order = Order::new(slots, eviction);
        let mut places: HashMap<u32, SlotId> = HashMap::new();
        let mut owners: Vec<Option<u32>> = vec![None; slots];
        let mut hits = 0;
        for chunk in chunks {
            if let Some(&slot) = places.get(&chunk) {
                hits += 1;
                order.used(slot);
                continue;
            }
            let free = owners.iter().position(Option::is_none);
            let slot = free.unwrap_or_else(|| {
                let slot = order.coldest(1)[0];
                let owner = owners[slot.0 as usize].take().expect("it holds something");
                order.evicted(slot, (VOLUME, owner));
                places.remove(&owner);
                slot.0 as usize
            });
            owners[slot] = Some(chunk);
            places.insert(chunk, SlotId(slot as u32));
            order.entered(SlotId(slot as u32), (VOLUME, chunk));
        }
        hits
    }

    #[test]
    fn a_scan_does_not_drive_out_what_is_used_often() {
        let mut random = fastrand::Rng::with_seed(2);
        let mut scanned = 1000;
        let mut uses = Vec::new();
        for _ in 0..200 {
            uses.extend((0..50).map(|_| random.u32(0..80)));
            uses.extend((0..100).map(|_| {
                scanned += 1;
                scanned
            }));
        }
        let [lru, s3] = [Eviction::Lru, Eviction::S3Fifo].map(|eviction| hits(eviction, 100, uses.iter().copied()));
        println!("of {} uses, half of them of 80 chunks: {lru} hits with LRU, {s3} with S3-FIFO", 200 * 50);
        assert!(s3 > 2 * lru, "{s3} hits with S3-FIFO, {lru} with LRU");
    }

    #[test]
    fn all_slots_are_found_in_the_end() {
        for eviction in [Eviction::Lru, Eviction::S3Fifo] {
            let mut order = Order::new(20, eviction);
            let mut random = fastrand::Rng::with_seed(3);
            for slot in 0..20 {
                order.entered(SlotId(slot), (VOLUME, slot));
            }
            for _ in 0..200 {
                order.used(SlotId(random.u32(0..20)));
                for slot in order.coldest(3) {
                    if random.bool() {
                        order.deferred(slot);
                    }
                }
            }
            for left in (0..20).rev() {
                let slot = order.coldest(5)[0];
                order.evicted(slot, (VOLUME, slot.0));
                assert_eq!(order.coldest(20).is_empty(), left == 0);
            }
        }
    }
}
