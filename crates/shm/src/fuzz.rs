//! The door for `fuzz/`: what comes from the other side of a ring, with what must hold whatever it is.
//!
//! Compiled under `--cfg fuzzing` only.

use crate::layout::{Greeting, MESSAGE, PAYLOAD};
use crate::message::{Answer, Opened, Operation, Outcome, Request};
use crate::server::runs;

/// Decodes a request; says whether that was one.
///
/// # Panics
///
/// If one that was accepted does not encode to the same bytes, or carries more than a slot does.
pub fn request(bytes: &[u8]) -> bool {
    let Some(bytes) = bytes.first_chunk::<MESSAGE>() else { return false };
    let Ok(request) = Request::decode(bytes) else { return false };
    assert!(request.length <= PAYLOAD);
    assert_eq!(request.encode(), *bytes);
    true
}

/// Decodes an answer; says whether that was one.
///
/// # Panics
///
/// If one that was accepted carries more than a slot does, or does not read back.
pub fn answer(bytes: &[u8]) -> bool {
    let Some(bytes) = bytes.first_chunk::<MESSAGE>() else { return false };
    let Some(answer) = Answer::decode(bytes) else { return false };
    assert!(answer.length <= PAYLOAD);
    assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    let _ = answer.error(String::new(), "ring", Operation::Read);
    true
}

/// Decodes what a device is; says whether one can be so.
///
/// # Panics
///
/// If what was accepted does not read back.
pub fn opened(bytes: &[u8]) -> bool {
    let Some(bytes) = bytes.first_chunk() else { return false };
    let Some(opened) = Opened::decode(bytes) else { return false };
    assert_eq!(Opened::decode(&opened.encode()), Some(opened));
    true
}

/// Decodes a greeting; says whether that was one.
///
/// # Panics
///
/// If one that was accepted does not read back.
pub fn greeting(bytes: &[u8]) -> bool {
    let Ok(greeting) = Greeting::decode(&bytes[..bytes.len().min(Greeting::LONGEST)]) else { return false };
    let encoded = greeting.encode();
    assert!(encoded.len() <= Greeting::LONGEST);
    // A text that was none is replaced, and may be cut then.
    assert!(Greeting::decode(&encoded).is_ok());
    true
}

/// Takes a write apart, of which the first byte says how many runs it has; says whether it was one.
///
/// # Panics
///
/// If the runs are not all the bytes before the table.
pub fn write_all(bytes: &[u8]) -> bool {
    let Some((&count, carried)) = bytes.split_first() else { return false };
    let Ok(runs) = runs(carried, count.into()) else { return false };
    assert_eq!(runs.iter().map(|(_, run)| run.len()).sum::<usize>() + runs.len() * 16, carried.len());
    true
}

/// Valid ones, in the order of the functions above.
pub fn samples() -> [Vec<u8>; 5] {
    let request = Request { offset: 512, length: 1024, ..Request::new(Operation::WriteDurable) };
    let answer = Answer { outcome: Outcome::NoSpace, number: 4096, ..Answer::DONE };
    let mut opened = [0; Opened::BYTES];
    (opened[1], opened[5], opened[8]) = (2, 16, 1);
    let write = [&[1][..], &[7; 8], &512_u64.to_le_bytes(), &8_u64.to_le_bytes()].concat();
    [
        request.encode().to_vec(),
        answer.encode().to_vec(),
        opened.to_vec(),
        Greeting::Refused("no".into()).encode(),
        write,
    ]
}
