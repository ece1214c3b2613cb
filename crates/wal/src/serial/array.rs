//! The consolidation array: threads that meet at the buffer's lock become one group, and one of them goes for all.
//!
//! ```text
//!              join                   close (under the buffer's lock)      place
//!   open, 0 ─────────▶ open, n records ─────────────────────────▶ closed ─────────▶ placed: all copy side by side
//!      ▲                                                                │              │
//!      │            the last member to leave                            └─▶ refused    │
//!      └────────────────────────────────────────────────────────────────────────┴──────┘
//! ```
//!
//! Whoever joins a slot learns in the same step how many records and words are before its own. The first is the *leader*:
//! it takes the buffer's lock, and while it waits for it more members join. Once it has the lock it closes the slot, draws
//! LSNs and space for all with one addition each, and tells the place. A member needs no lock at all.
//!
//! Space is given out in order but filled in any; [`Releases`] puts that in order again. Whoever is last to leave a group
//! notes where the group ends under the group's ticket, and goes on: no thread waits for the groups before its own. The
//! one thread that empties the buffer goes from ticket to ticket and stops at the first that is not noted.
//!
//! After the consolidation array and the delegated release of Johnson et al., "Aether: a scalable approach to logging",
//! VLDB 2010, section 5; slots are reused in place where theirs come from a pool. The model in `tests/loom_serial.rs` runs
//! every interleaving of a few threads.

use std::time::Duration;

use ishigaki_base::sync::atomic::{AtomicU64, Ordering};
use ishigaki_base::sync::thread::{sleep, yield_now};

/// Bits of a slot's state that count words; above them those that count records, above those the phase.
const WORD_BITS: u32 = 40;
const PHASE_SHIFT: u32 = 62;
const OPEN: u64 = 0;
const CLOSED: u64 = 1;
const PLACED: u64 = 2;
const REFUSED: u64 = 3;

/// How often a member looks for its place before it gives its core away. The leader may be without one.
const SPINS: u32 = if cfg!(loom) { 0 } else { 100 };

/// How often it looks before it goes to sleep between its looks.
const YIELDS: u32 = 200;

/// How long it sleeps then.
const NAP: Duration = Duration::from_micros(50);

/// Slots in which groups gather.
#[derive(Debug)]
pub struct Array {
    slots: Box<[Slot]>,
    /// The most words of one group.
    limit: u64,
}

/// One group at a time. On a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    /// Phase, records and words so far, in one word, so that joining is one step.
    state: AtomicU64,
    /// Members that have not left. Set before the place is told.
    staying: AtomicU64,
    position: AtomicU64,
    first: AtomicU64,
    ticket: AtomicU64,
}

/// A member's part of a group.
#[derive(Debug)]
#[must_use = "a group is complete when every member has left"]
pub struct Seat {
    slot: usize,
    /// Records of the group before this member's.
    pub index: u64,
    /// Words of the group before this member's.
    pub offset: u64,
}

impl Seat {
    /// Whether this member goes for all.
    pub fn leads(&self) -> bool {
        self.index == 0
    }
}

/// What a group asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// Its records.
    pub records: u64,
    /// Their words in the buffer.
    pub words: u64,
}

/// What a group gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where in the buffer it begins.
    pub position: u64,
    /// The LSN of its first record.
    pub first: u64,
    /// Its number in the order of groups.
    pub ticket: u64,
}

fn unpack(state: u64) -> (u64, Gathered) {
    let records = (state >> WORD_BITS) & ((1 << (PHASE_SHIFT - WORD_BITS)) - 1);
    (state >> PHASE_SHIFT, Gathered { records, words: state & ((1 << WORD_BITS) - 1) })
}

