//! What can go wrong between a client and a storage node.

use std::path::PathBuf;

use ishigaki_base::ErrorKind;

/// The result of asking a node.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection, or who is at its other end.
    #[error(transparent)]
    Fabric(#[from] ishigaki_fabric::Error),
    /// The medium, ours or the node's.
    #[error(transparent)]
    Device(#[from] ishigaki_device::Error),
    /// What a node is to serve is not there.
    #[error("{}: there is no such folder; make it, or see how its name is written", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// What a node is to serve is something else.
    #[error("{}: is no folder; a node serves the files of a folder", path.display())]
    NotAFolder {
        /// What was given for one.
        path: PathBuf,
    },
    /// A setting that could never work.
    #[error("{reason}")]
    Invalid {
        /// What about it is wrong.
        reason: String,
    },
    /// Work that a node does not do, though nothing is wrong with it: it does none, or has no room for it.
    #[error("{peer}: refuses the work: {reason}")]
    Refused {
        /// The node.
        peer: String,
        /// Why, and what to do instead.
        reason: String,
    },
    /// The other side says what nobody may say.
    #[error("{peer}: is no storage node of this version: {reason}")]
    Protocol {
        /// The peer.
        peer: String,
        /// What was wrong.
        reason: String,
    },
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Fabric(error) => error.kind(),
            Self::Device(error) => error.kind(),
            Self::NoFolder { .. } | Self::NotAFolder { .. } | Self::Invalid { .. } => ErrorKind::Invalid,
            Self::Refused { .. } => ErrorKind::Exhausted,
            Self::Protocol { .. } => ErrorKind::Unavailable,
        }
    }

    /// As an error of a device of that name, for those who know devices only.
    pub(crate) fn of_device(self, name: &str, operation: &'static str) -> ishigaki_device::Error {
        match self {
            Self::Device(error) => error,
            other => {
                ishigaki_device::Error::Io { name: name.to_owned(), operation, source: std::io::Error::other(other) }
            }
        }
    }
}
