//! The process is killed in the middle of the full mix, over and over on one directory.
//!
//! The victim is this test's own program, started again with the one test that works until it dies. It says on standard
//! output what was acknowledged, a line in one call for each, so that a kill can not tear one.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_bench::Silent;
use ishigaki_bench::tpcc::{Company, Mix, Receipt, Shift};
use ishigaki_testkit::seeded;
use ishigaki_txn::{Database, ProtocolKind, Settings};

/// The environment of a victim: where it works, by which protocol, as which, and under which seed.
const DIRECTORY: &str = "ISHIGAKI_TPCC_VICTIM_DIRECTORY";
const PROTOCOL: &str = "ISHIGAKI_TPCC_VICTIM_PROTOCOL";
const NUMBER: &str = "ISHIGAKI_TPCC_VICTIM_NUMBER";
const SEED: &str = "ISHIGAKI_TPCC_VICTIM_SEED";

/// How many are killed.
const KILLS: u32 = 12;

/// Terminals of each.
const TERMINALS: u32 = 3;

/// How long one may take to acknowledge something.
const PATIENCE: Duration = Duration::from_mins(1);

const SIGKILL: i32 = 9;

fn engine(protocol: ProtocolKind) -> Settings {
    let log = ishigaki_wal::Settings { streams: TERMINALS as u16, ..ishigaki_wal::Settings::default() };
    Settings { protocol, ..super::settings(log) }
}

#[test]
fn no_kill_breaks_a_condition_or_loses_what_was_acknowledged() {
    kills("no_kill_breaks_a_condition_or_loses_what_was_acknowledged", ProtocolKind::Locking);
}

#[test]
fn by_timestamps_no_kill_breaks_a_condition_or_loses_what_was_acknowledged() {
    kills("by_timestamps_no_kill_breaks_a_condition_or_loses_what_was_acknowledged", ProtocolKind::TicToc);
}

fn kills(name: &str, protocol: ProtocolKind) {
    seeded(name, |seed| {
        let directory = tempfile::tempdir().unwrap();
        let company = super::company(seed);
        let database = Database::open(directory.path(), engine(protocol)).unwrap();
        company.populate(&database, &mut Silent).unwrap();
        database.close().unwrap();
        let mut random = seed.generator();
        let mut receipts: Vec<Receipt> = Vec::new();
        for number in 0..KILLS {
            let victim = Victim::start(directory.path(), protocol, number, seed);
            victim.first.recv_timeout(PATIENCE).expect("the victim acknowledges something, and lives");
            thread::sleep(Duration::from_millis(random.u64(1..=120)));
            let heard = victim.kill();
            assert!(!heard.is_empty());
            receipts.extend(heard);
            judge(directory.path(), protocol, company, number, &receipts);
        }
        println!("seed {seed}, {protocol}: {KILLS} kills, {} receipts", receipts.len());
    });
}

fn judge(directory: &Path, protocol: ProtocolKind, company: Company, kill: u32, receipts: &[Receipt]) {
    let database = Database::open(directory, engine(protocol)).unwrap();
    let violations = company.audit(&database).unwrap();
    assert!(violations.is_empty(), "after kill {kill}: {violations:?}");
    company.check(&database, receipts.iter()).unwrap_or_else(|error| panic!("after kill {kill}: {error}"));
    database.close().unwrap();
}

#[test]
#[ignore = "it works until it is killed: the test beside it starts it"]
fn victim() {
    let variable =
        |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: this is not to be run alone"));
    let number: u32 = variable(NUMBER).parse().unwrap();
    let company = super::company(variable(SEED).parse().unwrap());
    let database = Database::open(variable(DIRECTORY), engine(variable(PROTOCOL).parse().unwrap())).unwrap();
    let shift = Shift {
        mix: Mix::Full,
        terminals: TERMINALS,
        first: number * TERMINALS,
        outstanding: 16,
        duration: PATIENCE * 2,
        acknowledge: Arc::new(|receipt| io::stdout().lock().write_all(line(receipt).as_bytes())),
    };
    company.work(&database, &shift).unwrap();
}

