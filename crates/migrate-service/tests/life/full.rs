//! A destination without any room, and a service that dies there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::check::Check;
use rustix::mount::{UnmountFlags, unmount};

use crate::process::Process;
use crate::stage::Stage;

/// A test that takes longer hangs, however busy the machine is.
const LONGEST: Duration = Duration::from_mins(2);

/// A small file system on a folder, for as long as a test runs.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    fn new(stage: &'a Stage) -> Option<Self> {
        let image = stage.held.path().join("image");
        File::create(&image).and_then(|file| file.set_len(16 << 20)).unwrap();
        // Few inodes, so that both run out.
        let is_made = |program: &str| {
            let made = Command::new(program).args(["-q", "-F", "-m", "0", "-N", "128"]).arg(&image).status();
            made.is_ok_and(|status| status.success())
        };
        let is_mounted = || {
            let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&stage.new).status();
            mounted.is_ok_and(|status| status.success())
        };
        if (is_made("mkfs.ext4") || is_made("/sbin/mkfs.ext4")) && is_mounted() {
            return Some(Self(&stage.new));
        }
        let _ = writeln!(io::stderr(), "SKIPPED: it takes mkfs.ext4 and loop devices");
        None
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}

/// Takes all bytes, and all inodes.
fn fill(at: &Path) {
    let mut file = File::create(at.join("filler")).unwrap();
    let mut size = 1 << 20;
    while size > 0 {
        if let Err(error) = file.write_all(&vec![1; size]) {
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
            size /= 2;
        }
    }
    file.sync_all().unwrap();
    for number in 0..10_000 {
        if File::create(at.join(format!("f{number}"))).is_err() {
            return;
        }
    }
    panic!("inodes without end");
}

#[test]
fn a_service_starts_again_where_no_room_is_left() {
    let Some(mut stage) = Stage::new("a_service_starts_again_where_no_room_is_left") else { return };
    stage.config.paused = true;
    let Some(_disk) = Disk::new(&stage) else { return };
    let serving = Process::start(&stage, false);
    fill(&stage.at);
    serving.kill();
    let check = Check::run(&stage.config, &Cancel::new()).unwrap();
    assert!(check.is_fit(), "{check:?}");
    let serving = Process::start(&stage, false);
    assert!(fs::metadata(stage.at.join("filler")).unwrap().len() > 0);
    let _next = Process::start(&stage, true);
    drop(serving);
    // Room again: it goes on. The file system may take a while to have what was removed.
    for name in (0..30).map(|number| format!("f{number}")).chain(["filler".to_owned()]) {
        fs::remove_file(stage.at.join(name)).unwrap();
    }
    let began = Instant::now();
    let read = loop {
        match fs::read(stage.at.join("a/small")) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull && began.elapsed() < LONGEST => {
                std::thread::sleep(Duration::from_millis(50));
            }
            read => break read,
        }
    };
    assert_eq!(read.unwrap(), b"small");
}
