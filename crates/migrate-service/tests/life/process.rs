//! This test's program, started once more: a service in a process of its own, or a client.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::{Config, Serving};
use rustix::fs::{FlockOperation, fcntl_lock};

use crate::stage::Stage;

const CONFIG: &str = "ISHIGAKI_TEST_MIGRATION";
const TAKES_OVER: &str = "ISHIGAKI_TEST_TAKES_OVER";
const LOCKED: &str = "ISHIGAKI_TEST_LOCKED";
const SERVES: &str = "it serves";

/// A service, which ends with the test.
pub(crate) struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
}

fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command
}

impl Process {
    /// Starts one that begins, or takes over; does not wait for it.
    pub(crate) fn spawn(stage: &Stage, takes_over: bool) -> Self {
        let Config { to, at, sources, bandwidth, paused, .. } = &stage.config;
        let speed = bandwidth.map(|bandwidth| format!("bandwidth = \"{bandwidth}B\"\n")).unwrap_or_default();
        let text = format!(
            "to = \"{}\"\nat = \"{}\"\npaused = {paused}\n{speed}[[source]]\nfrom = \"{}\"\n",
            to.display(),
            at.display(),
            sources[0].from
        );
        let path = stage.held.path().join("migrate.toml");
        fs::write(&path, text).unwrap();
        let mut command = again("process::a_service_of_its_own");
        command.env(CONFIG, path).stdin(Stdio::piped()).stdout(Stdio::piped());
        if takes_over {
            command.env(TAKES_OVER, "1");
        }
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Starts one, and waits until it serves.
    pub(crate) fn start(stage: &Stage, takes_over: bool) -> Self {
        let mut process = Self::spawn(stage, takes_over);
        let mut line = String::new();
        while !line.contains(SERVES) {
            line.clear();
            assert!(process.out.read_line(&mut line).unwrap() > 0, "it has not begun to serve");
        }
        process
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends when its input does, and unmounts.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "the process that other tests start"]
fn a_service_of_its_own() {
    let Some(path) = std::env::var_os(CONFIG) else { return };
    let config = Config::read(Path::new(&path)).unwrap();
    let begin = if std::env::var_os(TAKES_OVER).is_some() { Serving::take_over } else { Serving::start };
    let serving = begin(&config, &Cancel::new()).unwrap();
    println!("{SERVES}");
    std::io::stdout().flush().unwrap();
    let input = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    while !serving.is_replaced() && !input.is_finished() {
        std::thread::sleep(Duration::from_millis(5));
    }
    serving.stop().unwrap();
}

/// Whether another process gets no lock of a file (`fcntl`).
pub(crate) fn is_locked_to_others(path: &Path) -> bool {
    again("process::a_client_that_locks").env(LOCKED, path).output().unwrap().status.success()
}

#[test]
#[ignore = "the process that other tests start"]
fn a_client_that_locks() {
    let Some(path) = std::env::var_os(LOCKED) else { return };
    let file: File = OpenOptions::new().read(true).write(true).open(path).unwrap();
    assert!(fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err());
}