fn line(receipt: &Receipt) -> String {
    match receipt {
        Receipt::Order { warehouse, district, number, customer, lines } => {
            format!("order {warehouse} {district} {number} {customer} {lines}\n")
        }
        Receipt::Payment { warehouse, district, terminal, sequence } => {
            format!("payment {warehouse} {district} {terminal} {sequence}\n")
        }
        Receipt::Delivery { warehouse, orders } => {
            let orders: Vec<String> = orders.iter().map(|(district, number)| format!("{district} {number}")).collect();
            format!("delivery {warehouse} {}\n", orders.join(" "))
        }
        Receipt::Nothing => String::new(),
    }
}

/// What a line says; `None` if the test harness said it.
fn parse(line: &str) -> Option<Receipt> {
    let (word, rest) = line.trim_end().split_once(' ')?;
    let numbers: Result<Vec<u64>, _> = rest.split_whitespace().map(str::parse).collect();
    match (word, numbers.ok()?.as_slice()) {
        ("order", &[warehouse, district, number, customer, lines]) => Some(Receipt::Order {
            warehouse: warehouse as u16,
            district: district as u8,
            number: number as u32,
            customer: customer as u32,
            lines: lines as u8,
        }),
        ("payment", &[warehouse, district, terminal, sequence]) => Some(Receipt::Payment {
            warehouse: warehouse as u16,
            district: district as u8,
            terminal: terminal as u32,
            sequence,
        }),
        ("delivery", [warehouse, orders @ ..]) => Some(Receipt::Delivery {
            warehouse: *warehouse as u16,
            orders: orders.chunks_exact(2).map(|order| (order[0] as u8, order[1] as u32)).collect(),
        }),
        _ => None,
    }
}

/// A process at work.
struct Victim {
    process: Child,
    /// Tells of the first receipt.
    first: Receiver<()>,
    /// Reads receipts until the process is gone.
    reader: JoinHandle<Vec<Receipt>>,
}

impl Victim {
    fn start(directory: &Path, protocol: ProtocolKind, number: u32, seed: Seed) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::victim", "--ignored", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory)
            .env(PROTOCOL, protocol.to_string())
            .env(NUMBER, number.to_string())
            .env(SEED, seed.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = process.stdout.take().unwrap();
        let (tell, first) = mpsc::channel();
        let reader = thread::spawn(move || {
            let (mut output, mut line, mut receipts) = (BufReader::new(output), String::new(), Vec::new());
            // A line without its end was cut off by the kill: nobody was told.
            while output.read_line(&mut line).is_ok() && line.ends_with('\n') {
                receipts.extend(parse(&line));
                if receipts.len() == 1 {
                    let _ = tell.send(());
                }
                line.clear();
            }
            receipts
        });
        Self { process, first, reader }
    }

    /// Kills it; what it said.
    fn kill(mut self) -> Vec<Receipt> {
        self.process.kill().unwrap();
        assert_eq!(self.process.wait().unwrap().signal(), Some(SIGKILL), "the victim ended on its own");
        self.reader.join().unwrap()
    }
}

#[test]
fn what_a_victim_says_is_heard_as_it_was_meant() {
    let orders = vec![(1, 22), (10, 3000)];
    for receipt in [
        Receipt::Order { warehouse: 1, district: 2, number: 3, customer: 4, lines: 5 },
        Receipt::Payment { warehouse: 1, district: 2, terminal: 3, sequence: 4 },
        Receipt::Delivery { warehouse: 1, orders },
        Receipt::Delivery { warehouse: 1, orders: Vec::new() },
    ] {
        assert_eq!(parse(&line(&receipt)), Some(receipt));
    }
    for noise in ["running 1 test\n", "\n", "test kill::victim ... order\n"] {
        assert_eq!(parse(noise), None);
    }
}
