//! The bytes of a transaction's log record: as many as the paper's BEGIN, UPDATE and COMMIT records have together.
//!
//! ```text
//!   132 bytes          156 bytes each                      132 bytes
//! ┌─────────────────┬───────────────────────────────────┬─────────────────┐
//! │ worker  number  │ page  before  after  │ …          │ worker  number  │
//! └─────────────────┴───────────────────────────────────┴─────────────────┘
//! ```
//!
//! What is left of each part is filling, so that a medium that compresses has no easy work.

use fastrand::Rng;

use super::Workload;

/// Bytes of BEGIN, and of COMMIT (paper 1, section 5.2.1).
const BRACKET: usize = 132;
/// Bytes of an UPDATE.
const UPDATE: usize = 156;

/// One page's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Update {
    pub(super) page: u32,
    pub(super) before: u32,
    pub(super) after: u32,
}

/// Bytes of the record of a transaction.
pub(super) fn length(workload: Workload) -> usize {
    2 * BRACKET + workload.updates() * UPDATE
}

/// The records of one worker, each written over the one before.
#[derive(Debug)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    updates: usize,
}

impl Writer {
    /// For a worker; its filling is drawn once.
    pub(super) fn new(workload: Workload, worker: u32, random: &mut Rng) -> Self {
        let mut bytes = vec![0; length(workload)];
        random.fill(&mut bytes);
        let end = bytes.len() - BRACKET;
        for at in [0, end] {
            put(&mut bytes[at..], &worker.to_le_bytes());
        }
        Self { bytes, updates: workload.updates() }
    }

    /// Sets one of the updates.
    pub(super) fn update(&mut self, place: usize, Update { page, before, after }: Update) {
        debug_assert!(place < self.updates);
        let part = &mut self.bytes[BRACKET + place * UPDATE..];
        for (at, number) in [page, before, after].into_iter().enumerate() {
            put(&mut part[4 * at..], &number.to_le_bytes());
        }
    }

    /// The record of the worker's transaction of that number.
    pub(super) fn finish(&mut self, number: u64) -> &[u8] {
        let end = self.bytes.len() - BRACKET;
        for at in [0, end] {
            put(&mut self.bytes[at + 4..], &number.to_le_bytes());
        }
        &self.bytes
    }
}

/// A record that was read back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) worker: u32,
    pub(super) number: u64,
    pub(super) updates: Vec<Update>,
}

/// What the record says; or why it is not a whole one of that workload.
pub(super) fn read(workload: Workload, bytes: &[u8]) -> Result<Transaction, String> {
    if bytes.len() != length(workload) {
        return Err(format!("a record has {} bytes, not {}", bytes.len(), length(workload)));
    }
    let (begin, rest) = bytes.split_at(BRACKET);
    let (updates, commit) = rest.split_at(rest.len() - BRACKET);
    let bracket = |part: &[u8]| (number(part, 0), u64::from(number(part, 4)) | u64::from(number(part, 8)) << 32);
    if bracket(begin) != bracket(commit) {
        return Err("a record begins with one transaction and ends with another".to_owned());
    }
    let (worker, at) = bracket(begin);
    let update = |part: &[u8]| Update { page: number(part, 0), before: number(part, 4), after: number(part, 8) };
    Ok(Transaction { worker, number: at, updates: updates.chunks_exact(UPDATE).map(update).collect() })
}

fn put(to: &mut [u8], from: &[u8]) {
    to[..from.len()].copy_from_slice(from);
}

fn number(part: &[u8], at: usize) -> u32 {
    part[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;

    #[test]
    fn records_have_the_papers_sizes() {
        assert_eq!(length(Workload::U1), 132 + 156 + 132);
        assert_eq!(length(Workload::U10), 132 + 10 * 156 + 132);
    }

    #[test]
    fn a_record_reads_as_it_was_written_and_not_in_part() {
        let mut writer = Writer::new(Workload::U10, 3, &mut Seed(1).generator());
        let updates: Vec<Update> = (0..10).map(|page| Update { page, before: page + 7, after: page + 8 }).collect();
        for (place, &update) in updates.iter().enumerate() {
            writer.update(place, update);
        }
        let bytes = writer.finish(u64::MAX - 5).to_vec();
        assert_eq!(read(Workload::U10, &bytes), Ok(Transaction { worker: 3, number: u64::MAX - 5, updates }));
        assert!(read(Workload::U10, &bytes[..bytes.len() - 156]).is_err());
        let mut torn = bytes.clone();
        let end = torn.len() - BRACKET;
        torn[end + 4] ^= 1;
        assert!(read(Workload::U10, &torn).is_err());
    }
}
