//! The door for `fuzz/`: what comes in over a connection, with what must hold whatever it is made of.
//!
//! Compiled under `--cfg fuzzing` only.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use ishigaki_device::AlignedBuffer;

use crate::endpoint::Event;
use crate::frame::{Decoded, Head, Kind};
use crate::inbox::Inbox;
use crate::region::{RegionKey, Regions, Target};
use crate::tcp::handshake::{GREETING, Greeting};

pub use crate::ofi::fuzz::{encode_messages, encode_offer, messages, offer};

/// The only region of the connection.
const KEY: RegionKey = RegionKey([7; 16]);

/// Its length.
const LENGTH: usize = 8192;

/// How many requests are welcome.
const WINDOW: u32 = 4;

/// Takes a stream of frames apart; says whether nothing in it was refused.
///
/// # Panics
///
/// If it makes a difference in what pieces the bytes arrive, if too many requests were let through, or if a header that was
/// accepted does not read back.
pub fn stream(bytes: &[u8]) -> bool {
    let (whole, by_pieces) = (taken_apart(bytes, bytes.len().max(1)), taken_apart(bytes, 7));
    assert!(whole == by_pieces, "it depends on how the bytes arrive");
    let requests = whole.0.iter().filter(|event| matches!(event, Event::Request { .. })).count();
    assert!(requests <= WINDOW as usize);
    if let Decoded::Head(head, size) = Head::decode(bytes) {
        let mut encoded = Vec::new();
        head.encode(&mut encoded);
        assert_eq!(encoded, bytes[..size]);
    }
    whole.2
}

/// The events, what is in the region at the end, and whether nothing was refused.
fn taken_apart(bytes: &[u8], piece: usize) -> (Vec<Event>, Vec<u8>, bool) {
    let regions = Regions::default();
    let region = regions.register_as(KEY, AlignedBuffer::zeroed(LENGTH));
    let mut inbox = Inbox::new(regions, Arc::new(AtomicU32::new(WINDOW)));
    let mut events = Vec::new();
    let outcome = inbox.feed(bytes, piece, &mut events);
    let memory = region.memory().map(|memory| memory.to_vec()).unwrap_or_default();
    (events, memory, outcome.is_ok())
}

/// Reads a greeting; says whether it is one.
///
/// # Panics
///
/// If one that was accepted does not read back.
pub fn greeting(bytes: &[u8]) -> bool {
    let Some(bytes) = bytes.first_chunk::<GREETING>() else { return false };
    let greeting = Greeting::decode(bytes);
    assert!(greeting.is_none_or(|greeting| greeting.encode() == *bytes));
    greeting.is_some()
}

/// A greeting.
pub fn encode_greeting() -> Vec<u8> {
    Greeting { version: 1, method: 1, status: 0, libfabric: false, window: 128, nonce: [3; 32] }.encode().to_vec()
}

/// A stream with one frame of each kind.
pub fn encode_stream() -> Vec<u8> {
    let mut bytes = Vec::new();
    let target = Target { key: KEY, offset: 4096 };
    for (kind, credits, length) in [
        (Kind::Request, 0, 40),
        (Kind::Reply, 1, 3),
        (Kind::Write { target, completes: false }, 0, 512),
        (Kind::Write { target, completes: true }, 1, 100),
        (Kind::Request, 0, 0),
    ] {
        Head { kind, id: length, credits, length }.encode(&mut bytes);
        bytes.extend((0..length).map(|byte| byte as u8));
    }
    bytes
}
