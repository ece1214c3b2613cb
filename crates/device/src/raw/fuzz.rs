//! The door for `fuzz/`: the table of names, with what must hold whatever it is made of.
//!
//! Compiled under `--cfg fuzzing` only.

use super::table::{self, CHECKSUM, COUNT, DATA, ENTRY, Entry, HEADER, Read, Table};

/// The room of one copy.
pub const COPY: u64 = table::COPY;

/// Decodes a copy of the table; says whether it is whole.
///
/// # Panics
///
/// If a table that was accepted does not read back after it was encoded.
pub fn table(copy: &[u8]) -> bool {
    let Read::Whole(table, sequence, device) = Table::decode(copy) else { return false };
    let mut encoded = vec![0; table.size()];
    table.encode(sequence, device, &mut encoded);
    assert_eq!(Table::decode(&encoded), Read::Whole(table, sequence, device));
    true
}

/// Puts right the checksum of a copy.
pub fn seal_table(copy: &mut [u8]) {
    let Some((header, entries)) = copy.split_at_mut_checked(HEADER) else { return };
    let length = usize::try_from(table::number(&header[COUNT])).ok().and_then(|count| count.checked_mul(ENTRY));
    if let Some(entries) = length.and_then(|length| entries.get(..length)) {
        let checksum = table::checksum(header, entries);
        header[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// A copy with so many regions of 4 KiB, on a device of that length.
pub fn encode_table(regions: u64, device: u64) -> Vec<u8> {
    let entry = |number| Entry { name: format!("region-{number}"), start: DATA + number * 8192, length: 4096 };
    let table = Table { entries: (0..regions).map(entry).collect() };
    let mut copy = vec![0; table.size()];
    table.encode(1 + regions, device, &mut copy);
    copy
}
