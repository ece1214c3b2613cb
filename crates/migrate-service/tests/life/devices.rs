//! Objects that a destination can not hold.

use std::fs;

use ishigaki_migrate_service::control::{Keep, Request};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::disk::{Disk, XFS};
use crate::stage::{Stage, skip};

#[test]
fn a_device_that_the_destination_has_no_room_for_is_a_problem_and_the_others_come() {
    const TEST: &str = "a_device_that_the_destination_has_no_room_for_is_a_problem_and_the_others_come";
    let Some(stage) = Stage::new(TEST) else { return };
    let Some(_disk) = Disk::new(TEST, &stage, &XFS) else { return };
    let device = stage.old.join("a/device");
    // XFS has 18 bits for the second number.
    if mknodat(CWD, &device, FileType::BlockDevice, Mode::RUSR, makedev(10, 300_000)).is_err() {
        skip::<()>(TEST, "no device can be made");
        return;
    }
    let serving = stage.start();
    assert_eq!(fs::read(stage.at.join("a/small")).unwrap(), b"small");
    assert!(!stage.at.join("a/device").exists());
    let status = stage.until_done();
    assert_eq!(status.problems, 1, "{status:?}");
    assert!(status.first_problems[0].path.contains("a/device"), "{:?}", status.first_problems);
    assert!(stage.refused(&Request::Finish {}).contains("a/device"));
    stage.order(&Request::Resolve { path: "a/device".to_owned(), keep: Keep::Here });
    stage.until_done();
    serving.finish().unwrap();
    serving.stop().unwrap();
}
