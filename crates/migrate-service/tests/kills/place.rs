//! Where a migration takes place: an old tree, the destination, the folder of the clients.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::Config;
use ishigaki_migrate_service::check::{Check, Severity};

use super::client::{Client, Keeps};
use super::model::Model;

/// Files of each directory of a client.
const FILES: usize = 10;
/// The directory that no client works in, its directories, and the files of each.
const REST: &str = "rest";
const DIRECTORIES: usize = 20;
const MANY: usize = 25;

pub(crate) struct Place {
    pub(crate) held: tempfile::TempDir,
    pub(crate) old: PathBuf,
    pub(crate) new: PathBuf,
    pub(crate) at: PathBuf,
    /// What the old tree holds.
    pub(crate) bytes: u64,
}

/// Says why nothing can be served here, past the capture of a test's output.
pub(crate) fn skip(test: &str, reason: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED: {test}: {reason}");
}

impl Place {
    /// With the destination on the file system of temporary files.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let place = Self::without_destination(test)?;
        fs::create_dir(&place.new).unwrap();
        place.is_fit(test).then_some(place)
    }

    /// The destination's directory is still to be made.
    pub(crate) fn without_destination(test: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(test, "mounting takes root");
            return None;
        }
        let held = tempfile::tempdir().unwrap();
        let [old, new, at] = ["old", "new", "at"].map(|name| held.path().join(name));
        for folder in [&old, &at] {
            fs::create_dir(folder).unwrap();
        }
        Some(Self { held, old, new, at, bytes: 0 })
    }

    /// Whether this host can serve it. What the test has made is right.
    pub(crate) fn is_fit(&self, test: &str) -> bool {
        let config = Config::new(self.old.to_str().unwrap(), self.new.clone(), self.at.clone()).unwrap();
        let check = Check::run(&config, &Cancel::new()).unwrap();
        let problem = check.findings.iter().find(|finding| finding.severity == Severity::Problem);
        if let Some(finding) = problem {
            assert!(finding.about == "host" || finding.message.contains("file system"), "{finding}");
            skip(test, &finding.to_string());
        }
        problem.is_none()
    }

    /// Fills the old tree: each client gets a directory of its own, and the crawler the rest.
    pub(crate) fn fill(&mut self, clients: u64, random: &mut fastrand::Rng) {
        for client in 0..clients {
            for directory in ["a", "a/b", "c"] {
                let folder = self.old.join(client.to_string()).join(directory);
                fs::create_dir_all(&folder).unwrap();
                for number in 0..FILES {
                    let largest = if number == 0 { 3_000_000 } else { 150_000 };
                    self.bytes += write_file(&folder.join(number.to_string()), random.usize(..largest), random);
                }
            }
        }
        for directory in 0..DIRECTORIES {
            let folder = self.old.join(REST).join(directory.to_string());
            fs::create_dir_all(&folder).unwrap();
            for number in 0..MANY {
                self.bytes += write_file(&folder.join(number.to_string()), random.usize(..40_000), random);
            }
        }
    }

    /// What no client touches is in a tree as at the source, with its times.
    pub(crate) fn rest_is_as_at_the_source(&self, root: &Path) {
        for (directory, number) in (0..DIRECTORIES).flat_map(|it| (0..MANY).map(move |number| (it, number))) {
            let path = Path::new(REST).join(directory.to_string()).join(number.to_string());
            let [old, new] = [&self.old, root].map(|root| root.join(&path));
            let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
            assert!(fs::read(&old).unwrap() == fs::read(&new).unwrap(), "{}", path.display());
            assert_eq!(time(&old), time(&new), "{}", path.display());
        }
    }

    pub(crate) fn clients(&self, number: u64, keeps: Keeps, random: &mut fastrand::Rng) -> Vec<Client> {
        let client = |number: u64, random: &mut fastrand::Rng| {
            let own = PathBuf::from(number.to_string());
            Client::new(own.clone(), Model::of(&self.old.join(own)), keeps, random.fork())
        };
        (0..number).map(|number| client(number, random)).collect()
    }

    /// Nothing but the clients' own is in the destination, and nothing is mounted on the folder.
    pub(crate) fn nothing_is_left(&self) {
        let done = Command::new("getfattr").args(["-R", "-d", "-m", "-", "--absolute-names"]).arg(&self.new).output();
        let said = String::from_utf8(done.expect("attr is installed").stdout).unwrap();
        assert_eq!(said, "", "attributes");
        assert!(!self.new.join(".ishigaki-migrate").exists());
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(self.at.to_str().unwrap()), "{mounts}");
    }
}

/// A file of random pieces, some of them holes; its size.
fn write_file(path: &Path, size: usize, random: &mut fastrand::Rng) -> u64 {
    let file = File::create(path).unwrap();
    let mut at = 0;
    while at < size {
        let length = random.usize(1..200_000).min(size - at);
        if random.u8(..4) > 0 {
            let byte = random.u8(1..);
            let bytes: Vec<u8> = (0..length).map(|place| byte ^ (place / 512) as u8).collect();
            file.write_all_at(&bytes, at as u64).unwrap();
        }
        at += length;
    }
    file.set_len(size as u64).unwrap();
    size as u64
}

impl Drop for Place {
    fn drop(&mut self) {
        // What a service has left that was killed when a test failed.
        let _ = rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::DETACH);
    }
}
