use std::ops::Bound;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::Age;

fn id(age: u64) -> TransactionId {
    TransactionId::first(Age(age))
}

fn never() -> Patience {
    Patience::new(Duration::ZERO, None)
}

fn long() -> Patience {
    Patience::new(Duration::from_secs(20), None)
}

fn range(start: &[u8], end: &[u8]) -> Range {
    Range::new((Bound::Included(start), Bound::Excluded(end)))
}

#[test]
fn an_announced_range_stops_writers_from_the_beginning() {
    let ranges = Ranges::default();
    ranges.announce(id(1), range(b"b", b"d")).unwrap();
    assert!(ranges.await_unread(id(2), b"c", &long()).is_err());
    ranges.await_unread(id(1), b"c", &never()).unwrap();
    ranges.await_unread(id(2), b"d", &never()).unwrap();
    ranges.settle(id(1), Some(Key::of_bound(b"bb")));
    ranges.await_unread(id(2), b"c", &never()).unwrap();
    assert!(ranges.await_unread(id(2), b"bb", &never()).is_err());
    ranges.announce(id(1), range(b"x", b"z")).unwrap();
    ranges.settle(id(1), None);
    assert!(ranges.await_unread(id(2), b"y", &never()).is_err());
    ranges.retract(id(1));
    ranges.await_unread(id(2), b"bb", &never()).unwrap();
    assert_eq!(ranges.announced.load(Ordering::SeqCst), 0);
}

#[test]
fn an_older_writer_waits_for_a_younger_reader() {
    let ranges = Arc::new(Ranges::default());
    ranges.announce(id(5), range(b"a", b"z")).unwrap();
    ranges.settle(id(5), None);
    let writer = {
        let ranges = Arc::clone(&ranges);
        thread::spawn(move || ranges.await_unread(id(1), b"k", &long()))
    };
    while ranges.state.lock().sleepers == 0 {
        thread::yield_now();
    }
    ranges.retract(id(5));
    writer.join().unwrap().unwrap();
}

#[test]
fn a_waiting_writer_gives_way_to_an_older_reader_that_comes() {
    let ranges = Arc::new(Ranges::default());
    ranges.announce(id(5), range(b"a", b"z")).unwrap();
    let writer = {
        let ranges = Arc::clone(&ranges);
        thread::spawn(move || ranges.await_unread(id(3), b"k", &long()))
    };
    while ranges.state.lock().sleepers == 0 {
        thread::yield_now();
    }
    // The older reader will wait for the writer's lock; so the writer must not wait for the reader.
    ranges.announce(id(1), range(b"j", b"l")).unwrap();
    assert!(writer.join().unwrap().is_err());
}

#[test]
fn a_monopoly_keeps_others_out() {
    let ranges = Ranges::default();
    ranges.announce(id(2), range(b"a", b"b")).unwrap();
    assert!(ranges.monopolize(id(1), &Patience::new(Duration::from_millis(5), None)).is_err());
    ranges.end_monopoly(id(1), false);
    ranges.retract(id(2));
    assert!(ranges.monopolize(id(1), &never()).unwrap());
    assert!(ranges.monopolize(id(1), &never()).unwrap(), "again is no harm");
    assert!(ranges.await_shared(id(1), &never()).unwrap());
    assert!(ranges.await_shared(id(2), &never()).is_err());
    assert!(ranges.monopolize(id(2), &never()).is_err());
    ranges.end_monopoly(id(2), true);
    assert!(ranges.await_shared(id(2), &never()).is_err(), "only the monopolist ends it");
    ranges.end_monopoly(id(1), false);
    assert!(ranges.await_shared(id(2), &never()).unwrap());
}

#[test]
fn a_table_that_is_gone_stays_gone() {
    let ranges = Ranges::default();
    assert!(ranges.monopolize(id(3), &never()).unwrap());
    ranges.end_monopoly(id(3), true);
    assert!(!ranges.await_shared(id(4), &never()).unwrap());
    assert!(!ranges.monopolize(id(4), &never()).unwrap());
}

#[test]
fn a_younger_reader_does_not_overtake_a_waiting_writer() {
    let ranges = Arc::new(Ranges::default());
    ranges.announce(id(5), range(b"a", b"z")).unwrap();
    ranges.settle(id(5), None);
    let writer = {
        let ranges = Arc::clone(&ranges);
        thread::spawn(move || ranges.await_unread(id(2), b"k", &long()))
    };
    while ranges.state.lock().sleepers == 0 {
        thread::yield_now();
    }
    assert!(ranges.announce(id(6), range(b"a", b"z")).is_err());
    ranges.announce(id(6), range(b"l", b"z")).unwrap();
    // Who has read the key already delays nobody by reading it again.
    ranges.announce(id(5), range(b"j", b"l")).unwrap();
    ranges.retract(id(5));
    writer.join().unwrap().unwrap();
    ranges.announce(id(6), range(b"a", b"z")).unwrap();
}
