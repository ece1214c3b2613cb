//! A place for a service and its folders; what hangs there is ended.

#![allow(dead_code, reason = "each test uses its part")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use ishigaki_logpool_service::Config;

/// A test that takes longer hangs.
const LONGEST: Duration = Duration::from_mins(3);

/// Says why a test does nothing, or nothing if it can mount.
pub(crate) fn can_mount(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let place = tempfile::tempdir().unwrap();
    let mount =
        || Command::new("mount").args(["-t", "tmpfs", "probe"]).arg(place.path()).stderr(Stdio::null()).status();
    let reason = if !is_root {
        "mounting takes root"
    } else if !Path::new("/dev/fuse").exists() {
        "there is no /dev/fuse"
    } else if !mount().is_ok_and(|status| status.success()) {
        "mounting is refused"
    } else {
        unmount(place.path(), "-l");
        return true;
    };
    // Past the capture of a test's output.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    false
}

fn unmount(folder: &Path, how: &str) {
    let _ = Command::new("umount").arg(how).arg(folder).stderr(Stdio::null()).status();
}

/// Folders, each a member of its name.
pub(crate) struct Site {
    place: tempfile::TempDir,
    members: Vec<String>,
    _leash: Sender<()>,
}

impl Site {
    pub(crate) fn new(members: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let folders: Vec<PathBuf> = members.iter().map(|name| place.path().join(name)).collect();
        folders.iter().try_for_each(fs::create_dir).unwrap();
        let (leash, alive) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            if alive.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
                let _ = writeln!(std::io::stderr(), "HUNG: longer than {LONGEST:?}");
                for folder in &folders {
                    unmount(folder, "-f");
                    unmount(folder, "-l");
                }
                std::process::abort();
            }
        });
        Self { place, members: members.iter().map(|&name| name.to_owned()).collect(), _leash: leash }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub(crate) fn config(&self) -> Config {
        self.config_with("")
    }

    pub(crate) fn config_with(&self, more: &str) -> Config {
        let limits = "profile = \"generic\"\nshare = \"1MiB\"\nhome = \"16MiB\"\n";
        let member = |name: &String| format!("[[member]]\nname = \"{name}\"\nmount = \"{name}\"\n{limits}");
        let members: String = self.members.iter().map(member).collect();
        let text = format!("data = \"data\"\nlog = \"128MiB\"\n{members}{more}");
        Config::parse(&text, &self.place.path().join("pool.toml")).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for name in &self.members {
            unmount(&self.path(name), "-l");
        }
    }
}
