//! A file as a block device: Linux's loop device, with direct I/O.
//!
//! Part: [`ioctl`] is how the kernel is asked.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::disk_fs::DISK;
use crate::{Error, Result};

mod ioctl;

/// Others may take a free device before we do.
const TRIES: u32 = 64;

/// Where the kernel tells of its devices.
const DEVICES: &str = "/sys/block";

/// A loop device; *drop* detaches it, or lets it go with its last user.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Attaches that file to a free device.
    pub(crate) fn attach(file: &Path) -> Result<Self> {
        let failed = |step| move |cause| Error::Loop { path: file.to_owned(), step, cause };
        let control = open("/dev/loop-control".as_ref()).map_err(failed("opening /dev/loop-control"))?;
        let backing = OpenOptions::new().read(true).write(true).custom_flags(flags(OFlags::DIRECT)).open(file);
        let backing = backing.map_err(failed("opening the file"))?;
        for _ in 0..TRIES {
            let number =
                ioctl::free_device(control.as_fd()).map_err(|errno| failed("LOOP_CTL_GET_FREE")(errno.into()))?;
            let device = Self { path: format!("/dev/loop{number}").into() };
            // Who is dropped here is nobody's yet, or is somebody else's.
            let device = std::mem::ManuallyDrop::new(device);
            let opened = open(&device.path).map_err(failed("opening the device"))?;
            match ioctl::configure(opened.as_fd(), backing.as_fd()) {
                Ok(()) => {
                    let device = std::mem::ManuallyDrop::into_inner(device);
                    return if device.is_direct() {
                        Ok(device)
                    } else {
                        Err(Error::Cached { path: device.path.clone() })
                    };
                }
                Err(Errno::BUSY) => {}
                Err(errno) => return Err(failed("LOOP_CONFIGURE")(errno.into())),
            }
        }
        Err(failed("finding a free one")(Errno::BUSY.into()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether somebody has it for himself.
    pub(crate) fn is_in_use(&self) -> bool {
        let alone = OpenOptions::new().read(true).custom_flags(flags(OFlags::EXCL)).open(&self.path);
        alone.is_err_and(|error| error.raw_os_error() == Some(Errno::BUSY.raw_os_error()))
    }

    /// Whether it goes past the page cache of its file.
    fn is_direct(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default();
        fs::read_to_string(Path::new(DEVICES).join(name).join("loop/dio")).is_ok_and(|told| told.trim() == "1")
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        detach(&self.path);
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

fn detach(path: &Path) {
    let detached = open(path).and_then(|device| Ok(ioctl::clear(device.as_fd())?));
    match detached {
        Ok(()) => tracing::info!(path = %path.display(), "detached, or will be by its last user"),
        Err(error) => tracing::warn!(path = %path.display(), %error, "could not be detached"),
    }
}

/// Detaches what a process that died has left on that folder.
pub(crate) fn detach_dead(at: &Path) {
    if rustix::fs::statfs(at).err() != Some(Errno::NOTCONN) {
        return;
    }
    let (Ok(devices), Ok(disk)) = (fs::read_dir(DEVICES), full_path(at)) else { return };
    for device in devices.flatten() {
        let backing = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim_end()) == disk.join(DISK) {
            detach(&Path::new("/dev").join(device.file_name()));
        }
    }
}

/// The path from the root of a folder that itself can not be asked.
fn full_path(folder: &Path) -> io::Result<PathBuf> {
    let folder = std::path::absolute(folder)?;
    Ok(match (folder.parent(), folder.file_name()) {
        (Some(parent), Some(name)) => parent.canonicalize()?.join(name),
        _ => folder,
    })
}
