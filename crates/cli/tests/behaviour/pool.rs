//! One log for many database servers: served, asked, killed, rebuilt, refused.

mod mending;
mod metrics;
mod offline;
mod refused;
mod restart;
mod ring;
mod site;
mod systemd;
mod takeover;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use serde_json::Value;

use crate::program::Program;
use crate::served::{Served, can_mount, unmount};
use site::Site;

/// `O_DSYNC`: each write is durable when it returns.
const DURABLE: i32 = 0o10_000;

/// Writes blocks as servers do: the last one again and again, durably.
fn commit(path: &Path, turns: u8) {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).custom_flags(DURABLE).open(path).expect("opened");
    let mut block = [0; 4096];
    for turn in 0..turns {
        block[usize::from(turn) * 10..][..10].fill(turn + 1);
        file.write_all_at(&block, 8192).expect("written");
    }
}

/// All files below a folder with their bytes, and folders without.
fn tree(root: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("listed") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("below").display().to_string();
            if path.is_dir() {
                found.insert(name, None);
                folders.push(path);
            } else {
                found.insert(name, Some(fs::read(path).expect("read")));
            }
        }
    }
    found
}

fn member<'a>(status: &'a Value, name: &str) -> &'a Value {
    let members = status["members"].as_array().expect("members");
    members.iter().find(|member| member["name"] == name).expect("the member")
}

#[test]
fn what_was_durable_is_there_after_a_kill_and_a_rebuild_gives_the_same_files() {
    if !can_mount("what_was_durable_is_there_after_a_kill_and_a_rebuild_gives_the_same_files") {
        return;
    }
    let site = Site::new(&["orders", "billing"]);
    let (orders, billing) = (site.path("orders"), site.path("billing"));
    let members =
        [format!("orders:postgresql:{}", orders.display()), format!("billing:mariadb:{}:0:0", billing.display())];
    let arguments = ["--member", &members[0], "--member", &members[1]];
    let service = site.serve(&arguments);
    assert_eq!(service.told["members"][0]["mount"], orders.display().to_string());
    assert_eq!(service.told["members"][1]["profile"], "mariadb");

    commit(&orders.join("0001"), 50);
    fs::create_dir(orders.join("archive_status")).expect("made");
    commit(&orders.join("archive_status/0001.ready"), 1);
    fs::rename(orders.join("archive_status/0001.ready"), orders.join("archive_status/0001.done")).expect("renamed");
    commit(&billing.join("ib_logfile0"), 20);
    // Names are durable by a sync, or by any durable write.
    fs::File::open(&orders).and_then(|folder| folder.sync_all()).expect("synced");
    let before = (tree(&orders), tree(&billing));
    assert_eq!(before.0.len(), 3);

    let status = site.status();
    assert_eq!((&status["pid"], &status["waiting"]), (&service.told["pid"], &"auto".into()));
    let asked = member(&status, "orders");
    assert_eq!((&asked["mounted"], &asked["problem"]), (&true.into(), &Value::Null));
    assert_eq!(asked["written_bytes"], 51 * 4096);
    assert!(asked["commits"].as_u64() >= Some(51), "{asked}");
    // Ten new bytes of each block of 4096.
    assert!(asked["logged_bytes"].as_u64() < Some(51 * 4096 / 8), "{asked}");
    assert!(asked["commit_seconds"]["p99"].as_f64() >= asked["commit_seconds"]["p50"].as_f64(), "{asked}");
    // The block at 8192 is a checkpoint area of InnoDB's.
    assert!(member(&status, "billing")["area_bytes"].as_u64() > Some(0), "{status}");
    assert!(status["log"]["writes"].as_u64() > Some(0), "{status}");
    let text = site.command("status").succeeds().stdout;
    for words in
        ["orders (postgresql) at ", "billing (mariadb) at ", "  commits   5", "p99 ", "not home", " logged, 1/"]
    {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }

    // Nobody else may have it, and offline is offline.
    let again = site.command("serve").args(arguments).fails_with(3);
    assert!(again.stderr.contains("in use by another process"), "{}", again.stderr);
    let target = site.path("rebuilt");
    let rebuild = || site.command("rebuild").args(["--member", "orders", "--to"]).arg(&target);
    let answer = rebuild().fails_with(1);
    assert!(answer.stderr.contains("`ishigaki log quarantine orders` takes it out of service"), "{}", answer.stderr);
    assert!(!target.exists());
    let answer = site.command("verify").succeeds();
    assert!(answer.stdout.contains("checked, of all members"), "the service does it: {}", answer.stdout);

    service.kill();
    assert!(fs::read_dir(&orders).is_err(), "nobody answers");
    let answer = site.command("status").fails_with(3);
    assert!(answer.stderr.contains("no service runs there"), "{}", answer.stderr);
    let service = site.serve(&arguments);
    assert!(before == (tree(&orders), tree(&billing)), "as it was");
    commit(&orders.join("0001"), 60);
    let after = tree(&orders);
    let ended = service.ends_by("TERM");
    assert_eq!((&ended["ended"], &ended["written_bytes"]), (&true.into(), &(60 * 4096).into()));
    assert_eq!(fs::read_dir(&orders).expect("unmounted").count(), 0);

    let answer = rebuild().arg("--json").succeeds();
    let told: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    assert_eq!((&told["files"], told["bytes"].as_u64()), (&2.into(), Some(2 * 12_288)));
    assert!(tree(&target) == after);
    let answer = rebuild().fails_with(3);
    assert!(answer.stderr.contains("choose an empty directory"), "{}", answer.stderr);
    site.command("verify").succeeds();
}

