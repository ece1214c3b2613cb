//! How a pool waits, how much each may have, and when a request is answered.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ishigaki_base::ByteSize;

use crate::{Error, Profile, Result};

/// Segments that a log has at least.
const SEGMENTS: u64 = 4;

/// Settings of a [`Pool`](crate::Pool). The default works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How the log process waits for requests. Default [`Waiting::Auto`].
    pub waiting: Waiting,
    /// Bytes that the log may take. Default 1 GiB.
    pub log: ByteSize,
    /// Bytes of one preallocated segment of the log. Default 16 MiB; a log has four at least.
    pub segment: ByteSize,
    /// Bytes by which a member's home grows, a multiple of 64 KiB. Default 16 MiB.
    pub region: ByteSize,
    /// Bytes of blocks that are home already and yet kept in memory, per member, so that writes can be compared with them.
    /// Default 4 MiB.
    pub cache: ByteSize,
    /// Bytes of homes that are compared with their checksums each second, all members together; with zero none are. It can be
    /// [changed](crate::Pool::set_scrub_rate). Default 1 MiB.
    pub scrub: ByteSize,
    /// How long the scrubber rests after a pass over all homes. Default 6 hours.
    pub scrub_pause: Duration,
    /// Whether the space of the log, and of each member's home, is taken when they are made or allowed more, so that no write
    /// lacks it later. Default false: both grow when they need to.
    pub reserve: bool,
    /// How long a member over its share waits for its own home before it is told that it is full. Default 10 s.
    pub patience: Duration,
    /// Whether threads of the pool write the log, bring members home and reclaim space. Without them all is done by the
    /// callers' own threads: the same calls do the same writes, which crash tests need. Default true.
    pub background: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            waiting: Waiting::Auto,
            log: ByteSize::gib(1),
            segment: ByteSize::mib(16),
            region: ByteSize::mib(16),
            cache: ByteSize::mib(4),
            scrub: ByteSize::mib(1),
            scrub_pause: Duration::from_hours(6),
            reserve: false,
            patience: Duration::from_secs(10),
            background: true,
        }
    }
}

impl Settings {
    /// Says what about the settings can not be. The log's own are checked when it opens.
    pub(crate) fn validate(&self) -> Result<()> {
        if self.region.0 == 0 || !self.region.0.is_multiple_of(crate::home::EXTENT) || self.region > ByteSize::gib(4) {
            let reason = format!("a home grows by a multiple of 64 KiB, 4 GiB at most, not by {}", self.region);
            return Err(Error::invalid(reason));
        }
        let least = ByteSize(self.segment.0.saturating_mul(SEGMENTS));
        if self.log < least {
            let (log, segment) = (self.log, self.segment);
            let reason =
                format!("a log has {SEGMENTS} segments of {segment} at least; give it {least} or more, not {log}");
            return Err(Error::invalid(reason));
        }
        Ok(())
    }
}

/// How the log process waits (paper 4, section 4.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// A thread of its own takes all queued requests, writes them in one go with one sync, and answers all.
    Fixed {
        /// It spins on its queue instead of sleeping.
        polling: bool,
        /// After the first request it waits so long for more.
        delay: Duration,
    },
    /// Whoever comes first writes for all, in its own thread; what comes meanwhile is the next write. Who waits polls while
    /// that pays, and a write is held back for members that are about to come back, never for nobody.
    Auto,
}

impl Waiting {
    /// The log process sleeps until a request comes.
    pub const SLEEP: Self = Self::Fixed { polling: false, delay: Duration::ZERO };
    /// It polls.
    pub const POLL: Self = Self::Fixed { polling: true, delay: Duration::ZERO };
}

/// By what a [`Waiting`] with a delay begins, without polling and with it.
const DELAYS: [(&str, bool); 2] = [("delay:", false), ("poll+delay:", true)];

/// The longest delay that one can mean.
const LONGEST_DELAY: Duration = Duration::from_secs(1);

