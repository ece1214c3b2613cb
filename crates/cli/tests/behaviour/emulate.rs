//! `ishigaki media emulate` as a process: told, used, its power cut, taken away.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::program::{Answer, Program, Running, database, signal};

/// Says why a test does nothing, or nothing if it can emulate.
fn can_emulate(test: &str) -> bool {
    let closed = ["/dev/fuse", "/dev/loop-control"]
        .into_iter()
        .find(|device| OpenOptions::new().read(true).write(true).open(device).is_err());
    if let Some(device) = closed {
        // Past the capture of a test's output.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {device} can not be opened; it takes root");
    }
    closed.is_none()
}

fn emulate(arguments: &[&str], at: &Path) -> Program {
    Program::new().args(["media", "emulate"]).args(arguments).arg("--at").arg(at)
}

/// A process that emulates. *Drop*, as when a test fails, ends it by a signal, and if it does not listen, by force.
struct Emulating(Option<Running>);

/// How long a process may take to end, in tenths of a second.
const PATIENCE: u32 = 100;

impl Emulating {
    fn running(&mut self) -> &mut Running {
        self.0.as_mut().expect("it was not waited for")
    }

    /// Waits for its end.
    fn ends(mut self) -> Answer {
        self.0.take().expect("it was not waited for").ends()
    }
}

impl Drop for Emulating {
    fn drop(&mut self) {
        let Some(mut running) = self.0.take() else { return };
        running.terminate();
        for _ in 0..PATIENCE {
            if running.has_ended() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        running.kill();
    }
}

/// A disk that is there, and what it said.
fn begin(arguments: &[&str], at: &Path) -> (Emulating, Value) {
    let mut emulating = Emulating(Some(emulate(arguments, at).arg("--json").start()));
    let line = emulating.running().hear();
    let Ok(told) = serde_json::from_str(&line) else { panic!("{line}{}", emulating.ends().stderr) };
    (emulating, told)
}

#[test]
fn a_disk_is_a_block_device_until_it_is_ended_and_says_what_it_was_asked_for() {
    if !can_emulate("a_disk_is_a_block_device_until_it_is_ended_and_says_what_it_was_asked_for") {
        return;
    }
    let place = database();
    let at = place.path().join("made");
    let (mut emulating, told) = begin(&["ssd", "--size", "64MiB"], &at);
    assert_eq!((&told["medium"], &told["size"]), (&"ssd".into(), &(64_u64 << 20).into()));
    let device = told["device"].as_str().expect("a path").to_owned();
    let mut file = OpenOptions::new().read(true).write(true).open(&device).expect("opened");
    file.write_all(&[7; 4096]).expect("written");
    file.sync_all().expect("synced");
    drop(file);
    emulate(&["--power-cut", "--seed", "7"], &at).succeeds();
    assert_eq!(fs::read_to_string(at.join("power")).expect("read"), "off\n");
    emulate(&["--power-on"], &at).succeeds();
    let mut bytes = [0; 4096];
    fs::File::open(&device).expect("opened").read_exact(&mut bytes).expect("read");
    assert!(bytes == [7; 4096]);
    signal(emulating.running().id(), "INT");
    let answer = emulating.ends();
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
    let ended: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    assert_eq!((&ended["ended"], &ended["power_cuts"]), (&true.into(), &1.into()));
    assert!(ended["bytes_written"].as_u64() >= Some(4096) && ended["flushes"].as_u64() >= Some(1), "{ended}");
    assert!(fs::read_dir(&at).expect("listed").next().is_none());
}

#[test]
fn what_can_not_be_emulated_is_refused_with_a_remedy() {
    let place = database();
    let refused = |arguments: &[&str], code, words: &str| {
        let answer = emulate(arguments, place.path()).fails_with(code);
        assert!(answer.stderr.contains(words), "{}", answer.stderr);
    };
    refused(&["hdd"], 2, "--size");
    refused(&["tape", "--size", "1GiB"], 2, "no modelled medium");
    refused(&["ssd", "--size", "1GiB", "--capacity", "2GiB"], 2, "for hdd");
    refused(&["hdd", "--size", "1GiB", "--capacity", "1MiB"], 2, "not less than `--size`");
    refused(&["hdd", "--size", "0B"], 2, "no bytes");
    refused(&["--power-cut"], 1, "no emulated disk");
    refused(&["--power-on"], 1, "no emulated disk");
    if !can_emulate("what_can_not_be_emulated_is_refused_with_a_remedy") {
        return;
    }
    refused(&["ssd", "--size", "900TB"], 6, "`--memory` limits");
    fs::write(place.path().join("mine"), "").expect("written");
    refused(&["ssd", "--size", "1MiB"], 1, "not empty");
}
