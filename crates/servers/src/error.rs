//! What can keep a server from being there.

use std::io;
use std::path::{Path, PathBuf};

use ishigaki_base::ErrorKind;

/// The result of dealing with servers.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no server, or no answer of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Other users' processes are started.
    #[error("database servers run as users of their own, which takes root: run it by `sudo`")]
    NotRoot,
    /// It is not installed.
    #[error("there is no {what}; install it: `apt-get install {package}`")]
    Missing {
        /// A program or a user.
        what: String,
        /// Debian's package.
        package: &'static str,
    },
    /// A program that was to do something ended badly.
    #[error("`{program}` has failed: {said}")]
    Program {
        /// Its name.
        program: String,
        /// What it said.
        said: String,
    },
    /// A process does not do what it should within the time that is given.
    #[error("{what}, in {seconds} s: {said}")]
    Patience {
        /// What was waited for.
        what: String,
        /// For so long.
        seconds: u64,
        /// What the process said.
        said: String,
    },
    /// A client has ended, as it does when its server has.
    #[error("the client of {} has ended: its server is gone, or refuses the statement", data.display())]
    Gone {
        /// The server's data.
        data: PathBuf,
    },
    /// Somebody has asked to end.
    #[error("ended before it was done")]
    Stopped,
    /// The operating system refused something.
    #[error("{}: {operation} failed: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What was being done.
        operation: &'static str,
        /// Its word for it.
        source: io::Error,
    },
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotRoot | Self::Missing { .. } => ErrorKind::Invalid,
            Self::Stopped => ErrorKind::Cancelled,
            Self::Program { .. } | Self::Patience { .. } | Self::Gone { .. } | Self::Io { .. } => {
                ErrorKind::Unavailable
            }
        }
    }
}

/// For errors of the operating system.
pub(crate) fn failed(path: &Path, operation: &'static str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, operation, source }
}
