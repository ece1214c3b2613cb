//! A door on a directory, and a bare directory beside it, for as long as a test runs.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod steps;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_fs::{Act, AllHere, Arrivals, Change, Door, Error, Object, WriteAct};
use rustix::mount::UnmountFlags;

/// Why this host lets no door be opened.
static REFUSED: LazyLock<Option<String>> = LazyLock::new(|| {
    if !rustix::process::geteuid().is_root() {
        return Some("mounting takes root".to_owned());
    }
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        return Some(format!("/dev/fuse: {error}"));
    }
    let place = tempfile::tempdir().unwrap();
    let [destination, folder] = folders(place.path(), ["probe", "probe-at"]);
    match Door::open(&destination, &folder, Arc::new(AllHere)) {
        Ok(_) => None,
        Err(error @ (Error::FileSystem { .. } | Error::Handles { .. } | Error::Mount(_))) => Some(error.to_string()),
        Err(error) => panic!("{error}"),
    }
});

/// Says why a test does nothing, or nothing if it can open a door.
pub(crate) fn can_open(test: &str) -> bool {
    let Some(reason) = &*REFUSED else { return true };
    // Past the capture of a test's output.
    let _ = writeln!(io::stderr(), "SKIPPED: {test}: {reason}");
    false
}

pub(crate) fn folders<const N: usize>(place: &Path, names: [&str; N]) -> [PathBuf; N] {
    names.map(|name| {
        let folder = place.join(name);
        std::fs::create_dir(&folder).unwrap();
        folder
    })
}

/// A test that takes longer hangs.
const LONGEST: Duration = Duration::from_mins(2);

/// Ends the process when a test hangs in a folder, where no signal would. Called off when dropped.
struct Watchdog {
    _leash: Sender<()>,
}

impl Watchdog {
    fn over(folder: &Path) -> Self {
        let (leash, alive) = mpsc::channel::<()>();
        let folder = folder.to_owned();
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        std::thread::spawn(move || {
            if alive.recv_timeout(LONGEST) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let _ = writeln!(io::stderr(), "HUNG: {test}: longer than {LONGEST:?}");
            let _ = rustix::mount::unmount(&folder, UnmountFlags::FORCE);
            let _ = rustix::mount::unmount(&folder, UnmountFlags::DETACH);
            std::process::abort();
        });
        Self { _leash: leash }
    }
}

/// What a test stands on; unmounted when it ends, however it does.
pub(crate) struct Stage {
    // In the order in which they go.
    door: Option<Door>,
    /// What programs see.
    pub(crate) folder: PathBuf,
    pub(crate) destination: PathBuf,
    /// A directory with nothing in front of it.
    pub(crate) bare: PathBuf,
    arrivals: Arc<dyn Arrivals>,
    _watchdog: Watchdog,
    _place: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(Arc::new(AllHere))
    }

    pub(crate) fn with(arrivals: Arc<dyn Arrivals>) -> Self {
        Self::within(tempfile::tempdir().unwrap(), arrivals)
    }

    /// On the file system of that folder.
    pub(crate) fn within(place: tempfile::TempDir, arrivals: Arc<dyn Arrivals>) -> Self {
        let [folder, destination, bare] = folders(place.path(), ["at", "destination", "bare"]);
        let watchdog = Watchdog::over(&folder);
        let door = Some(Door::open(&destination, &folder, arrivals.clone()).unwrap());
        Self { door, folder, destination, bare, arrivals, _watchdog: watchdog, _place: place }
    }

    pub(crate) fn door(&self) -> &Door {
        self.door.as_ref().unwrap()
    }

    /// Another service goes on with the mount. It knows nothing but what the one before tells it.
    pub(crate) fn succeed(&mut self) {
        let handed = self.door.take().unwrap().hand_over().unwrap();
        self.door = Some(Door::go_on(&self.destination, &self.folder, self.arrivals.clone(), handed).unwrap());
    }
}

/// Nothing is missing, but files are not passed through, and reads may have to wait.
#[derive(Debug, Default)]
pub(crate) struct Stubs {
    /// Reads wait while this is so.
    pub(crate) waits: AtomicBool,
    pub(crate) waiting: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) changes: AtomicU64,
    pub(crate) listings: AtomicU64,
    pub(crate) normal: AtomicBool,
    /// How often it was asked whether a file is normal.
    pub(crate) questions: AtomicU64,
}

impl Arrivals for Stubs {
    fn is_over(&self) -> bool {
        false
    }

    fn is_normal(&self, _: Object<'_>) -> io::Result<bool> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        Ok(self.normal.load(Ordering::Acquire))
    }

    fn names_needed(&self, _: Object<'_>, _: &Cancel) -> io::Result<()> {
        self.listings.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn names_change(&self, _: Object<'_>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn moving(&self, act: Act<'_>) -> io::Result<()> {
        act()
    }

    fn has_hidden_name(&self, _: u64) -> bool {
        false
    }

    fn seen(&self, _: Object<'_>, _: &mut rustix::fs::Statx) -> io::Result<()> {
        Ok(())
    }

    fn extras_needed(&self, _: Object<'_>, _: &Cancel) -> io::Result<()> {
        Ok(())
    }

    fn attributes_change(&self, _: Object<'_>, _: &Cancel, act: Act<'_>) -> io::Result<()> {
        act()
    }

    fn bytes_needed(&self, _: Object<'_>, _: Range<u64>, cancel: &Cancel) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let mut outcome = Ok(());
        while self.waits.load(Ordering::Acquire) {
            if cancel.wait(Duration::from_millis(5)) {
                outcome = Err(rustix::io::Errno::INTR.into());
                break;
            }
        }
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        outcome
    }

    fn write(&self, _: Object<'_>, _: Range<u64>, _: &Cancel, act: WriteAct<'_>) -> io::Result<u64> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        act()
    }

    fn change(&self, _: Object<'_>, _: &Change, _: &Cancel, act: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        act()
    }

    fn next_data(&self, _: Object<'_>, offset: u64) -> io::Result<Option<Range<u64>>> {
        Ok(Some(offset..u64::MAX))
    }

    fn hides_name(&self, name: &[u8]) -> bool {
        name == b".hidden"
    }

    fn hides_extra(&self, name: &[u8]) -> bool {
        name == b"trusted.hidden"
    }
}

/// Waits until something is so.
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it has not come to that in ten seconds");
}

/// A file system in a file, mounted for as long as a test runs.
pub(crate) struct Disk {
    pub(crate) folder: PathBuf,
    _place: tempfile::TempDir,
}

impl Disk {
    /// `None`, with the reason said, where it can not be had.
    pub(crate) fn new(test: &str, make: &mut Command) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let image = place.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
        let [folder] = folders(place.path(), ["disk"]);
        let is_made = make.arg(&image).output().is_ok_and(|done| done.status.success());
        let mounted = is_made
            && Command::new("mount")
                .args(["-o", "loop"])
                .args([&image, &folder])
                .status()
                .is_ok_and(|done| done.success());
        if !mounted {
            let _ = writeln!(io::stderr(), "SKIPPED: {test}: {make:?} or mounting it fails");
            return None;
        }
        Some(Self { folder, _place: place })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.folder, UnmountFlags::DETACH);
    }
}
