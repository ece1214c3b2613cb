//! Control sockets, which are files in a directory that may lie deep: a socket's own path has room for 107 bytes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// A short path to a name in an open directory, for as long as it is open.
#[must_use]
pub fn through(directory: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))
}

/// What came of removing a name that may not be there.
///
/// # Errors
///
/// Those of the removal, but for a name that was not there.
pub fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
