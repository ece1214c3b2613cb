//! A virtual machine, with Debian's kernel unmodified, has ext4 on a volume: it writes records, each durable before the next. The service is killed under it
//! again and again, then the machine is killed, then both. The machine sees no error, its file system is whole, and what it had said was durable is there.
//!
//! Takes root for the look at the file system, QEMU, and an image that a chore makes, so it is asked for:
//!
//! ```sh
//! cargo xtask guest
//! cargo test --release -p ishigaki-volume-service --test guest -- --ignored
//! ```

mod stage;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ishigaki_agent::{Message, gather, send};
use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_testkit::guest::{Guest, Machine};
use ishigaki_testkit::seeded_runs;
use ishigaki_volume_service::{Config, Reply, Request, ask, make};

use crate::stage::{NAME, Service, config, socket};

/// Bytes of a record.
const RECORD: usize = 9;

/// Where the machine has its port.
const PORT: &str = "ISHIGAKI_TEST_PORT";

/// A disk of 64 MiB, of which a quarter has room on the fast device.
const SIZE: u64 = 64 << 20;

/// No test of its own: what the other process does.
#[test]
fn serves_until_it_is_killed() {
    stage::serve();
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it is there: apt-get install e2fsprogs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

fn machine(place: &Path) -> Guest {
    Machine::new(env!("CARGO_TARGET_TMPDIR"), "disk", 256).with_volume(&socket(place)).start()
}

/// Hears of so many records more. The last one's number.
fn hear(guest: &Guest, records: u64) -> usize {
    (0..records).fold(0, |_, _| guest.hear_of("durable").parse().unwrap())
}

/// The volume as a plain image: its file system is whole, and has every record up to that one.
fn check(place: &Path, last: usize) {
    let config = config(place);
    ask(&config, &Request::Detach { name: NAME.to_owned() }).unwrap();
    let image = place.join("disk").join(NAME);
    let image = image.to_str().unwrap();
    // The journal is replayed first, as the next mount would do.
    run("e2fsck", &["-p", "-E", "journal_only", image]);
    run("e2fsck", &["-fn", image]);
    let records = place.join("records");
    run("debugfs", &["-R", &format!("dump /records {}", records.display()), image]);
    let bytes = fs::read(&records).unwrap();
    for number in 0..=last {
        let record = bytes.get(number * RECORD..(number + 1) * RECORD);
        assert_eq!(record, Some(format!("{number:08}\n").as_bytes()), "record {number} of {last}");
    }
    let Reply::Made(_) =
        ask(&config, &Request::Attach { name: NAME.to_owned(), mode: "write-back".to_owned() }).unwrap()
    else {
        panic!("another answer")
    };
}

/// A pool with one volume, which holds an empty ext4.
fn pool_with_a_disk(place: &Path) -> Config {
    let config = config(place);
    make(&config, Some(ByteSize::mib(17))).unwrap();
    let image = place.join("disk").join(NAME);
    fs::File::create(&image).unwrap().set_len(SIZE).unwrap();
    run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
    ask(&config, &Request::Attach { name: NAME.to_owned(), mode: "write-back".to_owned() }).unwrap();
    config
}

fn kills(seed: Seed, of_service: u64, of_machine: u64) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    pool_with_a_disk(place);
    let mut last = 0;
    for boot in 0..of_machine {
        let mut service = Service::start(place);
        let guest = machine(place);
        guest.hear_of("ready");
        last = hear(&guest, 5);
        for kill in 0..of_service {
            // In the middle of whatever it does.
            let pause = seed.derive(boot * 1000 + kill).0 % 300;
            std::thread::sleep(Duration::from_millis(pause));
            service.kill();
            service = Service::start(place);
            // More than it may have said before the kill.
            last = hear(&guest, 20);
        }
        let said = guest.kill();
        service.kill();
        assert!(said.iter().all(|line| !line.starts_with("failed")), "{said:?}");
        let told = said.iter().filter_map(|line| line.strip_prefix("durable ")?.parse().ok());
        last = told.chain([last]).max().unwrap();
        check(place, last);
    }
    assert!(last > 0);
}

/// No test of its own: what the program does in the machine.
#[test]
fn the_agent_of_a_guest() {
    let Some(port) = std::env::var(PORT).ok() else { return };
    let gathered = gather(&["/log".into()], &BTreeMap::new()).expect("it lies on the disk");
    let message = Message { volume: NAME.to_owned(), token: String::new(), files: None, work: Some(17.0) };
    for told in ["told", "told again"] {
        // The host is not there for a moment, while its service is started anew.
        while !send(&port, &message.clone().with_files(&gathered.files)).unwrap_or(false) {
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("GUEST {told}");
        while send(&port, &message).unwrap_or(true) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
#[ignore = "it takes QEMU, an image, and a minute"]
fn an_agent_tells_by_its_machines_port_and_tells_again_a_service_that_was_started_anew() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let config = pool_with_a_disk(place);
    let service = Service::start(place);
    let port = format!("socket,id=agent,path={},reconnect=1", socket(place).with_extension("agent").display());
    let guest = Machine::new(env!("CARGO_TARGET_TMPDIR"), "agent", 256)
        .with("agent")
        .with_program(&std::env::current_exe().unwrap())
        .with_volume(&socket(place))
        .arguments(["-device", "virtio-serial-pci", "-chardev", &port])
        .arguments(["-device", "virtserialport,chardev=agent,name=ishigaki"])
        .start();
    let is_known = || {
        let Reply::Status(status) = ask(&config, &Request::Status {}).unwrap() else { panic!("another answer") };
        let files = &status.volumes[0].files;
        assert_eq!((files.len(), files[0].name.as_str(), files[0].bytes), (1, "/log/stock", 1 << 20));
    };
    guest.hear_of("told");
    is_known();
    service.kill();
    let _service = Service::start(place);
    guest.hear_of("told again");
    is_known();
}

#[test]
#[ignore = "it takes QEMU, an image, and minutes"]
fn a_machine_sees_no_error_and_loses_nothing_whatever_is_killed() {
    seeded_runs("a_machine_sees_no_error_and_loses_nothing_whatever_is_killed", 1, |seed| kills(seed, 5, 3));
}

#[test]
#[ignore = "long: thirty kills of the service and of the machine each"]
fn thirty_kills_of_each() {
    seeded_runs("thirty_kills_of_each", 1, |seed| kills(seed, 1, 30));
}
