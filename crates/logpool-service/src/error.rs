//! What can go wrong with a service, and with asking one.

use std::io;
use std::path::PathBuf;

use ishigaki_base::ErrorKind;

/// The result of serving, or of asking.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no service, or no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration can not be followed.
    #[error("{}{}: {reason}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Config {
        /// Its file.
        path: PathBuf,
        /// Where in it, from 1.
        line: Option<usize>,
        /// What is wrong there.
        reason: String,
    },
    /// A member that can not be.
    #[error("{0}")]
    Member(String),
    /// Only root can give a member to somebody else.
    #[error(
        "member `{member}` is to belong to {owner}, which takes root: run the service as root or as that user, or leave the owner out"
    )]
    NotRoot {
        /// The member.
        member: String,
        /// To whom it was to belong.
        owner: String,
    },
    /// A file or socket in the data directory can not be had.
    #[error("{}: {cause}; the service needs it", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The operating system's word for it.
        cause: io::Error,
    },
    /// Where numbers were to be given.
    #[error("no metrics at {address}: {cause}; choose another port, or one of this host's addresses")]
    Metrics {
        /// The address.
        address: String,
        /// The operating system's word for it.
        cause: io::Error,
    },
    /// A thread could not be started.
    #[error("a thread of the service could not be started: {0}")]
    Thread(io::Error),
    /// Nobody serves that directory.
    #[error("{}: no service runs there; `ishigaki log serve` starts one", data.display())]
    NotServed {
        /// The data directory.
        data: PathBuf,
    },
    /// The control socket is somebody else's.
    #[error("{}: the service may be asked by root and by who runs it, and by nobody else", data.display())]
    Forbidden {
        /// The data directory.
        data: PathBuf,
    },
    /// A service did not answer as one does.
    #[error("{}: the service does not answer as it should: {reason}", data.display())]
    Answer {
        /// The data directory.
        data: PathBuf,
        /// What was there instead.
        reason: String,
    },
    /// The service has answered that it can not be.
    #[error("{message}")]
    Refused {
        /// What can be done.
        kind: ErrorKind,
        /// Why.
        message: String,
    },
    /// A service did not hand over what it serves.
    #[error("{}: nothing was taken over from the service that runs there: {cause}", data.display())]
    TakeOver {
        /// The data directory.
        data: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// A hand-over failed, and what was to be handed over could not be served again.
    #[error(
        "{}: another process was to take over and did not, and nothing is served any more: {reason}; mend that, and start the service again", data.display()
    )]
    HandOver {
        /// The data directory.
        data: PathBuf,
        /// What can be done.
        kind: ErrorKind,
        /// Why it does not go on itself.
        reason: String,
    },
    /// Mounts could not be left with the service manager.
    #[error(
        "{}: the folders are not kept for the next start, and are unmounted: {cause}; start the servers again when the service runs", data.display()
    )]
    Keep {
        /// The data directory.
        data: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The service is about to end.
    #[error("the service is ending")]
    Ending,
    /// A member is not served.
    #[error(transparent)]
    Mount(#[from] ishigaki_logpool_fs::Error),
    /// The pool refused.
    #[error(transparent)]
    Pool(#[from] ishigaki_logpool::Error),
    /// The data directory did.
    #[error(transparent)]
    Device(#[from] ishigaki_device::Error),
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Config { .. } | Self::Member(_) | Self::NotRoot { .. } | Self::Forbidden { .. } => ErrorKind::Invalid,
            Self::File { .. }
            | Self::Metrics { .. }
            | Self::NotServed { .. }
            | Self::TakeOver { .. }
            | Self::Keep { .. }
            | Self::Answer { .. }
            | Self::Ending => ErrorKind::Unavailable,
            Self::Thread(_) => ErrorKind::Exhausted,
            Self::Refused { kind, .. } | Self::HandOver { kind, .. } => *kind,
            Self::Mount(cause) => cause.kind(),
            Self::Pool(cause) => cause.kind(),
            Self::Device(cause) => cause.kind(),
        }
    }
}
