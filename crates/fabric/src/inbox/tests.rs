use ishigaki_device::AlignedBuffer;

use super::*;
use crate::region::{RegionKey, Target};

fn inbox(window: u32) -> (Inbox, Region) {
    let regions = Regions::default();
    let region = regions.register(AlignedBuffer::zeroed(1 << 20)).expect("registered");
    (Inbox::new(regions, Arc::new(AtomicU32::new(window))), region)
}

fn frame(kind: Kind, id: u32, bytes: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    Head { kind, id, credits: 0, length: bytes.len() as u32 }.encode(&mut frame);
    frame.extend_from_slice(bytes);
    frame
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn in_whatever_pieces_bytes_arrive_the_events_are_the_same() {
    let (long, short) = (pattern(300_000), pattern(10));
    for piece in [1, 13, 4096, 32 << 10] {
        let (mut inbox, region) = inbox(2);
        let target = Target { key: region.key(), offset: 100 };
        let stream = [
            frame(Kind::Request, 1, &short),
            frame(Kind::Write { target, completes: true }, 2, &long),
            frame(Kind::Reply, 3, &long),
            frame(Kind::Request, 4, &[]),
        ]
        .concat();
        let mut events = Vec::new();
        inbox.feed(&stream, piece, &mut events).expect("nothing is wrong with it");
        let expected = [
            Event::Request { id: 1, bytes: short[..].into() },
            Event::Written { id: 2, credits: 0, length: 300_000 },
            Event::Reply { id: 3, credits: 0, bytes: long[..].into() },
            Event::Request { id: 4, bytes: Message::new() },
        ];
        assert!(events == expected, "pieces of {piece}");
        assert!(region.memory().expect("it is there")[100..300_100] == long[..], "pieces of {piece}");
        inbox.make_room(1);
        assert_eq!(inbox.buffer.len(), ROOM, "the long message's memory was given back");
    }
}

#[test]
fn who_asks_more_often_than_it_may_is_refused() {
    let (mut inbox, _region) = inbox(2);
    let mut events = Vec::new();
    let request = frame(Kind::Request, 1, b"what");
    inbox.feed(&request.repeat(2), 64, &mut events).expect("two may");
    assert!(matches!(inbox.feed(&request, 64, &mut events), Err(Fault::Refused(_))));
    assert_eq!(events.len(), 2);
    inbox.allowed.store(1, Ordering::Relaxed);
    inbox.begin = inbox.end;
    inbox.feed(&request, 64, &mut events).expect("a credit was given");
}

#[test]
fn bytes_go_into_no_other_memory_than_the_region_that_was_named() {
    let write = |key, offset, length| {
        frame(Kind::Write { target: Target { key, offset }, completes: true }, 1, &vec![9; length])
    };
    let mut events = Vec::new();
    for (offset, length) in [(0, 1 << 20), ((1 << 20) - 1, 1)] {
        let (mut inbox, region) = inbox(1);
        inbox.feed(&write(region.key(), offset, length), 4096, &mut events).expect("within the region");
    }
    assert_eq!(events.len(), 2);
    for (offset, length) in [(1, 1 << 20), (1 << 20, 1), (u64::MAX, 1)] {
        let (mut inbox, region) = inbox(1);
        assert!(matches!(inbox.feed(&write(region.key(), offset, length), 4096, &mut events), Err(Fault::Refused(_))));
        assert!(region.memory().expect("it is there").iter().all(|&byte| byte == 0));
    }
    let (mut inbox, region) = inbox(1);
    assert!(matches!(inbox.feed(&write(RegionKey([0; 16]), 0, 1), 4096, &mut events), Err(Fault::Refused(_))));
    let memory = region.take();
    assert!(matches!(inbox.feed(&write(region.key(), 0, 1), 4096, &mut events), Err(Fault::Refused(_))));
    drop(memory);
    assert_eq!(events.len(), 2);
}
