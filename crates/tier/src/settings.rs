//! How a pool is laid out and what its volumes do with writes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ishigaki_base::ByteSize;

use crate::{Error, Result};

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It goes to the fast device, and to the slow one later. The default.
    WriteBack,
    /// It goes to both.
    WriteThrough,
    /// It goes to the slow one, and the fast one forgets what it had there.
    ReadOnly,
}

impl Mode {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::WriteBack => 0,
            Self::WriteThrough => 1,
            Self::ReadOnly => 2,
        }
    }

    pub(crate) fn of_number(number: u8) -> Option<Self> {
        [Self::WriteBack, Self::WriteThrough, Self::ReadOnly].into_iter().find(|mode| mode.number() == number)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteBack => "write-back",
            Self::WriteThrough => "write-through",
            Self::ReadOnly => "read-only",
        })
    }
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "write-back" => Ok(Self::WriteBack),
            "write-through" => Ok(Self::WriteThrough),
            "read-only" => Ok(Self::ReadOnly),
            _ => Err(Error::invalid(format!("a volume is write-back, write-through or read-only, not `{text}`"))),
        }
    }
}

/// Whether blocks come to the fast device when they are read and are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDemand {
    /// They do not.
    Never,
    /// They do as long as few slots are used. Nothing leaves for them: what is used often is [asked for](crate::Volume::promote).
    WhereFree,
    /// They do, and the coldest leave for them.
    Always,
}

/// Which chunks leave the fast device first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Those that were used longest ago.
    Lru,
    /// Those that were not used again soon after they came. The default: a scan drives out nothing else.
    S3Fifo,
}

impl FromStr for Eviction {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "lru" => Ok(Self::Lru),
            "s3-fifo" => Ok(Self::S3Fifo),
            _ => Err(Error::invalid(format!("there is no eviction `{text}`: it is lru or s3-fifo"))),
        }
    }
}

/// Settings of a [`Pool`](crate::Pool). The default works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a chunk, in which the fast device is given out: 256 KiB, 512 KiB, 1, 2 or 4 MiB. Fixed when the pool is made; a pool that is
    /// there keeps its own. Default 1 MiB.
    pub chunk: ByteSize,
    /// What the map's log may take. It holds the map twice at most; a slot takes about 100 bytes of it with chunks of 1 MiB. Default
    /// 64 MiB.
    pub log: ByteSize,
    /// Bytes of one segment of that log. Default 4 MiB.
    pub segment: ByteSize,
    /// Which chunks leave the fast device first. Default [`Eviction::S3Fifo`].
    pub eviction: Eviction,
    /// Whether blocks come to the fast device when they are read and are not there. Default [`OnDemand::Always`].
    pub on_demand: OnDemand,
    /// From how many bytes on a stream of requests in a row goes past the fast device; 0 is never. Default 4 MiB.
    pub bypass: ByteSize,
    /// Bytes a day that are written to the fast device, as far as they are for reading only: what volumes write goes there whatever it costs, and takes from
    /// the same. Default none: no limit.
    pub endurance: Option<ByteSize>,
    /// How long it takes until what was counted of a chunk's uses counts half. Default a minute.
    pub half_life: Duration,
    /// How long the slow device of a volume is waited for when it is opened, before the volume is [away](crate::Pool::away). Default two seconds.
    pub patience: Duration,
    /// Whether there are threads: one of the log, one that keeps slots free, and one for each slow device that is being opened. Crash tests have none, so that the same calls do the same writes. Default
    /// true.
    pub background: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            chunk: ByteSize::mib(1),
            log: ByteSize::mib(64),
            segment: ByteSize::mib(4),
            eviction: Eviction::S3Fifo,
            on_demand: OnDemand::Always,
            bypass: ByteSize::mib(4),
            endurance: None,
            half_life: Duration::from_mins(1),
            patience: Duration::from_secs(2),
            background: true,
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<()> {
        if self.chunk.0.is_power_of_two() && (ByteSize::kib(256)..=ByteSize::mib(4)).contains(&self.chunk) {
            return Ok(());
        }
        Err(Error::invalid(format!("a chunk has 256 KiB, 512 KiB, 1, 2 or 4 MiB, not {}", self.chunk)))
    }
}
