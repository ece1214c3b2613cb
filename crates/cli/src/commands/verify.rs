//! `ishigaki verify`: whether a database is what was written.

use std::fmt::Write as _;
use std::io::{self, Write};

use clap::Args;
use ishigaki_base::ErrorKind;
use ishigaki_sql::{Verification, verify};
use ishigaki_txn::LogEnd;
use serde_json::json;

use super::database::{Which, damage_json, damage_lines, log_end_json, unread_lines};
use super::progress::watched;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::{Count, counted};

const EXAMPLES: &str = "\
Examples:
  ishigaki verify ./ishigaki-data           exit code 0 if it is sound, 4 if it is damaged
  ishigaki verify ./ishigaki-data --json    the same for programs";

/// Read all of a database and check all of it: log, checkpoints, catalog, rows, page files
///
/// No process may have the database open meanwhile, and nothing is changed. Every damage is named with its file and place.
/// Page files at storage nodes are read, too.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(Arguments { which, json }: &Arguments) -> Result<(), Failure> {
    let files = which.find()?.stopped()?;
    let found = watched("reading the database", |progress| verify(files.tables(), files.log(), progress))?;
    let text = if *json { object(&found) } else { text(&found) };
    io::stdout().write_all(text.as_bytes())?;
    if found.is_sound() {
        return Ok(());
    }
    if found.all_damages().next().is_none() {
        let unread = counted(found.all_unread().count() as u64, "place");
        let message = format!("{}: {unread} could not be read, and nothing else is damaged", files.name);
        return Err(Failure::of(ErrorKind::Unavailable, message).with_hint(
            "when the medium or the node reads again, verify once more; `ishigaki salvage DIR --to DIR2` gets everything out \
             that can be read",
        ));
    }
    let damages = counted(found.all_damages().count() as u64, "damage");
    Err(Failure::of(ErrorKind::Corrupt, format!("{}: the database is damaged: {damages}", files.name)).with_hint(
        "`ishigaki salvage DIR --to DIR2` gets everything out that can be read; or restore a copy that `ishigaki backup` has \
         made",
    ))
}

fn text(found: &Verification) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = summary(&mut text, found);
    text + &damage_lines(found.all_damages()) + &unread_lines(found.all_unread())
}

fn summary(text: &mut String, found: &Verification) -> std::fmt::Result {
    let engine = &found.engine;
    match engine.checkpoint {
        Some(number) => writeln!(text, "checkpoint  {number}, {}", counted(engine.rows, "row"))?,
        None => writeln!(text, "checkpoint  none")?,
    }
    if let Some(number) = engine.previous {
        writeln!(text, "previous    checkpoint {number}, which is kept beside it")?;
    }
    let records = counted(engine.records, "record");
    match &engine.log_end {
        LogEnd::Closed(_) => writeln!(text, "log         {records} behind the checkpoint")?,
        LogEnd::Open => writeln!(
            text,
            "log         {records} behind the checkpoint; it was not closed, and the loss of its very end would not show"
        )?,
        LogEnd::Unknown(why) => {
            writeln!(text, "log         {records} behind the checkpoint")?;
            let end = engine.end;
            writeln!(text, "unknown     where the log ended; commits behind LSN {end} may be missing ({why})")?;
        }
    }
    for table in &found.tables {
        let state = if table.damaged == 0 { "sound".to_owned() } else { counted(table.damaged, "damage") };
        match table.pages {
            Some(pages) => writeln!(
                text,
                "paged       {}: {} in {}, {state}",
                table.name,
                counted(table.rows, "row"),
                counted(pages, "page")
            )?,
            None => writeln!(text, "table       {}: {} read, {state}", table.name, Count(table.rows))?,
        }
    }
    for view in &found.views {
        writeln!(text, "view        {view}")?;
    }
    Ok(())
}

fn object(found: &Verification) -> String {
    let table = |table: &ishigaki_sql::VerifiedTable| json!({"name": table.name, "rows": table.rows, "pages": table.pages, "damaged": table.damaged});
    let object = json!({
        "sound": found.is_sound(),
        "checkpoint": found.engine.checkpoint,
        "previous": found.engine.previous,
        "checkpoint_rows": found.engine.rows,
        "log_records": found.engine.records,
        "log_end": log_end_json(&found.engine.log_end),
        "tables": found.tables.iter().map(table).collect::<Vec<_>>(),
        "views": found.views,
        "damages": found.all_damages().map(damage_json).collect::<Vec<_>>(),
        "unread": found.all_unread().map(damage_json).collect::<Vec<_>>(),
    });
    format!("{object}\n")
}
