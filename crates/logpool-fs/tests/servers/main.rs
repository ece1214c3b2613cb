//! Debian's servers, unmodified, with their logs on a mount: killed under load, and every row that a client was told of is there
//! when they are up again. So is it when the service is killed, or both, and when the disk below all of them loses power.
//!
//! Takes minutes, root, `PostgreSQL` 15 and `MariaDB` 10.11, so it is asked for:
//!
//! ```sh
//! cargo test --release -p ishigaki-logpool-fs --test servers -- --ignored --test-threads=1
//! ```

#[path = "../stage/mod.rs"]
mod stage;

mod load;
mod mariadb;
mod postgresql;
mod power;
mod service;

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use load::{Load, Row};
use service::{Running, Service};

/// Kills of each kind.
const KILLS: u32 = 20;

/// Clients at a time, each with a statement after the other.
const CLIENTS: u32 = 4;

/// A kind of server.
trait Server {
    const NAME: &'static str;
    const PROFILE: &'static str;
    /// Its user on the host.
    const USER: &'static str;
    /// What must be installed.
    const PROGRAM: &'static str;

    /// Makes an empty database with its log in `log`, and everything else in `data`.
    fn make(data: &Path, log: &Path, user: (u32, u32));
    /// Starts it; it may still be recovering.
    fn start(data: &Path, log: &Path, user: (u32, u32)) -> Child;
    /// Its client, reading statements from a pipe.
    fn client(data: &Path) -> Command;
    /// Inserts a row; the client says `ok` on a line when it is committed.
    fn insert(row: Row) -> String;
}

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Server,
    Service,
    Both,
}

/// The server's user, if it is installed; else says that the test does nothing.
fn user_of<S: Server>(test: &str) -> Option<(u32, u32)> {
    let user = service::user(S::USER).filter(|_| Path::new(S::PROGRAM).exists());
    if user.is_none() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: there is no {} (Debian: {})", S::PROGRAM, S::NAME);
    }
    user
}

fn kill_again_and_again<S: Server>(test: &str) {
    if !stage::can_mount(test) {
        return;
    }
    let Some(user) = user_of::<S>(test) else { return };
    let place = tempfile::tempdir().unwrap();
    let (data, log) = (service::folder(place.path(), "data", user), service::folder(place.path(), "log", user));
    let mut service = Service::start(place.path(), S::PROFILE, user);
    S::make(&data, &log, user);
    let mut server = Running(S::start(&data, &log, user));
    load::run_when_up::<S>(&data, "create table told (client int not null, number int not null);");
    let mut acknowledged = Vec::new();
    for kill in 0..KILLS * 3 {
        let victim = [Victim::Server, Victim::Service, Victim::Both][kill as usize % 3];
        let load = Load::start::<S>(&data, kill, CLIENTS);
        std::thread::sleep(Duration::from_millis(300 + u64::from(kill * 37 % 700)));
        if victim != Victim::Service {
            server.kill();
        }
        if victim != Victim::Server {
            service.kill();
        }
        // One whose log is gone is of no use, if it has not ended itself.
        server.kill();
        acknowledged.extend(load.end());
        if victim != Victim::Server {
            service.start_again();
        }
        server = Running(S::start(&data, &log, user));
        let there = load::rows::<S>(&data);
        let lost: Vec<_> = acknowledged.iter().filter(|row| !there.contains(row)).collect();
        assert!(lost.is_empty(), "{victim:?} killed, number {kill}: lost {lost:?} of {}", acknowledged.len());
    }
    println!("{}: {} kills, {} rows acknowledged, all there", S::NAME, KILLS * 3, acknowledged.len());
    assert!(acknowledged.len() > KILLS as usize, "there was a load");
    server.kill();
    service.end();
}

#[test]
#[ignore = "takes minutes"]
fn postgresql_has_every_acknowledged_row_whoever_is_killed() {
    kill_again_and_again::<postgresql::PostgreSql>("postgresql_has_every_acknowledged_row_whoever_is_killed");
}

#[test]
#[ignore = "takes minutes"]
fn mariadb_has_every_acknowledged_row_whoever_is_killed() {
    kill_again_and_again::<mariadb::MariaDb>("mariadb_has_every_acknowledged_row_whoever_is_killed");
}

#[test]
#[ignore = "the service that the others start and kill"]
fn serves_until_it_is_told_to_end() {
    service::serve();
}
