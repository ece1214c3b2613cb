//! The table of names as bytes; pictured in `docs/format/raw.md`.

use std::ops::Range;

use ishigaki_base::{crc32c, crc32c_append};

use crate::MAX_BLOCK_SIZE;
use crate::request::check_name;

/// The room of one copy.
pub(super) const COPY: u64 = 256 << 10;

/// Where the regions begin: behind both copies.
pub(super) const DATA: u64 = 2 * COPY;

/// The end of a device that is looked at before it is formatted: partition tables and arrays keep something there.
pub(super) const TAIL: u64 = 64 << 10;

/// The most names that a copy has room for.
pub(super) const MOST: usize = COPY as usize / ENTRY - 1;

/// Bytes of the header, and of each entry.
pub(super) const HEADER: usize = 128;
pub(super) const ENTRY: usize = 128;

const MAGIC: &[u8; 4] = b"ISGR";
const VERSION: u8 = 1;

const SEQUENCE: Range<usize> = 8..16;
const DEVICE: Range<usize> = 16..24;
pub(super) const COUNT: Range<usize> = 24..28;
pub(super) const CHECKSUM: Range<usize> = 124..128;

const NAME: Range<usize> = 1..101;
const START: Range<usize> = 112..120;
const LENGTH: Range<usize> = 120..128;

/// The space that a region of that length takes: whole blocks of the largest kind, so that any device can hold it.
pub(super) fn reserved(length: u64) -> u64 {
    length.next_multiple_of(MAX_BLOCK_SIZE as u64)
}

/// What a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// Its first byte on the device.
    pub(super) start: u64,
    /// Its length in bytes.
    pub(super) length: u64,
}

/// All names, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) entries: Vec<Entry>,
}

/// What a copy is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// A whole table with its sequence number and the length of the device that it was written to.
    Whole(Table, u64, u64),
    /// Nothing was ever written here: all bytes are zero.
    Blank,
    /// A table of a version that this program does not know.
    Newer(u8),
    /// A torn table, a rotten one, or something else.
    Broken,
}

impl Table {
    /// How many bytes `encode` will give.
    pub(super) fn size(&self) -> usize {
        HEADER + ENTRY * self.entries.len()
    }

    /// Puts the table to the beginning of `copy`, which has at least its size.
    pub(super) fn encode(&self, sequence: u64, device: u64, copy: &mut [u8]) {
        let (header, entries) = copy.split_at_mut(HEADER);
        header.fill(0);
        header[..4].copy_from_slice(MAGIC);
        header[4] = VERSION;
        header[SEQUENCE].copy_from_slice(&sequence.to_le_bytes());
        header[DEVICE].copy_from_slice(&device.to_le_bytes());
        header[COUNT].copy_from_slice(&(self.entries.len() as u32).to_le_bytes());
        for (Entry { name, start, length }, bytes) in self.entries.iter().zip(entries.chunks_exact_mut(ENTRY)) {
            bytes.fill(0);
            bytes[0] = name.len() as u8;
            bytes[NAME][..name.len()].copy_from_slice(name.as_bytes());
            bytes[START].copy_from_slice(&start.to_le_bytes());
            bytes[LENGTH].copy_from_slice(&length.to_le_bytes());
        }
        let checksum = checksum(header, &entries[..ENTRY * self.entries.len()]);
        header[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Reads a copy of [`COPY`] bytes.
    pub(super) fn decode(copy: &[u8]) -> Read {
        if copy.iter().all(|byte| *byte == 0) {
            return Read::Blank;
        }
        let (header, entries) = copy.split_at(HEADER);
        if header[..4] != *MAGIC {
            return Read::Broken;
        }
        let count = number(&header[COUNT]) as usize;
        let Some(entries) = entries.get(..ENTRY * count.min(MOST + 1)) else { return Read::Broken };
        if count > MOST || number(&header[CHECKSUM]) != u64::from(checksum(header, entries)) {
            return Read::Broken;
        }
        // After the checksum, which every version has there: a byte that rotted is no newer program's.
        if header[4] != VERSION {
            return Read::Newer(header[4]);
        }
        let mut table = Self::default();
        for bytes in entries.chunks_exact(ENTRY) {
            let Some(entry) = entry(bytes) else { return Read::Broken };
            if table.entries.last().is_some_and(|last| last.name >= entry.name) {
                return Read::Broken;
            }
            table.entries.push(entry);
        }
        Read::Whole(table, number(&header[SEQUENCE]), number(&header[DEVICE]))
    }
}

/// An entry that this program could have written.
fn entry(bytes: &[u8]) -> Option<Entry> {
    let name = std::str::from_utf8(bytes[NAME].get(..usize::from(bytes[0]))?).ok()?;
    check_name(name).ok()?;
    let (start, length) = (number(&bytes[START]), number(&bytes[LENGTH]));
    let sound = start.is_multiple_of(MAX_BLOCK_SIZE as u64) && i64::try_from(length).is_ok();
    sound.then(|| Entry { name: name.to_owned(), start, length })
}

pub(super) fn checksum(header: &[u8], entries: &[u8]) -> u32 {
    crc32c_append(crc32c(&header[..CHECKSUM.start]), entries)
}

/// A number of up to 8 bytes, the lowest first.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(names: &[&str]) -> Table {
        let entry = |(index, name): (usize, &&str)| Entry {
            name: (*name).to_owned(),
            start: DATA + index as u64 * 8192,
            length: 512 * index as u64,
        };
        Table { entries: names.iter().enumerate().map(entry).collect() }
    }

