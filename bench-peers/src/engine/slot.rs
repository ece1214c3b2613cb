//! A transaction as the bare loops store it: whole slots of 512 bytes.
//!
//! ```text
//!  0..8   number of the write in its file
//!  8..12  client
//! 12..20  turn of the client
//! 20..    key (4) and value (100) of each row; zeros up to the next 512
//! ```

use std::collections::HashMap;

use crate::workload::{History, Row, VALUE, Workload};

/// A multiple of what media write at once.
const SECTOR: usize = 512;

const HEADER: usize = 20;

/// Bytes of a slot for one transaction.
pub(super) fn bytes(workload: Workload) -> usize {
    (HEADER + workload.updates() * (4 + VALUE)).next_multiple_of(SECTOR)
}

/// Writes a transaction over a slot that has held one of the same workload, or zeros.
pub(super) fn fill(slot: &mut [u8], number: u64, client: usize, turn: u64, rows: &[Row]) {
    slot[..8].copy_from_slice(&number.to_le_bytes());
    slot[8..12].copy_from_slice(&(client as u32).to_le_bytes());
    slot[12..20].copy_from_slice(&turn.to_le_bytes());
    for (place, row) in slot[HEADER..].chunks_exact_mut(4 + VALUE).zip(rows) {
        place[..4].copy_from_slice(&row.key.to_le_bytes());
        place[4..].copy_from_slice(&row.value);
    }
}

/// Reads what a loop left: `files` of slots, written round and round. Every file must hold its last writes, as many as
/// there is room for, each with the bytes of a transaction that was acknowledged; and `writes` says how many those are.
pub(super) fn check(files: &[Vec<u8>], writes: &[u64], history: &History) -> Result<(), String> {
    let size = bytes(history.workload);
    let mut found: HashMap<(usize, u64), (u64, &[u8])> = HashMap::new();
    for (file, (slots, &writes)) in files.iter().zip(writes).enumerate() {
        let places = (slots.len() / size) as u64;
        for number in writes.saturating_sub(places)..writes {
            let start = (number % places) as usize * size;
            let slot = &slots[start..start + size];
            let word = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().expect("eight bytes"));
            let client = u32::from_le_bytes(slot[8..12].try_into().expect("four bytes")) as usize;
            if word(0) != number || found.insert((client, word(12)), (number, slot)).is_some() {
                return Err(format!("file {file}: its write {number} is not there"));
            }
        }
    }
    let (mut wrong, mut expected) = (None, vec![0; size]);
    history.replay(|client, turn, rows| {
        if let Some((number, slot)) = found.remove(&(client, turn)) {
            fill(&mut expected, number, client, turn, rows);
            if expected != slot {
                wrong.get_or_insert_with(|| format!("transaction {turn} of client {client} has other bytes"));
            }
        }
    });
    let left = || found.keys().next().map(|(client, turn)| format!("client {client} never did transaction {turn}"));
    wrong.or_else(left).map_or(Ok(()), Err)
}
