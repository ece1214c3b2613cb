//! A migration between two directories of this host, and what is asked of it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::check::{Check, Severity};
use ishigaki_migrate_service::control::{Reply, Request, ask};
use ishigaki_migrate_service::status::{Phase, Status};
use ishigaki_migrate_service::{Config, Serving};

/// A test that takes longer hangs, however busy the machine is.
const LONGEST: Duration = Duration::from_mins(5);

pub(crate) struct Stage {
    pub(crate) held: tempfile::TempDir,
    pub(crate) old: PathBuf,
    pub(crate) new: PathBuf,
    pub(crate) at: PathBuf,
    pub(crate) config: Config,
}

/// A tree of an old server.
fn fill(old: &Path) {
    for directory in ["a", "a/b", "a/b/c", "empty"] {
        fs::create_dir(old.join(directory)).unwrap();
    }
    for number in 0..30 {
        let bytes: Vec<u8> = (0..number * 20_011_usize).map(|place| (place * 7 + number) as u8).collect();
        fs::write(old.join(format!("a/b/file-{number}")), bytes).unwrap();
    }
    fs::write(old.join("a/small"), b"small").unwrap();
    fs::hard_link(old.join("a/small"), old.join("a/b/c/linked")).unwrap();
    symlink("small", old.join("a/symlink")).unwrap();
    fs::set_permissions(old.join("a/small"), PermissionsExt::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(old.join("a/small"), Some(1234), Some(4321)).unwrap();
    let sparse = File::create(old.join("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    sparse.write_all_at(b"in the middle", 32 << 20).unwrap();
}

/// Why nothing can be served here, past the capture of a test's output.
pub(crate) fn skip<T>(test: &str, reason: &str) -> Option<T> {
    let _ = writeln!(io::stderr(), "SKIPPED: {test}: {reason}");
    None
}

impl Drop for Stage {
    /// A migration that has not ended leaves a folder that can not be removed.
    fn drop(&mut self) {
        let Ok(folder) = File::open(&self.at) else { return };
        if let Ok(flags) = rustix::fs::ioctl_getflags(&folder) {
            let _ = rustix::fs::ioctl_setflags(&folder, flags - rustix::fs::IFlags::IMMUTABLE);
        }
    }
}

impl Stage {
    pub(crate) fn new(test: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return skip(test, "mounting takes root");
        }
        let held = tempfile::tempdir().unwrap();
        let [old, new, at] = ["old", "new", "at"].map(|name| {
            let folder = held.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        });
        fill(&old);
        let config = Config::new(old.to_str().unwrap(), new.clone(), at.clone()).unwrap();
        let check = Check::run(&config, &Cancel::new()).unwrap();
        match check.findings.iter().find(|finding| finding.severity == Severity::Problem) {
            // Of this host. What the test has made is right.
            Some(finding) if finding.about == "host" || finding.message.contains("file system") => {
                skip(test, &finding.to_string())
            }
            Some(finding) => panic!("{finding}"),
            None => Some(Self { held, old, new, at, config }),
        }
    }

    pub(crate) fn start(&self) -> Serving {
        Serving::start(&self.config, &Cancel::new()).unwrap()
    }

    /// Asks through the control socket.
    pub(crate) fn status(&self) -> Status {
        match ask(&self.new, &Request::Status {}) {
            Ok(Reply::Status(status)) => *status,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn order(&self, request: &Request) {
        assert_eq!(ask(&self.new, request).unwrap(), Reply::Done {});
    }

    pub(crate) fn refused(&self, request: &Request) -> String {
        ask(&self.new, request).unwrap_err().to_string()
    }

    /// Waits for what a status must say.
    pub(crate) fn until(&self, is_so: impl Fn(&Status) -> bool) -> Status {
        let began = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(began.elapsed() < LONGEST, "{status:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn until_done(&self) -> Status {
        self.until(|status| status.phase == Phase::Done)
    }
}
