//! How a log is laid out and how it groups its writes.

use std::fmt;
use std::str::FromStr;
use std::thread::available_parallelism;
use std::time::Duration;

use ishigaki_base::ByteSize;

use crate::format::{MAX_CHUNK, MAX_DEPENDENCIES, MIN_SEGMENT};
use crate::{Error, Result};

/// Segments of a stream, on average, that a log must be allowed to have: one that is written, one that is ready, one that is
/// kept for those who hold locks, and one to be freed.
const LEAST_SEGMENTS: u64 = 4;

/// Settings of a [`Log`](crate::Log). The default works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How records get from sessions to the medium. Default: [`LogKind::Parallel`].
    pub kind: LogKind,
    /// When a commit is acknowledged, and what recovery keeps. Default: [`CommitRule::Dependencies`].
    pub commit: CommitRule,
    /// Parallel streams that sessions are given in turn, 1 to 255 with those for [`relief`](Self::relief): a record names
    /// what it depends on in each of them, and counts that in a byte. Streams are not threads: any number of sessions share
    /// them. Default: one for every two cores, at most eight: more writes at once than that cost the processor more than
    /// they save the device.
    pub streams: u16,
    /// Further streams under [`CommitRule::Dependencies`], which no session is given: one of them takes a commit while its
    /// session's own stream writes for a few, so that few sessions have several writes under way, and many share one.
    /// Default 1.
    pub relief: u16,
    /// When a stream's group of records is written without anybody waiting for it.
    pub group: Group,
    /// Bytes of one preallocated segment of a stream, 16 KiB to 4 GiB. Default 16 MiB.
    pub segment: ByteSize,
    /// Bytes that all segments together may take, spares included; less than four segments a stream count as that many.
    /// When much of it is needed, since no [`trim`](crate::Log::trim) comes, sessions are slowed down in
    /// [`pace`](crate::Stream::pace); when all is, an append waits and then fails. Default 1 GiB.
    pub space: ByteSize,
    /// How long somebody waits for a trim when the log is full. Default 10 s.
    pub space_wait: Duration,
    /// Whether the medium is told that a freed segment holds nothing ([`Device::trim`](ishigaki_device::Device::trim)),
    /// before it is used again. It keeps flash fast (paper 1, section 4). Default true.
    pub trim: bool,
    /// Whether a thread of the log enforces [`Group::time`] and prepares segments ahead. Without it nothing happens but
    /// what callers do, in their own threads: the same calls do the same writes, which crash tests need. Default true.
    pub background: bool,
    /// How long a task that awaits a commit ([`Settled`](crate::Settled)) may hold up its executor's thread by writing itself,
    /// when everybody else there has given way. Where writes take longer, a thread of the log does it; with zero always.
    /// Default 1 ms, which tells flash from disk.
    pub hold: Duration,
    /// Threads that [`Log::recover`](crate::Log::recover) works with, the caller's own among them. With more than one
    /// there are a few further ones that only wait for the device. Default: one per core.
    pub recovery_threads: usize,
}

/// How records get from sessions to the medium. What is on the medium looks the same; a log may be opened with another
/// kind each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Several streams, each written by whoever waits for it (P-WAL: paper 1, section 3).
    Parallel,
    /// One shared buffer, in which sessions that meet consolidate, and one thread that writes it (Aether: Johnson et al.,
    /// VLDB 2010; the baseline of paper 1). [`Settings::streams`] counts for nothing.
    Serial,
    /// Several streams, and acknowledgement by epochs: everybody waits until a thread has made all streams durable, once
    /// in a while (Silo: Tu et al., SOSP 2013). Throughput without latency. It needs [`Settings::background`]; without it
    /// whoever waits ends the epoch.
    Epoch {
        /// The length of an epoch.
        time: Duration,
    },
}

impl LogKind {
    /// Epochs of 40 ms, as Silo has them.
    pub const EPOCH: Self = Self::Epoch { time: Duration::from_millis(40) };
}

/// When a commit is acknowledged. Recovery keeps a generation's records by the rule that it was written under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommitRule {
    /// When every record with a smaller LSN is durable, of whatever stream (P-WAL's rule). Recovery keeps everything up to
    /// the first LSN that is missing.
    Watermark,
    /// When the records that it depends on are durable, and theirs. Each record names those that were not durable yet;
    /// recovery keeps a record if it keeps what that one names.
    Dependencies,
}

impl fmt::Display for LogKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parallel => "parallel",
            Self::Serial => "serial",
            Self::Epoch { .. } => "epoch",
        })
    }
}

impl FromStr for LogKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "parallel" => Ok(Self::Parallel),
            "serial" => Ok(Self::Serial),
            "epoch" => Ok(Self::EPOCH),
            _ => Err(Error::Invalid { reason: format!("a log is parallel, serial or epoch, not `{text}`") }),
        }
    }
}

impl fmt::Display for CommitRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Watermark => "watermark",
            Self::Dependencies => "dependencies",
        })
    }
}

impl FromStr for CommitRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "watermark" => Ok(Self::Watermark),
            "dependencies" => Ok(Self::Dependencies),
            _ => Err(Error::Invalid { reason: format!("a commit waits by watermark or dependencies, not `{text}`") }),
        }
    }
}

