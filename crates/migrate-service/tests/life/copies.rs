//! Copies within the folder, on file systems that share blocks and holes.

use std::fs::{self, File};

use ishigaki_migrate_service::control::Request;
use rustix::fs::copy_file_range;

use crate::disk::{BTRFS, Disk, Kind, XFS};
use crate::process::Process;
use crate::stage::Stage;

const SIZE: usize = 300_000;
/// Bytes of each copy: whole blocks and parts of them.
const LENGTHS: [usize; 4] = [4096, 12_325, 18_792, 200_000];

fn copies(test: &str, kind: &Kind) {
    let Some(mut stage) = Stage::new(test) else { return };
    stage.config.paused = true;
    let Some(_disk) = Disk::new(test, &stage, kind) else { return };
    let bytes: Vec<u8> = (0..SIZE).map(|place| (place % 251) as u8 + 1).collect();
    for number in 0..LENGTHS.len() {
        fs::write(stage.old.join(format!("file-{number}")), &bytes).unwrap();
    }
    File::create(stage.old.join("hole")).unwrap().set_len(SIZE as u64).unwrap();

    let serving = Process::start(&stage, false);
    for (number, length) in LENGTHS.into_iter().enumerate() {
        let from = File::open(stage.at.join("hole")).unwrap();
        let to = File::options().write(true).open(stage.at.join(format!("file-{number}"))).unwrap();
        let (mut at, mut to_at) = (0, 0);
        while at < length as u64 {
            let left = length - at as usize;
            assert!(copy_file_range(&from, Some(&mut at), &to, Some(&mut to_at), left).unwrap() > 0);
        }
    }
    let check = || {
        for (number, length) in LENGTHS.into_iter().enumerate() {
            let found = fs::read(stage.at.join(format!("file-{number}"))).unwrap();
            let begin = found.iter().take_while(|byte| **byte == 0).count();
            assert_eq!(begin, length, "zeros at the begin of file {number}");
            assert!(found[length..] == bytes[length..], "the rest of file {number}");
        }
    };
    check();
    serving.kill();
    let _serving = Process::start(&stage, false);
    check();
    stage.order(&Request::Resume {});
    stage.until_done();
    check();
}

#[test]
fn a_hole_that_is_copied_over_bytes_that_are_not_here_stays_zeros_on_btrfs() {
    copies("a_hole_that_is_copied_over_bytes_that_are_not_here_stays_zeros_on_btrfs", &BTRFS);
}

#[test]
fn a_hole_that_is_copied_over_bytes_that_are_not_here_stays_zeros_on_xfs() {
    copies("a_hole_that_is_copied_over_bytes_that_are_not_here_stays_zeros_on_xfs", &XFS);
}
