//! The door for `fuzz/`: what clients and nodes say, with what must hold whatever it is made of.
//!
//! Compiled under `--cfg fuzzing` only.

use ishigaki_device::Promise;
use ishigaki_fabric::{RegionKey, Target};

use crate::protocol::{Answer, Failure, Notice, Opened, Request, Status};

/// Reads a request; says whether it is one.
///
/// # Panics
///
/// If one that was accepted does not read back.
pub fn request(bytes: &[u8]) -> bool {
    let request = Request::decode(bytes);
    assert!(request.is_none_or(|request| request.encode() == bytes));
    request.is_some()
}

/// Reads an answer; says whether it is one.
///
/// # Panics
///
/// If one that was accepted does not read back.
pub fn answer(bytes: &[u8]) -> bool {
    let answer = Answer::decode(bytes);
    assert!(answer.as_ref().is_none_or(|answer| answer.encode() == bytes));
    answer.is_some()
}

/// Reads a notice; says whether it is one.
///
/// # Panics
///
/// If one that was accepted does not read back.
pub fn notice(bytes: &[u8]) -> bool {
    let notice = Notice::decode(bytes);
    assert!(notice.is_none_or(|notice| notice.encode() == bytes));
    notice.is_some()
}

/// Some requests.
pub fn encode_requests() -> Vec<Vec<u8>> {
    let target = Target { key: RegionKey([3; 16]), offset: 77 };
    [
        Request::Open { directory: "a/b", name: "pages" },
        Request::Read { handle: 1, offset: 1 << 40, length: 4096, target },
        Request::Write { handle: 1, offset: 512, length: 512, slot: 3, durable: true },
        Request::Rename { directory: "", from: "a", to: "b" },
        Request::Keep { handle: 1, watch: 5 },
        Request::Begin { order: b"an order" },
        Request::Next { work: 2, length: 4096, target },
    ]
    .iter()
    .map(Request::encode)
    .collect()
}

/// Some answers.
pub fn encode_answers() -> Vec<Vec<u8>> {
    let promise = Promise { block_size: 512, atomic_write: 4096, direct: true, trim: false };
    let opened =
        Opened { handle: 1, file: 2, identity: 3, length: 8192, promise, writes_through: None, writable: true };
    [
        Answer::Opened(opened),
        Answer::Staging { keys: vec![RegionKey([1; 16])] },
        Answer::Names { names: vec!["a".to_owned()], more: true },
        Answer::Load(Status::default()),
        Answer::Begun { work: 2 },
        Answer::Later,
        Answer::Failed(Failure::Io { operation: 2, errno: 5, reason: "odd".to_owned() }),
    ]
    .iter()
    .map(Answer::encode)
    .collect()
}

/// A notice.
pub fn encode_notice() -> Vec<u8> {
    Notice::Begin { file: 1, offset: 2, length: 3 }.encode()
}
