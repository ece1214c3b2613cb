//! What can go wrong with a mount or a service.

use std::path::PathBuf;

use fuse_backend_rs::transport::Error as TransportError;
use ishigaki_base::ErrorKind;

/// The result of mounting and serving.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a member is not served.
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
    /// The pool refused.
    #[error(transparent)]
    Pool(#[from] ishigaki_logpool::Error),
    /// A member is there already, for another kind of server.
    #[error("member `{name}` has the profile {found}, not {wanted}; give it that, or take another name")]
    Profile {
        /// The member.
        name: String,
        /// The profile that it was made with.
        found: &'static str,
        /// The one that it is to be served with.
        wanted: &'static str,
    },
    /// The socket can not be made.
    #[error("no virtual machine can be served at `{path}`: {cause}", path = path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// A member is served already.
    #[error("member `{name}` is served already, at `{path}`", path = path.display())]
    Served {
        /// The member.
        name: String,
        /// Its folder.
        path: PathBuf,
    },
    /// A thread could not be started.
    #[error("a thread for `{path}` could not be started: {cause}", path = path.display())]
    Thread {
        /// The folder.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Folder { .. } | Self::Profile { .. } | Self::Served { .. } => ErrorKind::Invalid,
            Self::Mount { .. } | Self::Socket { .. } => ErrorKind::Unavailable,
            Self::Pool(cause) => cause.kind(),
            Self::Thread { .. } => ErrorKind::Exhausted,
        }
    }
}
