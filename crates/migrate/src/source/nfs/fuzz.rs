//! The door for `fuzz/`: what a server answers, with what must hold whatever it is made of.
//!
//! Compiled under `--cfg fuzzing` only.

use super::flight;
use super::protocol::{self, Place};
use super::xdr::{Put, Reader};
use super::{LARGEST, acl, connection, mount};

/// The answers that are read, by the first byte of an input.
const KINDS: u8 = 9;

/// Reads an answer of the kind that the first byte says; says whether it was taken.
///
/// # Panics
///
/// If something was taken that a source may not give.
pub fn answer(bytes: &[u8]) -> bool {
    let Some((kind, rest)) = bytes.split_first() else { return false };
    let reader = Reader::new(rest);
    match kind % KINDS {
        0 => protocol::got_attributes(reader).is_ok_and(|attributes| {
            assert!(attributes.mode < 0o10_000 && attributes.modified.nanos < 1_000_000_000);
            true
        }),
        1 => protocol::looked_up(reader).is_ok_and(|(handle, _)| {
            assert!((1..=protocol::HANDLE).contains(&handle.len()));
            true
        }),
        2 => protocol::link_read(reader).is_ok_and(|target| target.is_none_or(|target| !target.is_empty())),
        3 => protocol::have_read(reader, 0, LARGEST).is_ok_and(|piece| {
            assert!(piece.bytes.len() <= LARGEST && (piece.is_last || !piece.bytes.is_empty()));
            true
        }),
        kind @ (4 | 5) => protocol::page(reader, Place::default(), kind == 4).is_ok_and(|page| {
            for entry in &page.entries {
                let name = &entry.name[..];
                assert!(
                    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
                );
            }
            true
        }),
        6 => mount::mounted(reader).is_ok(),
        7 => acl::lists(reader).is_ok(),
        _ => connection::record(&mut &rest[..])
            .is_ok_and(|record| flight::answer(record, true).is_ok_and(|answer| answer.is_ok())),
    }
}

/// An answer of each kind.
pub fn samples() -> Vec<Vec<u8>> {
    let words = |words: &[u32]| {
        let mut record = Vec::new();
        for word in words {
            record.put_u32(*word);
        }
        record
    };
    // A file with the mode 644, two links, and its times.
    let attributes = words(&[1, 0o644, 2, 1, 2, 0, 100, 0, 4096, 0, 0, 0, 9, 0, 7, 5, 5, 6, 6, 7, 7]);
    let option = [&words(&[1])[..], &attributes].concat();
    let handle = words(&[8, 1, 2]);
    let entry = [&words(&[1, 0, 7, 1])[..], b"a\0\0\0", &words(&[0, 3])].concat();
    let plus = [&entry[..], &option, &words(&[1]), &handle].concat();
    let results: [Vec<u8>; KINDS as usize] = [
        [&words(&[0])[..], &attributes].concat(),
        [&words(&[0])[..], &handle, &option, &option].concat(),
        [&words(&[0])[..], &option, &words(&[3]), b"abc\0"].concat(),
        [&words(&[0])[..], &option, &words(&[3, 1, 3]), b"abc\0"].concat(),
        [&words(&[0])[..], &option, &words(&[0, 1]), &plus, &words(&[0, 1])].concat(),
        [&words(&[0])[..], &option, &words(&[0, 1]), &entry, &words(&[0, 1])].concat(),
        [&words(&[0])[..], &handle, &words(&[1, 1])].concat(),
        [&words(&[0, 0, 1, 3, 3])[..], &words(&[1, 0, 6, 4, 0, 4, 0x20, 0, 0])].concat(),
        words(&[0x8000_001c, 77, 1, 0, 0, 0, 0, 0]),
    ];
    (0..).zip(results).map(|(kind, results)| [&[kind], &results[..]].concat()).collect()
}
