//! Databases where nothing can be written: on a medium that is mounted read-only, or in files that this user may only read.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{Program, database};
use crate::sql::{sql, stones};

const COUNT: &str = "SELECT count(*) AS n, sum(id) AS sum FROM stones";

/// A directory as it is seen through a mount that is read-only. *Drop* takes the mount away.
struct ReadOnly(PathBuf);

impl ReadOnly {
    /// Mounts the directory at `at`, which may be the directory itself; says so where that is not allowed.
    fn mount(test: &str, directory: &Path, at: &Path) -> Option<Self> {
        let mount =
            |arguments: &[&str]| Command::new("mount").args(arguments).arg(at).output().expect("`mount` is installed");
        let bound = mount(&["--bind", &directory.display().to_string()]);
        if !bound.status.success() {
            // Past the capture of a test's output.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {}", String::from_utf8_lossy(&bound.stderr).trim());
            return None;
        }
        let mounted = Self(at.to_owned());
        assert!(mount(&["-o", "remount,ro,bind"]).status.success());
        Some(mounted)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// The bytes of all files.
fn bytes(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(bytes(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

/// When each file and directory was written or changed last.
fn times(directory: &Path) -> BTreeMap<PathBuf, (i64, i64, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let of = fs::metadata(&path).unwrap();
        found.insert(path, (of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec()));
    }
    found
}

/// The program as a user who may not do everything: root could read what it is not allowed to, unless it gives that up.
fn as_a_plain_user() -> Program {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if is_root {
        Program::of("setpriv").arg("--bounding-set=-dac_override,-dac_read_search").arg(env!("CARGO_BIN_EXE_ishigaki"))
    } else {
        Program::new()
    }
}

/// Stones, and a paged table beside them.
fn quarry() -> tempfile::TempDir {
    let directory = stones();
    let pages = directory.path().join("pages");
    sql(directory.path())
        .args([
            "-c",
            &format!("CREATE TABLE paged (n BIGINT) WITH (storage = 'paged', location = '{}')", pages.display()),
        ])
        .args(["-c", "INSERT INTO paged SELECT value FROM generate_series(1, 1000)"])
        .args(["-c", "CHECKPOINT", "-c", "INSERT INTO stones VALUES (10, 'behind the checkpoint', 1)"])
        .succeeds();
    directory
}

/// What can be done there: everything that only reads, and each says that nothing can be written.
#[track_caller]
fn is_read(program: impl Fn() -> Program, data: &Path, note: &str) {
    let before = bytes(data);
    let (saved, copy) = (database(), database());
    let verified = program().arg("verify").arg(data).succeeds();
    assert!(
        verified.stdout.contains("table       stones: ") && verified.stdout.contains("paged       paged: 1,000 rows"),
        "{}",
        verified.stdout
    );
    let salvaged = program().arg("salvage").arg(data).arg("--to").arg(saved.path()).succeeds();
    let copied = program().arg("backup").arg(data).arg("--to").arg(copy.path()).succeeds();
    for answer in [verified, salvaged, copied] {
        assert!(answer.stderr.starts_with("note: ") && answer.stderr.contains(note), "{}", answer.stderr);
        assert!(answer.stderr.contains("nothing can be written there"), "{}", answer.stderr);
    }
    for copy in [saved.path(), copy.path()] {
        let count =
            sql(copy).args(["--format", "csv", "-c", COUNT, "-c", "SELECT count(*) AS n FROM paged"]).succeeds();
        assert_eq!(count.stdout, "n,sum\n4,16\nn\n1000\n");
    }
    let refused = program().args(["sql", "--data"]).arg(data).args(["-c", COUNT]).fails_with(3);
    for words in ["nothing can be written there", "`ishigaki backup DIR --to DIR2`"] {
        assert!(refused.stderr.contains(words), "no {words} in {}", refused.stderr);
    }
    assert!(bytes(data) == before);
}

#[test]
fn a_database_on_a_medium_that_is_only_read_is_verified_salvaged_and_copied() {
    let test = "a_database_on_a_medium_that_is_only_read_is_verified_salvaged_and_copied";
    let directory = quarry();
    {
        let Some(_mounted) = ReadOnly::mount(test, directory.path(), directory.path()) else { return };
        is_read(Program::new, directory.path(), "other processes may read it meanwhile");
        // Two readers are not in each other's way, and no lock is left.
        is_read(Program::new, directory.path(), "other processes may read it meanwhile");
    }
    fs::remove_file(directory.path().join("LOCK")).unwrap();
    let Some(_mounted) = ReadOnly::mount(test, directory.path(), directory.path()) else { return };
    is_read(Program::new, directory.path(), "it has no lock file");
}

#[test]
fn a_database_that_is_open_elsewhere_is_not_verified_through_a_mount_that_is_only_read() {
    let test = "a_database_that_is_open_elsewhere_is_not_verified_through_a_mount_that_is_only_read";
    let (directory, view, copy) = (quarry(), database(), database());
    let Some(_mounted) = ReadOnly::mount(test, directory.path(), view.path()) else { return };
    let mut running = sql(directory.path()).args(["--format", "csv", "-"]).start();
    running.say("SELECT 1 AS one;\n");
    assert_eq!((running.hear(), running.hear()), ("one".to_owned(), "1".to_owned()));
    let busy = Program::new().arg("verify").arg(view.path()).fails_with(3);
    assert!(busy.stderr.contains("another process has the database open"), "{}", busy.stderr);
    let copied = Program::new().arg("backup").arg(view.path()).arg("--to").arg(copy.path()).succeeds();
    assert!(copied.stdout.contains("while it was in use"), "{}", copied.stdout);
    assert_eq!(running.ends().code, Some(0));
}

#[test]
fn a_database_whose_files_this_user_may_only_read_is_verified_salvaged_and_copied() {
    let directory = quarry();
    let chmod = |mode_of_directories: u32, mode_of_files: u32| {
        for path in bytes(directory.path()).into_keys() {
            fs::set_permissions(&path, Permissions::from_mode(mode_of_files)).unwrap();
        }
        for path in [directory.path().join("pages"), directory.path().to_owned()] {
            fs::set_permissions(&path, Permissions::from_mode(mode_of_directories)).unwrap();
        }
    };
    chmod(0o500, 0o400);
    is_read(as_a_plain_user, directory.path(), "other processes may read it meanwhile");
    chmod(0o700, 0o600);
    sql(directory.path()).args(["-c", COUNT]).succeeds();
}

#[test]
fn those_that_only_read_change_no_byte_and_no_time_where_they_could() {
    let (directory, saved, copy) = (quarry(), database(), database());
    let before = (bytes(directory.path()), times(directory.path()));
    let data = directory.path();
    Program::new().arg("verify").arg(data).succeeds();
    Program::new().arg("salvage").arg(data).arg("--to").arg(saved.path()).succeeds();
    Program::new().arg("backup").arg(data).arg("--to").arg(copy.path()).succeeds();
    Program::new().args(["log", "inspect"]).arg(data).succeeds();
    assert!(bytes(data) == before.0);
    assert_eq!(times(data), before.1);
    sql(data).args(["-c", COUNT]).succeeds();
}

#[test]
fn what_this_user_may_not_read_is_told_as_that_and_not_as_damage() {
    let directory = quarry();
    let data = directory.path();
    let names: Vec<PathBuf> = bytes(data).into_keys().collect();
    let one = |prefix: &str| {
        let found = names.iter().filter(|path| path.strip_prefix(data).unwrap().to_string_lossy().starts_with(prefix));
        found.min().unwrap_or_else(|| panic!("no {prefix} in {names:?}")).clone()
    };
    let mut closed = vec![data.join("checkpoint"), data.join("wal-control"), data.join("pages/paged.pages")];
    closed.extend([one("checkpoint-"), one("wal-00"), one("pages/paged-"), data.join("pages"), data.to_owned()]);
    for path in closed {
        let mode = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
        for command in ["verify", "salvage", "backup"] {
            let to = database();
            let program = as_a_plain_user().arg(command).arg(data);
            let program = if command == "verify" { program } else { program.arg("--to").arg(to.path()) };
            let refused = program.fails_with(3);
            assert!(refused.stderr.contains("Permission denied"), "{command} {path:?}: {}", refused.stderr);
            assert!(!refused.stderr.contains("damage"), "{command} {path:?}: {}", refused.stderr);
            assert_eq!(refused.stdout, "", "{command} {path:?}");
            // Page files are read when the target is begun; what is there is marked as unfinished.
            let is_read_late = path.starts_with(data.join("pages"));
            if command == "salvage" && !is_read_late {
                assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0, "{path:?}");
            }
        }
        fs::set_permissions(&path, mode).unwrap();
    }
    as_a_plain_user().arg("verify").arg(data).succeeds();
}

#[test]
fn no_copy_is_made_in_a_databases_own_directory() {
    let directory = quarry();
    let before = times(directory.path());
    for place in ["copy", "pages/copy", "a/b"] {
        let copy = directory.path().join(place);
        for command in ["backup", "salvage"] {
            let refused = Program::new().arg(command).arg(directory.path()).arg("--to").arg(&copy).fails_with(1);
            assert!(refused.stderr.contains("is the directory of a database"), "{}", refused.stderr);
        }
    }
    assert_eq!(times(directory.path()), before);
    let inside = format!(".backup {}\n", directory.path().join("copy").display());
    let refused = sql(directory.path()).args(["-"]).stdin(&inside).fails_with(1);
    assert!(refused.stderr.contains("is the directory of a database"), "{}", refused.stderr);
}
