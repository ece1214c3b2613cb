//! A service that mounts folders, as a child process.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
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
pub(crate) fn can_mount(test: &str) -> bool {
    let Some(reason) = &*REFUSED else { return true };
    // Past the capture of a test's output.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    false
}

/// Takes away what is mounted there, if anything.
pub(crate) fn unmount(folder: &Path) {
    let _ = Command::new("umount").arg("-l").arg(folder).stderr(Stdio::null()).status();
}

/// A service; killed when dropped.
pub(crate) struct Served {
    running: Option<Running>,
    /// What it said when it began.
    pub(crate) told: Value,
}

/// How long anything may take.
const LONG: Duration = Duration::from_mins(1);

impl Served {
    pub(crate) fn start(program: Program) -> Self {
        let mut running = program.arg("--json").start();
        let line = running.hear();
        let Ok(told) = serde_json::from_str(&line) else { panic!("{line}{}", running.ends().stderr) };
        Self { running: Some(running), told }
    }

    /// Waits for its end after a signal, which must be a good one; what it said then.
    pub(crate) fn ends_by(self, name: &str) -> Value {
        let (told, words) = self.ends_by_with_words(name);
        assert_eq!(words, "");
        told
    }

    /// The same of one that has warned of something, with these words.
    pub(crate) fn ends_by_with_words(mut self, name: &str) -> (Value, String) {
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
    pub(crate) fn kill(mut self) {
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
