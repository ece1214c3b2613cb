//! A service that is started again by its service manager, and what that gives to the next process.

use std::fs::{self, File, OpenOptions};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::site::Site;
use crate::program::Program;
use crate::served::{Served, can_mount};

/// A service manager's socket, and what it keeps.
struct Manager {
    socket: UnixDatagram,
    store: Vec<(String, OwnedFd)>,
}

impl Manager {
    fn new(site: &Site) -> Self {
        let socket = UnixDatagram::bind(site.path("notify")).expect("bound");
        socket.set_read_timeout(Some(Duration::from_mins(1))).expect("set");
        Self { socket, store: Vec::new() }
    }

    /// Starts a service with all that is kept. What it says until it is ready is heard.
    fn start(&mut self, site: &Site, arguments: &[&str]) -> Served {
        let names: Vec<_> = self.store.iter().map(|(name, _)| name.as_str()).collect();
        let given: Vec<_> = self.store.iter().map(|(_, descriptor)| descriptor.try_clone().expect("copied")).collect();
        // The number of a process is its own only when it runs.
        let program =
            Program::of("sh").args(["-c", "LISTEN_PID=$$ exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_ishigaki")]);
        let program = program.args(["log", "serve", "--data"]).arg(site.data()).args(arguments);
        let program = program.env("LISTEN_FDS", given.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        let program = program.env("NOTIFY_SOCKET", site.path("notify")).give(given);
        std::thread::scope(|scope| {
            let starts = scope.spawn(|| Served::start(program));
            self.hear("READY=1");
            starts.join().expect("it starts")
        })
    }

    /// Does as it is told until it is told that.
    fn hear(&mut self, wanted: &str) {
        loop {
            let (mut bytes, mut space) = ([0; 1024], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))]);
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let heard =
                recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC);
            let heard = heard.expect("it is told something").bytes;
            let mut descriptors = Vec::new();
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    descriptors.extend(rights);
                }
            }
            let words = String::from_utf8_lossy(&bytes[..heard]).into_owned();
            let name = words.lines().find_map(|word| word.strip_prefix("FDNAME=")).unwrap_or("stored").to_owned();
            if words.contains("FDSTOREREMOVE=1") {
                self.store.retain(|(other, _)| *other != name);
            } else if words.contains("FDSTORE=1") {
                self.store.extend(descriptors.into_iter().map(|descriptor| (name.clone(), descriptor)));
            }
            if words.contains(wanted) {
                return;
            }
        }
    }

    /// Ends a service as for a restart.
    fn restarts(&mut self, service: Served) {
        let hears = std::thread::scope(|scope| {
            let ends = scope.spawn(|| service.ends_by("USR1"));
            self.hear("BARRIER=1");
            ends.join().expect("it ends well")
        });
        assert_eq!(hears["kept"], true);
    }
}

#[test]
fn a_service_that_systemd_starts_again_goes_on_with_its_mounts_and_one_that_was_killed_does_not() {
    if !can_mount("a_service_that_systemd_starts_again_goes_on_with_its_mounts_and_one_that_was_killed_does_not") {
        return;
    }
    let site = Site::new(&["orders"]);
    let mut manager = Manager::new(&site);
    let member = format!("orders:generic:{}", site.path("orders").display());
    let arguments = ["--member", &member, "--log", "64MiB"];
    // Of another program of the unit.
    manager.store.push(("http".to_owned(), File::open("/dev/null").expect("opened").into()));
    let mut service = Some(manager.start(&site, &arguments));
    let open = || {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).open(site.path("orders").join("log")).expect("made")
    };
    let log = open();
    let (is_over, noted, longest) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    // Until an error, or until it is told.
    let write = |log: &File| {
        while !is_over.load(Ordering::SeqCst) {
            let (turn, began) = (noted.load(Ordering::SeqCst), Instant::now());
            log.write_all_at(&turn.to_le_bytes(), turn * 8)?;
            log.sync_data()?;
            noted.store(turn + 1, Ordering::SeqCst);
            longest.fetch_max(began.elapsed().as_micros() as u64, Ordering::SeqCst);
        }
        Ok::<(), std::io::Error>(())
    };
    let ends = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&log));
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(200));
            manager.restarts(service.take().expect("it runs"));
            service = Some(manager.start(&site, &arguments));
            assert_eq!(manager.store.len(), 1, "what it goes on with is kept no more");
            assert!(!writer.is_finished(), "{:?}", writer.join());
        }
        // Killed, it leaves nothing behind for which a program could wait.
        std::thread::sleep(Duration::from_millis(200));
        service.take().expect("it runs").kill();
        writer.join().expect("no panic")
    });
    println!(
        "longest wait over 3 restarts: {} us; {} writes",
        longest.load(Ordering::SeqCst),
        noted.load(Ordering::SeqCst)
    );
    let cut_off = [Errno::NOTCONN, Errno::CONNABORTED].map(Errno::raw_os_error);
    assert!(ends.as_ref().is_err_and(|error| cut_off.contains(&error.raw_os_error().unwrap_or_default())), "{ends:?}");
    drop(log);
    let service = manager.start(&site, &arguments);
    let noted = noted.load(Ordering::SeqCst);
    let shown = fs::read(site.path("orders").join("log")).expect("it answers again");
    let wanted: Vec<u8> = (0..noted).flat_map(u64::to_le_bytes).collect();
    assert!(noted > 20 && shown.starts_with(&wanted), "{noted}: {} of {} bytes", shown.len(), wanted.len());
    service.ends_by("TERM");
    assert_eq!(fs::read_dir(site.path("orders")).expect("unmounted").count(), 0);
}

#[test]
fn without_a_service_manager_a_service_that_is_to_be_kept_unmounts() {
    if !can_mount("without_a_service_manager_a_service_that_is_to_be_kept_unmounts") {
        return;
    }
    let site = Site::new(&["orders"]);
    let member = format!("orders:generic:{}", site.path("orders").display());
    let service = site.serve(&["--member", &member, "--log", "64MiB"]);
    fs::write(site.path("orders").join("log"), b"before").expect("written");
    let (told, words) = service.ends_by_with_words("USR1");
    assert!(
        told["kept"].is_null() && words.contains("there is no service manager that could keep the folders"),
        "{words}"
    );
    assert_eq!(fs::read_dir(site.path("orders")).expect("unmounted").count(), 0);
}
