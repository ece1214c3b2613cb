//! A drive or another device, its folder and its block device, and the order in which they come and go.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{Device, Drive, DriveSettings};
use ishigaki_fuse::{Mount, MountSettings};

use crate::disk_fs::{DISK, DiskFs};
use crate::loop_device::{self, LoopDevice};
use crate::{Error, Result};

/// What programs see in `/proc/mounts`.
const FILE_SYSTEM: &str = "ishigaki-disk";

/// Requests that the drive has at a time, as many as SATA's command queue; others wait in the kernel.
const QUEUE: usize = 32;

/// A modelled drive that is a block device.
///
/// *Drop* takes the block device and the folder away, as a drive that is pulled out: requests that are under way fail, and a file
/// system that is still mounted on it gets errors from then on, see [`is_in_use`](Self::is_in_use). *A crash* of the process does the same; the next disk on the same folder
/// clears what is left of it.
///
/// ```no_run
/// use ishigaki_base::ByteSize;
/// use ishigaki_device::DriveSettings;
/// use ishigaki_emulate::EmulatedDisk;
///
/// let settings = DriveSettings::new("hdd".parse()?, ByteSize::gib(2));
/// let disk = EmulatedDisk::new(settings, "/srv/disk".as_ref())?;
/// println!("mkfs.ext4 {}", disk.device().display());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EmulatedDisk {
    disk: BlockDevice,
    drive: Arc<Drive>,
}

/// A drive that has power; *drop* pulls it out, so that nobody waits for it any more.
struct Plugged(Arc<Drive>);

impl Drop for Plugged {
    fn drop(&mut self) {
        // What is left on it by that seed is seen by nobody.
        self.0.cut_power(Seed(0));
    }
}

impl EmulatedDisk {
    /// Makes a drive, all zeros, on an empty folder, and attaches it.
    pub fn new(settings: DriveSettings, at: &Path) -> Result<Self> {
        check_root()?;
        let wanted = settings.memory;
        if let Some(available) = available_memory().filter(|available| *available < wanted) {
            return Err(Error::Memory { wanted, available });
        }
        let drive = Arc::new(Drive::new(settings));
        let disk = BlockDevice::attach(DiskFs::of_drive(drive.clone()), at, Some(Plugged(drive.clone())))?;
        Ok(Self { disk, drive })
    }

    /// The block device.
    pub fn device(&self) -> &Path {
        self.disk.path()
    }

    /// The drive behind it.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// As [`BlockDevice::is_in_use`].
    pub fn is_in_use(&self) -> bool {
        self.disk.is_in_use()
    }

    /// As [`BlockDevice::is_alive`].
    pub fn is_alive(&self) -> bool {
        self.disk.is_alive()
    }
}

impl fmt::Debug for EmulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EmulatedDisk({}, {:?})", self.device().display(), self.drive)
    }
}

/// Any device as a block device of the host.
///
/// *Drop* takes the block device and the folder away: a file system that is still mounted on it gets errors from then on, see
/// [`is_in_use`](Self::is_in_use). *A crash* of the process does the same; the next one on the same folder clears what is left of it.
pub struct BlockDevice {
    // In the order in which they go.
    device: LoopDevice,
    /// Of a drive, its power.
    _plugged: Option<Plugged>,
    mount: Mount,
}

impl BlockDevice {
    /// Attaches a device, whose file is in an empty folder.
    pub fn new(device: Arc<dyn Device>, at: &Path) -> Result<Self> {
        check_root()?;
        Self::attach(DiskFs::of_device(device), at, None)
    }

    /// Has what block devices take of the process made now. To be called before the process opens files whose `close` may have to wait, as those on file systems
    /// of a server: it may be kept waiting by them otherwise when it attaches its first device.
    ///
    /// # Errors
    ///
    /// The system's, where there is no thread for it. The first device tries again.
    pub fn prepare() -> io::Result<()> {
        loop_device::prepare()
    }

    /// Takes away the block device that a process that died has left with that folder, also where another program has unmounted the folder. Whether there was one.
    ///
    /// # Errors
    ///
    /// Where its folder does not answer, though a process has it, or can not be unmounted.
    pub fn take_away_dead(at: &Path) -> Result<bool> {
        let is_left = Mount::is_left(at)?;
        let detached = loop_device::detach_dead(at, is_left);
        if is_left {
            Mount::take_away_dead(at)?;
        }
        Ok(is_left || detached > 0)
    }

    /// Mounts the folder and attaches its file.
    fn attach(files: DiskFs, at: &Path, plugged: Option<Plugged>) -> Result<Self> {
        loop_device::detach_dead(at, Mount::is_left(at)?);
        let how = MountSettings { name: FILE_SYSTEM, threads: QUEUE, below_block_device: true };
        let block_size = files.block_size();
        let mount = Mount::new(files, at, &how)?;
        let device = LoopDevice::attach(&at.join(DISK), block_size)?;
        Ok(Self { device, _plugged: plugged, mount })
    }

    /// The block device.
    pub fn path(&self) -> &Path {
        self.device.path()
    }

    /// Has what programs have written to the block device, and the kernel still keeps, reach the device: *drop* loses it where one of them has it open.
    ///
    /// # Errors
    ///
    /// What the device says.
    pub fn sync(&self) -> Result<()> {
        self.device.sync()
    }

    /// Whether a user has the block device for itself: a file system that is mounted, for one.
    pub fn is_in_use(&self) -> bool {
        self.device.is_in_use()
    }

    /// Whether requests are answered. Another process may have unmounted the folder, or detached the block device.
    pub fn is_alive(&self) -> bool {
        self.mount.is_alive() && self.device.is_attached()
    }
}

impl fmt::Debug for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockDevice({})", self.path().display())
    }
}

fn check_root() -> Result<()> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(Error::NotRoot) }
}

/// How much memory the host can give without taking it from anybody, where it tells.
pub fn available_memory() -> Option<ByteSize> {
    let told = fs::read_to_string("/proc/meminfo").ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(ByteSize::kib(kib))
}
