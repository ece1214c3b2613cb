//! The service as a process of its own.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_device::{Directory, FileDirectory};
use ishigaki_logpool::{MemberSettings, Pool, Settings};
use ishigaki_logpool_fs::{Access, MountSettings, Place, Served};
use ishigaki_servers::{Kind, User};
use rustix::mount::{UnmountFlags, unmount};

use super::stage;

/// What the process is told, by a variable of its environment: the place, the profile, the user and the group.
const TASK: &str = "ISHIGAKI_TEST_SERVICE";

/// In the place, once it serves.
const READY: &str = "ready";

const PATIENCE: Duration = Duration::from_mins(2);

/// This test's program again, as the service.
pub(crate) struct Service {
    place: PathBuf,
    kind: Kind,
    user: User,
    child: Child,
}

impl Service {
    /// Starts it, with the log in `place/log` and the pool in `place/pool`, and waits until it serves.
    pub(crate) fn start(place: &Path, kind: Kind, user: User) -> Self {
        let child = begin(place, kind, user);
        Self { place: place.to_owned(), kind, user, child }
    }

    /// Starts it once more, after it was killed.
    pub(crate) fn start_again(&mut self) {
        self.child = begin(&self.place, self.kind, self.user);
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Takes away what it has left, after it was killed.
    pub(crate) fn unmount(&self) {
        unmount(self.place.join("log"), UnmountFlags::DETACH).unwrap();
    }

    /// Tells it to end, and sees that it ends well.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What it has left, if it was killed.
        let _ = unmount(self.place.join("log"), UnmountFlags::DETACH);
    }
}

fn begin(place: &Path, kind: Kind, user: User) -> Child {
    let _ = fs::remove_file(place.join(READY));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serves_until_it_is_told_to_end", "--ignored", "--nocapture"])
        .env(TASK, format!("{}:{kind}:{}:{}", place.display(), user.user, user.group))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !place.join(READY).exists() {
        assert!(child.try_wait().unwrap().is_none(), "the service has ended");
        assert!(began.elapsed() < PATIENCE, "the service does not serve");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

/// The body of the service.
pub(crate) fn serve() {
    let Ok(task) = std::env::var(TASK) else { return };
    let [place, profile, user, group] = task.split(':').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let place = Path::new(place);
    fs::create_dir_all(place.join("pool")).unwrap();
    let directory = Arc::new(FileDirectory::open(place.join("pool")).unwrap());
    let _lock = directory.lock().unwrap();
    let pool = Pool::open_together(directory, Settings::default()).unwrap();
    let access = Access { user: user.parse().unwrap(), group: group.parse().unwrap() };
    let served = Served {
        name: "a".to_owned(),
        member: MemberSettings { profile: profile.parse().unwrap(), ..MemberSettings::default() },
        place: Place::Mount(place.join("log")),
        mount: MountSettings { access, ..stage::mount_settings() },
    };
    let service = ishigaki_logpool_fs::Service::start(pool, &[served]).unwrap();
    fs::write(place.join(READY), "").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    service.stop().unwrap();
}
