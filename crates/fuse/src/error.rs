//! What can go wrong with a mount.

use std::io;
use std::path::PathBuf;

use fuse_backend_rs::transport::Error as TransportError;
use ishigaki_base::ErrorKind;

/// The result of mounting.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nothing is mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder can not be mounted on.
    #[error("`{path}` can not be mounted on: {reason}", path = path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not, and what helps.
        reason: String,
    },
    /// The kernel, or `fusermount3`, refused.
    #[error("`{path}` could not be mounted ({cause}); it takes /dev/fuse, and root or fusermount3", path = path.display())]
    Mount {
        /// The folder.
        path: PathBuf,
        /// What they say.
        cause: TransportError,
    },
    /// The kernel refused another option of a mount.
    #[error("the mount on `{path}` could not be given other options ({cause}); it takes root", path = path.display())]
    Options {
        /// The folder.
        path: PathBuf,
        /// What it says.
        cause: io::Error,
    },
    /// A thread that answers could not be started, or could not wait for requests.
    #[error("a thread for `{path}` could not be started: {cause}", path = path.display())]
    Thread {
        /// The folder.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Folder { .. } => ErrorKind::Invalid,
            Self::Mount { .. } | Self::Options { .. } => ErrorKind::Unavailable,
            Self::Thread { .. } => ErrorKind::Exhausted,
        }
    }
}
