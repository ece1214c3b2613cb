//! What is written of a door that is handed over.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `isgkdoor` |
//! | 4 | version, 2 |
//! | 1, 1 | whether files are passed through; whether extended attributes are set in the longer form |
//! | 8 | the next handle |
//! | 4, then 25 each | records: node (8), opens passed through, served, for reading and writing (4 each), whether there is a number (1) and it (4) |
//! | 4, then 16 each | orphans: inode number, generation |
//! | 4, then 32 each | nodes of which programs were told a time of change: number, generation, how often the kernel has got it, that time in nanoseconds since 1970 |
//!
//! All numbers are little-endian.

use crate::nodes::Told;
use crate::opens::Record;
use crate::volume::Identity;

const MAGIC: &[u8; 8] = b"isgkdoor";
const VERSION: u32 = 2;
/// The oldest that is read: without nodes of which a time was told.
const OLDEST: u32 = 1;

/// What the next process must know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) next_handle: u64,
    pub(crate) agreed: (bool, bool),
    pub(crate) records: Vec<(u64, Record)>,
    pub(crate) orphans: Vec<Identity>,
    pub(crate) told: Vec<Told>,
}

impl Table {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend([u8::from(self.agreed.0), u8::from(self.agreed.1)]);
        out.extend(self.next_handle.to_le_bytes());
        out.extend((self.records.len() as u32).to_le_bytes());
        for (node, record) in &self.records {
            out.extend(node.to_le_bytes());
            for count in [record.passed, record.served, record.mappers] {
                out.extend(count.to_le_bytes());
            }
            out.push(record.backing.is_some().into());
            out.extend(record.backing.unwrap_or_default().to_le_bytes());
        }
        out.extend((self.orphans.len() as u32).to_le_bytes());
        for orphan in &self.orphans {
            out.extend(orphan.number.to_le_bytes());
            out.extend(orphan.generation.to_le_bytes());
        }
        out.extend((self.told.len() as u32).to_le_bytes());
        for Told { identity, lookups, changed } in &self.told {
            for number in [identity.number, identity.generation, *lookups, changed.cast_unsigned()] {
                out.extend(number.to_le_bytes());
            }
        }
        out
    }

    /// `None` for what is not whole, or of another version.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let rest = &mut rest;
        let version = word(rest)?;
        if !(OLDEST..=VERSION).contains(&version) {
            return None;
        }
        let agreed = (flag(rest)?, flag(rest)?);
        let next_handle = long(rest)?;
        let mut records = Vec::new();
        for _ in 0..word(rest)? {
            let node = long(rest)?;
            let (passed, served, mappers) = (word(rest)?, word(rest)?, word(rest)?);
            let (is_there, backing) = (flag(rest)?, word(rest)?);
            records.push((node, Record::of((passed, served, mappers), is_there.then_some(backing))));
        }
        let mut orphans = Vec::new();
        for _ in 0..word(rest)? {
            orphans.push(Identity { number: long(rest)?, generation: long(rest)? });
        }
        let mut told = Vec::new();
        let count = if version > OLDEST { word(rest)? } else { 0 };
        for _ in 0..count {
            let identity = Identity { number: long(rest)?, generation: long(rest)? };
            told.push(Told { identity, lookups: long(rest)?, changed: long(rest)?.cast_signed() });
        }
        rest.is_empty().then_some(Self { next_handle, agreed, records, orphans, told })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

fn word(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_le_bytes)
}

fn long(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

fn flag(rest: &mut &[u8]) -> Option<bool> {
    match take(rest)? {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_and_nothing_shorter_or_longer_does() {
        let record = Record::of((2, 0, 1), Some(3));
        let table = Table {
            next_handle: 77,
            agreed: (true, false),
            records: vec![(12, record), (13, Record::of((0, 1, 0), None))],
            orphans: vec![Identity { number: 5, generation: 1 << 40 }],
            told: vec![Told { identity: Identity { number: 6, generation: 7 }, lookups: 2, changed: -1 }],
        };
        let mut written = table.write();
        assert_eq!(Table::read(&written).as_ref(), Some(&table));
        for length in 0..written.len() {
            assert_eq!(Table::read(&written[..length]), None, "{length} bytes");
        }
        written.push(0);
        assert_eq!(Table::read(&written), None);
    }

    #[test]
    fn what_an_older_program_has_written_is_read() {
        let table = Table {
            next_handle: 77,
            agreed: (true, false),
            records: Vec::new(),
            orphans: vec![Identity { number: 5, generation: 1 << 40 }],
            told: Vec::new(),
        };
        let mut written = table.write();
        written.truncate(written.len() - 4);
        written[MAGIC.len()] = 1;
        assert_eq!(Table::read(&written), Some(table));
    }
}
