//! A file server's migration by commands: checked, served, asked, ended, gone on with, verified, finished.

mod seed;

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Program, database, signal};
use crate::served::{Served, can_mount, unmount};

/// How long anything may take.
const LONG: Duration = Duration::from_mins(2);

const HIDDEN: &str = ".ishigaki-migrate";

/// An old server, a new one and the folder of its clients.
struct Site {
    _place: tempfile::TempDir,
    old: PathBuf,
    new: PathBuf,
    at: PathBuf,
}

impl Site {
    fn new() -> Self {
        let place = database();
        let [old, new, at] = ["old", "new", "at"].map(|name| place.path().join(name));
        for folder in [&old, &new, &at] {
            fs::create_dir(folder).expect("made");
        }
        fs::create_dir_all(old.join("docs/deep")).expect("made");
        for number in 0..40 {
            fs::write(old.join(format!("docs/file-{number}")), format!("{number}\n").repeat(1000)).expect("written");
        }
        fs::write(old.join("docs/deep/large"), vec![7; 3 << 20]).expect("written");
        Self { _place: place, old, new, at }
    }

    /// A command about this migration's destination.
    fn command(&self, name: &str) -> Program {
        Program::new().args(["migrate", name, "--to"]).arg(&self.new)
    }

    /// A command that knows the source, too.
    fn of_both(&self, name: &str) -> Program {
        self.command(name).arg("--from").arg(&self.old)
    }

    fn serve(&self, arguments: &[&str]) -> Served {
        Served::start(self.of_both("serve").arg("--at").arg(&self.at).args(arguments))
    }

    fn status(&self) -> Value {
        let answer = self.command("status").arg("--json").succeeds();
        serde_json::from_str(&answer.stdout).expect("JSON")
    }

