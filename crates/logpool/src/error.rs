//! What can go wrong with a pool.

use std::sync::Arc;

use ishigaki_base::{ByteSize, ErrorKind};

use crate::MemberId;

/// The result of asking a pool for something.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Cheap to clone: one failure is told to everybody who waits.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A write or sync of the log failed. No member gets anything acknowledged any more; nothing is tried again.
    #[error("the log of the pool failed ({cause}); what was acknowledged is safe: open the pool again")]
    Failed {
        /// The first failure.
        cause: ishigaki_wal::Error,
    },
    /// A member's home failed. The others go on; what this one had acknowledged stays in the log.
    #[error(
        "the home of member `{member}` failed ({cause}); what was acknowledged is safe: mend its medium and open the pool again"
    )]
    HomeFailed {
        /// The member.
        member: String,
        /// The first failure.
        cause: Arc<Self>,
    },
    /// A part of a file is not what was written, and the log does not have it any more. Nothing of it is served; all else of
    /// the file is, and the other files.
    #[error(
        "`{file}` of member `{member}` is damaged at {offset} ({why}), and the log does not have it any more; the 4 KiB there are not served until they are written as a whole; `ishigaki log verify` lists all damage"
    )]
    Damaged {
        /// The member.
        member: String,
        /// The file's path.
        file: String,
        /// Where the damaged block begins, in bytes.
        offset: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A member is not served: it could not be opened, or was taken out. The others are.
    #[error(
        "member `{member}` is quarantined: {why}; the others are served. `ishigaki log verify` says what is damaged, `ishigaki log repair {member}` mends what can be mended and serves it again; `ishigaki log remove {member} --force` removes it and its files"
    )]
    Quarantined {
        /// The member.
        member: String,
        /// Why.
        why: String,
    },
    /// The pool was closed by its owner.
    #[error("the pool is closed")]
    Closed,
    /// A member has used up what it may have. Nothing has changed, and no other member is concerned.
    #[error("member `{member}` has no space left: {what}")]
    Full {
        /// The member.
        member: String,
        /// Which limit, and what helps.
        what: String,
        /// Whether there is room again once homes have kept up, without anything being removed or allowed more.
        passes: bool,
    },
    /// The log of a new pool does not fit on its medium. No pool was made.
    #[error(
        "the log may take {bound}, and its medium has not so much left ({cause}); give the log a smaller size, or the medium more room"
    )]
    NoRoom {
        /// What the log was to have.
        bound: ByteSize,
        /// What the medium said.
        cause: ishigaki_wal::Error,
    },
    /// There is no such file or member.
    #[error("`{name}`: not found")]
    NotFound {
        /// Its name.
        name: String,
    },
    /// A file or member of that name is there already.
    #[error("`{name}`: exists already")]
    Exists {
        /// Its name.
        name: String,
    },
    /// A directory was meant to go and has something in it.
    #[error("`{name}`: the directory is not empty")]
    NotEmpty {
        /// Its name.
        name: String,
    },
    /// A directory where a file was expected.
    #[error("`{name}`: is a directory")]
    IsDirectory {
        /// Its name.
        name: String,
    },
    /// A file where a directory was expected.
    #[error("`{name}`: is not a directory")]
    NotDirectory {
        /// Its name.
        name: String,
    },
    /// A request or setting that can not be.
    #[error("{reason}")]
    Invalid {
        /// Why not.
        reason: String,
    },
    /// Stored bytes are not what was written.
    #[error("the pool is damaged: {what}; restore it from a copy")]
    Corrupt {
        /// What is wrong, and where.
        what: String,
    },
    /// Written by a version of the format that this program does not know.
    #[error("{what} has format version {found}; this program reads version {known}")]
    Version {
        /// What was read.
        what: &'static str,
        /// Its version.
        found: u8,
        /// The one known here.
        known: u8,
    },
    /// The log did not open, or could not be read.
    #[error(transparent)]
    Log(ishigaki_wal::Error),
    /// A medium failed before anything was promised.
    #[error(transparent)]
    Device(Arc<ishigaki_device::Error>),
    /// The files that a rebuild writes for its user could not be written.
    #[error("{path}: {cause}; choose an empty directory on a medium with enough space")]
    Output {
        /// Where.
        path: String,
        /// The operating system's word for it.
        cause: Arc<std::io::Error>,
    },
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Failed { .. } | Self::HomeFailed { .. } | Self::Closed => ErrorKind::Closed,
            Self::Full { .. } | Self::NoRoom { .. } => ErrorKind::Exhausted,
            Self::NotFound { .. }
            | Self::Exists { .. }
            | Self::NotEmpty { .. }
            | Self::IsDirectory { .. }
            | Self::NotDirectory { .. }
            | Self::Invalid { .. }
            | Self::Version { .. } => ErrorKind::Invalid,
            Self::Corrupt { .. } | Self::Damaged { .. } | Self::Quarantined { .. } => ErrorKind::Corrupt,
            Self::Log(cause) => cause.kind(),
            Self::Device(cause) => cause.kind(),
            Self::Output { .. } => ErrorKind::Unavailable,
        }
    }

    /// Whether the same request may find room later: a share or the log that homes have not kept up with, a medium of the log
    /// that is full.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::Full { passes, .. } => *passes,
            Self::Log(cause) => cause.kind() == ErrorKind::Exhausted,
            _ => false,
        }
    }

    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into() }
    }

    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.into() }
    }

    pub(crate) fn of_member(member: MemberId, what: &str) -> Self {
        Self::corrupt(format!("member {member}: {what}"))
    }
}

impl From<ishigaki_device::Error> for Error {
    fn from(error: ishigaki_device::Error) -> Self {
        Self::Device(Arc::new(error))
    }
}

impl From<ishigaki_wal::Error> for Error {
    fn from(error: ishigaki_wal::Error) -> Self {
        match error {
            ishigaki_wal::Error::Failed { .. } => Self::Failed { cause: error },
            ishigaki_wal::Error::Closed => Self::Closed,
            other => Self::Log(other),
        }
    }
}
