//! What can go wrong with a pool of volumes.

use std::sync::Arc;
use std::time::Duration;

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
        "volume `{volume}` has stopped ({cause}); what was synced is safe: when its devices are in order, it goes on once the pool is opened again, by a restart of its service"
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
    /// The slow device of a volume could not be opened, or has not answered.
    #[error("volume `{volume}` is away: {cause}; {}", remedy(volume, cause))]
    Away {
        /// The volume.
        volume: String,
        /// Why.
        cause: Arc<Self>,
    },
    /// The call that opens a slow device has not returned.
    #[error(
        "the slow device of `{volume}` has not answered for {:.1} s: see to the file system on which its file lies, or unmount that by force", .waited.as_secs_f64()
    )]
    Silent {
        /// The volume, or what was to become one.
        volume: String,
        /// Since the call was made.
        waited: Duration,
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
            Self::Away { .. } | Self::Silent { .. } => ErrorKind::Unavailable,
            Self::Stopped { .. } | Self::Gone { .. } => ErrorKind::Closed,
            Self::WrongFast { .. } | Self::Damaged { .. } | Self::Short { .. } => ErrorKind::Corrupt,
            Self::Log(cause) => cause.kind(),
            Self::Device(cause) => cause.kind(),
        }
    }
}

/// What has a volume that is away be served again.
fn remedy(volume: &str, cause: &Error) -> String {
    let comes = "a running service serves the volume within a second, with all that it has on the fast device";
    match cause {
        Error::Silent { .. } => format!("once it answers, {comes}"),
        _ => format!(
            "put its file back, or see to its device: then {comes}; `ishigaki volume remove {volume} --force` gives it up"
        ),
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
