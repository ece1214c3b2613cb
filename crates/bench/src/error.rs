//! What can keep a workload from giving figures.

use std::io;
use std::path::PathBuf;

use ishigaki_base::ErrorKind;

/// The result of a workload.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] ishigaki_txn::Error),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] ishigaki_wal::Error),
    /// The bare device failed.
    #[error("the bare device failed: {0}")]
    Device(#[from] ishigaki_device::Error),
    /// A storage node, or the way there, failed.
    #[error(transparent)]
    Remote(#[from] ishigaki_remote::Error),
    /// The process of a storage node did not start, or went away.
    #[error("the storage node's process: {reason}")]
    Node {
        /// What happened.
        reason: String,
    },
    /// Two hosts can not be made of this one.
    #[error("no second host on this one: `{command}`: {reason}; it takes root, iproute2 and util-linux")]
    Hosts {
        /// What was tried.
        command: String,
        /// What came of it.
        reason: String,
    },
    /// A database server, or its client, is not there or failed.
    #[error(transparent)]
    Server(#[from] ishigaki_servers::Error),
    /// The pool failed.
    #[error(transparent)]
    Pool(#[from] ishigaki_logpool::Error),
    /// The pool's service failed.
    #[error(transparent)]
    Service(#[from] ishigaki_logpool_service::Error),
    /// The service of volumes failed.
    #[error(transparent)]
    Volumes(#[from] ishigaki_volume_service::Error),
    /// A block device of the host failed.
    #[error(transparent)]
    Block(#[from] ishigaki_emulate::Error),
    /// A process of this program's, which serves a workload, did not start, or went away.
    #[error("the process of {what}: {reason}")]
    Process {
        /// What it serves.
        what: &'static str,
        /// What happened.
        reason: String,
    },
    /// The workload's own check failed: what is stored is not what was acknowledged.
    #[error("{workload}: the result is wrong, so no figure is given: {reason}; keep {} for a closer look", path.display())]
    Wrong {
        /// Which workload.
        workload: &'static str,
        /// What does not fit.
        reason: String,
        /// Where the data lies.
        path: PathBuf,
    },
    /// A setting makes no sense.
    #[error("{setting}: {reason}")]
    Invalid {
        /// Which one.
        setting: &'static str,
        /// Why, and what it could be.
        reason: String,
    },
    /// The operating system refused something about a file or an output.
    #[error("{}: {operation} failed: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What was being done.
        operation: &'static str,
        /// The operating system's word for it.
        source: io::Error,
    },
}

impl Error {
    /// A setting that makes no sense.
    pub(crate) fn invalid(setting: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { setting, reason: reason.into() }
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Engine(error) => error.kind(),
            Self::Log(error) => error.kind(),
            Self::Device(error) => error.kind(),
            Self::Remote(error) => error.kind(),
            Self::Server(error) => error.kind(),
            Self::Pool(error) => error.kind(),
            Self::Service(error) => error.kind(),
            Self::Volumes(error) => error.kind(),
            Self::Block(error) => error.kind(),
            Self::Wrong { .. } => ErrorKind::Corrupt,
            Self::Invalid { .. } => ErrorKind::Invalid,
            Self::Node { .. } | Self::Process { .. } | Self::Hosts { .. } | Self::Io { .. } => ErrorKind::Unavailable,
        }
    }
}
