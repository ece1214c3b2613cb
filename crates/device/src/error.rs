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

/// What a reader that failed learns of the bytes it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// They are not as they were left: see [`Error::is_damage`].
    Damage,
    /// The medium failed to read them. Others beside them may be read.
    Medium,
    /// Nothing: the operating system gave no access. A permission is missing, the connection is lost, or this process has no
    /// memory or no descriptor left.
    Refusal,
}

impl Error {
    /// What it says of the bytes, where it is the answer to an opening or a read.
    pub fn read_fault(&self) -> ReadFault {
        /// This process, or the host, has as many files open as it may.
        const TOO_MANY_FILES: [i32; 2] = [23, 24];
        match self {
            error if error.is_damage() => ReadFault::Damage,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied
                | io::ErrorKind::OutOfMemory
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::NotConnected
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable => ReadFault::Refusal,
                _ if source.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code)) => ReadFault::Refusal,
                _ => ReadFault::Medium,
            },
            _ => ReadFault::Refusal,
        }
    }

    /// The same error for a second caller.
    pub(crate) fn again(&self) -> Self {
        let (name, operation, source) = match self {
            Self::Io { name, operation, source } | Self::ReadOnly { name, operation, source } => {
                let again = source.raw_os_error().map(io::Error::from_raw_os_error);
                (name.clone(), *operation, again.unwrap_or_else(|| io::Error::new(source.kind(), source.to_string())))
            }
            Self::PowerCut { name } => return Self::PowerCut { name: name.clone() },
            other => ("device".to_owned(), "read", io::Error::other(other.to_string())),
        };
        Self::Io { name, operation, source }
    }

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
