//! Every interleaving of a few threads over the serial log's consolidation array, and of whoever empties its buffer.
//!
//! Runs only under the model checker: `RUSTFLAGS="--cfg loom" cargo test -p ishigaki-wal --test loom_serial --release`.

#![cfg(loom)]

use ishigaki_wal::model::{Array, Gathered, Place, Releases, Ring};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Words of a record: its LSN, twice.
const WORDS: u64 = 2;

/// The serial log without a medium.
struct Buffer {
    ring: Ring,
    array: Array,
    releases: Releases,
    /// Next LSN, position and ticket.
    next: Mutex<Place>,
}

impl Buffer {
    fn new(slots: usize, words: usize) -> Self {
        Self {
            ring: Ring::new(words),
            array: Array::new(slots, 2 * WORDS),
            releases: Releases::new(4),
            next: Mutex::new(Place { position: 0, first: 1, ticket: 0 }),
        }
    }

    /// Under the lock: draws for a group.
    fn reserve(next: &mut Place, group: Gathered) -> Place {
        let place = *next;
        next.position += group.words;
        next.first += group.records;
        next.ticket += 1;
        place
    }

    fn fill(&self, position: u64, lsn: u64) {
        self.ring.put(position, lsn);
        self.ring.put(position + 1, lsn);
    }

    fn append_alone(&self) {
        let place = Self::reserve(&mut self.next.lock().unwrap(), Gathered { records: 1, words: WORDS });
        self.fill(place.position, place.first);
        self.releases.release(place.ticket, place.position + WORDS);
    }

    /// As in the serial log, but for the attempt to go alone first. `refuse` lets a leader find no room.
    fn append(&self, refuse: bool) {
        let Some(seat) = self.array.join(0, WORDS) else { return self.append_alone() };
        if seat.leads() {
            let mut next = self.next.lock().unwrap();
            let group = self.array.close(&seat);
            if refuse {
                self.array.refuse(&seat);
            } else {
                self.array.place(&seat, Self::reserve(&mut next, group));
            }
        }
        let Some(place) = self.array.wait(&seat) else { return self.append_alone() };
        self.fill(place.position + seat.offset, place.first + seat.index);
        if let Some(end) = self.array.leave(seat, place) {
            self.releases.release(place.ticket, end);
        }
    }
}

/// Empties a buffer, and checks that LSNs come whole, once each and in order.
#[derive(Default)]
struct Reader {
    ticket: u64,
    complete: u64,
}

impl Reader {
    fn read(&mut self, buffer: &Buffer) {
        while let Some(end) = buffer.releases.released(self.ticket, self.complete) {
            for position in self.complete..end {
                let lsn = 1 + position / WORDS;
                assert_eq!(buffer.ring.get(position), lsn, "word {position} is not that of record {lsn}");
            }
            self.complete = end;
            self.ticket += 1;
        }
    }
}

/// Threads that append one record each, and a reader that looks while they do and when they are done.
fn run(threads: u64, slots: usize, refuse: bool, looks: bool) {
    let buffer = Arc::new(Buffer::new(slots, 8));
    let mut reader = Reader::default();
    let appending: Vec<_> = (1..threads)
        .map(|_| {
            let buffer = buffer.clone();
            thread::spawn(move || buffer.append(refuse))
        })
        .collect();
    if looks {
        reader.read(&buffer);
    } else {
        buffer.append(refuse);
    }
    for thread in appending {
        thread.join().unwrap();
    }
    reader.read(&buffer);
    let appended = if looks { threads - 1 } else { threads };
    assert_eq!(reader.complete, appended * WORDS, "every record is released");
}

fn model(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(test);
}

#[test]
fn a_reader_sees_records_whole_and_in_order_while_two_threads_consolidate() {
    model(3, || run(3, 1, false, true));
}

#[test]
fn three_threads_that_meet_in_two_slots_each_get_their_own_place() {
    model(2, || run(3, 2, false, false));
}

#[test]
fn members_of_a_refused_group_go_alone() {
    model(3, || run(2, 1, true, false));
}

#[test]
fn a_slot_serves_one_group_after_another() {
    model(2, || {
        let buffer = Arc::new(Buffer::new(1, 8));
        let other = thread::spawn({
            let buffer = buffer.clone();
            move || {
                buffer.append(false);
                buffer.append(false);
            }
        });
        buffer.append(false);
        other.join().unwrap();
        let mut reader = Reader::default();
        reader.read(&buffer);
        assert_eq!(reader.complete, 3 * WORDS);
    });
}
