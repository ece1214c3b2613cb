//! A database of ours whose log is a member's, over a ring. Nothing here mounts anything, so it takes no root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::member;
use super::site::Site;
use crate::program::{Program, database};

/// `ishigaki sql` on a directory, with its log there.
fn sql(data: &Path, log: Option<&str>) -> Program {
    let program = Program::new().args(["sql", "--format", "csv", "--data"]).arg(data);
    match log {
        Some(log) => program.args(["--log-at", log]),
        None => program,
    }
}

#[test]
fn a_database_has_its_log_in_a_pool_and_what_was_committed_is_there_after_a_kill_of_the_service() {
    let (site, place) = (Site::new(&[]), database());
    let (data, ring) = (place.path().join("shop"), site.path("shop.ring"));
    let log = format!("pool:{}", ring.display());
    let mut service = site.serve(&[]);
    let add = site.command("add").args(["shop", "--profile", "generic", "--ring"]).arg(&ring).succeeds();
    assert!(add.stdout.starts_with(&format!("shop (generic) is served at ring {}, files of", ring.display())));
    assert_eq!(fs::metadata(&ring).expect("a socket").permissions().mode() & 0o7777, 0o600);
    assert_eq!(member(&site.status(), "shop")["connected"], false);

    let created = "CREATE TABLE t (id BIGINT PRIMARY KEY)";
    sql(&data, Some(&log)).args(["-c", created, "-c", "INSERT INTO t VALUES (1), (2)"]).succeeds();
    for round in 3..6 {
        let status = site.status();
        let shop = member(&status, "shop");
        assert!(shop["commits"].as_u64() > Some(0) && shop["files"].as_u64() > Some(1), "{shop}");
        assert_eq!(shop["ring"], ring.display().to_string());
        service.kill();
        let refused = sql(&data, Some(&log)).args(["-c", "SELECT 1"]).fails_with(3);
        assert!(refused.stderr.contains("nobody serves there"), "{}", refused.stderr);
        service = site.serve(&[]);
        let inserted = format!("INSERT INTO t VALUES ({round})");
        let answer = sql(&data, Some(&log)).args(["-c", &inserted, "-c", "SELECT count(*) FROM t"]).succeeds();
        assert_eq!(answer.stdout.lines().last(), Some(round.to_string().as_str()), "{}", answer.stdout);
    }

    // Its log is looked at where it is, and it is never opened without it.
    let inspected = Program::new().args(["log", "inspect", &log]).succeeds();
    assert!(inspected.stdout.contains("stream"), "{}", inspected.stdout);
    let refused = sql(&data, None).args(["-c", "SELECT 1"]).fails_with(1);
    assert!(refused.stderr.contains(&format!("its log is at {log}, not beside its tables")), "{}", refused.stderr);
}
