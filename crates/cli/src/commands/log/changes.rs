//! `ishigaki log changes`: what committed transactions changed, in the order of the log.

use std::io::{self, BufWriter, Write};

use ishigaki_base::{Lsn, Position};
use ishigaki_device::Directory;
use ishigaki_txn::{Operation, operations};
use ishigaki_wal::Changes;
use serde_json::{Value, json};

use super::failure;
use crate::failure::Failure;

/// Writes every transaction from that LSN on, as text or as JSON lines.
pub(super) fn run(directory: &dyn Directory, place: &str, from: Option<u64>, json: bool) -> Result<(), Failure> {
    let wrong = |error| failure(place, error);
    let from = match from {
        Some(from) => Lsn(from),
        None => ishigaki_wal::inspect(directory).map_err(wrong)?.start.lsn,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    for change in Changes::of(directory, from).map_err(wrong)? {
        let (position, record) = change.map_err(wrong)?;
        let operations = operations(position.lsn(), &record).map_err(|error| Failure::of(error.kind(), error))?;
        if json {
            writeln!(out, "{}", line(position, &operations))?;
        } else {
            writeln!(out, "LSN {} in stream {}", position.lsn(), position.stream())?;
            operations.iter().try_for_each(|operation| writeln!(out, "  {}", text(operation)))?;
        }
    }
    Ok(out.flush()?)
}

fn line(position: Position, operations: &[Operation<'_>]) -> Value {
    json!({
        "lsn": position.lsn().0,
        "stream": position.stream().0,
        "operations": operations.iter().map(object).collect::<Vec<_>>(),
    })
}

/// Names are text; keys and values are bytes, in hexadecimal.
fn object(operation: &Operation<'_>) -> Value {
    match operation {
        Operation::Create { table, name } => {
            json!({"create": table.0, "name": String::from_utf8_lossy(name)})
        }
        Operation::Drop { table, name } => json!({"drop": table.0, "name": String::from_utf8_lossy(name)}),
        Operation::Put { table, key, value } => {
            json!({"put": table.0, "key": hexadecimal(key), "value": hexadecimal(value)})
        }
        Operation::Delete { table, key } => json!({"delete": table.0, "key": hexadecimal(key)}),
    }
}

fn text(operation: &Operation<'_>) -> String {
    match operation {
        Operation::Create { table, name } => format!("create table {table} named \"{}\"", name.escape_ascii()),
        Operation::Drop { table, name } => format!("drop table {table} named \"{}\"", name.escape_ascii()),
        Operation::Put { table, key, value } => {
            format!("put {} = {} in table {table}", hexadecimal(key), hexadecimal(value))
        }
        Operation::Delete { table, key } => format!("delete {} from table {table}", hexadecimal(key)),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
        text.extend([digit(byte >> 4), digit(byte & 0xf)]);
        text
    })
}
