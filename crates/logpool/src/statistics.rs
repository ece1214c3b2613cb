//! What a pool has done, in numbers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hdrhistogram::Histogram;
use ishigaki_base::ByteSize;

use crate::Quota;
use crate::pool::Core;

/// The log and its process.
#[derive(Clone, Debug)]
pub struct LogStatistics {
    /// Writes of the log that somebody waited for.
    pub writes: u64,
    /// Requests that they answered; more than writes where requests shared one.
    pub requests: u64,
    /// Requests answered by one write.
    pub batch_sizes: Histogram<u64>,
    /// How long a write takes, in nanoseconds.
    pub write_times: Histogram<u64>,
    /// Writes that were held back for members about to come.
    pub delayed: u64,
    /// For how long, together.
    pub delay: Duration,
    /// Bytes written to the log's medium, headers, padding and blanking included.
    pub medium_bytes: u64,
    /// Writes of the log's medium, those that nobody waited for included.
    pub medium_writes: u64,
    /// Bytes of the log that are needed.
    pub live: ByteSize,
    /// What the log may take.
    pub bound: ByteSize,
}

impl LogStatistics {
    pub(crate) fn of(core: &Core) -> Self {
        let (batches, space) = (core.process.batches(), core.log.space());
        Self {
            writes: batches.writes,
            requests: batches.requests,
            batch_sizes: batches.sizes,
            write_times: batches.times,
            delayed: batches.delayed,
            delay: batches.delay,
            medium_bytes: core.meter.bytes.load(Ordering::Relaxed),
            medium_writes: core.meter.writes.load(Ordering::Relaxed),
            live: space.live,
            bound: space.bound,
        }
    }
}

/// A member. Counters begin when the pool opens.
#[derive(Clone, Debug)]
pub struct MemberStatistics {
    /// Entries in the log.
    pub entries: u64,
    /// Bytes that its server wrote.
    pub written: u64,
    /// Bytes of its entries.
    pub logged: u64,
    /// Bytes of entries that were said again, since its home did not keep up.
    pub restated: u64,
    /// Bytes that went to checkpoint areas.
    pub area_bytes: u64,
    /// Requests that had to be durable.
    pub durable_requests: u64,
    /// How many of them needed no sync of their own.
    pub syncs_saved: u64,
    /// How long they took, in nanoseconds.
    pub latencies: Histogram<u64>,
    /// Entries that are not home.
    pub entries_not_home: u64,
    /// Bytes of entries that are not home; the quota's share bounds it.
    pub bytes_not_home: u64,
    /// Bytes of blocks in memory that are not home; the quota's share bounds it.
    pub memory_not_home: u64,
    /// Rounds that brought changes home.
    pub rounds: u64,
    /// Blocks of 4 KiB that were damaged at home, and were made anew.
    pub repaired: u64,
    /// Files with blocks that are damaged at home, and that the log does not have any more.
    pub damaged: Vec<DamagedFile>,
    /// Bytes of its files, each rounded up to 64 KiB; the quota's home bounds it.
    pub home: u64,
    /// Files and directories; the quota's files bound it.
    pub files: u64,
    /// Its limits.
    pub quota: Quota,
}

/// A file of which something can not be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedFile {
    /// Its path.
    pub path: String,
    /// Blocks of 4 KiB that are damaged.
    pub blocks: u64,
    /// Where the first of them begins, in bytes.
    pub first: u64,
}

/// Counters that a member keeps.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    pub(crate) entries: u64,
    pub(crate) written: u64,
    pub(crate) logged: u64,
    pub(crate) restated: u64,
    pub(crate) area_bytes: u64,
    pub(crate) rounds: u64,
    pub(crate) repaired: u64,
}

impl Counters {
    pub(crate) const NONE: Self =
        Self { entries: 0, written: 0, logged: 0, restated: 0, area_bytes: 0, rounds: 0, repaired: 0 };
}

/// Durable requests of a member.
#[derive(Debug)]
pub(crate) struct Commits {
    pub(crate) requests: u64,
    pub(crate) saved: u64,
    pub(crate) latencies: Histogram<u64>,
}

/// The longest latency that is told apart.
const LONGEST: Duration = Duration::from_mins(10);

impl Default for Commits {
    fn default() -> Self {
        let longest = LONGEST.as_nanos() as u64;
        let latencies = Histogram::new_with_bounds(1, longest, 3).expect("fixed bounds that a histogram accepts");
        Self { requests: 0, saved: 0, latencies }
    }
}

impl Commits {
    pub(crate) fn record(&mut self, took: Duration, own_sync: bool) {
        self.requests += 1;
        self.saved += u64::from(!own_sync);
        self.latencies.saturating_record((took.as_nanos() as u64).max(1));
    }
}
