//! A pool with one member, mounted for as long as a test runs.

#![allow(dead_code, reason = "each test uses its part")]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{Directory, MemoryDirectory, SimDirectory};
use ishigaki_logpool::{Member, MemberSettings, Pool, Profile, Quota, Settings};
use ishigaki_logpool_fs::{Access, Calendar, Mount, MountSettings};
use rustix::fs::OFlags;
use rustix::mount::{MountFlags, UnmountFlags};

/// Why this host lets nobody mount, as in many containers.
static REFUSED: LazyLock<Option<String>> = LazyLock::new(|| {
    let place = tempfile::tempdir().unwrap();
    let mounted = mount_memory(place.path());
    mounted.err().map(|error| format!("mounting is refused: {error}"))
});

/// Mounts memory and unmounts it again.
fn mount_memory(path: &Path) -> rustix::io::Result<()> {
    rustix::mount::mount("probe", path, "tmpfs", MountFlags::empty(), None)?;
    rustix::mount::unmount(path, UnmountFlags::DETACH)
}

/// Says why a test does nothing, or nothing if it can mount.
pub(crate) fn can_mount(test: &str) -> bool {
    let reason = match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Err(error) => format!("/dev/fuse: {error}"),
        Ok(_) if !rustix::process::geteuid().is_root() => "mounting takes root".to_owned(),
        Ok(_) => match &*REFUSED {
            Some(reason) => reason.clone(),
            None => return true,
        },
    };
    // Past the capture of a test's output.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    false
}

pub(crate) fn settings() -> Settings {
    Settings {
        log: ByteSize::mib(8),
        segment: ByteSize::kib(256),
        region: ByteSize::kib(256),
        background: false,
        ..Settings::default()
    }
}

pub(crate) fn quota() -> Quota {
    Quota { share: ByteSize::mib(1), home: ByteSize::mib(4), files: 32 }
}

pub(crate) fn mount_settings() -> MountSettings {
    MountSettings { access: Access::own(), threads: MountSettings::THREADS, calendar: Calendar::new(SystemTime::now) }
}

/// A test that takes longer hangs.
const LONGEST: Duration = Duration::from_mins(3);

/// Ends the process when a test hangs in one of its folders, where no signal would: a request to a mount whose threads do
/// not answer waits for ever. Called off when dropped.
pub(crate) struct Watchdog {
    _leash: Sender<()>,
}

impl Watchdog {
    pub(crate) fn over(folders: &[&Path]) -> Self {
        let (leash, alive) = mpsc::channel::<()>();
        let folders: Vec<PathBuf> = folders.iter().map(|&folder| folder.to_owned()).collect();
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        std::thread::spawn(move || {
            if alive.recv_timeout(LONGEST) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            // Past the capture of a test's output.
            let _ = writeln!(std::io::stderr(), "HUNG: {test}: longer than {LONGEST:?}");
            for folder in folders {
                // Ends the connection, and whoever waits for an answer; then nothing is left behind.
                let _ = rustix::mount::unmount(&folder, UnmountFlags::FORCE);
                let _ = rustix::mount::unmount(&folder, UnmountFlags::DETACH);
            }
            std::process::abort();
        });
        Self { _leash: leash }
    }
}

/// What a test stands on; unmounted when it ends, however it does.
pub(crate) struct Stage {
    // In the order in which they go.
    mount: Option<Mount>,
    pub(crate) pool: Pool,
    folder: tempfile::TempDir,
    _watchdog: Watchdog,
}

impl Stage {
    pub(crate) fn new(medium: Arc<dyn Directory>) -> Self {
        let pool = Pool::open_together(medium, settings()).unwrap();
        let member = match pool.member("a") {
            Ok(member) => member,
            Err(_) => pool.add("a", MemberSettings { profile: Profile::GENERIC, quota: quota() }).unwrap(),
        };
        let folder = tempfile::tempdir().unwrap();
        let watchdog = Watchdog::over(&[folder.path()]);
        let mount = Some(Mount::new(member, folder.path(), &mount_settings()).unwrap());
        Self { mount, pool, folder, _watchdog: watchdog }
    }

    pub(crate) fn in_memory() -> Self {
        Self::new(Arc::new(MemoryDirectory::new()))
    }

    pub(crate) fn member(&self) -> Member {
        self.pool.member("a").unwrap()
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Opens a file to read and write, makes it if it is not there, with more flags.
    pub(crate) fn open(&self, name: &str, flags: OFlags) -> File {
        open(&self.path(name), flags)
    }

    /// Forgets all that the kernel and the mount know, and mounts again.
    pub(crate) fn mount_again(&mut self) {
        self.mount = None;
        self.mount = Some(Mount::new(self.member(), self.folder.path(), &mount_settings()).unwrap());
    }

    /// Leaves the mount as a process that dies does.
    pub(crate) fn abandon(&mut self) {
        std::mem::forget(self.mount.take());
    }

    pub(crate) fn unmount(&mut self) {
        self.mount = None;
    }
}

pub(crate) fn open(path: &Path, flags: OFlags) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .unwrap()
}

/// A member's files after the power was cut at this moment, in order of their names.
pub(crate) fn after_a_power_cut(medium: &SimDirectory, stage: Stage) -> Vec<(String, Vec<u8>)> {
    medium.power_cut_now();
    drop(stage);
    let pool = Pool::open_together(Arc::new(medium.survivors(Seed(1))), settings()).unwrap();
    let member = pool.member("a").unwrap();
    let names = member.list(None).unwrap();
    let read = |name: String| {
        let file = member.open(&name).unwrap();
        let mut bytes = vec![0; file.length().unwrap() as usize];
        file.read(0, &mut bytes).unwrap();
        (name, bytes)
    };
    names.into_iter().map(|(name, _)| read(name)).collect()
}
