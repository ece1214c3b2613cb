//! The units of `docs/systemd`, run by a real systemd, which is process 1 of namespaces of its own.
//!
//! A unit beside the service is a server: it appends numbers to a file in its folder, syncs each, and then notes that it has done so
//! elsewhere. An error ends it, and it is not started again for that.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::served::can_mount;

/// Moves to control groups of its own, and starts systemd in new namespaces.
const OUTSIDE: &str = r#"
for root in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    if [ -e $root/cgroup.procs ]; then mkdir -p $root/$GROUP && echo $$ > $root/$GROUP/cgroup.procs || exit 1; fi
done
exec unshare --pid --fork --kill-child --mount --cgroup --uts --ipc sh -c "$INSIDE"
"#;

const INSIDE: &str = r#"
set -e
hybrid=$(test -d /sys/fs/cgroup/systemd && echo yes || true)
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/lock
umount -l /sys/fs/cgroup
if [ "$hybrid" ]; then
    mount -t tmpfs tmpfs /sys/fs/cgroup
    mkdir /sys/fs/cgroup/systemd /sys/fs/cgroup/unified
    mount -t cgroup -o none,name=systemd,xattr cgroup /sys/fs/cgroup/systemd
    mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
else
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
cp -r "$UNITS"/. /run/systemd/system
export container=other
exec /lib/systemd/systemd --system --unit=test.target --log-target=null --show-status=no
"#;

/// What the server does. The longest wait for an answer is in a file, in microseconds.
const SERVER: &str = r#"#!/bin/bash
exec 3>>"$1/log" || exit 1
n=$(cat "$2/noted" 2>/dev/null || echo 0) longest=0
while :; do
    n=$((n + 1)) began=${EPOCHREALTIME/./}
    echo $n >&3 && sync -d "$1/log" || { echo "failed at $n" >> "$2/errors"; exit 1; }
    took=$((${EPOCHREALTIME/./} - began))
    if ((took > longest)); then longest=$took; echo $longest > "$2/longest"; fi
    echo $n > "$2/noted.new" && mv "$2/noted.new" "$2/noted"
done
"#;

/// A systemd, and the place of its units.
struct Systemd {
    place: tempfile::TempDir,
    outside: Child,
    group: String,
    first: u32,
}

/// Its words, which must come.
fn said(command: &mut Command) -> String {
    let answer = command.output().expect("it starts");
    assert!(answer.status.success(), "{command:?}: {}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8_lossy(&answer.stdout).trim_end().to_owned()
}

fn docs(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/systemd").join(name);
    fs::read_to_string(path).expect("it is there")
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().expect("it has one")).expect("made");
    fs::write(path, text).expect("written");
}

impl Systemd {
    fn start() -> Self {
        let place = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| place.path().join(name);
        let alone = "[Unit]\nDefaultDependencies=no\n";
        for folder in ["folder", "notes", "units"] {
            fs::create_dir(at(folder)).expect("made");
        }
        let members = "log = \"64MiB\"\n[[member]]\nname = \"one\"\nprofile = \"generic\"\nmount = \"folder\"\n";
        write(at("pool.toml"), &format!("data = \"data\"\n{members}"));
        write(at("server"), SERVER);
        write(at("units/test.target"), &format!("{alone}AllowIsolate=yes\n"));
        write(at("units/ishigaki-log.service"), &docs("ishigaki-log.service"));
        let program = format!("{} log serve --config {}", env!("CARGO_BIN_EXE_ishigaki"), at("pool.toml").display());
        let drop_in = format!(
            "{alone}StartLimitIntervalSec=0\n[Service]\nExecStart=\nExecStart={program}\nStandardOutput=append:{}\nStandardError=inherit\n",
            at("words").display()
        );
        write(at("units/ishigaki-log.service.d/here.conf"), &drop_in);
        let (server, folder, notes) = (at("server"), at("folder"), at("notes"));
        let server = format!("/bin/bash {} {} {}", server.display(), folder.display(), notes.display());
        write(at("units/server.service"), &format!("{alone}[Service]\nExecStart={server}\n"));
        write(at("units/server.service.d/ishigaki-log.conf"), &docs("server-drop-in.conf"));
        let group = format!("ishigaki-test-{}", std::process::id());
        let mut outside = Command::new("sh");
        outside.args(["-c", OUTSIDE]).env("GROUP", &group).env("INSIDE", INSIDE).env("UNITS", at("units"));
        let outside = outside.stdin(Stdio::null()).spawn().expect("it starts");
        let mut systemd = Self { place, outside, group, first: 0 };
        let children = format!("/proc/{0}/task/{0}/children", systemd.outside.id());
        systemd.wait("systemd runs", |systemd| {
            let first =
                fs::read_to_string(&children).ok().and_then(|text| text.split_whitespace().next()?.parse().ok());
            systemd.first = first.unwrap_or_default();
            systemd.first > 0
                && systemd
                    .inside(&["systemctl", "is-active", "test.target"])
                    .output()
                    .is_ok_and(|answer| answer.status.success())
        });
        systemd
    }

