//! A virtual machine, with Debian's kernel unmodified, has its log on a pool by virtio-fs: it writes records, each durable before
//! the next, and is killed, or the service is, or both. What it had said was durable is in the pool, and in what is rebuilt
//! offline.
//!
//! Takes QEMU, and an image that a chore makes, so it is asked for:
//!
//! ```sh
//! cargo xtask guest
//! cargo test --release -p ishigaki-logpool-fs --test guest -- --ignored --test-threads=1
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ishigaki_device::{Directory, FileDirectory};
use ishigaki_logpool::{Member, MemberSettings, Pool, Settings};
use ishigaki_logpool_fs::{Access, Calendar, Socket, SocketSettings};
use ishigaki_testkit::guest::{Guest, Machine};

/// Where a process of this program serves, told by a variable of its environment.
const TASK: &str = "ISHIGAKI_TEST_SOCKET";

/// How long a service may take to start.
const PATIENCE: Duration = Duration::from_mins(3);

/// Bytes of a record.
const RECORD: usize = 9;

/// Records that a guest says are durable before something is killed.
const RECORDS: usize = 40;

/// A machine that has the member that is served there.
fn machine(socket: &Path, task: &str) -> Guest {
    Machine::new(env!("CARGO_TARGET_TMPDIR"), task, 256).with_log(socket).start()
}

/// This test's program again, serving a pool on a socket.
struct Service {
    child: Child,
    place: PathBuf,
}

impl Service {
    fn start(place: &Path) -> Self {
        let socket = place.join("socket");
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "serves_until_it_is_killed", "--nocapture"]).env(TASK, place);
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        let service = Self { child, place: place.to_owned() };
        let begun = Instant::now();
        while !socket.exists() {
            assert!(begun.elapsed() < PATIENCE, "the service serves within minutes");
            std::thread::sleep(Duration::from_millis(20));
        }
        service
    }

    fn socket(&self) -> PathBuf {
        self.place.join("socket")
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

fn open(place: &Path) -> (Pool, Member) {
    fs::create_dir_all(place.join("pool")).unwrap();
    let directory = Arc::new(FileDirectory::open(place.join("pool")).unwrap());
    let pool = Pool::open_together(directory as Arc<dyn Directory>, Settings::default()).unwrap();
    let member = if pool.members().is_empty() {
        pool.add("guest", MemberSettings::default()).unwrap()
    } else {
        pool.member("guest").unwrap()
    };
    (pool, member)
}

fn settings() -> SocketSettings {
    SocketSettings { access: Access::own(), threads: 4, calendar: Calendar::new(SystemTime::now) }
}

/// No test of its own: what the other process does.
#[test]
fn serves_until_it_is_killed() {
    let Some(place) = std::env::var_os(TASK).map(PathBuf::from) else { return };
    let (_pool, member) = open(&place);
    let _socket = Socket::new(member, place.join("socket"), &settings()).unwrap();
    std::thread::sleep(Duration::from_hours(1));
}

/// The records of a member, as its pool has them now.
fn records(place: &Path) -> Vec<u8> {
    let (pool, member) = open(place);
    let file = member.open("records").unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    let read = file.read(0, &mut bytes).unwrap();
    assert_eq!(read, bytes.len());
    drop((file, member));
    pool.close().unwrap();
    bytes
}

/// Every record up to that one is there, and whole.
fn check(bytes: &[u8], last: usize) {
    for number in 0..=last {
        let record = bytes.get(number * RECORD..(number + 1) * RECORD);
        assert_eq!(record, Some(format!("{number:08}\n").as_bytes()), "record {number} of {last}");
    }
}

/// The last number among what was said.
fn last_durable(said: &[String], before: usize) -> usize {
    let numbers = said.iter().filter_map(|line| line.strip_prefix("durable ")?.parse().ok());
    numbers.chain([before]).max().expect("there is one")
}

/// Hears of so many records more. Gives the last one's number.
fn write(guest: &Guest, records: usize) -> usize {
    (0..records).fold(0, |_, _| guest.hear_of("durable").parse().unwrap())
}

/// Each guest goes on where the one before was killed.
#[test]
#[ignore = "it takes QEMU, an image, and minutes"]
fn what_a_guest_was_told_is_durable_survives_whatever_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();

    // The service first, then the guest: what the service had not answered the guest has not said.
    let service = Service::start(place);
    let guest = machine(&service.socket(), "records");
    let said = write(&guest, RECORDS);
    service.kill();
    let last = last_durable(&guest.kill(), said);
    check(&records(place), last);

    // The guest alone: the service goes on, and serves the next one. Then that with the service.
    let service = Service::start(place);
    let guest = machine(&service.socket(), "records");
    let said = write(&guest, RECORDS);
    let last = last_durable(&guest.kill(), said);
    let guest = machine(&service.socket(), "records");
    let said = write(&guest, RECORDS);
    assert!(said > last, "it went on behind {last}");
    service.kill();
    let last = last_durable(&guest.kill(), said);
    check(&records(place), last);
}

#[test]
#[ignore = "it takes QEMU, an image, and minutes"]
fn a_guest_finds_what_servers_do_with_names() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, member) = open(folder.path());
    let socket = Socket::new(member, folder.path().join("socket"), &settings()).unwrap();
    let guest = machine(socket.path(), "names");
    assert_eq!(guest.hear_of("listed"), ". ./folder ./folder/long ./folder/one");
    assert_eq!(guest.hear_of("length"), "1048576");
    guest.hear_of("over");
    drop(guest);
    while socket.is_connected() {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(socket);
    assert!(!folder.path().join("socket").exists());
    pool.close().unwrap();
}
