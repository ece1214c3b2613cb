//! A service that is replaced by another process, as people and systemd ask for it.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::site::Site;
use crate::program::{Program, signal};
use crate::served::{Served, can_mount};

/// Ends a service that no test holds any more, however the test ends.
struct Orphan(u32);

impl Drop for Orphan {
    fn drop(&mut self) {
        let _ = std::process::Command::new("sh").args(["-c", &format!("kill -KILL {} 2>&1", self.0)]).output();
    }
}

/// What systemd hears next: that a service is ready, and its number.
fn ready(place: &UnixDatagram) -> u32 {
    let words = loop {
        let mut words = [0; 256];
        let length = place.recv(&mut words).expect("the service tells it");
        let words = String::from_utf8_lossy(&words[..length]).into_owned();
        // One that takes long to start says so.
        if !words.starts_with("EXTEND_TIMEOUT_USEC=") {
            break words;
        }
    };
    let number = words.strip_prefix("READY=1\nMAINPID=").and_then(|rest| rest.trim_end().parse().ok());
    number.unwrap_or_else(|| panic!("{words}"))
}

#[test]
fn a_service_that_is_told_to_start_again_is_replaced_by_its_own_program_and_systemd_hears_of_it() {
    if !can_mount("a_service_that_is_told_to_start_again_is_replaced_by_its_own_program_and_systemd_hears_of_it") {
        return;
    }
    let site = Site::new(&["orders"]);
    let systemd = UnixDatagram::bind(site.path("notify")).expect("bound");
    systemd.set_read_timeout(Some(Duration::from_mins(1))).expect("set");
    let member = format!("orders:generic:{}", site.path("orders").display());
    let arguments = ["--member", &member, "--log", "64MiB", "--json"];
    let mut running = site.command("serve").args(arguments).env("NOTIFY_SOCKET", site.path("notify")).start();
    let told: Value = serde_json::from_str(&running.hear()).expect("JSON");
    assert_eq!((told["pid"].as_u64(), ready(&systemd)), (Some(running.id().into()), running.id()));
    let mut options = OpenOptions::new();
    let log = options.read(true).write(true).create_new(true).open(site.path("orders").join("log")).expect("made");
    log.write_all_at(b"before", 0).expect("written");

    let mut serves = running.id();
    for turn in 1..=2_u64 {
        signal(serves, "HUP");
        let next = ready(&systemd);
        assert_ne!(next, serves);
        let _orphan = (turn == 2).then(|| Orphan(next));
        log.write_all_at(b"after", 6 * turn).expect("the file is as open as it was");
        assert_eq!(site.status()["pid"], next);
        // The one that has ended and the one that has begun say so in any order.
        let lines = [running.hear(), running.hear()];
        let [ended, begun] =
            ["\"replaced\":true", "\"members\":["].map(|word| lines.iter().any(|line| line.contains(word)));
        assert!(ended && begun, "{lines:?}");
        serves = next;
        if turn == 2 {
            drop(log);
            signal(serves, "TERM");
            let answer = running.ends();
            assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
            assert!(answer.stdout.contains("\"commits\":"), "{}", answer.stdout);
            break;
        }
    }
    assert_eq!(fs::read_dir(site.path("orders")).expect("unmounted").count(), 0);
}

#[test]
fn a_takeover_where_nobody_serves_is_a_start() {
    if !can_mount("a_takeover_where_nobody_serves_is_a_start") {
        return;
    }
    let site = Site::new(&["orders"]);
    let member = format!("orders:generic:{}", site.path("orders").display());
    let service = site.serve(&["--member", &member, "--log", "64MiB", "--takeover"]);
    assert_eq!(service.told["members"][0]["name"], "orders");
    service.ends_by("TERM");
}

/// The program under another name, that a test can take away.
fn under(link: &Path) -> Program {
    symlink(env!("CARGO_BIN_EXE_ishigaki"), link).expect("linked");
    Program::of(link)
}

#[test]
fn a_service_whose_program_is_gone_or_hangs_at_a_sighup_serves_on() {
    if !can_mount("a_service_whose_program_is_gone_or_hangs_at_a_sighup_serves_on") {
        return;
    }
    let site = Site::new(&["orders"]);
    let (link, starts) = (site.path("ishigaki"), site.path("starts"));
    let member = format!("orders:generic:{}", site.path("orders").display());
    let program = under(&link).args(["log", "serve", "--data"]).arg(site.data());
    // Nothing listens there, as where systemd has gone on without its socket.
    let program = program.args(["--member", &member, "--log", "64MiB"]).env("NOTIFY_SOCKET", site.path("nothing"));
    let service = Served::start(program);
    let pid = service.told["pid"].as_u64().expect("a number") as u32;
    fs::remove_file(&link).expect("removed");
    signal(pid, "HUP");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(site.status()["pid"], pid);

    // Its next program starts, and neither serves nor ends: one of these is enough.
    let script = format!("#!/bin/sh\necho started >> {}\nexec sleep 20\n", starts.display());
    fs::write(&link, script).expect("written");
    fs::set_permissions(&link, Permissions::from_mode(0o755)).expect("set");
    for _ in 0..3 {
        signal(pid, "HUP");
        std::thread::sleep(Duration::from_millis(1500));
    }
    assert_eq!(fs::read_to_string(&starts).expect("it was started"), "started\n");
    fs::write(site.path("orders").join("log"), b"as before").expect("written");
    assert_eq!(site.status()["pid"], pid);
    let (_, words) = service.ends_by_with_words("TERM");
    for part in ["systemd is not told", "no successor is started", "is started again already"] {
        assert!(words.contains(part), "{part} in {words}");
    }
}

#[test]
fn a_service_that_serves_nothing_after_a_hand_over_ends_with_an_error() {
    if !can_mount("a_service_that_serves_nothing_after_a_hand_over_ends_with_an_error") {
        return;
    }
    let site = Site::new(&["orders"]);
    let member = format!("orders:generic:{}", site.path("orders").display());
    let mut running = site.command("serve").args(["--member", &member, "--log", "64MiB", "--json"]).start();
    running.hear();
    fs::write(site.path("orders").join("log"), b"before").expect("written");
    let mut stream = UnixStream::connect(site.data().join("service.sock")).expect("connected");
    stream.write_all(b"{\"hand_over\":{}}\n").expect("asked");
    stream.read_exact(&mut [0; 16]).expect("answered");
    for name in ["pool-roster", "pool-roster-1"] {
        fs::remove_file(site.data().join(name)).expect("removed");
    }
    drop(stream);
    let began = Instant::now();
    while !running.has_ended() {
        assert!(began.elapsed() < Duration::from_mins(1), "it serves nothing and does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let answer = running.ends();
    assert_eq!(answer.code, Some(4), "{}", answer.stderr);
    assert!(answer.stderr.contains("nothing is served any more"), "{}", answer.stderr);
}
