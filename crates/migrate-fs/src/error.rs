//! What can go wrong with a door.

use std::io;
use std::path::PathBuf;

use ishigaki_base::ErrorKind;

/// The result of opening a door.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no door.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The destination can not be used.
    #[error("the destination `{path}` can not be opened ({cause}); it takes an existing directory, and root", path = path.display())]
    Destination {
        /// The directory.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The destination's file system is of another kind.
    #[error(
        "the destination `{path}` lies on a file system of kind {kind:#x}; it must be ext4, xfs or btrfs", path = path.display()
    )]
    FileSystem {
        /// The directory.
        path: PathBuf,
        /// As `statfs` gives it.
        kind: u64,
    },
    /// Objects of the destination can not be opened by their numbers.
    #[error(
        "files of the destination `{path}` can not be opened by handles ({cause}); it takes the capability CAP_DAC_READ_SEARCH",
        path = path.display()
    )]
    Handles {
        /// The directory.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// What another process has handed over is not whole.
    #[error("what the service before has handed over of `{path}` is not whole; unmount it and mount it again", path = path.display())]
    Inheritance {
        /// Where it is mounted.
        path: PathBuf,
    },
    /// Nothing is mounted.
    #[error(transparent)]
    Mount(#[from] ishigaki_fuse::Error),
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Destination { .. } | Self::FileSystem { .. } => ErrorKind::Invalid,
            Self::Handles { .. } => ErrorKind::Unavailable,
            Self::Inheritance { .. } => ErrorKind::Corrupt,
            Self::Mount(error) => error.kind(),
        }
    }
}
