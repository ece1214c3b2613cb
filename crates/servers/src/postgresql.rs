//! `PostgreSQL`: what it is told, and how it is asked.

use std::path::Path;
use std::process::Command;

pub(crate) const PROGRAM: &str = "/usr/lib/postgresql/15/bin/postgres";
pub(crate) const USER: &str = "postgres";

/// The folder of its programs.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Where its log is, in its data.
pub(crate) const LOG: &str = "pg_wal";

/// Makes an empty database.
pub(crate) fn make(mut command: impl FnMut(&str) -> Command, data: &Path, log: &Path) -> Command {
    let mut made = command(&format!("{PROGRAMS}/initdb"));
    made.args(["-A", "trust", "--no-sync", "-D"]).arg(data.join("db")).arg("--waldir").arg(log);
    made
}

/// No port is taken.
pub(crate) fn start(mut command: impl FnMut(&str) -> Command, data: &Path) -> Command {
    let mut started = command(PROGRAM);
    started.arg("-D").arg(data.join("db")).arg("-k").arg(data);
    started.args(["-c", "listen_addresses=", "-c", "max_wal_size=48MB", "-c", "min_wal_size=32MB"]);
    started.args(["-c", "restart_after_crash=off"]);
    started
}

/// Its client, which answers each statement before it reads the next one.
pub(crate) fn client(data: &Path) -> Command {
    let mut client = Command::new(format!("{PROGRAMS}/psql"));
    client.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"]);
    client.arg(data);
    client
}
