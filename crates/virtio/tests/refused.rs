//! A machine that is refused comes again each second: the log tells of it once.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ishigaki_device::{Directory, MemoryDirectory};
use ishigaki_virtio::{Block, Socket};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use vhost::VhostBackend;
use vhost::vhost_user::message::VhostUserInflight;
use vhost::vhost_user::{Frontend, VhostUserFrontend};

/// Names the socket for a process that is another machine.
const SOCKET: &str = "ISHIGAKI_TEST_SOCKET";

static WARNINGS: AtomicUsize = AtomicUsize::new(0);

/// Counts warnings.
struct Log;

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        WARNINGS.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn serve(path: &Path, session: u64) -> Socket {
    let device = MemoryDirectory::new().create("volume", 1 << 20).unwrap();
    Socket::new(path, 1, move || Arc::new(Block::new(device.clone(), "volume", 1, Some(session)))).unwrap()
}

fn greet(path: &Path) -> Frontend {
    let mut frontend = Frontend::connect(path, 1).unwrap();
    frontend.set_owner().unwrap();
    let features = frontend.get_features().unwrap();
    let protocol = frontend.get_protocol_features().unwrap();
    frontend.set_protocol_features(protocol).unwrap();
    frontend.set_features(features).unwrap();
    frontend
}

/// Connects as a machine of another session, so often, and is refused.
fn is_refused(path: &Path, times: usize) {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    let socket = serve(&other, 7);
    let (told, file) = greet(&other).get_inflight_fd(&VhostUserInflight::new(0, 0, 1, 8)).unwrap();
    for _ in 0..times {
        let mut frontend = greet(path);
        let _ = frontend.set_inflight_fd(&told, file.as_raw_fd());
        assert!(frontend.get_features().is_err(), "it is hung up on");
    }
    drop(socket);
}

#[test]
fn another_machine() {
    if let Some(path) = std::env::var_os(SOCKET) {
        is_refused(path.as_ref(), 3);
    }
}

#[test]
fn a_machine_that_is_refused_is_told_of_once_and_so_is_another_one_and_another_reason() {
    tracing::subscriber::set_global_default(Log).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _socket = serve(&path, 8);
    let told = || {
        // One machine is served after the other: this one once those before it are told of.
        let frontend = Frontend::connect(&path, 1).unwrap();
        frontend.get_features().unwrap();
        WARNINGS.load(Ordering::SeqCst)
    };
    is_refused(&path, 5);
    assert_eq!(WARNINGS.load(Ordering::SeqCst), 1);
    let mut other = Command::new(std::env::current_exe().unwrap());
    let other = other.args(["--exact", "another_machine"]).env(SOCKET, &path).status().unwrap();
    assert!(other.success());
    // They come in turns.
    is_refused(&path, 1);
    let mut frontend = greet(&path);
    assert_eq!(WARNINGS.load(Ordering::SeqCst), 2);
    // The same machine, with memory that has no room for its queues.
    let small = tempfile::tempfile().unwrap();
    let _ = frontend.set_inflight_fd(&VhostUserInflight::new(16, 0, 1, 8), small.as_raw_fd());
    assert!(frontend.get_features().is_err());
    assert_eq!(told(), 3);
    // A machine was served since.
    is_refused(&path, 2);
    assert_eq!(told(), 4);
}