/// Caps on a group: a stream writes what it holds when one of them is reached, though nobody waits for it. None of them is
/// ever waited for; a lone session that waits for its commit has it written at once (paper 1 has only the first of the
/// three).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Records in the buffer. Default 16, as in the paper. With [`Settings::background`] a hint: the group goes on
    /// gathering until that took as long as a write does.
    pub transactions: usize,
    /// Bytes in the buffer. Default 256 KiB.
    pub bytes: ByteSize,
    /// Age of the oldest record in the buffer; needs [`Settings::background`]. Default 1 ms.
    pub time: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            kind: LogKind::Parallel,
            commit: CommitRule::Dependencies,
            streams: (cores / 2).clamp(1, 8) as u16,
            relief: 1,
            group: Group::default(),
            segment: ByteSize::mib(16),
            space: ByteSize::gib(1),
            space_wait: Duration::from_secs(10),
            trim: true,
            background: true,
            hold: Duration::from_millis(1),
            recovery_threads: cores,
        }
    }
}

impl Default for Group {
    fn default() -> Self {
        Self { transactions: 16, bytes: ByteSize::kib(256), time: Duration::from_millis(1) }
    }
}

impl Settings {
    /// Says what about the settings can not be, as opening a log with them does.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`].
    pub fn validate(&self) -> Result<()> {
        let invalid = |reason: String| Err(Error::Invalid { reason });
        if self.streams == 0 || usize::from(self.streams.saturating_add(self.relief)) > MAX_DEPENDENCIES {
            let Self { streams, relief, .. } = self;
            return invalid(format!(
                "a log has 1 to {MAX_DEPENDENCIES} streams, those for relief included, not {streams} and {relief} for relief"
            ));
        }
        if self.segment.0 < MIN_SEGMENT || self.segment > ByteSize::gib(4) || !self.segment.0.is_multiple_of(4096) {
            let least = ByteSize(MIN_SEGMENT);
            return invalid(format!("a segment has {least} to 4 GiB in multiples of 4 KiB, not {}", self.segment));
        }
        if self.group.transactions == 0 || self.group.bytes.0 == 0 || self.group.time.is_zero() {
            return invalid("the caps of a group are larger than zero".to_owned());
        }
        if self.recovery_threads == 0 {
            return invalid("a log is recovered by at least one thread".to_owned());
        }
        if let LogKind::Epoch { time } = self.kind
            && time.is_zero()
        {
            return invalid("an epoch is longer than zero".to_owned());
        }
        Ok(())
    }

    /// How many streams there really are. Those that sessions are given come first.
    pub fn all_streams(&self) -> u16 {
        match (self.kind, self.commit) {
            (LogKind::Serial, _) => 1,
            (LogKind::Parallel, CommitRule::Dependencies) => self.streams + self.relief,
            (LogKind::Parallel | LogKind::Epoch { .. }, _) => self.streams,
        }
    }

    /// Bytes of a serial log's buffer: what a segment holds, 4 MiB at most. Two batches of the longest chunks or more fit, and
    /// a larger one would go around outside the cores' caches.
    pub(crate) fn shared_buffer(&self) -> usize {
        self.segment.min(ByteSize::mib(4)).0 as usize
    }

    /// Bytes that all segments together may really take.
    pub(crate) fn bound(&self) -> u64 {
        self.space.0.max(self.segment.0 * u64::from(self.all_streams()) * LEAST_SEGMENTS)
    }

    /// The most bytes of one chunk: what a group holds, within what the format and the segment allow.
    pub(crate) fn chunk_limit(&self) -> usize {
        let wanted = self.group.bytes.0.min(MAX_CHUNK).next_multiple_of(4096);
        wanted.min(self.segment.0 / 4) as usize / 4096 * 4096
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid() {
        assert!(Settings::default().validate().is_ok());
        assert_eq!(Settings::default().chunk_limit(), 256 << 10);
    }

    #[test]
    fn impossible_settings_are_refused_with_a_reason() {
        let settings = Settings { streams: 0, ..Settings::default() };
        assert!(settings.validate().unwrap_err().to_string().contains("1 to 255"));
        let settings = Settings { segment: ByteSize::kib(5), ..Settings::default() };
        assert!(settings.validate().unwrap_err().to_string().contains("not 5.0 KiB"));
    }

    #[test]
    fn there_are_no_more_streams_than_a_record_can_name() {
        let settings = |streams, relief| Settings { streams, relief, ..Settings::default() };
        for (streams, relief) in [(1, 0), (255, 0), (254, 1), (1, 254)] {
            assert!(settings(streams, relief).validate().is_ok(), "{streams} and {relief}");
        }
        for (streams, relief) in [(256, 0), (255, 1), (1, 255), (u16::MAX, u16::MAX)] {
            let refused = settings(streams, relief).validate().unwrap_err().to_string();
            assert!(refused.contains("1 to 255 streams"), "{refused}");
        }
    }

    #[test]
    fn a_log_may_have_four_segments_a_stream_whatever_its_space() {
        let narrow = Settings { space: ByteSize(0), streams: 3, segment: ByteSize::kib(16), ..Settings::default() };
        assert_eq!(narrow.bound(), 4 * 4 * (16 << 10), "the stream for relief counts");
        let by_watermark = Settings { commit: CommitRule::Watermark, ..narrow };
        assert_eq!(by_watermark.bound(), 3 * 4 * (16 << 10));
    }

    #[test]
    fn four_chunks_fit_into_the_smallest_segment() {
        let settings = Settings { segment: ByteSize(MIN_SEGMENT), ..Settings::default() };
        assert_eq!(settings.chunk_limit(), 4096);
    }
}
