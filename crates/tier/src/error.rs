//! What can go wrong with a pool of volumes.

use std::sync::Arc;

use ishigaki_base::ErrorKind;

/// The result of asking a pool for something.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Cheap to clone: one failure is told to everybody who waits.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting or a request that can not be.
    #[error("{reason}")]
    Invalid {
        /// Why not.
        reason: String,
    },
    /// A write or sync failed, and the volume takes nothing more. What its syncs had acknowledged is safe.
    #[error(
        "volume `{volume}` has stopped ({cause}); what was synced is safe: open the pool again when its devices are in order"
    )]
    Stopped {
        /// The volume.
        volume: String,
        /// The first failure.
        cause: Arc<Self>,
    },
    /// The volume was detached or removed.
    #[error("volume `{volume}` is not in the pool any more")]
    Gone {
        /// The volume.
        volume: String,
    },
    /// There is no volume of that name.
    #[error("the pool has no volume `{volume}`")]
    NotFound {
        /// The name.
        volume: String,
    },
    /// The fast device belongs to another pool, or to none.
    #[error("{reason}")]
    WrongFast {
        /// What is there instead, and what to do.
        reason: String,
    },
    /// The map is not what was written.
    #[error("the map of the pool is damaged: {what}")]
    Damaged {
        /// What is wrong with it.
        what: String,
    },
    /// A slow device was made shorter by another program.
    #[error(
        "volume `{volume}` has {length} bytes, and its file on the slow device only {there}: another program has cut it short"
    )]
    Short {
        /// The volume.
        volume: String,
        /// The bytes that it has.
        length: u64,
        /// Those that are there.
        there: u64,
    },
    /// The log of the map failed. Nothing of the pool is acknowledged any more.
    #[error("the map of the pool: {0}")]
    Log(ishigaki_wal::Error),
    /// A device could not do what it was asked for.
    #[error(transparent)]
    Device(Arc<ishigaki_device::Error>),
}

impl Error {
    pub(crate) fn invalid(reason: String) -> Self {
        Self::Invalid { reason }
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid { .. } | Self::NotFound { .. } => ErrorKind::Invalid,
            Self::Stopped { .. } | Self::Gone { .. } => ErrorKind::Closed,
            Self::WrongFast { .. } | Self::Damaged { .. } | Self::Short { .. } => ErrorKind::Corrupt,
            Self::Log(cause) => cause.kind(),
            Self::Device(cause) => cause.kind(),
        }
    }
}

impl From<ishigaki_wal::Error> for Error {
    fn from(cause: ishigaki_wal::Error) -> Self {
        Self::Log(cause)
    }
}

impl From<ishigaki_device::Error> for Error {
    fn from(cause: ishigaki_device::Error) -> Self {
        Self::Device(Arc::new(cause))
    }
}
