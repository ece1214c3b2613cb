//! `PostgreSQL` with `pg_wal` on the mount, by `initdb --waldir`.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::Server;
use super::load::Row;
use super::service;

const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

pub(crate) struct PostgreSql;

impl Server for PostgreSql {
    const NAME: &'static str = "postgresql-15";
    const PROFILE: &'static str = "postgresql";
    const USER: &'static str = "postgres";
    const PROGRAM: &'static str = "/usr/lib/postgresql/15/bin/postgres";

    fn make(data: &Path, log: &Path, user: (u32, u32)) {
        let made = Command::new(format!("{PROGRAMS}/initdb"))
            .args(["-A", "trust", "--no-sync", "-D"])
            .arg(data.join("db"))
            .arg("--waldir")
            .arg(log)
            .uid(user.0)
            .gid(user.1)
            .current_dir(data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn start(data: &Path, _: &Path, user: (u32, u32)) -> Child {
        // No port is taken. Its log is opened with O_DSYNC: a commit is a write, and no sync follows.
        Command::new(Self::PROGRAM)
            .arg("-D")
            .arg(data.join("db"))
            .arg("-k")
            .arg(data)
            .args(["-c", "listen_addresses=", "-c", "wal_sync_method=open_datasync"])
            .args(["-c", "max_wal_size=48MB", "-c", "min_wal_size=32MB", "-c", "restart_after_crash=off"])
            .uid(user.0)
            .gid(user.1)
            .current_dir(data)
            .stdout(Stdio::null())
            .stderr(service::told(data))
            .spawn()
            .unwrap()
    }

    fn client(data: &Path) -> Command {
        let mut client = Command::new(format!("{PROGRAMS}/psql"));
        client
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"])
            .arg(data);
        client
    }

    fn insert((client, number): Row) -> String {
        format!("insert into told values ({client}, {number}) returning 'ok';")
    }
}