impl Array {
    /// Of that many slots; a group has at most `limit` words.
    ///
    /// # Panics
    /// When `limit` has more than 40 bits.
    pub fn new(slots: usize, limit: u64) -> Self {
        assert!(limit < 1 << WORD_BITS, "the words of a group have {WORD_BITS} bits");
        let word = || AtomicU64::new(0);
        let slot = || Slot { state: word(), staying: word(), position: word(), first: word(), ticket: word() };
        Self { slots: (0..slots).map(|_| slot()).collect(), limit }
    }

    /// Joins the first group with room for a record of that many words, looking from slot `start` on. `None` when all
    /// slots are full or busy copying.
    pub fn join(&self, start: usize, words: u64) -> Option<Seat> {
        let count = self.slots.len();
        (0..count).find_map(|step| self.join_slot((start + step) % count, words))
    }

    fn join_slot(&self, slot: usize, words: u64) -> Option<Seat> {
        let state = &self.slots[slot].state;
        let mut seen = state.load(Ordering::Relaxed);
        loop {
            let (phase, Gathered { records, words: offset }) = unpack(seen);
            if phase != OPEN || offset + words > self.limit {
                return None;
            }
            let joined = seen + (1 << WORD_BITS) + words;
            // Acquire: what the slot's last group did is over before this one uses the slot.
            match state.compare_exchange(seen, joined, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Seat { slot, index: records, offset }),
                Err(now) => seen = now,
            }
        }
    }

    /// Leader only, with the buffer's lock: nobody joins any more. What the group asks for.
    pub fn close(&self, seat: &Seat) -> Gathered {
        let slot = &self.slots[seat.slot];
        let (_, gathered) = unpack(slot.state.fetch_or(CLOSED << PHASE_SHIFT, Ordering::Acquire));
        slot.staying.store(gathered.records, Ordering::Relaxed);
        gathered
    }

    /// Leader only, after closing: tells the members their place.
    pub fn place(&self, seat: &Seat, place: Place) {
        let slot = &self.slots[seat.slot];
        slot.position.store(place.position, Ordering::Relaxed);
        slot.first.store(place.first, Ordering::Relaxed);
        slot.ticket.store(place.ticket, Ordering::Relaxed);
        slot.tell(PLACED);
    }

    /// Leader only, after closing: there is no place for the group. Each member tries alone.
    pub fn refuse(&self, seat: &Seat) {
        self.slots[seat.slot].tell(REFUSED);
    }

    /// The group's place, once the leader has told it; `None` when it was refused, and then the member has left.
    pub fn wait(&self, seat: &Seat) -> Option<Place> {
        let slot = &self.slots[seat.slot];
        let mut looks = 0;
        let phase = loop {
            // Acquire: the place was written before the phase.
            let (phase, _) = unpack(slot.state.load(Ordering::Acquire));
            if phase == PLACED || phase == REFUSED {
                break phase;
            }
            looks = YIELDS.min(looks + 1);
            if looks < SPINS {
                std::hint::spin_loop();
            } else if looks < YIELDS {
                yield_now();
            } else {
                // The leader waits for space in the buffer, and that for the device.
                sleep(NAP);
            }
        };
        if phase == REFUSED {
            slot.leave();
            return None;
        }
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Some(Place { position: load(&slot.position), first: load(&slot.first), ticket: load(&slot.ticket) })
    }

    /// To be called when the member's record is in the buffer. The last one gets the end of the group, to be released.
    #[expect(clippy::needless_pass_by_value, reason = "a seat is left once")]
    pub fn leave(&self, seat: Seat, place: Place) -> Option<u64> {
        self.slots[seat.slot].leave().map(|gathered| place.position + gathered.words)
    }
}

impl Slot {
    fn tell(&self, phase: u64) {
        let counts = self.state.load(Ordering::Relaxed) & ((1 << PHASE_SHIFT) - 1);
        self.state.store(counts | phase << PHASE_SHIFT, Ordering::Release);
    }

