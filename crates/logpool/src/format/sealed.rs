//! What stands in a device of its own: a header with magic, version and length, a body, a checksum over both.

use ishigaki_base::{Fields, crc32c};

use super::VERSION;
use super::numbers::Reader;
use crate::{Error, Result};

/// Bytes before the body: magic, version, 3 zero bytes, length of the body.
pub(super) const HEADER: usize = 16;

/// Bytes behind the body.
const TRAILER: usize = 4;

/// Why bytes can not be used.
#[derive(Clone, Debug)]
pub(crate) enum Unfit {
    /// All zero: nothing was ever written there.
    Blank,
    /// Not what was written, or not all of it.
    Damaged,
    /// Another version's.
    Version(u8),
}

impl Unfit {
    /// As an error about `what`.
    pub(crate) fn error(self, what: &'static str) -> Error {
        match self {
            Self::Version(found) => Error::Version { what, found, known: VERSION },
            Self::Blank | Self::Damaged => Error::corrupt(format!("{what} does not fit its checksum")),
        }
    }
}

/// The body with everything around it.
pub(super) fn wrap(magic: [u8; 4], body: &[u8]) -> Vec<u8> {
    wrap_as(magic, VERSION, body)
}

/// The same, of a version of its own.
pub(super) fn wrap_as(magic: [u8; 4], version: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + body.len() + TRAILER);
    bytes.extend_from_slice(&magic);
    bytes.extend_from_slice(&[version, 0, 0, 0]);
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(body);
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// What `read` makes of a body, given its version, which is the newest one or one before it. All of the body must be read.
pub(super) fn decode<T>(
    newest: u8,
    magic: [u8; 4],
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>, u8) -> Option<T>,
) -> Result<T, Unfit> {
    let (version, body) = unwrap(newest, magic, bytes)?;
    let mut reader = Reader(body);
    read(&mut reader, version).filter(|_| reader.is_empty()).ok_or(Unfit::Damaged)
}

/// The version and the body within bytes that may be longer.
fn unwrap(newest: u8, magic: [u8; 4], bytes: &[u8]) -> Result<(u8, &[u8]), Unfit> {
    if bytes.iter().take(HEADER).all(|&byte| byte == 0) {
        return Err(Unfit::Blank);
    }
    let fields = Fields(bytes);
    let end =
        usize::try_from(fields.u64(8)).ok().and_then(|length| length.checked_add(HEADER)).ok_or(Unfit::Damaged)?;
    let sealed = bytes.get(..end).ok_or(Unfit::Damaged)?;
    if bytes.len() < end + TRAILER || !bytes.starts_with(&magic) || crc32c(sealed) != fields.u32(end) {
        return Err(Unfit::Damaged);
    }
    if !(VERSION..=newest).contains(&bytes[4]) {
        return Err(Unfit::Version(bytes[4]));
    }
    if bytes[5..8] != [0; 3] {
        return Err(Unfit::Damaged);
    }
    Ok((bytes[4], &sealed[HEADER..]))
}

/// The bytes that a reader needs to see the whole: told by the header.
pub(crate) fn length(header: &[u8]) -> u64 {
    Fields(header).u64(8).saturating_add((HEADER + TRAILER) as u64)
}

/// A body with a length and a checksum that are right.
#[cfg(fuzzing)]
pub(crate) fn seal(magic: [u8; 4], body: &[u8]) -> Vec<u8> {
    let version = if [super::LEDGER, super::ROSTER].contains(&magic) { 2 } else { VERSION };
    wrap_as(magic, version, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_reads_back_and_a_flipped_bit_is_damage() {
        let magic = *b"TEST";
        let mut bytes = wrap(magic, b"the body");
        bytes.extend_from_slice(&[0; 100]);
        assert_eq!(unwrap(VERSION, magic, &bytes).unwrap(), (VERSION, &b"the body"[..]));
        assert_eq!(length(&bytes) as usize, bytes.len() - 100);
        for bit in 0..(bytes.len() - 100) * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(unwrap(VERSION, magic, &flipped).is_err(), "bit {bit}");
        }
        assert!(matches!(unwrap(VERSION, magic, &[0; 64]), Err(Unfit::Blank)));
    }
}