/// `auto`, `sleep`, `poll`, `delay:50us` or `poll+delay:50us`.
impl FromStr for Waiting {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let way = match text {
            "auto" => Some(Self::Auto),
            "sleep" => Some(Self::SLEEP),
            "poll" => Some(Self::POLL),
            _ => DELAYS.iter().find_map(|&(word, polling)| {
                let delay = parse_delay(text.strip_prefix(word)?)?;
                Some(Self::Fixed { polling, delay })
            }),
        };
        way.ok_or_else(|| {
            Error::invalid(format!(
                "`{text}` is no way to wait: auto, sleep, poll, delay:TIME or poll+delay:TIME, as in delay:50us or delay:2ms, 1 s at most"
            ))
        })
    }
}

/// A whole number with its unit.
fn parse_delay(text: &str) -> Option<Duration> {
    let unit = text.find(|letter: char| !letter.is_ascii_digit())?;
    let number: u64 = text[..unit].parse().ok()?;
    let delay = match &text[unit..] {
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        _ => return None,
    };
    (delay > Duration::ZERO && delay <= LONGEST_DELAY).then_some(delay)
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Auto => f.write_str("auto"),
            Self::SLEEP => f.write_str("sleep"),
            Self::POLL => f.write_str("poll"),
            Self::Fixed { polling, delay } => {
                let word = if polling { "poll+delay" } else { "delay" };
                write!(f, "{word}:{}us", delay.as_micros())
            }
        }
    }
}

/// When a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is durable, as of a file opened with `O_DSYNC`.
    Now,
    /// At once. A later sync makes it durable, or any durable request of the same member; until then a power cut may undo
    /// it, and with it whatever came after it.
    Later,
}

/// What a member is and may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSettings {
    /// What its server does to its log files. Default [`Profile::GENERIC`].
    pub profile: Profile,
    /// Its limits.
    pub quota: Quota,
}

impl Default for MemberSettings {
    fn default() -> Self {
        Self { profile: Profile::GENERIC, quota: Quota::default() }
    }
}

/// A member's limits. Who is over one is refused with [`Error::Full`]; nobody else notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of log, and of blocks in memory, that are not home yet. The shares of all members together are at most a
    /// quarter of the log. Default 16 MiB.
    pub share: ByteSize,
    /// Bytes that its files may have together, each rounded up to 64 KiB. Default 1 GiB.
    pub home: ByteSize,
    /// Files and directories. Default 1024.
    pub files: u32,
}

impl Default for Quota {
    fn default() -> Self {
        Self { share: ByteSize::mib(16), home: ByteSize::gib(1), files: 1024 }
    }
}

impl Quota {
    /// The smallest share: several entries of the largest kind.
    pub const LEAST_SHARE: ByteSize = ByteSize::kib(64);

    /// The smaller one of each limit.
    pub(crate) fn least(self, other: Self) -> Self {
        Self { share: self.share.min(other.share), home: self.home.min(other.home), files: self.files.min(other.files) }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.share < Self::LEAST_SHARE {
            return Err(Error::invalid(format!(
                "a member's share is {} at least, not {}",
                Self::LEAST_SHARE,
                self.share
            )));
        }
        if self.home.0 < crate::home::EXTENT || self.home > ByteSize::tib(1) {
            return Err(Error::invalid(format!("a member's home has 64 KiB to 1 TiB, not {}", self.home)));
        }
        if self.files == 0 || self.files > 1 << 16 {
            return Err(Error::invalid(format!("a member has 1 to 65536 files, not {}", self.files)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_wait_are_read_as_they_are_written() {
        for text in ["auto", "sleep", "poll", "delay:50us", "poll+delay:300us"] {
            assert_eq!(text.parse::<Waiting>().unwrap().to_string(), text);
        }
        let delay = Duration::from_millis(2);
        assert_eq!("delay:2ms".parse::<Waiting>().unwrap(), Waiting::Fixed { polling: false, delay });
        for text in
            ["", "Auto", "delay", "delay:", "delay:50", "delay:us", "delay:-1us", "delay:0us", "delay:2s", "delay:1µs"]
        {
            let error = text.parse::<Waiting>().unwrap_err().to_string();
            assert!(error.contains("no way to wait"), "{text}: {error}");
        }
        assert!(format!("delay:{}s", u64::MAX).parse::<Waiting>().is_err());
    }
}
