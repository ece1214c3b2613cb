//! Files of which nothing is missing are read and written by the kernel itself.

mod stage;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stage::{Stage, Stubs, can_open};

/// Whether this kernel can.
fn passes(stage: &Stage, test: &str) -> bool {
    fs::write(stage.folder.join("probe"), b"probe").unwrap();
    let passes = stage.door().counts().passed > 0;
    if !passes {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: the kernel passes no files through");
    }
    passes
}

#[test]
fn the_door_sees_no_read_or_write_of_a_normal_file() {
    const TEST: &str = "the_door_sees_no_read_or_write_of_a_normal_file";
    if !can_open(TEST) {
        return;
    }
    let stubs = Arc::new(Stubs::default());
    stubs.normal.store(true, Ordering::Release);
    let stage = Stage::with(stubs.clone());
    if !passes(&stage, TEST) {
        return;
    }
    let path = stage.folder.join("file");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    for round in 0..100 {
        file.write_all_at(b"bytes", round * 5).unwrap();
    }
    assert_eq!(fs::read(&path).unwrap().len(), 500);
    let counts = stage.door().counts();
    assert_eq!((counts.passed, counts.served), (3, 0));
    assert_eq!((stubs.reads.load(Ordering::Relaxed), stubs.changes.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn a_stub_that_becomes_normal_is_served_until_it_was_closed_and_passed_through_then() {
    const TEST: &str = "a_stub_that_becomes_normal_is_served_until_it_was_closed_and_passed_through_then";
    if !can_open(TEST) {
        return;
    }
    let stubs = Arc::new(Stubs::default());
    let stage = Stage::with(stubs.clone());
    let path = stage.folder.join("file");
    // What programs make is passed through at once, so the old server's way in is the destination.
    fs::write(stage.destination.join("file"), vec![7; 8192]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    // A mapping makes the kernel keep pages: then it passes nothing through.
    map_and_write(&file, 0);
    stubs.normal.store(true, Ordering::Release);
    let other = File::open(&path).unwrap();
    let mut bytes = [0; 2];
    other.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [9, 7], "what was written to the mapping is seen by another one who opens it");
    assert_eq!(stage.door().counts().passed, 0);
    drop((file, other));
    // Closing is told to the door a little later.
    stage::until(|| {
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        map_and_write(&file, 4096);
        stage.door().counts().passed > 0
    });
    let bytes = fs::read(stage.destination.join("file")).unwrap();
    assert_eq!((bytes[0], bytes[1], bytes[4096]), (9, 7, 9));
}

/// Writes one byte to a shared mapping, by another process: mappings take unsafe code here.
fn map_and_write(file: &File, offset: u64) {
    use std::os::fd::AsRawFd;
    let script =
        format!("import mmap,os\nf={}\nm=mmap.mmap(f,8192)\nm[{offset}]=9\nm.flush()\nm.close()\n", file.as_raw_fd());
    rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()).unwrap();
    let done = std::process::Command::new("python3").arg("-c").arg(script).status().unwrap();
    assert!(done.success());
}
