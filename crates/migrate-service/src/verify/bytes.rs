//! The bytes of two files.

use ishigaki_migrate::source::{Cancel, Location, Result, Source};

/// Bytes that are read at a time of each side.
const PIECE: u64 = 4 << 20;

/// Where two files of one size first differ. Ranges that both sides call holes are not read.
pub(super) fn first_difference(
    old: (&dyn Source, &Location),
    new: (&dyn Source, &Location),
    size: u64,
    cancel: &Cancel,
) -> Result<Option<u64>> {
    let piece = PIECE.min(size) as usize;
    let (mut one, mut two) = (vec![0; piece], vec![0; piece]);
    // A small file is read sooner than it is asked for its holes.
    let mut data_until = if size <= PIECE { size } else { 0 };
    let mut at = 0;
    while at < size {
        if at >= data_until {
            let ranges = (old.0.next_data(old.1, at, cancel)?, new.0.next_data(new.1, at, cancel)?);
            let start = |range: &Option<std::ops::Range<u64>>| range.as_ref().map_or(size, |range| range.start);
            at = at.max(start(&ranges.0).min(start(&ranges.1))).min(size);
            let end =
                |range: Option<std::ops::Range<u64>>| range.filter(|range| range.start <= at).map_or(0, |it| it.end);
            data_until = end(ranges.0).max(end(ranges.1)).min(size);
            if at == size {
                break;
            }
        }
        let length = PIECE.min(data_until.max(at + 1) - at) as usize;
        let (one, two) = (&mut one[..length], &mut two[..length]);
        let read = (old.0.read(old.1, at, one, cancel)?, new.0.read(new.1, at, two, cancel)?);
        let common = read.0.min(read.1);
        if let Some(place) = one[..common].iter().zip(&two[..common]).position(|(one, two)| one != two) {
            return Ok(Some(at + place as u64));
        }
        // One of them has become shorter.
        if common < length {
            return Ok(Some(at + common as u64));
        }
        at += length as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;

    use ishigaki_migrate::source::path::PathSource;

    use super::*;

    #[test]
    fn the_first_byte_that_differs_is_found_in_data_and_in_holes() {
        let place = tempfile::tempdir().unwrap();
        let source = PathSource::open(place.path()).unwrap();
        let size = 40 << 20;
        let sparse = |name: &str, writes: &[(u64, &[u8])]| {
            let file = File::create(place.path().join(name)).unwrap();
            file.set_len(size).unwrap();
            for (at, bytes) in writes {
                file.write_all_at(bytes, *at).unwrap();
            }
            Location { path: name.into(), handle: Box::default() }
        };
        let compare = |one: &Location, two: &Location, size| {
            first_difference((&source, one), (&source, two), size, &Cancel::new()).unwrap()
        };
        let plain = sparse("plain", &[(0, b"a"), (30 << 20, b"b")]);
        let same = sparse("same", &[(0, b"a"), (10 << 20, &[0; 9000]), (30 << 20, b"b")]);
        assert_eq!(compare(&plain, &same, size), None);
        for at in [0, 1, 4095, 4096, (4 << 20) - 1, 4 << 20, 20_000_001, 30 << 20, size - 1] {
            let other = sparse("other", &[(0, b"a"), (30 << 20, b"b"), (at, b"X")]);
            assert_eq!(compare(&plain, &other, size), Some(at));
            assert_eq!(compare(&other, &plain, size), Some(at));
        }
        fs::write(place.path().join("short"), b"abc").unwrap();
        fs::write(place.path().join("shorter"), b"ab").unwrap();
        let named = |name: &str| Location { path: name.into(), handle: Box::default() };
        assert_eq!(compare(&named("short"), &named("shorter"), 3), Some(2));
        assert_eq!(compare(&named("short"), &named("shorter"), 2), None);
    }
}
