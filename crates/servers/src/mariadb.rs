//! `MariaDB`: what it is told, and how it is asked.

use std::path::Path;
use std::process::Command;

pub(crate) const PROGRAM: &str = "/usr/sbin/mariadbd";
pub(crate) const USER: &str = "mysql";

/// What it is told by arguments, the same when it is made and when it is started.
fn arguments(data: &Path, log: &Path) -> Vec<String> {
    vec![
        "--no-defaults".to_owned(),
        format!("--datadir={}", data.join("db").display()),
        format!("--innodb-log-group-home-dir={}", log.display()),
        "--innodb-log-file-size=16M".to_owned(),
        "--innodb-flush-log-at-trx-commit=1".to_owned(),
    ]
}

/// Makes an empty database.
pub(crate) fn make(mut command: impl FnMut(&str) -> Command, data: &Path, log: &Path) -> Command {
    let mut made = command("mariadb-install-db");
    made.args(arguments(data, log)).arg("--auth-root-authentication-method=normal");
    made
}

/// No port is taken.
pub(crate) fn start(mut command: impl FnMut(&str) -> Command, data: &Path, log: &Path) -> Command {
    let mut started = command(PROGRAM);
    started.args(arguments(data, log)).arg("--skip-networking");
    started.arg(format!("--socket={}", data.join("socket").display()));
    started
}

/// Its client, which answers each statement before it reads the next one.
pub(crate) fn client(data: &Path) -> Command {
    let mut client = Command::new("mariadb");
    client.args(["--no-defaults", "-u", "root", "-B", "-N", "-n"]);
    client.arg(format!("--socket={}", data.join("socket").display()));
    client.arg("test");
    client
}
