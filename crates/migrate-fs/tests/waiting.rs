//! Requests that wait for something to arrive, and what others see of it.

mod stage;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use stage::{Stage, Stubs, can_open, until};

#[test]
fn requests_that_wait_hold_up_no_others() {
    if !can_open("requests_that_wait_hold_up_no_others") {
        return;
    }
    let stubs = Arc::new(Stubs::default());
    let stage = Stage::with(stubs.clone());
    fs::write(stage.folder.join("far"), b"from afar").unwrap();
    stubs.waits.store(true, Ordering::Release);
    // More than there are threads.
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let path = stage.folder.join("far");
            thread::spawn(move || fs::read(path).unwrap())
        })
        .collect();
    until(|| stubs.waiting.load(Ordering::Acquire) == 20);
    for number in 0..50 {
        fs::write(stage.folder.join(format!("near-{number}")), b"here").unwrap();
    }
    assert_eq!(fs::read_dir(&stage.folder).unwrap().count(), 51);
    stubs.waits.store(false, Ordering::Release);
    for reader in readers {
        assert_eq!(reader.join().unwrap(), b"from afar");
    }
}

#[test]
fn a_program_that_waits_can_be_killed() {
    if !can_open("a_program_that_waits_can_be_killed") {
        return;
    }
    let stubs = Arc::new(Stubs::default());
    let stage = Stage::with(stubs.clone());
    fs::write(stage.folder.join("far"), b"from afar").unwrap();
    stubs.waits.store(true, Ordering::Release);
    let mut reader = Command::new("cp").arg(stage.folder.join("far")).arg("/dev/null").spawn().unwrap();
    until(|| stubs.waiting.load(Ordering::Acquire) == 1);
    reader.kill().unwrap();
    until(|| reader.try_wait().unwrap().is_some());
    until(|| stubs.waiting.load(Ordering::Acquire) == 0);
}

#[test]
fn what_waits_when_the_service_changes_is_answered_by_the_next_one() {
    if !can_open("what_waits_when_the_service_changes_is_answered_by_the_next_one") {
        return;
    }
    let stubs = Arc::new(Stubs::default());
    let mut stage = Stage::with(stubs.clone());
    fs::write(stage.folder.join("far"), b"from afar").unwrap();
    let file = File::open(stage.folder.join("far")).unwrap();
    stubs.waits.store(true, Ordering::Release);
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let file = file.try_clone().unwrap();
            thread::spawn(move || {
                let mut bytes = [0; 9];
                file.read_exact_at(&mut bytes, 0).map(|()| bytes)
            })
        })
        .collect();
    until(|| stubs.waiting.load(Ordering::Acquire) == 6);
    stage.succeed();
    until(|| stubs.waiting.load(Ordering::Acquire) == 6);
    stubs.waits.store(false, Ordering::Release);
    for reader in readers {
        assert_eq!(&reader.join().unwrap().unwrap(), b"from afar");
    }
    assert!(stubs.reads.load(Ordering::Relaxed) >= 12);
}
