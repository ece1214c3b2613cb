//! What can go wrong with a log.

use std::sync::Arc;

use ishigaki_base::{ByteSize, ErrorKind, Lsn, StreamId};

/// The result of asking a log for something.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. Cheap to clone: one failure is told to everybody who waits.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A write or sync failed and closed the log for good; nothing is acknowledged any more.
    #[error("the log is closed after a failure ({cause}); what was acknowledged is safe: reopen the database")]
    Failed {
        /// The first failure.
        cause: Arc<ishigaki_device::Error>,
    },
    /// The log was closed by its owner.
    #[error("the log is closed")]
    Closed,
    /// Stored bytes are not what was written.
    #[error("the log is damaged{}: {what}", place(*stream))]
    Corrupt {
        /// The stream, where it is one stream's damage.
        stream: Option<StreamId>,
        /// What is wrong, and where.
        what: String,
    },
    /// Acknowledged records are missing.
    #[error("the log is damaged: records {first} to {last} were durable once and are missing")]
    Missing {
        /// The first missing one.
        first: Lsn,
        /// The last record known to have been durable.
        last: Lsn,
    },
    /// The log was written by a version of the format that this program does not know.
    #[error("the log has format version {found}; this program reads version {known}")]
    Version {
        /// Of the log.
        found: u8,
        /// The newest one known here.
        known: u8,
    },
    /// The settings or a request can not be.
    #[error("{reason}")]
    Invalid {
        /// Why not.
        reason: String,
    },
    /// The log may take no more space, and nothing of what it holds was given free. Nothing has been appended.
    #[error(
        "the log is full: {} of its {} are needed; make a checkpoint, so that the log can be trimmed, or give it more space",
        ByteSize(*live), ByteSize(*bound)
    )]
    Full {
        /// Bytes of the segments that are needed.
        live: u64,
        /// What [`Settings::space`](crate::Settings::space) allows, in bytes.
        bound: u64,
    },
    /// Records were asked for that were given free.
    #[error(
        "record {asked} was asked for, and the log was trimmed: it begins at {first}; read what lies before elsewhere"
    )]
    Trimmed {
        /// The first record asked for.
        asked: Lsn,
        /// The first LSN that the log may be asked for.
        first: Lsn,
    },
    /// The medium failed before anything was promised.
    #[error(transparent)]
    Device(Arc<ishigaki_device::Error>),
    /// The engine above could not apply a record during recovery.
    #[error("record {lsn} could not be replayed: {cause}")]
    Replay {
        /// The record.
        lsn: Lsn,
        /// The engine's error.
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
}

fn place(stream: Option<StreamId>) -> String {
    stream.map(|id| format!(" in stream {id}")).unwrap_or_default()
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Failed { .. } | Self::Closed => ErrorKind::Closed,
            Self::Corrupt { .. } | Self::Missing { .. } => ErrorKind::Corrupt,
            Self::Full { .. } => ErrorKind::Exhausted,
            Self::Version { .. } | Self::Invalid { .. } | Self::Trimmed { .. } | Self::Replay { .. } => {
                ErrorKind::Invalid
            }
            // Whatever the log asks its devices for it has asked for rightly: they are its own.
            Self::Device(cause) if cause.is_damage() => ErrorKind::Corrupt,
            Self::Device(cause) => cause.kind(),
        }
    }

    /// Whether it says that stored bytes, or a device of the log's, are not what was written.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Corrupt { .. } | Self::Missing { .. } => true,
            Self::Device(cause) => cause.is_damage(),
            // After a failure the log is opened again, and then it is seen what is damaged.
            Self::Failed { .. }
            | Self::Closed
            | Self::Version { .. }
            | Self::Invalid { .. }
            | Self::Full { .. }
            | Self::Trimmed { .. }
            | Self::Replay { .. } => false,
        }
    }

    pub(crate) fn corrupt(stream: StreamId, what: impl Into<String>) -> Self {
        Self::Corrupt { stream: Some(stream), what: what.into() }
    }
}

impl From<ishigaki_device::Error> for Error {
    fn from(error: ishigaki_device::Error) -> Self {
        Self::Device(Arc::new(error))
    }
}
