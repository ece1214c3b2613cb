//! A source of this host that hangs: a file system is mounted there whose server never answers.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ishigaki_migrate_service::control::Request;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::stage::Stage;

/// What waits for the source waits longer, however busy the machine is.
const BOUND: Duration = Duration::from_mins(1);

struct Hung {
    /// Calls end when nothing holds it any more.
    device: Option<File>,
    at: PathBuf,
}

impl Hung {
    fn over(at: &Path) -> io::Result<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        mount("hung", at, "fuse", MountFlags::empty(), &*CString::new(options)?)?;
        Ok(Self { device: Some(device), at: at.to_owned() })
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        self.device = None;
        let _ = unmount(&self.at, UnmountFlags::DETACH);
    }
}

#[test]
fn what_is_here_is_served_while_a_source_hangs_from_the_start_on() {
    let test = "what_is_here_is_served_while_a_source_hangs_from_the_start_on";
    let Some(mut stage) = Stage::new(test) else { return };
    stage.config.paused = true;
    let serving = stage.start();
    fs::read_dir(stage.at.join("a/b")).unwrap();
    serving.stop().unwrap();
    let hung = Hung::over(&stage.old).unwrap();
    let began = Instant::now();
    let serving = stage.start();
    assert_eq!(fs::read_dir(stage.at.join("a/b")).unwrap().count(), 31, "names that were listed");
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    assert!(stage.status().problems == 0);
    drop(hung);
    stage.order(&Request::Resume {});
    stage.until_done();
    stage.order(&Request::Finish {});
    serving.stop().unwrap();
    assert_eq!(fs::read(stage.new.join("a/small")).unwrap(), b"small");
}
