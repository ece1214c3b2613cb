//! The experiments of paper 4 without the `ishigaki` program, which takes long to build: this one stands in for it where
//! processes of it are needed.
//!
//! ```sh
//! cargo run --release -p ishigaki-bench --example paper4 -- OUT DISK[,DISK …] KIND[,KIND …] SERVERS TRANSACTIONS ROUNDS [SIDES]
//! cargo run --release -p ishigaki-bench --example paper4 -- /tmp/figures hdd,ssd mariadb,postgresql 1,2 50 1
//! ```
//!
//! Lines, plots and page go to OUT; `-` for a count is the usual one. As root. `draw OUT FILE …` draws the lines of files again.

mod program;

use ishigaki_base::random::Seed;
use ishigaki_bench::figures::{self, Paper, p4};
use ishigaki_bench::{Origin, Progress};

use program::{Failure, STOP, stands_in, until_told};

const USAGE: &str = "\
usage: paper4 OUT DISK[,DISK …] KIND[,KIND …] SERVERS TRANSACTIONS ROUNDS [SIDES]
       paper4 draw OUT FILE …

As root, with Debian's mariadb-server or postgresql; for example, some minutes on a hard disk's model:
       paper4 figures hdd mariadb 1,2 40 1";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if stands_in(&arguments)? {
        return Ok(());
    }
    match arguments[..] {
        ["draw", out, ref files @ ..] => draw(out, files),
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
        program: std::env::current_exe()?,
        scratch: std::env::temp_dir(),
        origin: Origin::here(option_env!("ISHIGAKI_COMMIT").unwrap_or("unknown"), Seed::from_entropy()),
        stop: &STOP,
    };
    let lines = p4::run(&settings, &mut Told)?;
    for line in &lines {
        println!("{}", line.json());
    }
    figures::write(out.as_ref(), Paper::P4, &lines)?;
    Ok(())
}

/// Draws lines of earlier runs again.
fn draw(out: &str, files: &[&str]) -> Result<(), Failure> {
    let lines: Vec<_> = files.iter().map(|file| figures::read(file.as_ref())).collect::<Result<_, _>>()?;
    figures::write(out.as_ref(), Paper::P4, &lines.concat())?;
    Ok(())
}

/// Says each step on stderr.
struct Told;

impl Progress for Told {
    fn step(&mut self, now: &str, done: u64, of: u64) {
        eprintln!("{done}/{of} {now}");
    }
}
