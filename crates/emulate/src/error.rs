//! What can go wrong with an emulated disk.

use std::io;
use std::path::PathBuf;

use ishigaki_base::{ByteSize, ErrorKind};

/// The result of emulating.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no emulated disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder could not be mounted on.
    #[error(transparent)]
    Mount(#[from] ishigaki_fuse::Error),
    /// Block devices belong to root.
    #[error("an emulated disk takes root: it mounts a folder and attaches a loop device")]
    NotRoot,
    /// The host can not hold the drive.
    #[error(
        "the disk may take {wanted} of memory, and the host has {available}; make it smaller, or limit what it may take"
    )]
    Memory {
        /// What the drive may come to take.
        wanted: ByteSize,
        /// What the host says is available.
        available: ByteSize,
    },
    /// The kernel gave no loop device.
    #[error("no loop device for `{path}`: {step} failed ({cause}); it takes the kernel's `loop` (`modprobe loop`), in a container also its devices", path = path.display())]
    Loop {
        /// The file that was to be attached.
        path: PathBuf,
        /// What failed.
        step: &'static str,
        /// Why.
        cause: io::Error,
    },
    /// The kernel attached the file, but reads and writes through its page cache.
    #[error("`{path}` is attached without direct I/O, which the model of a drive needs; it takes Linux 5.8", path = path.display())]
    Cached {
        /// The block device.
        path: PathBuf,
    },
    /// What programs have written to it could not all be taken.
    #[error("`{path}`: what programs have written to it could not all be written back ({cause})", path = .path.display())]
    NotSynced {
        /// The block device.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// There is no emulated disk on that folder.
    #[error("there is no emulated disk at `{path}` ({cause}); the folder is the one given by `--at` when it was started", path = path.display())]
    NotThere {
        /// The folder.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Mount(error) => error.kind(),
            Self::NotRoot | Self::NotThere { .. } => ErrorKind::Invalid,
            Self::Memory { .. } => ErrorKind::Exhausted,
            Self::Loop { .. } | Self::Cached { .. } | Self::NotSynced { .. } => ErrorKind::Unavailable,
        }
    }
}
