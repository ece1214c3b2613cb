//! `ishigaki salvage`: everything that a damaged database still has.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_sql::{Salvaged, SalvagedPages, Settings, salvage};
use ishigaki_txn::LogEnd;
use serde_json::{Value, json};

use super::database::{Which, damage_json, damage_lines, log_end_json, target, unread_lines};
use super::progress::watched;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::counted;

const EXAMPLES: &str = "\
Examples:
  ishigaki salvage ./ishigaki-data --to ./saved    a new database of every row that can be read, and what is missing
  ishigaki salvage ./ishigaki-data --to ./saved --json";

/// Get every readable row out of a damaged database, into a new one, and list what is missing
///
/// The damaged database is not changed, and no process may have it open. Rows of paged tables are read page by page, also at
/// storage nodes, and lie in the new database's directory. The exit code is 4 if anything is missing.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,

    /// The directory of the new database, which is empty or not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,

    /// The most memory for all tables of the new database, as in 8GiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(Arguments { which, to, memory, json }: &Arguments) -> Result<(), Failure> {
    let files = which.find()?.stopped()?;
    let mut settings = Settings::default().txn;
    settings.memory = memory.unwrap_or(settings.memory);
    let to_there = target(to)?;
    let saved = watched("reading around damages", |progress| {
        salvage(files.tables(), files.log(), &to_there, &settings, progress)
    })?;
    let text = if *json { object(&saved) } else { text(&saved) };
    io::stdout().write_all(text.as_bytes())?;
    if saved.is_complete() {
        return Ok(());
    }
    let message = format!("{}: not everything could be read; the rest is in {}", files.name, to.display());
    let kind = if saved.is_only_unread() { ErrorKind::Unavailable } else { ErrorKind::Corrupt };
    Err(Failure::of(kind, message).with_hint("a copy that `ishigaki backup` has made may have what is missing"))
}

fn text(saved: &Salvaged) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = summary(&mut text, saved);
    text
}

fn summary(text: &mut String, saved: &Salvaged) -> std::fmt::Result {
    for (name, rows) in &saved.tables {
        writeln!(text, "saved    table {name}: {}", counted(*rows, "row"))?;
    }
    for (name, rows) in &saved.nameless {
        writeln!(text, "saved    {} as table `{name}` of the engine, whose definition is lost", counted(*rows, "row"))?;
    }
    for pages in &saved.pages {
        let SalvagedPages { table, from, to, found, is_unread: _ } = pages;
        match found {
            Ok(found) => {
                let (rows, expected) = (counted(found.rows, "row"), found.expected_rows);
                writeln!(text, "saved    paged table {table}: {rows} of {expected} of {from}, now in {to}")?;
            }
            Err(why) => writeln!(text, "missing  paged table {table}, all rows of {from}: {why}")?,
        }
    }
    for view in &saved.views {
        writeln!(text, "saved    view {view}")?;
    }
    text.push_str(&damage_lines(saved.engine.damages.iter()));
    text.push_str(&unread_lines(saved.engine.unread.iter()));
    for pages in &saved.pages {
        for damage in pages.found.iter().flat_map(|found| &found.damages) {
            let offset = damage.offset.map(|offset| format!(", byte {offset}")).unwrap_or_default();
            let which = match damage.pages {
                Some((first, last)) if first < last => format!("pages {first} to {last}: "),
                Some((page, _)) => format!("page {page}: "),
                None => String::new(),
            };
            let how = if damage.is_unread { "unread   " } else { "damaged  " };
            writeln!(text, "{how}{}/{}{offset}: {which}{}", pages.from, damage.device, damage.what)?;
        }
    }
    for missing in &saved.missing {
        writeln!(text, "missing  {missing}")?;
    }
    for (name, why) in &saved.unreadable {
        writeln!(text, "missing  the definition of table {name}: {why}")?;
    }
    for (name, why) in &saved.unreadable_views {
        writeln!(text, "missing  the definition of view {name}: {why}")?;
    }
    for (view, what) in &saved.broken_views {
        writeln!(text, "missing  what view {view} reads: {what}")?;
    }
    for (first, last) in &saved.engine.lost {
        writeln!(text, "missing  commits with LSN {first} to {last}, as far as these were commits")?;
    }
    if let Some(last) = saved.engine.lost_behind {
        writeln!(text, "missing  commits behind LSN {last}, if there were any{}", unknown_end(&saved.engine.log_end))?;
    } else if saved.engine.log_end == LogEnd::Open {
        let last = saved.engine.end;
        writeln!(
            text,
            "note     the log was not closed; it was read up to LSN {last}, and the loss of its very end would not show"
        )?;
    }
    Ok(())
}

fn unknown_end(log_end: &LogEnd) -> String {
    match log_end {
        LogEnd::Unknown(why) => format!(": nothing says where the log ended ({why})"),
        LogEnd::Closed(_) | LogEnd::Open => String::new(),
    }
}

fn object(saved: &Salvaged) -> String {
    let table = |(name, rows): &(String, u64)| json!({"name": name, "rows": rows});
    let pages = |pages: &SalvagedPages| -> Value {
        let damage = |damage: &ishigaki_page::FileDamage| json!({"file": damage.device, "offset": damage.offset, "pages": damage.pages, "what": damage.what, "unread": damage.is_unread});
        let found = pages.found.as_ref();
        json!({
            "table": pages.table,
            "from": pages.from,
            "to": pages.to,
            "rows": found.ok().map(|found| found.rows),
            "expected_rows": found.ok().map(|found| found.expected_rows),
            "damages": found.ok().map(|found| found.damages.iter().map(damage).collect::<Vec<_>>()),
            "error": found.err(),
        })
    };
    let object = json!({
        "complete": saved.is_complete(),
        "checkpoint": saved.engine.checkpoint,
        "tables": saved.tables.iter().map(table).collect::<Vec<_>>(),
        "views": saved.views,
        "nameless": saved.nameless.iter().map(table).collect::<Vec<_>>(),
        "pages": saved.pages.iter().map(pages).collect::<Vec<_>>(),
        "damages": saved.engine.damages.iter().map(damage_json).collect::<Vec<_>>(),
        "unread": saved.engine.unread.iter().map(damage_json).collect::<Vec<_>>(),
        "missing": saved.missing,
        "lost_definitions": saved.unreadable.iter().map(|(name, why)| json!({"table": name, "why": why})).collect::<Vec<_>>(),
        "lost_views": saved.unreadable_views.iter().map(|(name, why)| json!({"view": name, "why": why})).collect::<Vec<_>>(),
        "broken_views": saved.broken_views.iter().map(|(view, what)| json!({"view": view, "reads": what})).collect::<Vec<_>>(),
        "lost_commits": saved.engine.lost.iter().map(|(first, last)| json!([first.0, last.0])).collect::<Vec<_>>(),
        "lost_behind": saved.engine.lost_behind.map(|lsn| lsn.0),
        "log_end": log_end_json(&saved.engine.log_end),
    });
    format!("{object}\n")
}
