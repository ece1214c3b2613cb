//! The pool at full speed, for a short time. Without the usual harness: this program stands in for `ishigaki`, too, whose
//! processes serve.

#[path = "../examples/program/mod.rs"]
mod program;

use std::path::Path;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_bench::endurance::{self, Settings};
use ishigaki_bench::inserts::Disk;
use ishigaki_bench::one_log::Host;
use ishigaki_bench::{Origin, Silent};
use ishigaki_logpool::Waiting;

use program::{Failure, host, stands_in, until_told};

const NAME: &str = "some_seconds_at_full_speed_keep_the_log_bounded_and_lose_nothing_when_the_service_is_killed";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if stands_in(&arguments)? {
        return Ok(());
    }
    if arguments.contains(&"--list") {
        println!("{NAME}: test");
        return Ok(());
    }
    // As the usual harness does with words that are no options.
    let mut words = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
    if words.peek().is_some() && !words.any(|word| NAME.contains(word)) || arguments.contains(&"--ignored") {
        return Ok(());
    }
    if !ishigaki_servers::is_root() || !Path::new("/dev/fuse").exists() {
        println!("test {NAME} ... SKIPPED: it takes root and /dev/fuse");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    run(folder.path())?;
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 0, "something stayed behind");
    println!("test {NAME} ... ok");
    Ok(())
}

fn run(folder: &Path) -> Result<(), Failure> {
    let _end = until_told()?;
    let settings = Settings {
        disk: Disk::Folder(folder.to_owned()),
        members: 3,
        duration: Duration::from_secs(6),
        interval: Duration::from_millis(500),
        waiting: Waiting::Auto,
        log: ByteSize::mib(64),
        file: ByteSize::mib(1),
        host: Host { scratch: folder.to_owned(), origin: Origin::here("abc", Seed(7)), ..host()? },
    };
    let mut told = 0;
    let endured = endurance::run(&settings, &mut Silent, &mut |_| told += 1)?;
    let (samples, verdict) = (&endured.samples, &endured.verdict);
    let last = samples.last().ok_or("no samples")?;
    assert!(samples.len() >= 12 && told == samples.len(), "{told} of {}", samples.len());
    assert!(last.commits > 100 && last.rounds > 0 && last.log_live <= last.log_bound, "{last:?}");
    assert!(verdict.log_is_bounded.holds && verdict.throughput.iter().all(|rate| *rate > 0.0), "{verdict:?}");
    assert!(verdict.most_memory < ByteSize::gib(1).0, "{verdict:?}");
    Ok(())
}
