//! What can go wrong with a medium.

use std::io;

use ishigaki_base::ErrorKind;

/// The result of asking a medium for something.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the device's name in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no device of that name.
    #[error("{name}: no such device")]
    NotFound {
        /// The device.
        name: String,
    },
    /// A device of that name is there already.
    #[error("{name}: exists already")]
    AlreadyExists {
        /// The device.
        name: String,
    },
    /// Another user holds the directory.
    #[error("{directory}: in use by {}, or choose another directory", user(holder.as_deref()))]
    Locked {
        /// The directory.
        directory: String,
        /// Who holds it, where that is known (`pid 4711`).
        holder: Option<String>,
    },
    /// A request the device could never serve: misaligned, out of range, an impossible name.
    #[error("{name}: {reason}")]
    Invalid {
        /// The device.
        name: String,
        /// What about the request is wrong.
        reason: String,
    },
    /// What the medium holds is not what was written there.
    #[error("{name} is damaged: {reason}")]
    Damaged {
        /// The device.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The medium is full.
    #[error("{name}: no space left on the medium for {needed} bytes")]
    NoSpace {
        /// The device.
        name: String,
        /// How much was asked for.
        needed: u64,
    },
    /// The medium or the operating system failed.
    #[error("{name}: {operation} failed: {source}")]
    Io {
        /// The device.
        name: String,
        /// What was being done: `read`, `write`, `sync`, ….
        operation: &'static str,
        /// The operating system's word for it.
        source: io::Error,
    },
    /// Nothing can be written there: the medium is read-only, or this process may only read what lies there.
    #[error("{name}: {operation} failed, since nothing can be written there: {source}")]
    ReadOnly {
        /// The device or directory.
        name: String,
        /// What was being done: `lock`, `write`, `create`, ….
        operation: &'static str,
        /// The operating system's word for it.
        source: io::Error,
    },
    /// The operating system gives this process no `io_uring`.
    #[error("{name}: io_uring can not be used here ({source}): {remedy}")]
    NoRing {
        /// The device or directory.
        name: String,
        /// The operating system's word for it.
        source: io::Error,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The simulated power went off; nothing works until the survivors are opened.
    #[error("{name}: the power is off")]
    PowerCut {
        /// The device.
        name: String,
    },
}

/// Who holds a lock, and what to do about it.
fn user(holder: Option<&str>) -> String {
    match holder {
        None => "another process; stop that one first".to_owned(),
        Some(holder) if holder == format!("pid {}", std::process::id()) => {
            format!("this process itself ({holder}); close it there first")
        }
        Some(holder) => format!("another process ({holder}); stop that one first"),
    }
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::AlreadyExists { .. } | Self::Invalid { .. } => ErrorKind::Invalid,
            Self::NoSpace { .. } => ErrorKind::Exhausted,
            Self::Locked { .. } | Self::Io { .. } | Self::ReadOnly { .. } | Self::NoRing { .. } => {
                ErrorKind::Unavailable
            }
            Self::Damaged { .. } => ErrorKind::Corrupt,
            Self::PowerCut { .. } => ErrorKind::Closed,
        }
    }

    /// Whether it says, of a device that an engine made itself and asked for rightly, that it is not as the engine left it: it is
    /// gone, it has another length, or other bytes.
    pub fn is_damage(&self) -> bool {
        match self {
            // A request that is right for the device as it was left reaches past the end of one that was cut short.
            Self::NotFound { .. } | Self::Invalid { .. } | Self::Damaged { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::UnexpectedEof,
            Self::AlreadyExists { .. }
            | Self::Locked { .. }
            | Self::NoSpace { .. }
            | Self::ReadOnly { .. }
            | Self::NoRing { .. }
            | Self::PowerCut { .. } => false,
        }
    }
}
