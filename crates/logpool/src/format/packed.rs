//! The packed form of an entry: LZ4's block format over everything behind the version, where that takes fewer bytes.
//!
//! What a server writes resembles what stands a little before it, the more so where it writes behind the end of its log what
//! its buffer held before. An entry is unpacked from its own bytes alone, because what was there before it may be gone, or
//! newer than itself, when it is applied.

use std::borrow::Cow;

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use super::VERSION;
use super::numbers::{Reader, put};
use crate::{Error, Result};

/// Stands where other entries have their version, so that programs which know no packed ones refuse it as another version.
pub(super) const PACKED: u8 = 2;

/// The shortest entry for which it is tried.
const SHORTEST: usize = 64;

/// The longest entry that is packed: as much as a reader sets aside on the word of a length. No request is as long.
const LONGEST: usize = 512 << 10;

/// The record's payload: the entry, packed if that is shorter.
pub(crate) fn pack(plain: Vec<u8>) -> Vec<u8> {
    if !(SHORTEST..=LONGEST).contains(&plain.len()) {
        return plain;
    }
    packed(plain.len(), &plain[1..]).filter(|packed| packed.len() < plain.len()).unwrap_or(plain)
}

fn packed(length: usize, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut payload = vec![PACKED];
    put(&mut payload, length as u64);
    let head = payload.len();
    payload.resize(head + get_maximum_output_size(bytes.len()), 0);
    let block = compress_into(bytes, &mut payload[head..]).ok()?;
    payload.truncate(head + block);
    Some(payload)
}

/// The entry of a record's payload.
pub(crate) fn unpack(payload: &[u8]) -> Result<Cow<'_, [u8]>> {
    if !is_packed(payload) {
        return Ok(Cow::Borrowed(payload));
    }
    read(payload).map(Cow::Owned).ok_or_else(|| Error::corrupt("a packed entry of the log is malformed"))
}

pub(crate) fn is_packed(payload: &[u8]) -> bool {
    payload.first() == Some(&PACKED)
}

fn read(payload: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader(&payload[1..]);
    let length = reader.below(LONGEST as u64 + 1)? as usize;
    if length <= payload.len() {
        return None;
    }
    let mut plain = vec![0; length];
    plain[0] = VERSION;
    (decompress_into(reader.0, &mut plain[1..]).ok()? == length - 1).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An entry as far as packing is concerned: the version, then bytes that repeat after so many.
    fn repeating(period: usize, length: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(period as u64);
        let row: Vec<u8> = (0..period).map(|_| random.u8(..)).collect();
        [VERSION].into_iter().chain(row.into_iter().cycle()).take(length).collect()
    }

    fn refused(payload: &[u8]) -> bool {
        match unpack(payload) {
            Err(error) => matches!(error, Error::Corrupt { .. }),
            Ok(_) => false,
        }
    }

    #[test]
    fn only_what_gets_shorter_is_packed() {
        for (plain, is_shorter) in [
            (repeating(20, 300), true),
            (repeating(20, LONGEST), true),
            (repeating(300, 300), false),
            (repeating(LONGEST, LONGEST), false),
            (repeating(20, SHORTEST - 1), false),
            (repeating(20, LONGEST + 1), false),
        ] {
            let payload = pack(plain.clone());
            assert_eq!(is_packed(&payload), is_shorter, "{} bytes", plain.len());
            assert!(payload.len() < plain.len() || payload == plain);
            assert_eq!(*unpack(&payload).unwrap(), plain);
        }
    }

    #[test]
    fn a_length_beyond_the_bound_is_refused_before_anything_is_set_aside_for_it() {
        let longer = repeating(20, LONGEST + 1);
        assert!(refused(&packed(longer.len(), &longer[1..]).unwrap()), "all else about it is right");
        assert!(refused(&packed(usize::MAX, &longer[1..]).unwrap()));
    }

    #[test]
    fn a_packed_entry_that_is_not_shorter_than_the_plain_one_is_refused() {
        let plain = repeating(300, 300);
        assert!(refused(&packed(plain.len(), &plain[1..]).unwrap()));
        assert!(refused(&[PACKED]) && refused(&[PACKED, 0]) && refused(&[PACKED, 1]));
    }

    #[test]
    fn a_length_that_is_not_the_entrys_is_refused() {
        let plain = repeating(20, 300);
        for length in [299, 301, 5000] {
            assert!(refused(&packed(length, &plain[1..]).unwrap()), "{length}");
        }
        assert_eq!(*unpack(&packed(300, &plain[1..]).unwrap()).unwrap(), plain);
    }

    #[test]
    fn a_packed_entry_is_refused_wherever_it_is_cut_short() {
        let payload = pack(repeating(20, 300));
        for end in 1..payload.len() {
            assert!(refused(&payload[..end]), "{end}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_unpacked_to_the_length_that_they_say(
            length in 0_u64..5000,
            block in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut payload = vec![PACKED];
            put(&mut payload, length);
            payload.extend_from_slice(&block);
            match unpack(&payload) {
                Ok(plain) => prop_assert_eq!(plain.len() as u64, length),
                Err(_) => prop_assert!(refused(&payload)),
            }
        }

        #[test]
        fn a_packed_entry_with_a_byte_changed_is_refused_or_another_one_of_its_length(at: usize, byte: u8) {
            let mut payload = pack(repeating(20, 300));
            // Behind the version and the length.
            let at = 3 + at % (payload.len() - 3);
            payload[at] = byte;
            if let Ok(plain) = unpack(&payload) {
                prop_assert_eq!(plain.len(), 300);
            }
        }
    }
}
