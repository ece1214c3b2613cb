//! The entries of a pool's log, one on each line.

use std::io::{self, BufWriter, Write};

use ishigaki_device::Directory;
use ishigaki_logpool::{EntryReport, inspect};
use serde_json::{Value, json};

use super::failed;
use crate::failure::Failure;
use crate::human::Count;

/// Writes every entry, or those of a member alone, as text or as JSON lines.
pub(in crate::commands::log) fn run(
    directory: &dyn Directory,
    member: Option<&str>,
    json: bool,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    if !json {
        writeln!(out, "\nentries")?;
    }
    let mut written = Ok(());
    let outcome = inspect(directory, &mut |entry| {
        if member.is_none_or(|member| entry.name.as_deref() == Some(member)) {
            written = if json { writeln!(out, "{}", object(&entry)) } else { writeln!(out, "  {}", text(&entry)) };
        }
        written.is_ok()
    });
    written?;
    out.flush()?;
    outcome.map_err(|error| failed(&error))
}

fn text(entry: &EntryReport) -> String {
    let whose = entry.name.clone().unwrap_or_else(|| format!("removed member {}", entry.member));
    let what = match (entry.kind, entry.file) {
        ("data", Some(file)) => {
            let (length, changed) = (Count(entry.length), Count(entry.changed));
            format!("file {file} at {}, {length} bytes, {changed} of them new", entry.offset)
        }
        ("zero", Some(file)) => format!("file {file} at {}, {} bytes", entry.offset, Count(entry.length)),
        ("truncate", Some(file)) => format!("file {file} to {} bytes", Count(entry.length)),
        (_, Some(file)) => format!("{} is file {file}", paths(entry)),
        _ => paths(entry),
    };
    let (bytes, packed) = (Count(entry.bytes), if entry.packed { ", packed" } else { "" });
    format!("LSN {} {whose} {} {}: {what} ({bytes} in the log{packed})", entry.lsn, entry.number, entry.kind)
}

/// Names are the servers', and need not be fit for a terminal.
fn paths(entry: &EntryReport) -> String {
    let paths: Vec<_> = entry.paths.iter().map(|path| format!("\"{}\"", path.escape_debug())).collect();
    if entry.kind == "rename" { paths.join(" to ") } else { paths.join(", ") }
}

fn object(entry: &EntryReport) -> Value {
    json!({
        "lsn": entry.lsn.0,
        "member": entry.name,
        "number": entry.number,
        "kind": entry.kind,
        "file": entry.file.map(|file| file.0),
        "offset": entry.offset,
        "length": entry.length,
        "changed": entry.changed,
        "bytes": entry.bytes,
        "packed": entry.packed,
        "paths": entry.paths,
    })
}
