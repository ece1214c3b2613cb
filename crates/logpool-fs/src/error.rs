//! What can go wrong with a mount or a service.

use std::io;
use std::path::PathBuf;

use ishigaki_base::ErrorKind;

use crate::Place;

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
        cause: io::Error,
    },
    /// The socket of a ring can not be made.
    #[error("no database can be served at `{path}`: {cause}", path = path.display())]
    Ring {
        /// The socket.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// A member is served already.
    #[error("member `{name}` is served already, at {place}")]
    Served {
        /// The member.
        name: String,
        /// Where.
        place: Place,
    },
    /// It is not known where a member is to be served.
    #[error("member `{name}` is served nowhere; `ishigaki log add` serves it")]
    NowhereServed {
        /// The member.
        name: String,
    },
    /// A connected client would be cut off.
    #[error(
        "member `{name}` is at {place}, and a virtual machine or a database is connected there, which would be cut off: only members on folders are handed over; end it first"
    )]
    Connected {
        /// The member.
        name: String,
        /// Where.
        place: Place,
    },
    /// A folder on which another member's mount was handed over.
    #[error(
        "member `{name}` is to be served at {place}, where the mount of member `{other}` still is, whose server would be cut off: end that server and the service, and start the service again"
    )]
    Occupied {
        /// The member.
        name: String,
        /// Where it is to be served.
        place: Place,
        /// The member that is there.
        other: String,
    },
    /// What was handed over does not fit to the pool.
    #[error("member `{name}` can not be taken over: {cause}; end its server and the service, and start both again")]
    TakenOver {
        /// The member.
        name: String,
        /// Why not.
        cause: io::Error,
    },
    /// A thread could not be started.
    #[error("a thread for `{path}` could not be started: {cause}", path = path.display())]
    Thread {
        /// The folder.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
}

impl Error {
    /// Whether it is the place where a member is to be served that is wrong, and nothing else.
    pub(crate) fn is_of_place(&self) -> bool {
        matches!(self, Self::Mount(_) | Self::Socket { .. } | Self::Ring { .. })
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Profile { .. }
            | Self::Served { .. }
            | Self::NowhereServed { .. }
            | Self::Connected { .. }
            | Self::Occupied { .. } => ErrorKind::Invalid,
            Self::Mount(cause) => cause.kind(),
            Self::Socket { cause, .. } | Self::Ring { cause, .. } => match cause.kind() {
                // Another path is needed.
                io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists | io::ErrorKind::InvalidInput => {
                    ErrorKind::Invalid
                }
                _ => ErrorKind::Unavailable,
            },
            Self::Pool(cause) => cause.kind(),
            Self::TakenOver { .. } => ErrorKind::Unavailable,
            Self::Thread { .. } => ErrorKind::Exhausted,
        }
    }
}

impl From<ishigaki_virtio::Error> for Error {
    fn from(error: ishigaki_virtio::Error) -> Self {
        match error {
            ishigaki_virtio::Error::Thread { path, cause } => Self::Thread { path, cause },
            ishigaki_virtio::Error::Socket { path, cause } => Self::Socket { path, cause },
        }
    }
}
