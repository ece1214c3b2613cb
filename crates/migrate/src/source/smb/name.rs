//! Names: UTF-16 at the server, bytes here.
//!
//! A name that is no valid UTF-16 (half of a surrogate pair) becomes the three bytes that UTF-8 would have for that unit. Such bytes are no valid UTF-8,
//! so no other name becomes them, and they lead back to the name.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// A name as the server writes it, without its order of bytes: `None` for bytes that are no name of a server.
pub(super) fn to_wide(name: &[u8]) -> Option<Vec<u16>> {
    let mut wide = Vec::with_capacity(name.len());
    let mut rest = name;
    while !rest.is_empty() {
        if let &[0xed, high @ 0xa0..=0xbf, low @ 0x80..=0xbf, ..] = rest {
            wide.push(0xd000 | u16::from(high & 0x3f) << 6 | u16::from(low & 0x3f));
            rest = &rest[3..];
            continue;
        }
        let valid = match std::str::from_utf8(rest) {
            Ok(_) => rest.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = std::str::from_utf8(&rest[..valid]).ok().filter(|text| !text.is_empty())?;
        wide.extend(text.encode_utf16());
        rest = &rest[valid..];
    }
    Some(wide)
}

/// The bytes of a name.
pub(super) fn from_wide(wide: impl IntoIterator<Item = u16>) -> Vec<u8> {
    let mut name = Vec::new();
    for unit in char::decode_utf16(wide) {
        match unit {
            Ok(char) => name.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(half) => {
                let unit = half.unpaired_surrogate();
                name.extend([0xed, 0x80 | (unit >> 6 & 0x3f) as u8, 0x80 | (unit & 0x3f) as u8]);
            }
        }
    }
    name
}

/// The units of bytes that a server sent. An odd byte at the end is left out.
pub(super) fn units(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit))
}

pub(super) fn bytes_of(wide: &[u16]) -> Vec<u8> {
    wide.iter().flat_map(|unit| unit.to_le_bytes()).collect()
}

/// Whether it is a name: one component of a path here.
pub(super) fn is_one(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// Whether an object can be asked for by it: one component of a path, here and there. A colon would name a stream of a file.
pub(super) fn can_be_asked_for(name: &[u8]) -> bool {
    is_one(name) && !name.iter().any(|byte| matches!(byte, b'\\' | b':'))
}

/// A path below a share, as the server takes it. `None` if it can not be asked for.
pub(super) fn path(base: &Path, below: &Path) -> Option<Vec<u8>> {
    let mut wide = Vec::new();
    for component in base.components().chain(below.components()) {
        let Component::Normal(name) = component else { return None };
        let name = name.as_bytes();
        if !can_be_asked_for(name) {
            return None;
        }
        if !wide.is_empty() {
            wide.push(u16::from(b'\\'));
        }
        wide.extend(to_wide(name)?);
    }
    // Its size is told in 16 bits.
    (wide.len() < 1 << 15).then(|| bytes_of(&wide))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_itself() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let wide: Vec<u16> = (0..random.usize(1..9))
                .map(|_| if random.bool() { random.u16(0xd7f0..0xe010) } else { random.u16(1..) })
                .collect();
            assert_eq!(to_wide(&from_wide(wide.iter().copied())), Some(wide.clone()), "{wide:x?}");
        }
        assert_eq!(from_wide([0x61, 0xd83d, 0xde00]), "a\u{1f600}".as_bytes());
        assert_eq!(from_wide([0xd83d, 0x61]), b"\xed\xa0\xbda");
        assert_eq!(to_wide(b"a\xff"), None);
    }

    #[test]
    fn a_path_has_backslashes_and_leads_to_no_stream() {
        let wide = |text: &str| Some(bytes_of(&text.encode_utf16().collect::<Vec<_>>()));
        assert_eq!(path(Path::new("a"), Path::new("b/\u{e4}")), wide("a\\b\\\u{e4}"));
        assert_eq!(path(Path::new(""), Path::new("")), wide(""));
        for refused in ["a:b", "a\\b", "../a", "/a"] {
            assert_eq!(path(Path::new(""), Path::new(refused)), None, "{refused}");
        }
        assert!(path(Path::new(""), Path::new(&"a/".repeat((1 << 14) + 1))).is_none());
        assert!(
            is_one(b"a.b") && is_one(b"a:b") && ["a/b", "..", "", "a\0"].iter().all(|name| !is_one(name.as_bytes()))
        );
    }
}