    /// The last to leave opens the slot for the next group and learns what this one was.
    fn leave(&self) -> Option<Gathered> {
        // Release: this member's words are in the buffer. Acquire: the last one knows of everybody's.
        if self.staying.fetch_sub(1, Ordering::AcqRel) != 1 {
            return None;
        }
        let (_, gathered) = unpack(self.state.load(Ordering::Relaxed));
        self.state.store(OPEN << PHASE_SHIFT, Ordering::Release);
        Some(gathered)
    }
}

/// Where groups end, by ticket: the order in which the buffer is emptied.
///
/// The place of a ticket is used again; its old content is no end beyond what was emptied already, so it needs no blanking.
/// Whoever draws tickets must not be further ahead of the emptying thread than there are places.
#[derive(Debug)]
pub struct Releases {
    ends: Box<[AtomicU64]>,
}

impl Releases {
    /// For that many groups on their way, rounded up to a power of two.
    pub fn new(groups: usize) -> Self {
        Self { ends: (0..groups.next_power_of_two()).map(|_| AtomicU64::new(0)).collect() }
    }

    /// How many groups may be on their way.
    pub fn capacity(&self) -> u64 {
        self.ends.len() as u64
    }

    fn place(&self, ticket: u64) -> &AtomicU64 {
        &self.ends[ticket as usize & (self.ends.len() - 1)]
    }

    /// Everything of the group with that ticket is in the buffer, up to `end`.
    pub fn release(&self, ticket: u64, end: u64) {
        self.place(ticket).store(end, Ordering::Release);
    }

    /// Where the group with that ticket ends, once it is complete; the one before ended at `begin`.
    pub fn released(&self, ticket: u64, begin: u64) -> Option<u64> {
        let end = self.place(ticket).load(Ordering::Acquire);
        (end > begin).then_some(end)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PLACE: Place = Place { position: 100, first: 7, ticket: 3 };

    #[test]
    fn the_leader_goes_for_all_and_the_last_to_leave_learns_the_end() {
        let array = Array::new(1, 50);
        let [leader, member] = [10, 20].map(|words| array.join(0, words).unwrap());
        assert!(leader.leads() && !member.leads());
        assert_eq!((member.index, member.offset), (1, 10));
        assert_eq!(array.close(&leader), Gathered { records: 2, words: 30 });
        assert!(array.join(0, 1).is_none(), "a closed slot takes nobody in");
        array.place(&leader, PLACE);
        assert_eq!((array.wait(&leader), array.wait(&member)), (Some(PLACE), Some(PLACE)));
        assert_eq!(array.leave(leader, PLACE), None);
        assert_eq!(array.leave(member, PLACE), Some(130));
        assert!(array.join(0, 1).is_some_and(|seat| seat.leads()), "the slot is open again");
    }

    #[test]
    fn who_finds_a_slot_full_or_busy_takes_the_next() {
        let array = Array::new(2, 50);
        let one = array.join(0, 40).unwrap();
        let two = array.join(0, 20).unwrap();
        assert!(one.leads() && two.leads() && one.slot != two.slot);
        array.close(&one);
        array.close(&two);
        assert!(array.join(1, 1).is_none());
    }

    #[test]
    fn a_refused_group_leaves_the_slot_open() {
        let array = Array::new(1, 50);
        let [leader, member] = [10, 20].map(|words| array.join(0, words).unwrap());
        array.close(&leader);
        array.refuse(&leader);
        assert_eq!((array.wait(&member), array.wait(&leader)), (None, None));
        assert!(array.join(0, 1).is_some_and(|seat| seat.leads()));
    }

    #[test]
    fn groups_are_released_in_the_order_of_their_tickets_over_many_rounds() {
        let releases = Releases::new(2);
        for ticket in (0..20).step_by(2) {
            let begin = ticket * 5;
            releases.release(ticket + 1, begin + 10);
            assert_eq!(releases.released(ticket, begin), None, "the group of the round before does not count");
            releases.release(ticket, begin + 5);
            assert_eq!(releases.released(ticket, begin), Some(begin + 5));
            assert_eq!(releases.released(ticket + 1, begin + 5), Some(begin + 10));
        }
    }
}