#[test]
fn the_control_socket_is_its_owners_alone_and_a_stale_one_is_in_nobodys_way() {
    if !can_mount("the_control_socket_is_its_owners_alone_and_a_stale_one_is_in_nobodys_way") {
        return;
    }
    // Longer than the path of a socket may be.
    let mut site = Site::new(&[]);
    site.nest(&"d".repeat(120));
    let mode = || fs::metadata(site.data().join("service.sock")).expect("a socket").permissions().mode();
    for turn in 0..2 {
        let service = site.serve(&[]);
        assert_eq!(mode() & 0o7777, 0o600, "{turn}");
        assert_eq!(site.status()["members"], Value::Array(Vec::new()));
        assert!(!site.data().join("service.sock.new").exists());
        if turn == 0 { service.kill() } else { drop(service.ends_by("INT")) }
    }
    assert!(!site.data().join("service.sock").exists());
}

#[test]
fn a_member_that_is_added_is_served_at_once_and_after_every_start() {
    if !can_mount("a_member_that_is_added_is_served_at_once_and_after_every_start") {
        return;
    }
    let site = Site::new(&["one", "two", "full", "empty"]);
    let [one, two, full, empty] = ["one", "two", "full", "empty"].map(|name| site.path(name));
    fs::write(full.join("something"), "").expect("written");
    let first = format!("one:generic:{}", one.display());
    let service = site.serve(&["--member", &first]);
    let add = |name: &str, folder: &Path| {
        site.command("add").args([name, "--profile", "generic", "--share", "2MiB", "--mount"]).arg(folder)
    };
    let answer = add("two", &two).args(["--home", "64MiB"]).succeeds();
    assert!(answer.stdout.contains("two (generic) is served at ") && answer.stdout.contains("members.toml"));
    commit(&two.join("log"), 3);
    let quota = member(&site.status(), "two")["quota"].clone();
    assert_eq!((&quota["share_bytes"], &quota["home_bytes"]), (&(2 << 20).into(), &(64 << 20).into()));

    for (program, words) in [
        (add("two", &one), "is served already, at "),
        (add("one", &full), "is served already, at "),
        (add("three", &full), "it is not empty"),
        (add("three", &two), "somebody serves it already"),
        (add("three", &site.path("missing")), "No such file"),
        (add("three", &one.join("inside")), "in the folder of `one`"),
        (add("no/name", &empty), "can not be a member's name"),
        (add("three", &full).args(["--owner", "no-such-user"]), "no user `no-such-user`"),
        (add("three", &empty).args(["--files", "0"]), "1 to 65536 files"),
    ] {
        let answer = program.fails_with(1);
        assert!(answer.stderr.contains(words), "no `{words}` in {}", answer.stderr);
    }
    let status = site.status();
    assert_eq!((status["members"].as_array().map(Vec::len), &status["not_served"]), (Some(2), &Value::Array(vec![])));
    service.kill();

    // The same without a word of it; and a configuration that has it counts.
    let service = site.serve(&["--member", &first]);
    assert_eq!(service.told["members"][1]["name"], "two");
    assert!(fs::read(two.join("log")).expect("read")[8192..8202] == [1; 10]);
    service.ends_by("TERM");
    let served = |line: &str| {
        let config = site.path("pool.toml");
        let member = format!("[[member]]\nname = \"two\"\nprofile = \"generic\"\nmount = \"full/../one\"\n{line}\n");
        fs::write(&config, format!("data = \"data\"\n{member}")).expect("written");
        Program::new().args(["log", "serve", "--config"]).arg(config)
    };
    // What the pool has counts, and the configuration that says otherwise is told.
    let service = Served::start(served("share = \"3MiB\"").args(["--log-level", "error"]));
    assert_eq!(member(&site.status(), "two")["quota"]["share_bytes"], 2 << 20);
    let set = |words: &[&str]| site.command("set").arg("two").args(words);
    let answer = set(&["share=3MiB", "home=80MiB"]).succeeds();
    assert_eq!(answer.stdout, "two: share is 3.0 MiB, and was 2.0 MiB.\ntwo: home is 80.0 MiB, and was 64.0 MiB.\n");
    let told: Value = serde_json::from_str(&set(&["files=9"]).arg("--json").succeeds().stdout).expect("JSON");
    assert_eq!((&told["before"]["files"], &told["now"]["files"]), (&1024.into(), &9.into()));
    for (words, code, why) in [
        (["home=8KiB"], 1, "64 KiB to 1 TiB"),
        (["home=much"], 2, "`home=much`"),
        (["size=1GiB"], 2, "share, home and files"),
    ] {
        let answer = set(&words).fails_with(code);
        assert!(answer.stderr.contains(why), "{}", answer.stderr);
    }
    assert_eq!(member(&site.status(), "two")["quota"]["home_bytes"], 80 << 20);
    service.ends_by("TERM");
    let service = Served::start(served("share = \"3MiB\"").args(["--log-level", "error"]));
    assert_eq!(service.told["not_served"], Value::Array(vec!["one".into()]));
    assert!(one.join("log").exists() && !two.join("log").exists());
    service.ends_by("TERM");
}

#[test]
fn a_folder_that_somebody_unmounts_is_told() {
    if !can_mount("a_folder_that_somebody_unmounts_is_told") {
        return;
    }
    let site = Site::new(&["one"]);
    let first = format!("one:generic:{}", site.path("one").display());
    let service = site.serve(&["--member", &first]);
    unmount(&site.path("one"));
    let began = std::time::Instant::now();
    let problem = loop {
        let status = site.status();
        if let Some(problem) = member(&status, "one")["problem"].as_str() {
            break problem.to_owned();
        }
        assert!(began.elapsed().as_secs() < 20, "{status}");
    };
    assert!(problem.contains("was unmounted by somebody; start the service again"), "{problem}");
    service.kill();
}
