//! Real processes, killed: the database's, and the pool's. This program is started again for each of them.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use ishigaki_device::FileDirectory;
use ishigaki_logpool::Pool;
use ishigaki_logpool_fs::Service;
use ishigaki_testkit::seeded;
use ishigaki_txn::Database;

use super::{LONG, enter, open, pool_settings, rows, served, settings};

/// What a process is to do, and where.
const ROLE: &str = "ISHIGAKI_TEST_RING_ROLE";
const PLACE: &str = "ISHIGAKI_TEST_RING_PLACE";

/// Members of the pool, each with a database of its own.
const MEMBERS: [&str; 2] = ["one", "two"];

#[test]
#[ignore = "a role in the tests beside it"]
fn acts_as_told() {
    let (Ok(role), Ok(place)) = (std::env::var(ROLE), std::env::var(PLACE)) else { return };
    let place = Path::new(&place);
    match role.as_str() {
        "service" => {
            let medium = Arc::new(FileDirectory::open(place.join("pool")).unwrap());
            let pool = Pool::open_together(medium, pool_settings(true)).unwrap();
            let members: Vec<_> = MEMBERS.iter().map(|name| served(name, &place.join(name))).collect();
            let _service = Service::start(pool, &members).unwrap();
            println!("\n= serving");
            std::thread::sleep(10 * LONG);
        }
        name => {
            let database = database(place, name);
            let session = database.session();
            let next = rows(&database).len() as u64;
            let table = session.run(|transaction| -> ishigaki_txn::Result<_> {
                match transaction.table("t")? {
                    Some(table) => Ok(table),
                    None => transaction.create_table("t"),
                }
            });
            let table = table.unwrap();
            println!("\n= {next}");
            for key in next.. {
                let put = session.run(|transaction| transaction.insert(table, &key.to_be_bytes(), &value(key)));
                match put {
                    Ok(()) => println!("= {}", key + 1),
                    Err(error) => {
                        println!("= failed: {error}");
                        return;
                    }
                }
            }
        }
    }
}

fn value(key: u64) -> Vec<u8> {
    vec![key as u8; 100 + (key % 400) as usize]
}

/// Opens a member's database as soon as nobody else has it.
fn database(place: &Path, name: &str) -> Database {
    let tables = Arc::new(FileDirectory::open(place.join(format!("tables-{name}"))).unwrap());
    open(tables, &enter(&place.join(name)), settings(true)).unwrap()
}

/// A process of ours; killed when it is dropped.
struct Process {
    child: Child,
    said: Receiver<String>,
}

impl Process {
    fn start(role: &str, place: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::acts_as_told", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .env(PLACE, place)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: Lines<BufReader<ChildStdout>> = BufReader::new(child.stdout.take().unwrap()).lines();
        let (says, said) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(word) = line.strip_prefix("= ") {
                    let _ = says.send(word.to_owned());
                }
            }
        });
        Self { child, said }
    }

    /// What it says next; `None` once it has ended.
    fn next(&self) -> Option<String> {
        match self.said.recv_timeout(LONG) {
            Ok(word) => Some(word),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn service(place: &Path) -> Process {
    let process = Process::start("service", place);
    assert_eq!(process.next().as_deref(), Some("serving"));
    process
}

/// Every row that was acknowledged is there, each as it was written, and none that was not even tried.
fn check(place: &Path, name: &str, acknowledged: u64) {
    let rows = rows(&database(place, name));
    let count = rows.len() as u64;
    assert!(rows.iter().map(|(key, _)| *key).eq(0..count), "a row is missing");
    assert!(rows.iter().all(|(key, bytes)| *bytes == value(*key)), "other bytes");
    assert!((acknowledged..=acknowledged + 1).contains(&count), "{count} rows, {acknowledged} acknowledged");
}

/// Reads what a database has acknowledged, until it says something else or nothing any more.
fn drain(process: &Process, acknowledged: &mut u64) -> Option<String> {
    while let Some(word) = process.next() {
        match word.parse() {
            Ok(count) => *acknowledged = count,
            Err(_) => return Some(word),
        }
    }
    None
}

#[test]
fn what_a_killed_database_was_told_is_there_for_the_next_one_and_others_go_on() {
    seeded("what_a_killed_database_was_told_is_there_for_the_next_one_and_others_go_on", |seed| {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let _service = service(place);
        let other = Process::start("two", place);
        let (mut random, mut acknowledged, mut of_other) = (seed.generator(), 0, 0);
        for _ in 0..6 {
            let mut one = Process::start("one", place);
            for _ in 0..random.u32(1..60) {
                acknowledged = one.next().expect("it goes on").parse().expect("a count");
            }
            one.kill();
            assert_eq!(drain(&one, &mut acknowledged), None);
            check(place, "one", acknowledged);
            // What it says from now on it has committed since.
            while other.said.try_recv().is_ok() {}
            let since: u64 = other.next().expect("it goes on").parse().expect("a count");
            assert!(since > of_other);
            of_other = since;
        }
        drop(other);
    });
}

#[test]
fn what_a_killed_service_has_acknowledged_is_there_and_its_databases_are_told() {
    seeded("what_a_killed_service_has_acknowledged_is_there_and_its_databases_are_told", |seed| {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let (mut random, mut acknowledged) = (seed.generator(), [0; 2]);
        for _ in 0..5 {
            let mut service = service(place);
            let databases = MEMBERS.map(|name| Process::start(name, place));
            for (database, acknowledged) in databases.iter().zip(&mut acknowledged) {
                for _ in 0..random.u32(1..60) {
                    *acknowledged = database.next().expect("it goes on").parse().expect("a count");
                }
            }
            service.kill();
            for (database, acknowledged) in databases.iter().zip(&mut acknowledged) {
                let told = drain(database, acknowledged).expect("it is told");
                assert!(told.starts_with("failed: ") && told.contains("is not served any more"), "{told}");
            }
            drop(databases);
            let _service = self::service(place);
            for (name, acknowledged) in MEMBERS.iter().zip(acknowledged) {
                check(place, name, acknowledged);
            }
        }
    });
}
