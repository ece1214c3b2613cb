//! What can go wrong with an agent.

use std::io;
use std::path::PathBuf;

use ishigaki_base::ErrorKind;

/// The result of an agent's work.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something is not told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A directory can not be read.
    #[error("{}: {cause}", .path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// The files lie on no disk that they have for themselves.
    #[error("{}: its file system lies on no one disk ({reason}); give a directory on the volume", .path.display())]
    NoDisk {
        /// The directory.
        path: PathBuf,
        /// What was found instead.
        reason: String,
    },
    /// The files lie on the disk of another volume.
    #[error(
        "{}: it lies on the disk `{disk}` and not on that of volume `{volume}`; give a directory on the volume", .path.display()
    )]
    OtherDisk {
        /// The directory.
        path: PathBuf,
        /// How its disk is called.
        disk: String,
        /// The volume that was meant.
        volume: String,
    },
    /// The command that counts.
    #[error("`{command}`: {reason}; it is to print one number, which only rises")]
    Command {
        /// As it was given.
        command: String,
        /// What it did instead.
        reason: String,
    },
    /// The host is not reached.
    #[error(
        "{to}: {cause}; the service listens at `agents` in its configuration, and by a port of the machine at its socket NAME.agent"
    )]
    Host {
        /// The address.
        to: String,
        /// The system's answer.
        cause: io::Error,
    },
    /// The host has refused.
    #[error("the host has refused: {0}")]
    Refused(String),
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Path { .. }
            | Self::NoDisk { .. }
            | Self::OtherDisk { .. }
            | Self::Command { .. }
            | Self::Refused(_) => ErrorKind::Invalid,
            Self::Host { .. } => ErrorKind::Unavailable,
        }
    }
}
