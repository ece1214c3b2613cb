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

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_testkit::guest::{Guest, Machine};
use ishigaki_testkit::seeded_runs;
use ishigaki_volume_service::{Reply, Request, ask, make};

use crate::stage::{NAME, Service, config, socket};

/// Bytes of a record.
const RECORD: usize = 9;

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

fn kills(seed: Seed, of_service: u64, of_machine: u64) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let config = config(place);
    make(&config, Some(ByteSize::mib(17))).unwrap();
    let image = place.join("disk").join(NAME);
    fs::File::create(&image).unwrap().set_len(SIZE).unwrap();
    run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
    ask(&config, &Request::Attach { name: NAME.to_owned(), mode: "write-back".to_owned() }).unwrap();
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
