//! Another service goes on with the mount, and programs notice nothing.

mod stage;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use stage::{Stage, Stubs, can_open};

/// Files that are open in every way, before and after.
fn survives(stage: &mut Stage) {
    let (folder, destination) = (stage.folder.clone(), stage.destination.clone());
    let path = |name: &str| folder.join(name);
    // What programs make is passed through whatever else is, so it is made behind the door.
    for name in ["named", "nameless", "appended"] {
        fs::write(destination.join(name), b"").unwrap();
    }
    let open = |name: &str| OpenOptions::new().read(true).write(true).open(path(name));
    fs::create_dir(path("directory")).unwrap();
    for number in 0..5_000 {
        fs::write(path("directory").join(format!("file-{number}")), b"").unwrap();
    }
    let (mut named, mut nameless) = (open("named").unwrap(), open("nameless").unwrap());
    let mut appended = OpenOptions::new().append(true).open(path("appended")).unwrap();
    let unnamed =
        openat(File::open(&stage.folder).unwrap(), c".", OFlags::TMPFILE | OFlags::RDWR, Mode::from_raw_mode(0o600));
    let mut unnamed = File::from(unnamed.unwrap());
    for file in [&mut named, &mut nameless, &mut appended, &mut unnamed] {
        file.write_all(b"before ").unwrap();
    }
    fs::remove_file(path("nameless")).unwrap();
    fs::create_dir(path("left")).unwrap();
    let left = File::open(path("left")).unwrap();
    fs::remove_dir(path("left")).unwrap();
    let number = nameless.metadata().unwrap().ino();
    flock(&named, FlockOperation::NonBlockingLockExclusive).unwrap();
    let mut listing = fs::read_dir(path("directory")).unwrap();
    let mut seen: BTreeSet<OsString> = listing.by_ref().take(1_500).map(|entry| entry.unwrap().file_name()).collect();

    stage.succeed();

    for file in [&mut named, &mut nameless, &mut appended, &mut unnamed] {
        file.write_all(b"after").unwrap();
        file.sync_all().unwrap();
    }
    for file in [&mut named, &mut nameless, &mut unnamed] {
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before after");
    }
    assert_eq!(fs::read(path("appended")).unwrap(), b"before after");
    // The number of an object without a name is not given to another one.
    for round in 0..50 {
        fs::write(path(&format!("other-{round}")), b"another").unwrap();
    }
    let metadata = nameless.metadata().unwrap();
    assert_eq!((metadata.ino(), metadata.nlink(), metadata.len()), (number, 0, 12));
    assert_eq!(left.metadata().unwrap().nlink(), 0);
    // Locks are the kernel's.
    let other = open("named").unwrap();
    assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
    drop(named);
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    // A listing goes on where it was.
    for entry in listing {
        assert!(seen.insert(entry.unwrap().file_name()), "a name comes once");
    }
    assert_eq!(seen.len(), 5_000);
    // And what is opened then is opened as what is open.
    let again = open("named").unwrap();
    let mut bytes = [0; 6];
    again.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"before");
}

#[test]
fn files_that_are_passed_through_stay_open() {
    if !can_open("files_that_are_passed_through_stay_open") {
        return;
    }
    let mut stage = Stage::new();
    survives(&mut stage);
    assert_eq!(stage.door().counts().served, 0);
    // More than once.
    for entry in fs::read_dir(&stage.folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    survives(&mut stage);
}

#[test]
fn files_that_are_served_stay_open() {
    if !can_open("files_that_are_served_stay_open") {
        return;
    }
    let stubs = Arc::new(Stubs::default());
    let mut stage = Stage::with(stubs);
    survives(&mut stage);
    assert!(stage.door().counts().served > 0);
}

#[test]
fn the_kernel_forgets_and_so_does_the_door() {
    if !can_open("the_kernel_forgets_and_so_does_the_door") {
        return;
    }
    let stage = Stage::new();
    for number in 0..100 {
        fs::write(stage.folder.join(number.to_string()), b"x").unwrap();
    }
    assert!(stage.door().counts().known >= 100);
    for number in 0..100 {
        fs::remove_file(stage.folder.join(number.to_string())).unwrap();
    }
    stage::until(|| stage.door().counts().known == 0);
}
