//! Kills the real binary in the middle of concurrent commits, over and over in one directory, and reads what is left.
//!
//! The victim is `ishigaki bench bank --acknowledge`: sessions that transfer between few accounts and say on standard
//! output which of their transactions the engine reported durable. After the kill the test opens the directory itself. Every
//! acknowledged transaction must be in the journal, every balance must be exactly its journal (so no transaction is there in
//! part), no session may have a hole, and what an earlier opening has seen must still be there unchanged. Now and then a second
//! victim is killed while it starts on what the first one left, so that recovery itself is interrupted.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ishigaki_base::random::Seed;
use ishigaki_bench::bank::{Books, Entry};
use ishigaki_txn::{Database, Settings};

/// How many processes are killed.
const KILLS: usize = 120;

/// One in so many kills is followed by one during the next start.
const INTERRUPTED_STARTS: usize = 3;

/// How long a start may take before the test gives up; far more than it ever does.
const PATIENCE: Duration = Duration::from_mins(1);

const SIGKILL: i32 = 9;

/// A transfer: its session and its sequence there.
type Transfer = (u32, u64);

#[test]
fn no_kill_loses_an_acknowledged_transaction_or_leaves_one_in_part() {
    ishigaki_testkit::seeded("no_kill_loses_an_acknowledged_transaction_or_leaves_one_in_part", |seed| {
        let directory = tempfile::tempdir().expect("a directory for temporary files");
        let mut random = seed.generator();
        let mut known = BTreeMap::new();
        let (mut kills, mut during_work, mut total) = (0, 0, 0);
        while kills < KILLS {
            let victim = Victim::start(directory.path(), seed.derive(kills as u64));
            victim.wait_for_first();
            thread::sleep(Duration::from_millis(random.u64(1..=100)));
            let mut acknowledged = victim.kill();
            kills += 1;
            during_work += 1;
            while random.usize(0..INTERRUPTED_STARTS) == 0 {
                let victim = Victim::start(directory.path(), seed.derive(kills as u64));
                thread::sleep(Duration::from_millis(random.u64(0..=60)));
                acknowledged.extend(victim.kill());
                kills += 1;
            }
            total += acknowledged.len();
            known = survivors(directory.path(), kills, &acknowledged, &known);
        }
        assert!(total >= during_work, "each victim that was let work acknowledged something");
        println!("seed {seed}: {kills} kills, {total} acknowledged transactions, {} in the journal", known.len());
    });
}

/// Opens what the victims left and compares it with what they promised and with what was there before.
fn survivors(
    directory: &Path,
    kills: usize,
    acknowledged: &[Transfer],
    known: &BTreeMap<Transfer, Entry>,
) -> BTreeMap<Transfer, Entry> {
    let database = Database::open(directory, Settings::default())
        .unwrap_or_else(|error| panic!("after kill {kills} the database does not open: {error}"));
    let books = Books::read(&database).unwrap_or_else(|error| panic!("after kill {kills}: {error}"));
    database.close().unwrap_or_else(|error| panic!("after kill {kills} the database does not close: {error}"));
    if let Err(reason) = books.audit() {
        panic!("after kill {kills} a transaction is there in part or has vanished: {reason}");
    }
    for transfer in acknowledged {
        assert!(books.journal.contains_key(transfer), "after kill {kills}: {transfer:?} was acknowledged and is gone");
    }
    for (transfer, entry) in known {
        let found = books.journal.get(transfer);
        assert_eq!(found, Some(entry), "after kill {kills}: {transfer:?} was there before");
    }
    books.journal
}

/// A running bank.
struct Victim {
    process: Child,
    /// Gives one message when the first acknowledgement was read.
    first: Receiver<()>,
    /// Reads acknowledgements until the process is gone.
    reader: JoinHandle<Vec<Transfer>>,
}

impl Victim {
    fn start(directory: &Path, seed: Seed) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ishigaki"))
            .args(["bench", "bank", "--sessions", "4", "--accounts", "8", "--segment", "1MiB", "--acknowledge"])
            .args(["--seed", &seed.0.to_string(), "--data"])
            .arg(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary that was built with this test starts");
        let output = process.stdout.take().expect("standard output is piped");
        let (tell, first) = mpsc::channel();
        let reader = thread::spawn(move || {
            let mut transfers = Vec::new();
            let mut output = BufReader::new(output);
            let mut line = String::new();
            // A line without its end was cut off by the kill: nobody was told.
            while output.read_line(&mut line).is_ok() && line.ends_with('\n') {
                transfers.push(parse(&line));
                if transfers.len() == 1 {
                    // Nobody waits where the victim is killed while it starts.
                    let _ = tell.send(());
                }
                line.clear();
            }
            transfers
        });
        Self { process, first, reader }
    }

    /// Returns when the first transaction was acknowledged.
    fn wait_for_first(&self) {
        let started = Instant::now();
        // An error means that the victim ended on its own; `kill` says why.
        if self.first.recv_timeout(PATIENCE).is_err() {
            assert!(started.elapsed() < PATIENCE, "no transaction was acknowledged within {PATIENCE:?}");
        }
    }

    /// Kills it and gives what it acknowledged.
    fn kill(mut self) -> Vec<Transfer> {
        self.process.kill().expect("a child that was not waited for can be killed");
        let status = self.process.wait().expect("a killed child ends");
        let mut said = String::new();
        if let Some(mut errors) = self.process.stderr.take() {
            let _ = errors.read_to_string(&mut said);
        }
        assert_eq!(status.signal(), Some(SIGKILL), "the victim ended on its own ({status}): {said}");
        self.reader.join().expect("the reader ends with its input")
    }
}

fn parse(line: &str) -> Transfer {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["ack", session, sequence] => session.parse().ok().zip(sequence.parse().ok()),
        _ => None,
    }
    .unwrap_or_else(|| panic!("the victim said {line:?} instead of an acknowledgement"))
}
