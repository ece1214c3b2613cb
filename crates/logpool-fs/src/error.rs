//! What can go wrong with a mount or a service.

use std::path::PathBuf;

/// The result of mounting and serving.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a member is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder could not be mounted on.
    #[error(transparent)]
    Mount(#[from] ishigaki_fuse::Error),
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
    /// A thread could not be started.
    #[error("a thread for `{path}` could not be started: {cause}", path = path.display())]
    Thread {
        /// The folder.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
}
