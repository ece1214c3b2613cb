//! How a long measurement is told of while it runs, and what its lines say of the machine and the source.

use std::path::Path;
use std::process::Command;

use ishigaki_base::random::Seed;
use ishigaki_bench::figures::{self, Paper};
use ishigaki_bench::{Line, Origin, Progress, table};

use crate::told::Failure;

/// Says each step on stderr, and keeps the loads that it saw.
pub(crate) struct Told {
    loads: Vec<f64>,
}

impl Told {
    pub(crate) fn new() -> Self {
        Self { loads: load().into_iter().collect() }
    }

    /// Prints the lines, with the load in them, and draws a paper's page of them.
    pub(crate) fn write(self, out: &str, paper: Paper, mut lines: Vec<Line>) -> Result<(), Failure> {
        let most = self.loads.iter().copied().fold(0.0, f64::max);
        let before = self.loads.first().copied().unwrap_or_default();
        for line in &mut lines {
            line.machine =
                format!("{}, load {before:.1} before and up to {most:.1} with the measurement", line.machine);
        }
        print!("{}", table(&lines));
        figures::write(out.as_ref(), paper, &lines)?;
        Ok(())
    }
}

impl Progress for Told {
    fn step(&mut self, now: &str, done: u64, of: u64) {
        eprintln!("{done}/{of} {now}");
        self.loads.extend(load());
    }
}

/// How many processes ran or waited for a processor, in the last minute.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Draws the lines of files again.
pub(crate) fn draw(out: &str, paper: Paper, files: &[&str]) -> Result<(), Failure> {
    let lines: Vec<_> = files.iter().map(|file| figures::read(file.as_ref())).collect::<Result<_, _>>()?;
    figures::write(Path::new(out), paper, &lines.concat())?;
    Ok(())
}

/// This machine, and the source that this was built of, as far as git can tell.
pub(crate) fn origin() -> Origin {
    let described =
        Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"]).output();
    let text = described.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    let commit = text.map_or_else(|| "unknown".to_owned(), |text| String::from_utf8_lossy(&text).trim().to_owned());
    Origin::here(commit, Seed(1))
}