    /// A command within its namespaces.
    fn inside(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.first.to_string(), "-m", "-p", "-C", "-i", "-u"]).args(words);
        command
    }

    fn control(&self, words: &[&str]) -> String {
        said(self.inside(&["systemctl"]).args(words))
    }

    fn property(&self, unit: &str, name: &str) -> String {
        self.control(&["show", "-p", name, "--value", unit])
    }

    fn wait(&mut self, what: &str, is_so: impl Fn(&mut Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            if began.elapsed() > Duration::from_mins(1) {
                let status = self.inside(&["systemctl", "--no-pager", "status", "ishigaki-log", "server"]).output();
                let status = String::from_utf8_lossy(&status.expect("it starts").stdout).into_owned();
                panic!("{what}, within a minute: {}\n{status}", self.note("../words"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn note(&self, name: &str) -> String {
        fs::read_to_string(self.place.path().join("notes").join(name)).unwrap_or_default().trim_end().to_owned()
    }

    /// The last number that the server was told is durable.
    fn noted(&self) -> u64 {
        self.note("noted").parse().unwrap_or_default()
    }

    /// Waits until the server has done so much more.
    fn wait_for_writes(&mut self, more: u64) {
        let wanted = self.noted() + more;
        self.wait("the server writes", |systemd| systemd.noted() >= wanted);
    }

    /// All that the server has noted is in its file, and in order.
    fn check_file(&self) {
        let noted = self.noted();
        let folder = self.place.path().join("folder/log");
        let text = said(self.inside(&["cat"]).arg(folder));
        let mut numbers: Vec<u64> = text.lines().map(|line| line.parse().expect("a number")).collect();
        // One that a server has written and not noted is written by the next one again.
        numbers.dedup();
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{noted} of {numbers:?}");
        assert!(numbers.len() as u64 >= noted, "{noted} of {}", numbers.len());
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // With it all that it has started, and the mounts of its namespace.
        let _ = Command::new("sh").args(["-c", &format!("kill -KILL {} 2>&1", self.first)]).output();
        let _ = self.outside.kill();
        let _ = self.outside.wait();
        for root in ["", "systemd/", "unified/"] {
            let group = format!("/sys/fs/cgroup/{root}{}", self.group);
            let _ =
                Command::new("find").args([&group, "-depth", "-type", "d", "-delete"]).stderr(Stdio::null()).output();
        }
    }
}

/// Says why a test does nothing, or nothing if it can be done.
fn can_boot(test: &str) -> bool {
    let has = |path: &str| Path::new(path).exists();
    if has("/lib/systemd/systemd") && has("/usr/bin/unshare") && has("/usr/bin/nsenter") {
        return can_mount(test);
    }
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: it takes systemd, unshare and nsenter");
    false
}

#[test]
#[ignore = "boots a systemd in namespaces and control groups of its own"]
fn a_server_goes_on_when_systemd_restarts_or_reloads_its_pool_and_begins_anew_when_that_dies() {
    if !can_boot("a_server_goes_on_when_systemd_restarts_or_reloads_its_pool_and_begins_anew_when_that_dies") {
        return;
    }
    let mut systemd = Systemd::start();
    systemd.control(&["add-wants", "--runtime", "ishigaki-log.service", "server.service"]);
    systemd.control(&["start", "server.service"]);
    systemd.wait_for_writes(10);
    let server = systemd.property("server", "MainPID");
    for how in ["restart", "restart", "reload", "restart", "reload", "restart"] {
        let before = systemd.property("ishigaki-log", "MainPID");
        systemd.control(&[how, "ishigaki-log"]);
        systemd.wait("another process serves", |systemd| systemd.property("ishigaki-log", "MainPID") != before);
        systemd.wait_for_writes(10);
        assert_eq!(systemd.property("server", "MainPID"), server, "{how}");
        assert_eq!(systemd.property("ishigaki-log", "NFileDescriptorStore"), "0", "{how}");
    }
    assert_eq!(systemd.note("errors"), "");
    systemd.check_file();
    println!(
        "longest wait of the server over 4 restarts and 2 reloads: {} us; {} writes",
        systemd.note("longest"),
        systemd.noted()
    );

    systemd.control(&["kill", "--kill-whom=main", "--signal=KILL", "ishigaki-log"]);
    systemd.wait("the server begins anew", |systemd| {
        !["0", &server].contains(&systemd.property("server", "MainPID").as_str())
    });
    systemd.wait_for_writes(10);
    assert_eq!(systemd.property("ishigaki-log", "NRestarts"), "1");
    systemd.check_file();

    systemd.control(&["stop", "ishigaki-log"]);
    assert_eq!(systemd.property("server", "ActiveState"), "inactive");
    assert_eq!(said(systemd.inside(&["ls"]).arg(systemd.place.path().join("folder"))), "", "unmounted");
    systemd.control(&["start", "ishigaki-log"]);
    systemd.wait_for_writes(10);
    systemd.check_file();
    systemd.control(&["stop", "ishigaki-log"]);
}
