//! `ishigaki migrate verify`: whether everything has arrived.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use indicatif::ProgressBar;
use ishigaki_migrate_service::Config;
use ishigaki_migrate_service::verify::{Progress, Report, verify};

use super::refused;
use super::sides::Sides;
use crate::commands::ends::Ends;
use crate::failure::{EXIT_CODES, Failure};
use crate::human::{Count, counted, size};

const EXAMPLES: &str = "\
Examples:
  ishigaki migrate verify --config /etc/ishigaki/migrate.toml                    exit code 0 if nothing differs, 1 if something does
  ishigaki migrate verify --from nfs://old/home --to /srv/home-data
  ishigaki migrate verify --config migrate.toml --csv --output report.csv        for a spreadsheet
  ishigaki migrate verify --config migrate.toml --json                           a line for each difference, and one with the counts";

/// Compare every file's bytes and attributes with the source, both ways
///
/// Neither side is changed. It may run while the migration is served, and after `finish`; what clients have changed since they use the new
/// server differs, too. Times of last access are not compared.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Arguments {
    #[command(flatten)]
    sides: Sides,

    /// Without a configuration: threads that compare, 1 to 256 [default: 8]
    #[arg(long, value_name = "N", conflicts_with = "config")]
    parallel: Option<i64>,

    /// Write lines of JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Write CSV
    #[arg(long)]
    csv: bool,

    /// Write the report to this file, which is made or replaced
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let config = config(arguments)?;
    // An unwritable report is told before hours of work.
    let output = match arguments.output.as_deref() {
        Some(path) => Some((path, File::create(path).map_err(|error| Failure::file(path.display(), &error))?)),
        None => None,
    };
    let report = compare(&config)?;
    if let Some((path, file)) = output {
        let mut out = BufWriter::new(file);
        let written = write(&mut out, &report, arguments).and_then(|()| out.flush());
        written.map_err(|error| Failure::file(path.display(), &error))?;
        writeln!(io::stdout(), "{}", summary(&report))?;
    } else {
        let mut out = BufWriter::new(io::stdout().lock());
        write(&mut out, &report, arguments)?;
        out.flush()?;
    }
    if report.is_equal() {
        return Ok(());
    }
    let differences = counted(report.differences.len() as u64, "difference");
    Err(Failure::invalid(format!("{}: {differences}", config.to.display())))
}

fn config(arguments: &Arguments) -> Result<Config, Failure> {
    let mut config = arguments.sides.config()?;
    if let Some(number) = arguments.parallel {
        config.parallel = ishigaki_migrate_service::config::parallel(number).map_err(refused)?;
    }
    Ok(config)
}

fn compare(config: &Config) -> Result<Report, Failure> {
    let ends = Ends::new(1)?;
    let (bar, progress) = (ProgressBar::new_spinner(), Progress::default());
    let outcome = ends.cancelling(
        |cancel| verify(config, cancel, &progress),
        || {
            let (directories, files) = (counted_directories(progress.directories()), counted(progress.files(), "file"));
            bar.set_message(format!("compared: {directories}, {files}, {}", size(progress.bytes())));
            bar.tick();
        },
    );
    bar.finish_and_clear();
    outcome.map_err(refused)
}

fn write(out: &mut dyn Write, report: &Report, arguments: &Arguments) -> io::Result<()> {
    if arguments.json {
        return report.write_json(out);
    }
    if arguments.csv {
        return report.write_csv(out);
    }
    for difference in report.differences.iter().chain(&report.left_out) {
        write!(out, "{:<12} {}", difference.kind.word(), difference.path)?;
        match (difference.source.as_str(), difference.here.as_str()) {
            ("", "") => writeln!(out)?,
            (source, "") => writeln!(out, ": {source} at the source")?,
            ("", here) => writeln!(out, ": {here} here")?,
            (source, here) => writeln!(out, ": {source} at the source, {here} here")?,
        }
    }
    writeln!(out, "{}", summary(report))
}

fn summary(report: &Report) -> String {
    let (directories, files) = (counted_directories(report.directories), counted(report.files, "file"));
    let found = match report.differences.len() as u64 {
        0 => "nothing differs".to_owned(),
        number => counted(number, "difference"),
    };
    let left_out = match report.left_out.len() as u64 {
        0 => String::new(),
        number => format!(" {} left out: the migration keeps that name for itself.", counted(number, "object")),
    };
    format!("Compared {directories}, {files}, {}: {found}.{left_out}", size(report.bytes))
}

fn counted_directories(number: u64) -> String {
    if number == 1 { "1 directory".to_owned() } else { format!("{} directories", Count(number)) }
}
