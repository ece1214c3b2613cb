//! A virtual machine with a real server: Debian's `MariaDB`, unmodified, in a guest with Debian's kernel, has its data on a disk of its own
//! and its log on a pool, by the socket of a service. The machine is killed under load, and the service, in any order; the server
//! starts by its own recovery, and has every row that a client was told of.
//!
//! Takes QEMU, and an image that a chore makes, so it is asked for:
//!
//! ```sh
//! cargo xtask guest
//! cargo test -p ishigaki-logpool-service --test machine -- --ignored
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ishigaki_logpool_service::{Config, Reply, Request, Serving, Status, ask};
use ishigaki_testkit::guest::{Guest, Machine};

/// Where a process of this program serves, told by a variable of its environment.
const TASK: &str = "ISHIGAKI_TEST_SERVICE";

/// Rows that a client is told of before something is killed.
const ROWS: usize = 100;

/// How long a service may take to start.
const PATIENCE: Duration = Duration::from_mins(1);

const MEMBER: &str = "\
data = \"pool\"
[[member]]
name = \"machine\"
profile = \"mariadb\"
socket = \"socket\"
owner = \"0:0\"
share = \"8MiB\"
home = \"64MiB\"
";

/// This test's program again, serving what the configuration of a place says.
struct Service {
    child: Child,
    config: Config,
}

fn config(place: &Path) -> Config {
    Config::parse(MEMBER, &place.join("pool.toml")).unwrap()
}

impl Service {
    fn start(place: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "serves_until_it_is_killed", "--nocapture"]).env(TASK, place);
        let service = Self { child: command.stdout(Stdio::null()).spawn().unwrap(), config: config(place) };
        let begun = Instant::now();
        while service.status().is_none() {
            assert!(begun.elapsed() < PATIENCE, "the service serves within a minute");
            std::thread::sleep(Duration::from_millis(20));
        }
        service
    }

    fn status(&self) -> Option<Status> {
        match ask(&self.config.data, &Request::Status {}) {
            Ok(Reply::Status(status)) => Some(*status),
            _ => None,
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// No test of its own: what the other process does.
#[test]
fn serves_until_it_is_killed() {
    let Some(place) = std::env::var_os(TASK).map(PathBuf::from) else { return };
    let _serving = Serving::start(&config(&place)).unwrap();
    std::thread::sleep(Duration::from_hours(1));
}

/// A disk with an empty file system.
fn disk(path: &Path) {
    File::create(path).and_then(|file| file.set_len(256 << 20)).unwrap();
    let made = Command::new("/sbin/mkfs.ext4").args(["-q", "-F"]).arg(path).status();
    assert!(made.expect("mkfs.ext4 is there: apt-get install e2fsprogs").success());
}

fn machine(place: &Path) -> Guest {
    Machine::new(env!("CARGO_TARGET_TMPDIR"), "mariadb", 640)
        .with("mariadb")
        .with_log(&place.join("socket"))
        .with_disk(&place.join("disk"))
        .start()
}

/// What a server has when it has started, and the last row of those.
struct Rows {
    count: u64,
    last: u64,
    /// Those with the text that their number gives.
    whole: u64,
}

fn rows(guest: &Guest) -> Rows {
    let said = guest.hear_of("serves");
    let numbers: Vec<u64> = said.split(' ').map(|word| word.parse().expect("a number")).collect();
    let [count, last, whole] = numbers[..] else { panic!("{said}") };
    Rows { count, last, whole }
}

/// Hears of so many rows more. Gives the last one's number.
fn insert(guest: &Guest) -> u64 {
    (0..ROWS).fold(0, |_, _| guest.hear_of("durable").parse().unwrap())
}

/// The last number among what a guest that was killed had said.
fn last_told(said: &[String], before: u64) -> u64 {
    said.iter().filter_map(|line| line.strip_prefix("durable ")?.parse().ok()).fold(before, u64::max)
}

/// A server has recovered, and has every row up to the last one that a client was told of.
fn check(guest: &Guest, told: u64) -> u64 {
    guest.hear_of("recovery");
    let rows = rows(guest);
    assert!(rows.last >= told, "row {} is the last, and a client was told of {told}", rows.last);
    assert_eq!((rows.count, rows.whole), (rows.last, rows.last), "all of them are there, and whole");
    rows.last
}

#[test]
#[ignore = "it takes QEMU, an image, and minutes"]
fn mariadb_in_a_machine_has_every_acknowledged_row_whoever_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    disk(&place.join("disk"));

    // The machine, and the service goes on.
    let service = Service::start(place);
    let guest = machine(place);
    assert_eq!(rows(&guest).count, 0);
    let told = insert(&guest);
    let status = service.status().unwrap();
    assert_eq!(
        (status.members[0].connected, status.members[0].commits > ROWS as u64),
        (Some(true), true),
        "{status:?}"
    );
    let told = last_told(&guest.kill(), told);

    // The machine first, then the service.
    let guest = machine(place);
    let found = check(&guest, told);
    let told = insert(&guest);
    assert!(told > found);
    let told = last_told(&guest.kill(), told);
    service.kill();

    // The service first: what it had not answered no client was told of.
    let service = Service::start(place);
    let guest = machine(place);
    check(&guest, told);
    let told = insert(&guest);
    service.kill();
    let told = last_told(&guest.kill(), told);

    let _service = Service::start(place);
    let guest = machine(place);
    let found = check(&guest, told);
    println!("{found} rows, of which a client was told of {told}");
}
