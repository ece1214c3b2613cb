//! `MariaDB` with `InnoDB`'s log on the mount, by `innodb_log_group_home_dir`.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::Server;
use super::load::Row;
use super::service;

pub(crate) struct MariaDb;

/// What it is told by arguments.
fn arguments(data: &Path, log: &Path) -> Vec<String> {
    vec![
        "--no-defaults".to_owned(),
        format!("--datadir={}", data.join("db").display()),
        format!("--innodb-log-group-home-dir={}", log.display()),
        "--innodb-log-file-size=16M".to_owned(),
        "--innodb-flush-log-at-trx-commit=1".to_owned(),
    ]
}

impl Server for MariaDb {
    const NAME: &'static str = "mariadb-server";
    const PROFILE: &'static str = "mariadb";
    const USER: &'static str = "mysql";
    const PROGRAM: &'static str = "/usr/sbin/mariadbd";

    fn make(data: &Path, log: &Path, user: (u32, u32)) {
        let made = Command::new("mariadb-install-db")
            .args(arguments(data, log))
            .arg("--auth-root-authentication-method=normal")
            .uid(user.0)
            .gid(user.1)
            .current_dir(data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn start(data: &Path, log: &Path, user: (u32, u32)) -> Child {
        Command::new(Self::PROGRAM)
            .args(arguments(data, log))
            .arg("--skip-networking")
            .arg(format!("--socket={}", data.join("socket").display()))
            .uid(user.0)
            .gid(user.1)
            .current_dir(data)
            .stdout(Stdio::null())
            .stderr(service::told(data))
            .spawn()
            .unwrap()
    }

    fn client(data: &Path) -> Command {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "-u", "root", "-B", "-N", "-n"]);
        client.arg(format!("--socket={}", data.join("socket").display()));
        client.arg("test");
        client
    }

    fn insert((client, number): Row) -> String {
        format!("insert into told values ({client}, {number}); select 'ok';")
    }
}
