//! The pool at full speed for a long time: is its log bounded, is its memory, does it become slower?
//!
//! ```sh
//! cargo run --release -p ishigaki-bench --example endurance -- OUT --seconds 3600 --members 8 --device hdd
//! ```
//!
//! As root. Prints a line of JSON each ten seconds and the verdict at the end; figures and page go to OUT. Ends with 1 where a
//! bound is broken. `draw OUT` draws the page again.

mod program;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_bench::Progress;
use ishigaki_bench::endurance::{self, Settings};
use ishigaki_bench::figures::endurance::{Report, draw};
use ishigaki_logpool::Waiting;

use program::{Failure, host, stands_in, until_told};

const USAGE: &str = "\
usage: endurance OUT [--seconds N] [--members N] [--device hdd|ssd|DIR] [--interval N] [--log SIZE] [--waiting WAY]
       endurance draw OUT

As root; for example, two minutes on a hard disk's model:
       endurance figures --seconds 120";

fn main() -> Result<ExitCode, Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if stands_in(&arguments)? {
        return Ok(ExitCode::SUCCESS);
    }
    match arguments[..] {
        [] => println!("{USAGE}"),
        ["draw", out] => draw(out.as_ref())?,
        [out, ref options @ ..] => return measure(out, options),
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(out: &str, options: &[&str]) -> Result<ExitCode, Failure> {
    let _end = until_told()?;
    let mut settings = Settings {
        disk: "hdd".parse()?,
        members: 8,
        duration: Duration::from_hours(1),
        interval: Duration::from_secs(10),
        waiting: Waiting::Auto,
        log: ByteSize::mib(128),
        file: ByteSize::mib(16),
        host: host()?,
    };
    for option in options.chunks(2) {
        match *option {
            ["--seconds", seconds] => settings.duration = Duration::from_secs_f64(seconds.parse()?),
            ["--members", members] => settings.members = members.parse()?,
            ["--device", disk] => settings.disk = disk.parse()?,
            ["--interval", seconds] => settings.interval = Duration::from_secs_f64(seconds.parse()?),
            ["--log", size] => settings.log = size.parse()?,
            ["--waiting", way] => settings.waiting = way.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    let mut bar = Bar { is_shown: std::io::stderr().is_terminal() };
    let endured = endurance::run(&settings, &mut bar, &mut |sample| {
        if let Ok(line) = serde_json::to_string(sample) {
            println!("{line}");
        }
    })?;
    println!("{}", serde_json::to_string(&endured.verdict)?);
    let holds = endured.verdict.holds();
    Report::new(&settings, endured).write(out.as_ref())?;
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A bar of progress, for a person at a terminal.
struct Bar {
    is_shown: bool,
}

impl Progress for Bar {
    fn step(&mut self, now: &str, done: u64, of: u64) {
        if self.is_shown {
            let full = (done * 30).checked_div(of).unwrap_or(0) as usize;
            eprint!("\r\x1b[K[{}{}] {done}/{of} s  {now}", "#".repeat(full.min(30)), ".".repeat(30 - full.min(30)));
        }
    }
}
