//! Servers that export the folder of a migration under way: what their clients do meanwhile.

#[allow(dead_code, reason = "another test uses the rest")]
#[path = "../../../migrate/tests/sources/ganesha.rs"]
mod ganesha;
mod nfs;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "../../../migrate/tests/sources/samba.rs"]
mod samba;
mod shares;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "../life/stage.rs"]
mod stage;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::Serving;
use ishigaki_migrate_service::control::Request;
use ishigaki_migrate_service::verify::{Progress, verify};
use parking_lot::{Mutex, MutexGuard};
use stage::{Stage, skip};

/// Names of a directory that a client looks at, in short and in long.
const SOME: usize = 500;
const MANY: usize = 5_000;
/// Bytes of each of its files.
const EACH: usize = 5_000;

/// Held by each test: a server that starts looks at all that is mounted on the host, and what another test mounts and unmounts just then confuses it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

/// A migration of which nothing is copied but what a client asks for, with a directory of many files.
fn begun(test: &str, names: usize) -> Option<(Stage, Serving)> {
    let needed = ["/usr/bin/setfacl", "/usr/bin/getfacl"];
    if let Some(missing) = needed.into_iter().find(|path| !Path::new(path).exists()) {
        return skip(test, &format!("{missing} is not installed (acl)"));
    }
    let mut stage = Stage::new(test)?;
    let many = stage.old.join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..names {
        fs::write(many.join(number.to_string()), [number as u8; EACH]).unwrap();
    }
    // Where servers reach it as any user does.
    for folder in [stage.held.path(), &stage.old] {
        fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
    }
    stage.config.paused = true;
    let serving = stage.start();
    Some((stage, serving))
}

/// Brings the rest, and finishes. Names of files that clients have not changed are compared with the source.
fn end(stage: &Stage, serving: Serving, changed: &[&str]) {
    stage.order(&Request::Resume {});
    let status = stage.until_done();
    assert_eq!((status.problems, status.whole), (0, status.files), "{status:?}");
    let report = verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap();
    let differs =
        |path: &str| changed.iter().any(|name| path == *name || name.starts_with(&format!("{path}/")) || path == ".");
    let unexpected: Vec<_> = report.differences.iter().filter(|it| !differs(&it.path)).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    serving.finish().unwrap();
    serving.stop().unwrap();
}

/// A file with an access list that lets one user read it, besides its owner.
fn allow(path: &Path, user: &str) {
    let list = format!("u:{user}:r");
    let done = Command::new("setfacl").args(["-m", &list]).arg(path).status().unwrap();
    assert!(done.success());
}

/// The access list, as a person reads it.
fn list(path: &Path) -> String {
    let done = Command::new("getfacl").args(["-c", "-n", "-p"]).arg(path).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}
