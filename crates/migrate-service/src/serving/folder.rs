//! The bare folder below the mount, which no program is to use while a migration lives: what was written there would be hidden by the next start, and who
//! lists it would take it for an empty server.
//!
//! Between two services it has mode 0, and the flag that lets not even root make files in it (`chattr +i`). Its own mode is kept in an attribute, until
//! the service of a finished migration ends.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{IFlags, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

/// Holds the folder's own mode, in octal digits.
const MODE: &str = "trusted.ishigaki.folder";
const MODE_BITS: u32 = 0o7777;

/// The bare folder, before it is mounted on. What a service that died has left there may be over it: then it is closed already.
pub(crate) fn before(at: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(at, flags, Mode::empty()).ok()
}

/// Closes it, now that it is mounted on.
pub(crate) fn close(bare: &OwnedFd, at: &Path) {
    match try_close(bare) {
        Ok(()) | Err(Errno::NOTCONN) => {}
        Err(error) => tracing::warn!(
            path = %at.display(), %error,
            "its file system can not keep programs from it while no service runs; stop the clients before the service"
        ),
    }
}

fn try_close(bare: &OwnedFd) -> rustix::io::Result<()> {
    let folder = rustix::fs::openat(bare, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = rustix::fs::ioctl_getflags(&folder);
    if flags.is_ok_and(|flags| flags.contains(IFlags::IMMUTABLE)) {
        return Ok(());
    }
    let mode = rustix::fs::fstat(&folder)?.st_mode & MODE_BITS;
    match rustix::fs::fsetxattr(&folder, MODE, format!("{mode:o}").as_bytes(), XattrFlags::CREATE) {
        // What was cut off is done again.
        Ok(()) | Err(Errno::EXIST) => rustix::fs::fchmod(&folder, Mode::empty())?,
        // Without the attribute the mode could not be given back.
        Err(_) => {}
    }
    rustix::fs::ioctl_setflags(&folder, flags? | IFlags::IMMUTABLE)
}

/// Gives the folder back as it was, when the migration has ended and nothing is mounted any more.
pub(crate) fn open(at: &Path) {
    if let Err(error) = File::open(at).and_then(|folder| Ok(try_open(&folder)?)) {
        tracing::warn!(path = %at.display(), %error, "it is not writable again; `chattr -i` and `chmod` make it so");
    }
}

fn try_open(folder: impl AsFd) -> rustix::io::Result<()> {
    if let Ok(flags) = rustix::fs::ioctl_getflags(&folder)
        && flags.contains(IFlags::IMMUTABLE)
    {
        rustix::fs::ioctl_setflags(&folder, flags - IFlags::IMMUTABLE)?;
    }
    let mut digits = [0; 8];
    let Ok(length) = rustix::fs::fgetxattr(&folder, MODE, &mut digits[..]) else { return Ok(()) };
    let mode = std::str::from_utf8(&digits[..length]).ok().and_then(|text| u32::from_str_radix(text, 8).ok());
    rustix::fs::fchmod(&folder, Mode::from_raw_mode(mode.unwrap_or(0o755) & MODE_BITS))?;
    rustix::fs::fremovexattr(&folder, MODE)
}
