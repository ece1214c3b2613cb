//! A file as a block device: Linux's loop device, with direct I/O.
//!
//! Parts: [`ioctl`] is how the kernel is asked, [`apart`] where, [`dead`] finds what a process that died has left.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::{Error, Result};
use apart::apart;

mod apart;
mod dead;
mod ioctl;

pub(crate) use apart::prepare;

pub(crate) use dead::detach_dead;

/// Others may take a free device before we do.
const TRIES: u32 = 64;

/// Where the kernel tells of its devices.
const DEVICES: &str = "/sys/block";

/// A loop device; *drop* detaches it, or lets it go with its last user. Somebody else may have detached it before; then it may
/// be somebody else's now, and is let alone.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    path: PathBuf,
    attached: Option<String>,
}

impl LoopDevice {
    /// Attaches that file to a free device whose blocks have that many bytes.
    pub(crate) fn attach(file: &Path, block_size: usize) -> Result<Self> {
        let of = file.to_owned();
        let outcome = apart(move || Ok(Self::attach_here(&of, block_size)));
        outcome.map_err(|cause| Error::Loop { path: file.to_owned(), step: "starting a thread", cause })?
    }

    fn attach_here(file: &Path, block_size: usize) -> Result<Self> {
        let failed = |step| move |cause| Error::Loop { path: file.to_owned(), step, cause };
        let control = open("/dev/loop-control".as_ref()).map_err(failed("opening /dev/loop-control"))?;
        let backing = OpenOptions::new().read(true).write(true).custom_flags(flags(OFlags::DIRECT)).open(file);
        let backing = backing.map_err(failed("opening the file"))?;
        let name = dead::name(file).map_err(failed("finding the path of the file"))?;
        for _ in 0..TRIES {
            let number =
                ioctl::free_device(control.as_fd()).map_err(|errno| failed("LOOP_CTL_GET_FREE")(errno.into()))?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let opened = open(&path).map_err(failed("opening the device"))?;
            match ioctl::configure(opened.as_fd(), backing.as_fd(), block_size as u32, name) {
                Ok(()) => {
                    // It can not go while it is open.
                    let device = Self { attached: attachment(&path), path };
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

    /// Whether nobody has detached it.
    pub(crate) fn is_attached(&self) -> bool {
        attachment(&self.path) == self.attached
    }

    /// Whether somebody has it for himself.
    pub(crate) fn is_in_use(&self) -> bool {
        if !self.is_attached() {
            return false;
        }
        let path = self.path.clone();
        let alone = apart(|| OpenOptions::new().read(true).custom_flags(flags(OFlags::EXCL)).open(path).map(drop));
        alone.is_err_and(|error| error.raw_os_error() == Some(Errno::BUSY.raw_os_error()))
    }

    /// Has what other programs have written to it, and the kernel still keeps, reach its file.
    pub(crate) fn sync(&self) -> Result<()> {
        if !self.is_attached() {
            return Ok(());
        }
        let path = self.path.clone();
        let synced = apart(move || open(&path)?.sync_all());
        synced.map_err(|cause| Error::NotSynced { path: self.path.clone(), cause })
    }

    /// Whether it goes past the page cache of its file.
    fn is_direct(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default();
        fs::read_to_string(Path::new(DEVICES).join(name).join("loop/dio")).is_ok_and(|told| told.trim() == "1")
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let (path, attached) = (self.path.clone(), self.attached.clone());
        detach(&self.path, move || attachment(&path) == attached);
    }
}

/// What tells a device as it is attached now from the same one attached before and later: the kernel's number of it since Linux
/// 5.15, else its file. None is attached, if nothing.
fn attachment(path: &Path) -> Option<String> {
    let told = Path::new(DEVICES).join(path.file_name()?);
    let backing = fs::read_to_string(told.join("loop/backing_file")).ok()?;
    Some(fs::read_to_string(told.join("diskseq")).unwrap_or(backing))
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

/// Detaches a device if it is the one that is meant.
fn detach(path: &Path, is_meant: impl FnOnce() -> bool + Send + 'static) {
    let of = path.to_owned();
    // While it is open it stays what it is, whatever program detaches it.
    let detached = apart(move || {
        let device = open(&of)?;
        let is_meant = is_meant();
        if is_meant {
            ioctl::clear(device.as_fd())?;
        }
        Ok(is_meant)
    });
    match detached {
        Ok(true) => tracing::info!(path = %path.display(), "detached, or will be by its last user"),
        Ok(false) => tracing::warn!(path = %path.display(), "somebody has detached it already"),
        Err(error) => tracing::warn!(path = %path.display(), %error, "could not be detached"),
    }
}
