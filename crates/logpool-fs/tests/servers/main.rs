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
mod power;
mod service;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use ishigaki_servers::{Kind, Server, User};
use load::Load;
use service::Service;

/// Kills of each kind.
const KILLS: u32 = 20;

/// Clients at a time, each with a statement after the other.
const CLIENTS: u32 = 4;

/// What servers are told beside the usual: a log that is written by `O_DSYNC`, so that a commit is a write and no sync follows.
fn arguments(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::MariaDb => &[],
        Kind::PostgreSql => &["-c", "wal_sync_method=open_datasync"],
    }
}

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Server,
    Service,
    Both,
}

/// The server's user, if it is installed; else says that the test does nothing.
fn user_of(kind: Kind, test: &str) -> Option<User> {
    if !stage::can_mount(test) {
        return None;
    }
    match kind.user() {
        Ok(user) => Some(user),
        Err(reason) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
            None
        }
    }
}

/// A server in two folders of a place: one of its own, and the mount of its log.
fn server_in(place: &Path, kind: Kind, user: User) -> Server {
    let [data, log] = ["data", "log"].map(|name| user.folder(place, name).unwrap());
    Server::new(kind, user, data, log).with(arguments(kind))
}

fn kill_again_and_again(kind: Kind, test: &str) {
    let Some(user) = user_of(kind, test) else { return };
    let place = tempfile::tempdir().unwrap();
    let server = server_in(place.path(), kind, user);
    let mut service = Service::start(place.path(), kind, user);
    server.make().unwrap();
    let mut running = server.start().unwrap();
    server.run_when_up(load::TABLE, &|| false).unwrap();
    let mut acknowledged = Vec::new();
    for kill in 0..KILLS * 3 {
        let victim = [Victim::Server, Victim::Service, Victim::Both][kill as usize % 3];
        let load = Load::start(&server, kill, CLIENTS);
        std::thread::sleep(Duration::from_millis(300 + u64::from(kill * 37 % 700)));
        if victim != Victim::Service {
            running.kill().unwrap();
        }
        if victim != Victim::Server {
            service.kill();
        }
        // One whose log is gone is of no use, if it has not ended itself.
        running.kill().unwrap();
        acknowledged.extend(load.end());
        if victim != Victim::Server {
            service.start_again();
        }
        running = server.start().unwrap();
        let there = load::rows(&server);
        let lost: Vec<_> = acknowledged.iter().filter(|row| !there.contains(row)).collect();
        assert!(lost.is_empty(), "{victim:?} killed, number {kill}: lost {lost:?} of {}", acknowledged.len());
    }
    println!("{kind}: {} kills, {} rows acknowledged, all there", KILLS * 3, acknowledged.len());
    assert!(acknowledged.len() > KILLS as usize, "there was a load");
    running.kill().unwrap();
    service.end();
}

#[test]
#[ignore = "takes minutes"]
fn postgresql_has_every_acknowledged_row_whoever_is_killed() {
    kill_again_and_again(Kind::PostgreSql, "postgresql_has_every_acknowledged_row_whoever_is_killed");
}

#[test]
#[ignore = "takes minutes"]
fn mariadb_has_every_acknowledged_row_whoever_is_killed() {
    kill_again_and_again(Kind::MariaDb, "mariadb_has_every_acknowledged_row_whoever_is_killed");
}

#[test]
#[ignore = "the service that the others start and kill"]
fn serves_until_it_is_told_to_end() {
    service::serve();
}
