//! A pool that nobody serves: inspected, verified, rebuilt, damaged. Nothing here mounts anything.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ishigaki_device::FileDirectory;
use ishigaki_logpool::{Durability, MemberSettings, Pool, Settings};
use serde_json::Value;

use super::site::Site;
use crate::program::Program;

const TAIL: &[u8] = b"what is not home";

/// A pool of two members, one of them at home with some pages and a little more in the log.
fn pool(site: &Site) -> Vec<u8> {
    let directory = Arc::new(FileDirectory::open(site.data()).expect("opened"));
    let pool = Pool::open_together(directory, Settings { background: false, ..Settings::default() }).expect("opened");
    let orders = pool.add("orders", MemberSettings::default()).expect("added");
    let mut bytes = vec![7; 200_000];
    let file = orders.create("0001").expect("created");
    file.write(0, &bytes, Durability::Now).expect("written");
    pool.bring_home().expect("home");
    file.write(100_000, TAIL, Durability::Now).expect("written");
    bytes[100_000..][..TAIL.len()].copy_from_slice(TAIL);
    let billing = pool.add("billing", MemberSettings::default()).expect("added");
    billing.create("ib_logfile0").expect("created").write(0, b"redo", Durability::Now).expect("written");
    pool.close().expect("closed");
    bytes
}

fn verify(site: &Site) -> Program {
    site.command("verify")
}

#[test]
fn a_sound_pool_is_verified_inspected_and_rebuilt() {
    let site = Site::new(&[]);
    let bytes = pool(&site);
    let text = verify(&site).succeeds().stdout;
    assert!(text.contains("members     orders, billing") && text.contains("problems    none"), "{text}");
    let found: Value = serde_json::from_str(&verify(&site).arg("--json").succeeds().stdout).expect("JSON");
    assert_eq!((&found["sound"], &found["members"][1]), (&true.into(), &"billing".into()));
    assert!(found["home_bytes"].as_u64() > Some(0), "{found}");

    let inspect = || Program::new().args(["log", "inspect"]).arg(site.data());
    let text = inspect().succeeds().stdout;
    for words in
        ["closed cleanly", "stream 0:", " orders ", "at 100000, 16 bytes, 16 of them new", "\"ib_logfile0\" is file"]
    {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }
    let text = inspect().args(["--member", "billing"]).succeeds().stdout;
    assert!(text.contains(" billing ") && !text.contains(" orders "), "{text}");
    let answer = inspect().args(["--member", "bilings"]).fails_with(1);
    assert!(answer.stderr.contains("`bilings` is not in this pool; there are orders, billing"), "{}", answer.stderr);
    let lines = inspect().arg("--json").succeeds().stdout;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines[0]["streams"].is_array(), "{}", lines[0]);
    let tail = lines[1..].iter().find(|entry| entry["offset"] == 100_000).expect("the entry");
    assert_eq!((&tail["member"], &tail["kind"], &tail["changed"]), (&"orders".into(), &"data".into(), &16.into()));

    let to = site.path("to");
    let rebuild = |name: &str| site.command("rebuild").args(["--member", name, "--to"]).arg(&to);
    let answer = rebuild("nobody").fails_with(1);
    assert!(answer.stderr.contains("`nobody`: not found") && answer.stderr.contains("names its members"));
    assert!(!to.exists(), "nothing is left of that");
    let answer = rebuild("orders").succeeds();
    assert!(answer.stdout.starts_with("Rebuilt 1 file, 195.3 KiB, of orders in "), "{}", answer.stdout);
    assert!(fs::read(to.join("0001")).expect("rebuilt") == bytes);
}

#[test]
fn damage_is_found_with_its_exit_code_and_told_by_member() {
    let site = Site::new(&[]);
    pool(&site);
    let homes: Vec<_> = fs::read_dir(site.data())
        .expect("listed")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("orders")))
        .collect();
    // Somewhere at home there is a page of sevens.
    let page = |path| {
        let bytes = fs::read(path).expect("read");
        bytes.chunks(4096).position(|page| page.len() == 4096 && page.iter().all(|&byte| byte == 7))
    };
    let (home, page) = homes.iter().find_map(|path| Some((path, page(path)?))).expect("the home");
    let file = fs::OpenOptions::new().write(true).open(home).expect("opened");
    file.write_all_at(b"8", page as u64 * 4096 + 17).expect("written");

    let answer = verify(&site).fails_with(4);
    assert!(answer.stdout.contains("problem     member `orders`: `0001` is damaged at home"), "{}", answer.stdout);
    assert!(answer.stderr.contains("1 problem") && answer.stderr.contains("can still be rebuilt"), "{}", answer.stderr);
    let found: Value = serde_json::from_str(&verify(&site).arg("--json").fails_with(4).stdout).expect("JSON");
    assert_eq!((&found["sound"], found["problems"].as_array().map(Vec::len)), (&false.into(), Some(1)));
    let to = site.path("to");
    let rebuild = |name: &str| site.command("rebuild").args(["--member", name, "--to"]).arg(&to);
    let answer = rebuild("orders").fails_with(4);
    assert!(answer.stderr.contains("log verify --data"), "{}", answer.stderr);
    assert!(!to.exists());
    rebuild("billing").succeeds();
    assert_eq!(fs::read(to.join("ib_logfile0")).expect("rebuilt"), b"redo");
}

#[test]
fn a_directory_without_a_pool_is_no_damaged_one() {
    let site = Site::new(&[]);
    fs::create_dir(site.data()).expect("made");
    let answer = verify(&site).fails_with(1);
    assert!(answer.stderr.contains("there is no pool in this directory"), "{}", answer.stderr);
    // It was not even locked.
    assert_eq!(fs::read_dir(site.data()).expect("listed").count(), 0);
    let answer = Program::new().args(["log", "inspect", "--member", "a"]).arg(site.data()).fails_with(1);
    assert!(answer.stderr.contains("only a pool has members"), "{}", answer.stderr);
}
