//! Bytes of a record; the table is in `docs/format/stub.md`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use ishigaki_base::{Fields, crc32c};

use super::{Damage, Record, State};
use crate::ranges::RangeSet;
use crate::source::{Location, Stamp, Timestamp};

const MAGIC: [u8; 4] = *b"ISTB";
const VERSION: u8 = 1;
/// Before path, handle and holes.
const HEAD: usize = 80;
const CHECKSUM: usize = 20;
const REFERENCE: usize = 32;
const MODIFIED: u8 = 1;
const CONFLICT: u8 = 2;

/// A record that lies in a file of its own, by that file's number, since the file system has no room for it at the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference(pub u64);

/// What an extended attribute holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The record.
    Record(Box<Record>),
    /// Where the record is.
    Elsewhere(Reference),
}

impl Record {
    /// The most holes that are kept: more are written as zeros instead.
    pub const MOST_HOLES: usize = 64;

    /// Its bytes.
    ///
    /// # Panics
    ///
    /// If the handle has 65,536 bytes or more, or the path 4 GiB: no source has them.
    pub fn encode(&self) -> Vec<u8> {
        let path = self.location.path.as_os_str().as_bytes();
        let handle = &self.location.handle;
        let mut bytes = Vec::with_capacity(HEAD + path.len() + handle.len() + 16 * self.holes.count());
        bytes.extend(MAGIC);
        bytes.push(VERSION);
        bytes.push(0);
        bytes.push(match self.state {
            State::Dummy => 1,
            State::Partial => 2,
        });
        bytes.push(if self.modified { MODIFIED } else { 0 } | if self.conflict { CONFLICT } else { 0 });
        bytes.extend(self.source.to_le_bytes());
        bytes.extend(u32::try_from(path.len()).expect("a path is shorter than 4 GiB").to_le_bytes());
        bytes.extend(u16::try_from(handle.len()).expect("a handle is shorter than 64 KiB").to_le_bytes());
        bytes.extend(u16::try_from(self.holes.count()).expect("holes are few").to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(self.stamp.id.to_le_bytes());
        bytes.extend(self.stamp.size.to_le_bytes());
        bytes.extend(self.stamp.modified.seconds.to_le_bytes());
        bytes.extend(self.stamp.changed.seconds.to_le_bytes());
        bytes.extend(self.stamp.modified.nanos.to_le_bytes());
        bytes.extend(self.stamp.changed.nanos.to_le_bytes());
        bytes.extend(self.minsize.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(path);
        bytes.extend(handle);
        for hole in self.holes.iter() {
            bytes.extend(hole.start.to_le_bytes());
            bytes.extend(hole.end.to_le_bytes());
        }
        sealed(bytes)
    }
}

impl Reference {
    /// Its bytes.
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = vec![0; REFERENCE];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = 1;
        bytes[24..32].copy_from_slice(&self.0.to_le_bytes());
        sealed(bytes)
    }
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    seal(&mut bytes);
    bytes
}

/// Puts the checksum right, whatever it is the checksum of.
pub(super) fn seal(bytes: &mut [u8]) {
    if bytes.len() < REFERENCE {
        return;
    }
    bytes[CHECKSUM..CHECKSUM + 4].fill(0);
    let sum = crc32c(bytes);
    bytes[CHECKSUM..CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Reads what [`Record::encode`] or [`Reference::encode`] wrote.
///
/// # Errors
///
/// [`Damage`] if it was neither.
pub fn decode(bytes: &[u8]) -> Result<Stored, Damage> {
    let fields = Fields(bytes);
    if bytes.len() < REFERENCE {
        return Err(Damage::Length(bytes.len()));
    }
    if bytes[..4] != MAGIC {
        return Err(Damage::Magic);
    }
    if bytes[4] != VERSION {
        return Err(Damage::Version(bytes[4]));
    }
    let mut blank = bytes.to_vec();
    blank[CHECKSUM..CHECKSUM + 4].fill(0);
    if crc32c(&blank) != fields.u32(CHECKSUM) {
        return Err(Damage::Checksum);
    }
    match bytes[5] {
        0 => record(bytes).map(|record| Stored::Record(Box::new(record))),
        1 if bytes.len() == REFERENCE => Ok(Stored::Elsewhere(Reference(fields.u64(24)))),
        1 => Err(Damage::Length(bytes.len())),
        _ => Err(Damage::Field("kind")),
    }
}

fn record(bytes: &[u8]) -> Result<Record, Damage> {
    let fields = Fields(bytes);
    let (path, handle) = (fields.u32(12) as usize, usize::from(u16::from_le_bytes(fields.array(16))));
    let holes = usize::from(u16::from_le_bytes(fields.array(18)));
    let end = HEAD.checked_add(path).and_then(|at| at.checked_add(handle + 16 * holes));
    if end != Some(bytes.len()) {
        return Err(Damage::Length(bytes.len()));
    }
    let state = match bytes[6] {
        1 => State::Dummy,
        2 => State::Partial,
        _ => return Err(Damage::Field("state")),
    };
    if bytes[7] & !(MODIFIED | CONFLICT) != 0 {
        return Err(Damage::Field("flags"));
    }
    let moment = |seconds: usize, nanos: usize| match fields.u32(nanos) {
        nanos @ 0..1_000_000_000 => Ok(Timestamp { seconds: i64::from_le_bytes(fields.array(seconds)), nanos }),
        _ => Err(Damage::Field("time")),
    };
    let stamp = Stamp { id: fields.u64(24), size: fields.u64(32), modified: moment(40, 56)?, changed: moment(48, 60)? };
    let (path, rest) = bytes[HEAD..].split_at(path);
    let (handle, rest) = rest.split_at(handle);
    let mut set = RangeSet::default();
    let mut before = None;
    for hole in rest.chunks_exact(16) {
        let (start, end) = (Fields(hole).u64(0), Fields(hole).u64(8));
        if start >= end || before.is_some_and(|before| before >= start) {
            return Err(Damage::Field("holes"));
        }
        set.insert(start..end);
        before = Some(end);
    }
    Ok(Record {
        state,
        modified: bytes[7] & MODIFIED != 0,
        conflict: bytes[7] & CONFLICT != 0,
        source: fields.u32(8),
        location: Location { path: OsString::from_vec(path.to_vec()).into(), handle: handle.into() },
        stamp,
        minsize: fields.u64(64),
        holes: set,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Record {
        let mut holes = RangeSet::from(4096..8192);
        holes.insert(16384..20480);
        Record {
            state: State::Partial,
            modified: true,
            conflict: false,
            source: 3,
            location: Location { path: OsString::from_vec(b"a/\xff/c".to_vec()).into(), handle: [1, 2, 3].into() },
            stamp: Stamp {
                id: 77,
                size: 1 << 40,
                modified: Timestamp { seconds: -5, nanos: 999_999_999 },
                changed: Timestamp { seconds: 1 << 33, nanos: 1 },
            },
            minsize: 30000,
            holes,
        }
    }

    #[test]
    fn a_record_reads_back_as_it_was() {
        let record = sample();
        assert_eq!(decode(&record.encode()), Ok(Stored::Record(Box::new(record))));
        assert_eq!(decode(&Reference(9).encode()), Ok(Stored::Elsewhere(Reference(9))));
    }

    #[test]
    fn no_changed_byte_and_no_other_length_is_taken() {
        for good in [sample().encode(), Reference(9).encode()] {
            for at in 0..good.len() {
                let mut bytes = good.clone();
                bytes[at] ^= 0x10;
                assert!(decode(&bytes).is_err(), "byte {at}");
                assert!(decode(&good[..at]).is_err(), "length {at}");
            }
            assert!(decode(&[&good[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn fields_that_no_writer_writes_are_refused_by_name() {
        let with = |at: usize, byte: u8| {
            let mut bytes = sample().encode();
            bytes[CHECKSUM..CHECKSUM + 4].fill(0);
            bytes[at] = byte;
            decode(&sealed(bytes))
        };
        assert_eq!(with(5, 2), Err(Damage::Field("kind")));
        assert_eq!(with(6, 0), Err(Damage::Field("state")));
        assert_eq!(with(7, 4), Err(Damage::Field("flags")));
        assert_eq!(with(59, 0xff), Err(Damage::Field("time")));
        assert_eq!(with(4, 2), Err(Damage::Version(2)));
        assert_eq!(with(12, 0xff), Err(Damage::Length(sample().encode().len())));
    }
}
