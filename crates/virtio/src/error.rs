//! What can go wrong with a socket for virtual machines.

use std::io;
use std::path::PathBuf;

use ishigaki_base::ErrorKind;

/// The result of serving virtual machines.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why no machine can connect.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket can not be made.
    #[error("no socket at `{}`: {cause}", .path.display())]
    Socket {
        /// Where it was to be.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// A thread could not be started.
    #[error("a thread for the socket `{}` could not be started: {cause}", .path.display())]
    Thread {
        /// The socket.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Socket { cause, .. } => match cause.kind() {
                io::ErrorKind::InvalidInput | io::ErrorKind::AlreadyExists => ErrorKind::Invalid,
                _ => ErrorKind::Unavailable,
            },
            Self::Thread { .. } => ErrorKind::Exhausted,
        }
    }
}
