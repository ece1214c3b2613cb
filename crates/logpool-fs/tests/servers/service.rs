//! The service as a process of its own, and how processes are ended.

use std::fs;
use std::io::Read;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_device::{Directory, FileDirectory};
use ishigaki_logpool::{MemberSettings, Pool, Settings};
use ishigaki_logpool_fs::{Access, MountSettings, Served};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

use super::stage;

/// What the process is told, by a variable of its environment: the place, the profile, the user and the group.
const TASK: &str = "ISHIGAKI_TEST_SERVICE";

/// In the place, once it serves.
const READY: &str = "ready";

const PATIENCE: Duration = Duration::from_mins(2);

/// This test's program again, as the service.
pub(crate) struct Service {
    place: PathBuf,
    profile: &'static str,
    user: (u32, u32),
    child: Child,
}

/// A server that runs; killed with all of its own when a test ends, however it does.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        kill_all(&mut self.0);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Service {
    /// Starts it, with the log in `place/log` and the pool in `place/pool`, and waits until it serves.
    pub(crate) fn start(place: &Path, profile: &'static str, user: (u32, u32)) -> Self {
        let child = begin(place, profile, user);
        Self { place: place.to_owned(), profile, user, child }
    }

    /// Starts it once more, after it was killed.
    pub(crate) fn start_again(&mut self) {
        self.child = begin(&self.place, self.profile, self.user);
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

fn begin(place: &Path, profile: &str, user: (u32, u32)) -> Child {
    let _ = fs::remove_file(place.join(READY));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serves_until_it_is_told_to_end", "--ignored", "--nocapture"])
        .env(TASK, format!("{}:{profile}:{}:{}", place.display(), user.0, user.1))
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
        folder: place.join("log"),
        mount: MountSettings { access, ..stage::mount_settings() },
    };
    let service = ishigaki_logpool_fs::Service::start(pool, &[served]).unwrap();
    fs::write(place.join(READY), "").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    service.stop().unwrap();
}

/// The number of a user of the host, and of its group.
pub(crate) fn user(name: &str) -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let fields: Vec<&str> = users.lines().find(|line| line.split(':').next() == Some(name))?.split(':').collect();
    Some((fields[2].parse().ok()?, fields[3].parse().ok()?))
}

/// A folder of that user, in one that everybody may pass through.
pub(crate) fn folder(place: &Path, name: &str, user: (u32, u32)) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
    let folder = place.join(name);
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    chown(&folder, Some(user.0), Some(user.1)).unwrap();
    folder
}

/// Kills a server with all processes that it has started, and waits until they are gone.
fn kill_all(server: &mut Child) {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.id())).unwrap_or_default();
    server.kill().unwrap();
    server.wait().unwrap();
    let children: Vec<Pid> =
        children.split_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?)).collect();
    for &child in &children {
        let _ = kill_process(child, Signal::KILL);
    }
    for child in children {
        let process = PathBuf::from(format!("/proc/{}/exe", child.as_raw_nonzero()));
        let began = Instant::now();
        // What is dead and not yet buried has no program.
        while fs::read_link(&process).is_ok() {
            assert!(began.elapsed() < PATIENCE, "{} lives on", process.display());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Where a server tells what it does; of its last start.
const TOLD: &str = "told";

/// For a server's words.
pub(crate) fn told(data: &Path) -> fs::File {
    fs::File::create(data.join(TOLD)).unwrap()
}

/// Waits until that is so.
pub(crate) fn until(what: &str, data: &Path, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        let told = || fs::read_to_string(data.join(TOLD)).unwrap_or_default();
        assert!(began.elapsed() < PATIENCE, "{what}:\n{}", told());
        std::thread::sleep(Duration::from_millis(50));
    }
}