    fn copy(table: &Table) -> Vec<u8> {
        let mut copy = vec![0; COPY as usize];
        table.encode(7, 1 << 30, &mut copy);
        copy
    }

    #[test]
    fn every_table_is_read_back() {
        let names: Vec<String> = (0..MOST).map(|index| format!("{index:0>100}")).collect();
        let full: Vec<&str> = names.iter().map(String::as_str).collect();
        for names in [&[][..], &["a"], &["a", "b-1", "wal-000"], &full] {
            let table = table(names);
            assert_eq!(table.size(), 128 * (names.len() + 1));
            assert_eq!(Table::decode(&copy(&table)), Read::Whole(table, 7, 1 << 30));
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let bytes = copy(&Table { entries: vec![Entry { name: "log".into(), start: DATA, length: 0x0102_0304 }] });
        assert_eq!(bytes[..16], *b"ISGR\x01\0\0\0\x07\0\0\0\0\0\0\0");
        assert_eq!(bytes[16..28], *b"\0\0\0\x40\0\0\0\0\x01\0\0\0");
        assert_eq!(bytes[128..133], *b"\x03log\0");
        assert_eq!(bytes[240..256], *b"\0\0\x08\0\0\0\0\0\x04\x03\x02\x01\0\0\0\0");
    }

    #[test]
    fn any_flipped_bit_breaks_a_copy() {
        let bytes = copy(&table(&["a", "b"]));
        for bit in 0..8 * (HEADER + 2 * ENTRY) {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = Table::decode(&bytes);
            assert_eq!(read, Read::Broken, "bit {bit}");
        }
        assert_eq!(Table::decode(&vec![0; COPY as usize]), Read::Blank);
    }

    #[test]
    fn what_lies_behind_the_entries_is_nobodys() {
        let mut bytes = copy(&table(&["a", "b"]));
        table(&["a"]).encode(8, 1 << 30, &mut bytes);
        assert_eq!(Table::decode(&bytes), Read::Whole(table(&["a"]), 8, 1 << 30));
    }

    #[test]
    fn a_table_that_nobody_could_have_written_is_broken() {
        let entry = |name: &str, start| Entry { name: name.to_owned(), start, length: 512 };
        for entries in [
            vec![entry("b", DATA), entry("a", DATA + 4096)],
            vec![entry("a", DATA), entry("a", DATA + 4096)],
            vec![entry("LOCK", DATA)],
            vec![entry("", DATA)],
            vec![entry("a", DATA + 512)],
            vec![Entry { length: u64::MAX, ..entry("a", DATA) }],
        ] {
            assert_eq!(Table::decode(&copy(&Table { entries: entries.clone() })), Read::Broken, "{entries:?}");
        }
    }
}
