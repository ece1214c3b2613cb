//! A service as a child process, with the folders of its members.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Program, Running, database, signal};

/// Why this host lets nobody mount, as in many containers.
static REFUSED: LazyLock<Option<String>> = LazyLock::new(|| {
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        return Some(format!("/dev/fuse: {error}"));
    }
    if std::fs::metadata("/proc/self").map_or(true, |own| own.uid() != 0) {
        return Some("mounting takes root".to_owned());
    }
    let place = database();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "probe"]).arg(place.path()).stderr(Stdio::null());
    match mount.status() {
        Ok(status) if status.success() => {
            unmount(place.path());
            None
        }
        Ok(status) => Some(format!("mounting is refused: {status}")),
        Err(error) => Some(format!("there is no mount(8): {error}")),
    }
});

/// Says why a test does nothing, or nothing if it can mount.
pub(super) fn can_mount(test: &str) -> bool {
    let Some(reason) = &*REFUSED else { return true };
    // Past the capture of a test's output.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    false
}

/// Takes away what is mounted there, if anything.
pub(super) fn unmount(folder: &Path) {
    let _ = Command::new("umount").arg("-l").arg(folder).stderr(Stdio::null()).status();
}

/// A data directory, and folders beside it.
pub(super) struct Site {
    place: tempfile::TempDir,
    folders: Vec<PathBuf>,
    /// Where the data is.
    data: PathBuf,
}

impl Site {
    pub(super) fn new(members: &[&str]) -> Self {
        let place = database();
        let folders: Vec<_> = members.iter().map(|name| place.path().join(name)).collect();
        for folder in &folders {
            std::fs::create_dir(folder).expect("made");
        }
        Self { data: place.path().join("data"), place, folders }
    }

    /// Has the data in a folder of that name instead.
    pub(super) fn nest(&mut self, name: &str) {
        self.data = self.path(name).join("data");
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// A command that has `--data`.
    pub(super) fn command(&self, name: &str) -> Program {
        Program::new().args(["log", name, "--data"]).arg(self.data())
    }

    /// What the service tells of itself.
    pub(super) fn status(&self) -> Value {
        let answer = self.command("status").arg("--json").succeeds();
        serde_json::from_str(&answer.stdout).expect("JSON")
    }

    /// Starts a service over the data directory.
    pub(super) fn serve(&self, arguments: &[&str]) -> Served {
        Served::start(self.command("serve").args(arguments))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // What a service that was killed has left; without it nothing is mounted there any more.
        for folder in &self.folders {
            unmount(folder);
        }
    }
}

/// A service; killed when dropped.
pub(super) struct Served {
    running: Option<Running>,
    /// What it said when it began.
    pub(super) told: Value,
}

/// How long anything may take.
const LONG: Duration = Duration::from_mins(1);

impl Served {
    pub(super) fn start(program: Program) -> Self {
        let mut running = program.arg("--json").start();
        let line = running.hear();
        let Ok(told) = serde_json::from_str(&line) else { panic!("{line}{}", running.ends().stderr) };
        Self { running: Some(running), told }
    }

    /// Waits for its end after a signal, which must be a good one; what it said then.
    pub(super) fn ends_by(self, name: &str) -> Value {
        let (told, words) = self.ends_by_with_words(name);
        assert_eq!(words, "");
        told
    }

    /// The same of one that has warned of something, with these words.
    pub(super) fn ends_by_with_words(mut self, name: &str) -> (Value, String) {
        let running = self.running.take().expect("it runs");
        let process = running.id();
        signal(process, name);
        // A service that hangs fails its test, and does not hang it.
        let watch = std::thread::spawn(move || {
            let began = Instant::now();
            while Path::new(&format!("/proc/{process}/exe")).exists() {
                if began.elapsed() > LONG {
                    signal(process, "KILL");
                    return false;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            true
        });
        let answer = running.ends();
        assert!(watch.join().expect("no panic"), "it did not end in time: {}", answer.stderr);
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        (serde_json::from_str(&answer.stdout).expect("JSON"), answer.stderr)
    }

    /// Ends it without asking.
    pub(super) fn kill(mut self) {
        self.running.take().expect("it runs").kill();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
        }
    }
}
