//! Files are copied ahead by commands, while the old server changes; then it is replaced.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::Value;

use super::{HIDDEN, LONG, Site, files};
use crate::program::{Running, signal};
use crate::served::can_mount;

/// The last line of an answer.
fn counts(stdout: &str) -> Value {
    serde_json::from_str(stdout.lines().last().expect("a line")).expect("JSON")
}

/// How much room the file has that is copied slowly.
fn arrived(site: &Site) -> u64 {
    fs::metadata(site.new.join("docs/deep/large")).map_or(0, |found| found.blocks())
}

/// Waits until more of it has come than had come before.
fn until_begun(site: &Site, before: u64, running: &mut Running) {
    let began = std::time::Instant::now();
    while arrived(site) <= before {
        assert!(began.elapsed() < LONG && !running.has_ended(), "nothing is copied");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_server_is_copied_ahead_and_then_replaced() {
    if !can_mount("a_server_is_copied_ahead_and_then_replaced") {
        return;
    }
    let site = Site::new();
    // Killed at any time, and ended by a person.
    let slow = || site.of_both("seed").args(["--bandwidth", "64KiB", "--json"]).start();
    let mut killed = slow();
    until_begun(&site, 0, &mut killed);
    killed.kill();
    let before = arrived(&site);
    let mut ended = slow();
    until_begun(&site, before, &mut ended);
    assert!(site.of_both("seed").fails_with(3).stderr.contains("copies into it"));
    signal(ended.id(), "INT");
    let ended = ended.ends();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert!(ended.stderr.contains("the same command goes on"), "{}", ended.stderr);
    assert_eq!(counts(&ended.stdout)["ended_early"], true);

    let whole = site.of_both("seed").succeeds();
    assert!(whole.stdout.starts_with("41 of 41 files are here, "), "{}", whole.stdout);
    let again = counts(&site.of_both("seed").arg("--json").succeeds().stdout);
    assert_eq!((&again["whole"], &again["copied"], &again["problems"]), (&41.into(), &0.into(), &0.into()), "{again}");
    // What is here is told to be no end of a migration.
    let report = site.of_both("verify").arg("--json").fails_with(1);
    assert!(report.stdout.contains("not_yet_here"), "{}", report.stdout);
    assert!(site.command("finish").fails_with(3).stderr.contains("no service migrates into it"));

    fs::write(site.old.join("docs/file-1"), b"changed").expect("written");
    fs::remove_file(site.old.join("docs/file-2")).expect("removed");
    fs::rename(site.old.join("docs/deep"), site.old.join("renamed")).expect("renamed");
    let file = site.old.with_file_name("migrate.toml");
    fs::write(&file, "to = \"new\"\nat = \"at\"\n[[source]]\nfrom = \"old\"\n").expect("written");
    let third = crate::Program::new().args(["migrate", "seed", "--json", "--config"]).arg(&file).succeeds();
    assert_eq!(counts(&third.stdout)["copied"], 7 + (3 << 20));
    fs::write(site.old.join("docs/file-3"), b"the last change").expect("written");

    let service = site.serve(&[]);
    assert!(site.of_both("seed").fails_with(3).stderr.contains("another service migrates into it"));
    let status = site.until("done");
    assert_eq!((&status["files"], &status["copied"]), (&40.into(), &15.into()), "{status}");
    assert!(files(&site.at) == files(&site.old));
    let report = site.of_both("verify").succeeds();
    assert!(report.stdout.contains("nothing differs"), "{}", report.stdout);
    service.ends_by_with_words("TERM");
    assert!(site.of_both("seed").fails_with(1).stderr.contains("has begun"));
    let service = site.serve(&[]);
    site.until("done");
    site.command("finish").succeeds();
    service.ends_by_with_words("INT");
    assert!(!site.new.join(HIDDEN).exists());
    assert!(files(&site.new) == files(&site.old));
    // It belongs to its clients now.
    assert!(site.of_both("seed").fails_with(1).stderr.contains("is not empty"));
}
