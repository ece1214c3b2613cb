//! The kernel's side of a mount: `/dev/fuse`, and how it comes and goes.
//!
//! The library's `FuseSession` mounts, and unmounts when it is dropped. A mount of ours may outlive its process, so the session
//! is let go at once, and its device kept.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use fuse_backend_rs::transport::{Error as TransportError, FuseSession};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
};

use crate::{Error, Result};

/// Where the kernel gives requests to.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// Mounts on a folder, and gives the device.
pub(crate) fn mount(path: &Path, name: &str) -> Result<File> {
    let refused = |cause| Error::Mount { path: path.to_owned(), cause };
    let not_started = |cause| Error::Thread { path: path.to_owned(), cause };
    let mut session = FuseSession::new(path, name, "", false).map_err(refused)?;
    // Who is not root may let others in only if the host's configuration says so.
    session.set_allow_other(rustix::process::geteuid().is_root());
    session.mount().map_err(refused)?;
    let device = session.get_fuse_file().map(File::try_clone).transpose().map_err(not_started)?;
    let device = device.ok_or_else(|| not_started(io::Error::other("the library has no device")))?;
    let_go(session).map_err(not_started)?;
    Ok(device)
}

/// How the kernel gives requests to a file system that root mounts, by a device: options with values, and without.
fn options(device: &OwnedFd, longest: usize) -> ([(&'static str, String); 5], [&'static str; 2]) {
    let values = [
        ("fd", device.as_raw_fd().to_string()),
        ("rootmode", "40000".to_owned()),
        ("user_id", "0".to_owned()),
        ("group_id", "0".to_owned()),
        ("max_read", longest.to_string()),
    ];
    (values, ["default_permissions", "allow_other"])
}

/// Opens a device for a mount that the library does not make, and tells how long its requests are.
fn open_device(name: &str) -> io::Result<(OwnedFd, usize)> {
    let session = FuseSession::new(Path::new("/"), name, "", false);
    let session = session.map_err(|error| io::Error::other(error.to_string()))?;
    let longest = session.bufsize();
    let_go(session)?;
    let access = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok((rustix::fs::open(DEVICE, access, rustix::fs::Mode::empty())?, longest))
}

/// Mounts below the mount of a process that died, as root: programs see the new one when that is taken away, and never the bare folder. Takes
/// Linux 6.5.
pub(crate) fn mount_below(path: &Path, name: &str) -> io::Result<File> {
    let (device, longest) = open_device(name)?;
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", name)?;
    let (values, flags) = options(&device, longest);
    for (key, value) in values {
        fsconfig_set_string(&context, key, value)?;
    }
    for key in flags {
        fsconfig_set_flag(&context, key)?;
    }
    fsconfig_create(&context)?;
    let attributes =
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOATIME;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH
        | MoveMountFlags::MOVE_MOUNT_T_SYMLINKS
        | MoveMountFlags::MOVE_MOUNT_BENEATH;
    move_mount(&mount, "", CWD, path, how)?;
    Ok(device.into())
}

/// Mounts over the mount of a process that died, as root. The library would first ask that one for its attributes.
pub(crate) fn mount_over(path: &Path, name: &str) -> Result<File> {
    let refused = |error: io::Error| Error::Mount {
        path: path.to_owned(),
        cause: TransportError::SessionFailure(format!("over the mount of a process that died: {error}")),
    };
    let (device, longest) = open_device(name).map_err(refused)?;
    let (values, flags) = options(&device, longest);
    let words = values.into_iter().map(|(key, value)| format!("{key}={value}"));
    let words: Vec<_> = words.chain(flags.map(str::to_owned)).collect();
    let options = CString::new(words.join(",")).map_err(|_| refused(Errno::INVAL.into()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    rustix::mount::mount(name, path, "fuse", flags, options.as_c_str()).map_err(|errno| refused(errno.into()))?;
    Ok(device.into())
}

/// A channel of this process' own to the mount. Requests that were taken by it and not answered end with `ECONNABORTED` when
/// the process dies, also where another one has the device and goes on with the mount.
pub(crate) fn own_channel(device: &File) -> io::Result<File> {
    let refused = |error| io::Error::other(format!("{error}"));
    let mut session = FuseSession::new(Path::new("/"), "", "", false).map_err(refused)?;
    session.set_fuse_file(device.try_clone()?);
    let own = session.clone_fuse_file().map_err(refused);
    let_go(session)?;
    let own = own?;
    fcntl_setfl(&own, fcntl_getfl(&own)? | OFlags::NONBLOCK)?;
    Ok(own)
}

/// Drops a session without unmounting: it leaves alone what a device that is broken belongs to, as it takes that for unmounted.
fn let_go(mut session: FuseSession) -> io::Result<()> {
    let (reader, broken) = io::pipe()?;
    drop(reader);
    session.set_fuse_file(File::from(OwnedFd::from(broken)));
    drop(session);
    Ok(())
}

/// Unmounts, unless that is done already.
pub(crate) fn unmount(path: &Path, device: File) -> io::Result<()> {
    let is_gone = is_gone(&device);
    // Else the unmounting might wait for an answer from here.
    drop(device);
    if is_gone {
        return Ok(());
    }
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        Err(Errno::PERM) => by_program(path),
        outcome => Ok(outcome?),
    }
}

/// Whether nothing is mounted by that device any more.
pub(crate) fn is_gone(device: impl AsFd) -> bool {
    let mut ready = [PollFd::new(&device, PollFlags::empty())];
    poll(&mut ready, Some(&Timespec::default())).is_ok() && ready[0].revents().contains(PollFlags::ERR)
}

/// As an ordinary user has to.
fn by_program(path: &Path) -> io::Result<()> {
    let status = Command::new("fusermount3").args(["--unmount", "--quiet", "--lazy", "--"]).arg(path).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("fusermount3: {status}"))) }
}
