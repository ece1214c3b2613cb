//! A service that is replaced by another process, as people and systemd ask for it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use serde_json::Value;

use super::served::{Site, can_mount};
use crate::program::signal;

/// Ends a service that no test holds any more, however the test ends.
struct Orphan(u32);

impl Drop for Orphan {
    fn drop(&mut self) {
        let _ = std::process::Command::new("sh").args(["-c", &format!("kill -KILL {} 2>&1", self.0)]).output();
    }
}

/// What systemd hears next: that a service is ready, and its number.
fn ready(place: &UnixDatagram) -> u32 {
    let mut words = [0; 256];
    let length = place.recv(&mut words).expect("the service tells it");
    let words = String::from_utf8_lossy(&words[..length]).into_owned();
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
