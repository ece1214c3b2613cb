//! A virtual machine with a real server: Debian's `PostgreSQL`, unmodified, in a guest with Debian's kernel, has its data on the ext4 of a volume. Transactions
//! come one after the other while something ends: the service, the machine, or the power of the drives under the volume. The server starts by its own
//! recovery, and has every transaction that a client was told of, whole; the file system is whole, and a machine that goes on sees no error.
//!
//! Takes root for the cluster in the image, QEMU, the programs of Debian's `PostgreSQL` 15, and an image that a chore makes, so it is asked for:
//!
//! ```sh
//! cargo xtask guest
//! cargo test --release -p ishigaki-volume-service --test postgresql a_server -- --ignored --nocapture --test-threads=1
//! ```
//!
//! Parts: [`cluster`] makes the image and judges one, [`kills`] ends processes, [`cuts`] cuts the power of simulated drives.

mod cluster;
mod cuts;
mod kills;
#[path = "../stage/mod.rs"]
mod stage;

use std::path::Path;
use std::time::Duration;

use ishigaki_testkit::guest::{Guest, Machine};
use ishigaki_testkit::seeded_runs;

use crate::cluster::State;

/// How long what takes a moment may take on a machine that has other work.
const PATIENCE: Duration = Duration::from_mins(5);

/// Bytes of the disk.
const SIZE: u64 = 256 << 20;

/// The guest, with its disk on that socket.
fn machine(socket: &Path) -> Guest {
    let machine = Machine::new(env!("CARGO_TARGET_TMPDIR"), "postgresql", 512).with("postgresql").with_volume(socket);
    // Beside other work a timer may be too late for the kernel's look at it.
    machine.told("no_timer_check").start()
}

/// A folder of a test's, which stays when the test fails.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.disable_cleanup(true);
            println!("what there is of it stays in {}", self.path().display());
        }
    }
}

/// A server has started, by its recovery if it was used before, and has every transaction up to the last one that a client was told of.
fn check(guest: &Guest, told: u64) {
    if told > 0 {
        guest.hear_of("recovery");
    }
    State::parse(&guest.hear_of("serves")).check(told);
}

/// Hears of so many transactions more. The last one's number.
fn hear(guest: &Guest, transactions: u64) -> u64 {
    (0..transactions).fold(0, |_, _| guest.hear_of("durable").parse().unwrap())
}

/// The last number among what a guest that was killed had said.
fn last_told(said: &[String], before: u64) -> u64 {
    said.iter().filter_map(|line| line.strip_prefix("durable ")?.parse().ok()).fold(before, u64::max)
}

/// No test of its own: what the other process does.
#[test]
fn serves_until_it_is_killed() {
    stage::serve();
}

#[test]
#[ignore = "it takes QEMU, an image, and minutes"]
fn a_server_has_every_acknowledged_transaction_whoever_is_killed() {
    let name = "a_server_has_every_acknowledged_transaction_whoever_is_killed";
    seeded_runs(name, 1, |seed| kills::kills(seed, 2));
}

#[test]
#[ignore = "it takes QEMU, an image, and minutes"]
fn a_server_has_every_acknowledged_transaction_after_power_cuts() {
    let name = "a_server_has_every_acknowledged_transaction_after_power_cuts";
    seeded_runs(name, 1, |seed| cuts::cuts(seed, 2));
}

#[test]
#[ignore = "long: thirty kills of the service and of the machine each"]
fn thirty_kills_of_each_under_a_server() {
    seeded_runs("thirty_kills_of_each_under_a_server", 1, |seed| kills::kills(seed, 30));
}

#[test]
#[ignore = "long: twenty cuts of the power"]
fn twenty_power_cuts_under_a_server() {
    seeded_runs("twenty_power_cuts_under_a_server", 1, |seed| cuts::cuts(seed, 20));
}
