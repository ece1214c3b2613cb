//! The door for `fuzz/`: the decoders, with what must hold whatever they are given.
//!
//! Compiled under `--cfg fuzzing` only.

pub use crate::apart::fuzz::{note, notes};
pub use crate::checkpoint::fuzz::{manifest, manifests, page, pages, seal_manifest, seal_pages};

use crate::TableId;
use crate::key::Key;
use crate::redo::{Decoder, Encoder, Operation, Refusal};

/// Decodes a redo record; says whether that was one.
///
/// # Panics
///
/// If the operations of a record that was accepted encode to something else.
pub fn redo(record: &[u8]) -> bool {
    let Ok(operations) = decode(record) else { return false };
    let encoded = encode(&operations);
    assert!(encoded.len() <= record.len(), "the encoder names no table without need");
    assert_eq!(decode(&encoded), Ok(operations));
    true
}

/// Redo records.
pub fn records() -> Vec<Vec<u8>> {
    let table = TableId(300);
    vec![
        encode(&[]),
        encode(&[Operation::Create { table, name: b"t" }, Operation::Put { table, key: b"k", value: &[7; 200] }]),
        encode(&[
            Operation::Put { table, key: b"", value: b"" },
            Operation::Delete { table: TableId(2), key: b"key" },
            Operation::Drop { table, name: b"t" },
        ]),
    ]
}

fn decode(record: &[u8]) -> Result<Vec<Operation<'_>>, Refusal> {
    Decoder::new(record)?.collect()
}

fn encode(operations: &[Operation<'_>]) -> Vec<u8> {
    let mut encoder = Encoder::within(Vec::new());
    for operation in operations {
        match *operation {
            Operation::Create { table, name } => encoder.create(table, name),
            Operation::Drop { table, name } => encoder.drop(table, name),
            Operation::Put { table, key, value } => {
                encoder.write(table, &Key::of_bound(key), Some(value));
            }
            Operation::Delete { table, key } => encoder.write(table, &Key::of_bound(key), None),
        }
    }
    encoder.finish()
}
