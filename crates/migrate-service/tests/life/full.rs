//! A destination without any room, and a service that dies there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::check::Check;
use ishigaki_migrate_service::control::Request;

use crate::disk::{Disk, EXT4, Kind, XFS};
use crate::process::Process;
use crate::stage::Stage;

/// A test that takes longer hangs, however busy the machine is.
const LONGEST: Duration = Duration::from_mins(2);
/// Bytes of files that a file system may keep beside names, where it has no other room.
const SHORT: usize = 1500;

/// Takes all bytes, and all inodes; the names of the files that do.
fn fill(at: &Path) -> Vec<String> {
    let mut file = File::create(at.join("filler")).unwrap();
    let mut size = 1 << 20;
    while size > 0 {
        if let Err(error) = file.write_all(&vec![1; size]) {
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
            size /= 2;
        }
    }
    file.sync_all().unwrap();
    let mut names = vec!["filler".to_owned()];
    for number in 0..200_000 {
        let name = format!("f{number}");
        let Ok(mut file) = File::create(at.join(&name)) else { return names };
        names.push(name);
        // By that they are full which make inodes as they need them.
        let _ = file.write_all(&[1; SHORT]);
    }
    panic!("inodes without end");
}

/// A client without room is told so, and is given nothing else than what there is.
fn read_in_time(path: &Path, patience: Duration) -> Option<Vec<u8>> {
    let began = Instant::now();
    loop {
        match fs::read(path) {
            Ok(bytes) => return Some(bytes),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}"),
        }
        if began.elapsed() > patience {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn full(test: &str, kind: &Kind) {
    let Some(mut stage) = Stage::new(test) else { return };
    stage.config.paused = true;
    let Some(_disk) = Disk::new(test, &stage, kind) else { return };
    let serving = Process::start(&stage, false);
    let names = fill(&stage.at);
    serving.kill();
    let check = Check::run(&stage.config, &Cancel::new()).unwrap();
    assert!(check.is_fit(), "{check:?}");
    let serving = Process::start(&stage, false);
    assert!(fs::metadata(stage.at.join("filler")).unwrap().len() > 0);
    let _next = Process::start(&stage, true);
    drop(serving);
    let small = stage.at.join("a/small");
    assert!(read_in_time(&small, Duration::from_secs(1)).is_none_or(|bytes| bytes == b"small"));
    stage.order(&Request::Resume {});
    stage.until(|status| status.trouble.is_some() || status.whole > 0);
    // Room again: it goes on. The file system may take a while to have what was removed.
    for name in names {
        fs::remove_file(stage.at.join(name)).unwrap();
    }
    assert_eq!(read_in_time(&small, LONGEST).expect("there is room"), b"small");
    let status = stage.until_done();
    assert_eq!((status.problems, status.conflicts), (0, 0), "{:?}", status.first_problems);
    for number in 0..30 {
        let file = format!("a/b/file-{number}");
        assert!(fs::read(stage.at.join(&file)).unwrap() == fs::read(stage.old.join(&file)).unwrap(), "{file}");
    }
    let hidden = fs::metadata(stage.new.join(".ishigaki-migrate")).unwrap();
    stage.order(&Request::Finish {});
    let socket = format!("/run/ishigaki-migrate-{:x}-{:x}", hidden.dev(), hidden.ino());
    assert!(!Path::new(&socket).exists(), "{socket}");
}

#[test]
fn a_service_starts_again_where_no_room_is_left_and_goes_on_when_files_are_removed() {
    full("a_service_starts_again_where_no_room_is_left_and_goes_on_when_files_are_removed", &EXT4);
}

#[test]
fn a_service_goes_on_where_an_xfs_was_full() {
    full("a_service_goes_on_where_an_xfs_was_full", &XFS);
}

#[test]
fn a_write_that_has_room_for_a_part_is_told_of_that_part() {
    let test = "a_write_that_has_room_for_a_part_is_told_of_that_part";
    let Some(mut stage) = Stage::new(test) else { return };
    stage.config.paused = true;
    let Some(_disk) = Disk::new(test, &stage, &EXT4) else { return };
    let _serving = Process::start(&stage, false);
    let stub = stage.at.join("a/b/file-29");
    let old = fs::read(&stub).unwrap();
    let at = old.len() as u64;
    fill(&stage.at);
    let filler = File::options().write(true).open(stage.at.join("filler")).unwrap();
    filler.set_len(filler.metadata().unwrap().len() - 40_000).unwrap();
    filler.sync_all().unwrap();
    let file = File::options().write(true).open(&stub).unwrap();
    let written = file.write_at(&vec![9; 200_000], at).unwrap_or(0) as u64;
    let grown = fs::metadata(&stub).unwrap().len();
    assert!(written > 0 && written < 200_000, "{written} bytes");
    assert_eq!(grown, at + written, "no more is there than was told");
    // What was told is there, and the rest is what it was.
    drop(file);
    filler.set_len(0).unwrap();
    filler.sync_all().unwrap();
    stage.order(&Request::Resume {});
    stage.until_done();
    let now = fs::read(&stub).unwrap();
    assert!(now[..at as usize] == old[..at as usize], "what lies before is the source's");
    assert!(now[at as usize..].iter().all(|&byte| byte == 9) && now.len() as u64 == at + written);
}
