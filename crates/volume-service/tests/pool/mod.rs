//! A small pool, and what is asked of it.

#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;

use ishigaki_base::ByteSize;
use ishigaki_volume_service::{Config, Made, Reply, Request, Status, ask, make};

pub(crate) const SIZE: u64 = 4 << 20;

/// A pool of four chunks of 256 KiB.
pub(crate) fn config(folder: &Path, more: &str) -> Config {
    let text = format!(
        "map = \"map\"\nfast = \"flash/fast\"\nslow = \"disk\"\nchunk = \"256KiB\"\nlog = \"1MiB\"\nsockets = \"sockets\"\nblocks = \"blocks\"\n{more}"
    );
    Config::parse(&text, &folder.join("volumes.toml")).unwrap()
}

pub(crate) fn pool(folder: &Path, more: &str) -> Config {
    let config = config(folder, more);
    let status = make(&config, Some(ByteSize::kib(5 * 256))).unwrap();
    assert_eq!((status.slots, status.is_served), (4, false));
    config
}

pub(crate) fn create(config: &Config, name: &str) -> Made {
    let request = Request::Create { name: name.to_owned(), size: SIZE, mode: "write-back".to_owned() };
    let Reply::Made(made) = ask(config, &request).unwrap() else { panic!("another answer") };
    made
}

pub(crate) fn status(config: &Config) -> Status {
    let Reply::Status(status) = ask(config, &Request::Status {}).unwrap() else { panic!("another answer") };
    *status
}

/// Whether block devices can be made here.
pub(crate) fn can_attach() -> bool {
    let can = rustix::process::geteuid().is_root()
        && Path::new("/dev/fuse").exists()
        && Path::new("/dev/loop-control").exists();
    if !can {
        eprintln!("SKIPPED: block devices take root, /dev/fuse and /dev/loop-control");
    }
    can
}