    /// Waits until the crawler has come so far.
    fn until(&self, phase: &str) -> Value {
        let began = Instant::now();
        loop {
            let status = self.status();
            if status["phase"] == phase {
                return status;
            }
            assert!(began.elapsed() < LONG, "it is not `{phase}`: {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        unmount(&self.at);
    }
}

/// Names and bytes of all files.
fn files(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("listed") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.strip_prefix(root).expect("below").to_owned(), fs::read(&path).expect("read")));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_server_is_replaced_by_commands() {
    if !can_mount("a_server_is_replaced_by_commands") {
        return;
    }
    let site = Site::new();
    let dry = site.of_both("serve").arg("--at").arg(&site.at).arg("--dry-run").succeeds();
    assert!(dry.stdout.ends_with("Nothing stands in the way.\n"), "{}", dry.stdout);
    assert_eq!(fs::read_dir(&site.new).expect("listed").count(), 0, "nothing is changed by it");

    // Clients see everything though nothing is copied.
    let service = site.serve(&["--paused"]);
    assert_eq!(service.told["at"], site.at.display().to_string());
    let read = fs::read(site.at.join("docs/file-7")).expect("read");
    assert_eq!(read, fs::read(site.old.join("docs/file-7")).expect("read"));
    let status = site.until("paused");
    assert_eq!((&status["is_mounted"], &status["problems"]), (&true.into(), &0.into()));
    let text = site.command("status").succeeds().stdout;
    for words in
        ["from         /", "crawler      rests: it was told to pause", "files        ", "limits       no limit, "]
    {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }
    let early = site.command("finish").fails_with(1);
    assert!(early.stderr.contains("can not be finished"), "{}", early.stderr);

    // Another service over the same destination is refused, and this one goes on.
    let again = site.of_both("serve").arg("--at").arg(&site.old).fails_with(1);
    assert!(site.of_both("serve").arg("--at").arg(&site.at).fails_with(3).stderr.contains("another service"));
    assert!(again.stderr.contains("lie in each other"), "{}", again.stderr);

    site.command("throttle").args(["--bandwidth", "1GiB", "--parallel", "3"]).succeeds();
    let status = site.status();
    assert_eq!((&status["bandwidth"], &status["parallel"]), (&(1u64 << 30).into(), &3.into()));
    site.command("throttle").args(["--bandwidth", "none"]).succeeds();
    assert_eq!(site.status()["bandwidth"], Value::Null);
    site.command("throttle").args(["--parallel", "4"]).succeeds();
    site.command("throttle").args(["--parallel", "3"]).succeeds();
    site.command("throttle").fails_with(2);
    site.command("throttle").args(["--bandwidth", "0"]).fails_with(2);
    site.command("first").arg("docs/deep").succeeds();
    assert!(
        site.command("first").arg("../old").fails_with(1).stderr.contains("first"),
        "no path below the destination"
    );

    // It ends before its work does, and the next one goes on with it.
    let ended = service.ends_by_with_words("TERM").0;
    assert_eq!((&ended["ended"], &ended["finished"]), (&true.into(), &false.into()));
    assert!(site.command("status").fails_with(3).stderr.contains("`ishigaki migrate serve` starts one"));
    let service = site.serve(&[]);
    let status = site.until("done");
    assert_eq!((&status["files"], &status["whole"]), (&41.into(), &41.into()), "{status}");
    let conflicts = site.command("conflicts").succeeds();
    assert_eq!(conflicts.stdout, "0 conflicts.\n");
    let refused = site.command("resolve").args(["docs/file-1", "--keep", "here"]).fails_with(1);
    assert!(refused.stderr.contains("is not in conflict"), "{}", refused.stderr);

    let report = site.of_both("verify").succeeds();
    assert!(report.stdout.contains("41 files") && report.stdout.contains("nothing differs"), "{}", report.stdout);
    fs::write(site.at.join("docs/file-1"), b"changed").expect("written");
    let report = site.of_both("verify").arg("--json").fails_with(1);
    let first: Value = serde_json::from_str(report.stdout.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["path"], "docs/file-1");
    let file = site.old.with_file_name("report.csv");
    site.of_both("verify").arg("--csv").arg("--output").arg(&file).fails_with(1);
    assert!(fs::read_to_string(&file).expect("a report").starts_with("path,kind,source,here\r\ndocs/file-1,"));
    fs::write(site.at.join("docs/file-1"), fs::read(site.old.join("docs/file-1")).expect("read")).expect("written");

    let finished = site.command("finish").succeeds();
    assert!(finished.stdout.contains("is a plain directory"), "{}", finished.stdout);
    assert!(!site.new.join(HIDDEN).exists());
    assert!(files(&site.at) == files(&site.old), "the folder is served on");
    let ended = service.ends_by_with_words("INT").0;
    // It may have been told of the end before it looked again.
    assert_eq!(ended["finished"], true);
    assert!(files(&site.new) == files(&site.old));
}

#[test]
fn a_killed_service_is_gone_on_with_over_its_dead_folder() {
    if !can_mount("a_killed_service_is_gone_on_with_over_its_dead_folder") {
        return;
    }
    let site = Site::new();
    let service = site.serve(&["--paused"]);
    fs::write(site.at.join("docs/own"), b"a client's").expect("written");
    service.kill();
    assert!(fs::read_dir(&site.at).is_err(), "nothing answers");
    // The next start takes away by itself what the dead one has mounted.
    let service = site.serve(&[]);
    site.until("done");
    assert_eq!(fs::read(site.at.join("docs/own")).expect("read"), b"a client's");
    service.ends_by_with_words("TERM");
}

/// What systemd hears next.
/// A signal that comes while a service starts ends it as one that comes later does.
#[test]
fn a_signal_during_a_start_is_not_lost() {
    if !can_mount("a_signal_during_a_start_is_not_lost") {
        return;
    }
    let site = Site::new();
    for step in 0..30 {
        let mut service = site.of_both("serve").arg("--at").arg(&site.at).start();
        std::thread::sleep(Duration::from_millis(4 * step));
        service.terminate();
        let began = Instant::now();
        while !service.has_ended() {
            if began.elapsed() > LONG {
                service.kill();
                panic!("it has not heard a signal that came {} ms after its start", 4 * step);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!is_mounted(&site.at), "{}", service.ends().stderr);
    }
}

/// Whether anything is mounted there, be it dead.
fn is_mounted(at: &Path) -> bool {
    let all = fs::read_to_string("/proc/self/mounts").expect("the kernel tells");
    all.lines().any(|line| line.split(' ').nth(1) == at.to_str())
}

fn heard(systemd: &UnixDatagram) -> String {
    let mut words = [0; 256];
    let length = systemd.recv(&mut words).expect("the service tells it");
    String::from_utf8_lossy(&words[..length]).into_owned()
}

#[test]
fn a_service_that_is_told_to_start_again_is_replaced_under_a_client_and_systemd_hears_of_it() {
    if !can_mount("a_service_that_is_told_to_start_again_is_replaced_under_a_client_and_systemd_hears_of_it") {
        return;
    }
    let site = Site::new();
    let notify = site.old.with_file_name("notify");
    let systemd = UnixDatagram::bind(&notify).expect("bound");
    systemd.set_read_timeout(Some(LONG)).expect("set");
    // Where none serves, it starts as usual.
    let serve = site.of_both("serve").arg("--at").arg(&site.at).args(["--json", "--takeover", "--metrics", "0"]);
    let mut running = serve.env("NOTIFY_SOCKET", &notify).start();
    let told: Value = serde_json::from_str(&running.hear()).expect("JSON");
    assert_eq!(told["pid"], running.id());
    assert_eq!(heard(&systemd), format!("READY=1\nMAINPID={}\n", running.id()));
    assert!(site.status()["metrics"].as_str().is_some_and(|address| address.starts_with("http://127.0.0.1:")));
    let mut file = OpenOptions::new().append(true).create(true).open(site.at.join("open")).expect("opened");
    file.write_all(b"before ").expect("written");
    site.command("throttle").args(["--parallel", "3"]).succeeds();

    signal(running.id(), "HUP");
    let reloading = heard(&systemd);
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    let ready = heard(&systemd);
    let next = ready.strip_prefix("READY=1\nMAINPID=").and_then(|rest| rest.trim_end().parse::<u32>().ok());
    let next = next.unwrap_or_else(|| panic!("{ready}"));
    assert_ne!(next, running.id());
    file.write_all(b"after").expect("the file is as open as it was");
    assert_eq!(site.status()["parallel"], 3);
    site.until("done");
    // The one that has ended and the one that has begun say so in any order.
    let lines = [running.hear(), running.hear()];
    let words = ["\"replaced\":true".to_owned(), format!("\"pid\":{next}")];
    assert!(words.iter().all(|word| lines.iter().any(|line| line.contains(word))), "{lines:?}");
    drop(file);
    signal(next, "TERM");
    assert_eq!(running.ends().code, Some(0));
    assert_eq!(fs::read_dir(&site.at).expect("unmounted").count(), 0);
    assert_eq!(fs::read(site.new.join("open")).expect("read"), b"before after");
}

#[test]
fn a_configuration_says_what_is_migrated_and_what_is_wrong_with_it_is_told_with_its_line() {
    let site = Site::new();
    let file = site.old.with_file_name("migrate.toml");
    let check = |text: &str| {
        fs::write(&file, text).expect("written");
        Program::new().args(["migrate", "serve", "--dry-run", "--config"]).arg(&file)
    };
    let answer = check("to = \"new\"\nat = \"at\"\nparallel = 0\n[[source]]\nfrom = \"old\"\n").fails_with(1);
    assert!(answer.stderr.contains("migrate.toml:3: `parallel`"), "{}", answer.stderr);
    let answer = check("to = \"new\"\nat = \"at\"\nfrom = \"old\"\n").fails_with(1);
    assert!(answer.stderr.contains("migrate.toml:3"), "{}", answer.stderr);
    let answer = check("to = \"missing\"\nat = \"at\"\n[[source]]\nfrom = \"old\"\n").fails_with(1);
    assert!(answer.stdout.contains("problem  to: "), "{}", answer.stdout);
    assert!(answer.stderr.contains("can not begin"), "{}", answer.stderr);
    for words in [
        &["status"][..],
        &["pause"],
        &["finish"],
        &["serve", "--from", "a"],
        &["verify", "--to", "b"],
        &["seed", "--to", "b"],
    ] {
        let mut arguments = vec![OsStr::new("migrate")];
        arguments.extend(words.iter().map(OsStr::new));
        Program::new().args(arguments).fails_with(2);
    }
}
