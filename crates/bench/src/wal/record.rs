//! The bytes of a transaction's log record: as many as the paper's BEGIN, UPDATE and COMMIT records have together.
//!
//! ```text
//!   132 bytes         156 bytes each                        156 bytes and a row each            132 bytes
//! ┌────────────────┬─────────────────────────────────┬───┬──────────────────────────────┬───┬────────────────┐
//! │ worker  number │ 0  row  before  after           │ … │ table  key  value            │ … │ worker  number │
//! └────────────────┴─────────────────────────────────┴───┴──────────────────────────────┴───┴────────────────┘
//! ```
//!
//! What is left of each part is filling, so that a medium that compresses has no easy work.

use fastrand::Rng;

use super::new_order::Table;

/// Bytes of BEGIN, and of COMMIT (paper 1, section 5.2.1).
const BRACKET: usize = 132;
/// Bytes of an UPDATE, and of an INSERT without the row.
const CHANGE: usize = 156;
/// The first number of an UPDATE; that of an INSERT is its table's place, from 1.
const UPDATE: u32 = 0;

/// One row's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Update {
    pub(super) row: u32,
    pub(super) before: u32,
    pub(super) after: u32,
}

/// A row that was not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Insert {
    pub(super) table: Table,
    /// District, order, line.
    pub(super) key: [u32; 3],
    /// What is in the row beside filling: how many lines, or which stock.
    pub(super) value: u32,
}

/// The records of one worker, each written over the one before.
#[derive(Debug)]
pub(super) struct Writer {
    worker: u32,
    bytes: Vec<u8>,
    end: usize,
    /// Of filling, which is drawn once.
    random: Rng,
}

impl Writer {
    /// For a worker.
    pub(super) fn new(worker: u32, random: &mut Rng) -> Self {
        Self { worker, bytes: Vec::new(), end: 0, random: random.fork() }
    }

    /// The record of the worker's transaction of that number.
    pub(super) fn write(&mut self, number: u64, updates: &[Update], inserts: impl Iterator<Item = Insert>) -> &[u8] {
        let bracket = [self.worker, number as u32, (number >> 32) as u32];
        self.end = 0;
        self.part(BRACKET, bracket);
        for &Update { row, before, after } in updates {
            self.part(CHANGE, [UPDATE, row, before, after]);
        }
        for Insert { table, key: [district, order, line], value } in inserts {
            self.part(CHANGE + table.row(), [UPDATE + 1 + table as u32, district, order, line, value]);
        }
        self.part(BRACKET, bracket);
        &self.bytes[..self.end]
    }

    /// Puts numbers, and leaves the rest as it is.
    fn part<const NUMBERS: usize>(&mut self, length: usize, numbers: [u32; NUMBERS]) {
        let begin = self.end;
        self.end += length;
        if let Some(missing) = self.end.checked_sub(self.bytes.len()) {
            let drawn = self.bytes.len();
            self.bytes.resize(drawn + missing, 0);
            self.random.fill(&mut self.bytes[drawn..]);
        }
        for (place, number) in self.bytes[begin..].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }
}

/// A record that was read back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) worker: u32,
    pub(super) number: u64,
    pub(super) updates: Vec<Update>,
    pub(super) inserts: Vec<Insert>,
}

/// What the record says; or why it is not a whole one.
pub(super) fn read(bytes: &[u8]) -> Result<Transaction, String> {
    let cut = || format!("a record of {} bytes is cut off", bytes.len());
    let (begin, rest) = bytes.split_at_checked(BRACKET).ok_or_else(cut)?;
    let (mut parts, commit) = rest.split_last_chunk::<BRACKET>().ok_or_else(cut)?;
    let bracket = |part: &[u8]| (number(part, 0), u64::from(number(part, 1)) | u64::from(number(part, 2)) << 32);
    if bracket(begin) != bracket(commit) {
        return Err(format!("a record of {} bytes begins with one transaction and ends with another", bytes.len()));
    }
    let (worker, at) = bracket(begin);
    let mut transaction = Transaction { worker, number: at, updates: Vec::new(), inserts: Vec::new() };
    while !parts.is_empty() {
        let (head, rest) = parts.split_at_checked(CHANGE).ok_or_else(cut)?;
        let [kind, first, second, third, fourth] = [0, 1, 2, 3, 4].map(|place| number(head, place));
        parts = match kind.checked_sub(UPDATE + 1) {
            None => {
                transaction.updates.push(Update { row: first, before: second, after: third });
                rest
            }
            Some(place) => {
                let table = Table::ALL.get(place as usize);
                let table = *table.ok_or_else(|| format!("a record has a part of kind {kind}"))?;
                transaction.inserts.push(Insert { table, key: [first, second, third], value: fourth });
                rest.get(table.row()..).ok_or_else(cut)?
            }
        };
    }
    Ok(transaction)
}

fn number(part: &[u8], place: usize) -> u32 {
    part[4 * place..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;
    use std::iter;

    fn updates(count: u32) -> Vec<Update> {
        (0..count).map(|row| Update { row, before: row + 7, after: row + 8 }).collect()
    }

    fn inserts() -> Vec<Insert> {
        (0..).zip(Table::ALL).map(|(at, table)| Insert { table, key: [at, at + 1, at + 2], value: at + 9 }).collect()
    }

    #[test]
    fn records_have_the_papers_sizes() {
        let mut writer = Writer::new(0, &mut Seed(1).generator());
        assert_eq!(writer.write(0, &updates(1), iter::empty()).len(), 132 + 156 + 132);
        assert_eq!(writer.write(0, &updates(10), iter::empty()).len(), 132 + 10 * 156 + 132);
        assert_eq!(writer.write(0, &[], inserts().into_iter()).len(), 132 + 3 * 156 + 24 + 8 + 54 + 132);
    }

    #[test]
    fn a_record_reads_as_it_was_written_and_not_in_part() {
        let mut writer = Writer::new(3, &mut Seed(1).generator());
        let (updates, inserts) = (updates(10), inserts());
        writer.write(1, &[], iter::empty());
        let bytes = writer.write(u64::MAX - 5, &updates, inserts.iter().copied()).to_vec();
        assert_eq!(read(&bytes), Ok(Transaction { worker: 3, number: u64::MAX - 5, updates, inserts }));
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length} bytes of it");
        }
        // Without the last part, or a piece of it, and with COMMIT.
        for missing in [54 + 156, 54, 1] {
            let end = bytes.len() - BRACKET;
            let shorter = [&bytes[..end - missing], &bytes[end..]].concat();
            let inserts = read(&shorter).ok().map(|transaction| transaction.inserts.len());
            assert_eq!(inserts, (missing == 54 + 156).then_some(2), "{missing} bytes are missing");
        }
        let mut torn = bytes.clone();
        let end = torn.len() - BRACKET;
        torn[end + 4] ^= 1;
        assert!(read(&torn).is_err());
    }

    #[test]
    fn a_part_of_no_kind_is_refused() {
        let mut bytes = Writer::new(0, &mut Seed(1).generator()).write(0, &updates(1), iter::empty()).to_vec();
        bytes[BRACKET] = 4;
        assert!(read(&bytes).unwrap_err().contains("kind 4"));
    }
}
