//! `ishigaki backup`: a copy of a database that is a database.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_sql::{BackedUp, Settings, backup};
use serde_json::json;

use super::database::{Which, target};
use super::progress::watched;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::counted;

const EXAMPLES: &str = "\
Examples:
  ishigaki backup ./ishigaki-data --to /backup/monday    of a database that is stopped or in use
  ishigaki backup /backup/monday --to ./ishigaki-data    restore it: a backup is a database";

/// Copy a database, stopped or in use, into another directory, checked and opened once
///
/// What was acknowledged before the command began is in the copy. Page files of paged tables are copied, too, those at storage
/// nodes as well, and the copy has its own. The copy is a database: it may be opened, and copied to where it is wanted.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,

    /// The directory of the copy, which is empty or not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,

    /// The most memory for all tables while the copy is opened and checked, as in 8GiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(Arguments { which, to, memory, json }: &Arguments) -> Result<(), Failure> {
    let files = which.find()?;
    if files.is_in_use && !which.is_shared() {
        let message =
            format!("{}: another process has the database open, and its place can not be read beside it", files.name);
        return Err(Failure::of(ErrorKind::Unavailable, message)
            .with_hint("make the backup in that process: `.backup DIR` in `ishigaki sql`; or stop it first"));
    }
    let mut settings = Settings::default().txn;
    settings.memory = memory.unwrap_or(settings.memory);
    let target = target(to)?;
    let done = watched("copying the database", |progress| backup(files.source(), &target, &settings, progress))?;
    let text = if *json { object(&done, files.is_in_use) } else { text(&done, files.is_in_use) };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// What is in a backup, for people.
pub(crate) fn text(done: &BackedUp, was_in_use: bool) -> String {
    let mut text = String::new();
    let size = ByteSize(done.engine.bytes).display().iec();
    let state = if was_in_use { "while it was in use" } else { "which was stopped" };
    let mut tables = counted(done.tables as u64, "table");
    if done.views > 0 {
        tables = format!("{tables} and {}", counted(done.views as u64, "view"));
    }
    // Writing to a string does not fail.
    let _ = writeln!(text, "copied   {tables}, {size} of checkpoint and log, up to LSN {}, {state}", done.engine.end);
    for (table, from, to) in &done.pages {
        let _ = writeln!(text, "copied   page file of {table} in {from}, to {to}");
    }
    if done.engine.again > 0 {
        let _ = writeln!(
            text,
            "again    {}, because a checkpoint came in between",
            counted(done.engine.again as u64, "time")
        );
    }
    text
}

fn object(done: &BackedUp, was_in_use: bool) -> String {
    let page = |(table, from, to): &(String, String, String)| json!({"table": table, "from": from, "to": to});
    let object = json!({
        "tables": done.tables,
        "views": done.views,
        "bytes": done.engine.bytes,
        "checkpoint": done.engine.checkpoint,
        "log_records": done.engine.records,
        "end": done.engine.end.0,
        "in_use": was_in_use,
        "again": done.engine.again,
        "pages": done.pages.iter().map(page).collect::<Vec<_>>(),
    });
    format!("{object}\n")
}
