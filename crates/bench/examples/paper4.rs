//! The experiments of paper 4 without the `ishigaki` program, which takes long to build: this one stands in for it where
//! processes of it are needed.
//!
//! ```sh
//! cargo run --release -p ishigaki-bench --example paper4 -- OUT DISK[,DISK …] KIND[,KIND …] SERVERS TRANSACTIONS ROUNDS [SIDES]
//! cargo run --release -p ishigaki-bench --example paper4 -- /tmp/figures hdd,ssd mariadb,postgresql 1,2 50 1
//! ```
//!
//! Lines, plots and page go to OUT; `-` for a count is the usual one. As root. `draw OUT FILE …` draws the lines of files again.
//! `tpcc` before all that has the servers do TPC-C, for so many seconds a load, and `readers` has one read while the others
//! insert; both have a page of their own.

mod program;

use std::time::Duration;

use ishigaki_bench::figures::{self, Paper, p4, p4_tpcc};
use ishigaki_bench::{Line, Progress};

use program::{Failure, host, stands_in, until_told};

const USAGE: &str = "\
usage: paper4 OUT DISK[,DISK …] KIND[,KIND …] SERVERS TRANSACTIONS ROUNDS [SIDES]
       paper4 tpcc OUT DISK[,DISK …] KIND[,KIND …] SERVERS SECONDS ROUNDS [SIDES [memory|disk]]
       paper4 readers OUT DISK[,DISK …] KIND[,KIND …] SERVERS TIMES ROUNDS [SIDES]
       paper4 draw [tpcc] OUT FILE …

As root, with Debian's mariadb-server or postgresql; for example, some minutes on a hard disk's model:
       paper4 figures hdd mariadb 1,2 40 1";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if stands_in(&arguments)? {
        return Ok(());
    }
    match arguments[..] {
        ["draw", "tpcc", out, ref files @ ..] => draw(Paper::P4Tpcc, out, files),
        ["draw", out, ref files @ ..] => draw(Paper::P4, out, files),
        [what @ ("tpcc" | "readers"), out, disks, kinds, servers, each, rounds, ref sides @ ..] => {
            measure_more(what, out, disks, kinds, [servers, each, rounds], sides)
        }
        [out, disks, kinds, servers, transactions, rounds, ref sides @ ..] => {
            measure(out, disks, kinds, [servers, transactions, rounds], sides)
        }
        [] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

/// A count of numbers, unless it is the usual one.
fn numbers(text: &str) -> Result<Option<Vec<usize>>, Failure> {
    if text == "-" { Ok(None) } else { Ok(Some(text.split(',').map(str::parse).collect::<Result<_, _>>()?)) }
}

fn measure(out: &str, disks: &str, kinds: &str, counts: [&str; 3], sides: &[&str]) -> Result<(), Failure> {
    let _end = until_told()?;
    let [servers, transactions, rounds] = counts.map(numbers);
    let mut scale = p4::Scale::standard();
    scale.servers = servers?;
    scale.transactions = transactions?.and_then(|counts| counts.first().copied());
    scale.rounds = rounds?.and_then(|counts| counts.first().copied()).unwrap_or(scale.rounds);
    scale.sides = sides.first().map(|sides| sides.split(',').map(str::to_owned).collect());
    let settings = p4::Settings {
        scale,
        disks: disks.split(',').map(str::parse).collect::<Result<_, _>>()?,
        kinds: kinds.split(',').filter(|kind| !kind.is_empty()).map(str::parse).collect::<Result<_, _>>()?,
        host: host()?,
    };
    show(Paper::P4, out, &p4::run(&settings, &mut Told)?)
}

/// TPC-C, or a reader beside others that write.
fn measure_more(
    what: &str,
    out: &str,
    disks: &str,
    kinds: &str,
    counts: [&str; 3],
    sides: &[&str],
) -> Result<(), Failure> {
    let _end = until_told()?;
    let [servers, each, rounds] = counts.map(numbers);
    let (servers, each) = (servers?, each?.and_then(|counts| counts.first().copied()));
    let mut scale = p4_tpcc::Scale::standard();
    scale.rounds = rounds?.and_then(|counts| counts.first().copied()).unwrap_or(scale.rounds);
    scale.sides = sides.first().map(|sides| sides.split(',').map(str::to_owned).collect());
    if what == "tpcc" {
        scale.writers = 0;
        scale.servers = servers.unwrap_or(scale.servers);
        scale.duration = each.map_or(scale.duration, |seconds| Duration::from_secs(seconds as u64));
        scale.data = sides.get(1).map_or(Ok(scale.data), |data| data.parse())?;
    } else {
        scale.servers = Vec::new();
        // One of them reads.
        scale.writers = servers.and_then(|counts| counts.first()?.checked_sub(1)).unwrap_or(scale.writers);
        scale.times = each.unwrap_or(scale.times);
    }
    let settings = p4_tpcc::Settings {
        scale,
        disks: disks.split(',').map(str::parse).collect::<Result<_, _>>()?,
        kinds: kinds.split(',').map(str::parse).collect::<Result<_, _>>()?,
        host: host()?,
    };
    show(Paper::P4Tpcc, out, &p4_tpcc::run(&settings, &mut Told)?)
}

fn show(paper: Paper, out: &str, lines: &[Line]) -> Result<(), Failure> {
    for line in lines {
        println!("{}", line.json());
    }
    figures::write(out.as_ref(), paper, lines)?;
    Ok(())
}

/// Draws lines of earlier runs again.
fn draw(paper: Paper, out: &str, files: &[&str]) -> Result<(), Failure> {
    let lines: Vec<_> = files.iter().map(|file| figures::read(file.as_ref())).collect::<Result<_, _>>()?;
    figures::write(out.as_ref(), paper, &lines.concat())?;
    Ok(())
}

/// Says each step on stderr.
struct Told;

impl Progress for Told {
    fn step(&mut self, now: &str, done: u64, of: u64) {
        eprintln!("{done}/{of} {now}");
    }
}
