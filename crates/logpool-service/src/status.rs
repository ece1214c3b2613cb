//! What a service tells of itself. Counters begin when it starts; sizes are bytes, times are seconds.

use std::path::PathBuf;
use std::time::Duration;

use hdrhistogram::Histogram;
use ishigaki_logpool::{LogStatistics, Quota, Waiting};
use ishigaki_logpool_fs::{Access, Attached, Place};
use serde::{Deserialize, Serialize};

use crate::mending::{DamagedStatus, QuarantinedStatus, ScrubStatus};
use crate::{Owner, warning};

/// The whole service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// The data directory.
    pub data: PathBuf,
    /// For how long it has served.
    pub uptime_seconds: f64,
    /// How the log process waits.
    pub waiting: String,
    /// Where Prometheus finds the same.
    pub metrics: Option<String>,
    /// The one log.
    pub log: LogStatus,
    /// The members that are served.
    pub members: Vec<MemberStatus>,
    /// Members of the pool that are served nowhere.
    pub not_served: Vec<String>,
    /// Members that are not served because they can not be, or were taken out.
    #[serde(default)]
    pub quarantined: Vec<QuarantinedStatus>,
    /// What the scrubber does.
    #[serde(default)]
    pub scrub: ScrubStatus,
}

/// The log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogStatus {
    /// Writes that somebody waited for.
    pub writes: u64,
    /// Requests that they answered.
    pub requests: u64,
    /// Requests answered by one write.
    pub batch: Spread,
    /// How long a write took.
    pub write_seconds: Spread,
    /// Writes that were held back for members about to come.
    pub delayed: u64,
    /// For how long, together.
    pub delay_seconds: f64,
    /// Bytes written to the medium, with everything that is around entries.
    pub medium_bytes: u64,
    /// In so many writes.
    pub medium_writes: u64,
    /// Bytes of the log that are needed.
    pub live_bytes: u64,
    /// Bytes that it may take.
    pub bound_bytes: u64,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its name.
    pub name: String,
    /// The kind of its server.
    pub profile: String,
    /// Where it is served: `mount`, `socket` or `ring`.
    #[serde(flatten)]
    pub place: Place,
    /// Whose its files are; by number in a virtual machine.
    pub owner: Owner,
    /// Whether the folder answers, or a virtual machine or a database can connect.
    pub mounted: bool,
    /// Of a socket, whether a virtual machine is connected; of a ring, whether a database is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// Why its server gets errors, if it does.
    pub problem: Option<String>,
    /// What should be seen to before it does.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Entries in the log.
    pub entries: u64,
    /// Bytes that its server wrote.
    pub written_bytes: u64,
    /// Bytes of its entries.
    pub logged_bytes: u64,
    /// Bytes that were said again since its home did not keep up.
    pub restated_bytes: u64,
    /// Bytes that went to checkpoint areas.
    pub area_bytes: u64,
    /// Requests that had to be durable: commits.
    pub commits: u64,
    /// How many of them needed no sync of their own.
    pub syncs_saved: u64,
    /// How long they took.
    pub commit_seconds: Spread,
    /// Entries that are not home.
    pub entries_not_home: u64,
    /// Bytes of entries that are not home.
    pub bytes_not_home: u64,
    /// Bytes of blocks in memory that are not home.
    pub memory_not_home_bytes: u64,
    /// Rounds that brought changes home.
    pub rounds: u64,
    /// Bytes of its files at home, each rounded up to 64 KiB.
    pub home_bytes: u64,
    /// Files and directories.
    pub files: u64,
    /// Blocks of 4 KiB that were damaged at home and made anew.
    #[serde(default)]
    pub repaired_blocks: u64,
    /// Files of which something can not be served.
    #[serde(default)]
    pub damaged: Vec<DamagedStatus>,
    /// Its limits.
    pub quota: QuotaStatus,
}

/// A member's limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaStatus {
    /// Of `bytes_not_home`, and of `memory_not_home_bytes`.
    pub share_bytes: u64,
    /// Of `home_bytes`.
    pub home_bytes: u64,
    /// Of `files`.
    pub files: u64,
}

impl QuotaStatus {
    pub(crate) fn of(quota: Quota) -> Self {
        Self { share_bytes: quota.share.0, home_bytes: quota.home.0, files: quota.files.into() }
    }
}

/// How values are spread; all zero where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of them are at most so large.
    pub p50: f64,
    /// Nine of ten.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1000.
    pub p999: f64,
    /// The largest.
    pub max: f64,
    /// The average.
    pub mean: f64,
}

/// Of a histogram's times, in a second.
pub(crate) const NANOSECONDS: f64 = 1e9;

impl Spread {
    /// Of values of which there are so many in a unit.
    fn of(values: &Histogram<u64>, unit: f64) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let at = |quantile| values.value_at_quantile(quantile) as f64 / unit;
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: values.max() as f64 / unit,
            mean: values.mean() / unit,
        }
    }
}

impl LogStatus {
    pub(crate) fn of(log: &LogStatistics) -> Self {
        Self {
            writes: log.writes,
            requests: log.requests,
            batch: Spread::of(&log.batch_sizes, 1.0),
            write_seconds: Spread::of(&log.write_times, NANOSECONDS),
            delayed: log.delayed,
            delay_seconds: log.delay.as_secs_f64(),
            medium_bytes: log.medium_bytes,
            medium_writes: log.medium_writes,
            live_bytes: log.live.0,
            bound_bytes: log.bound.0,
        }
    }
}

/// Why a member's server gets errors, if it does.
pub(crate) fn problem(attached: &Attached) -> Option<String> {
    let gone = || {
        let path = attached.place().path().display();
        let what = match attached.place() {
            Place::Mount(_) => "was unmounted by somebody",
            Place::Socket(_) | Place::Ring(_) => "was removed by somebody",
        };
        (!attached.is_alive()).then(|| format!("{path} {what}; start the service again"))
    };
    attached.member().failure().map(|failure| failure.to_string()).or_else(gone)
}

/// Whose a member's files are, in the words of whoever uses them.
pub(crate) fn owner(place: &Place, access: Access) -> Owner {
    match place {
        Place::Mount(_) | Place::Ring(_) => Owner::of(access),
        Place::Socket(_) => Owner::in_machine(access),
    }
}

impl MemberStatus {
    pub(crate) fn of(attached: &Attached) -> Self {
        let member = attached.member();
        let figures = member.statistics();
        Self {
            name: member.name().to_owned(),
            profile: member.profile().to_string(),
            place: attached.place().clone(),
            owner: owner(attached.place(), attached.access()),
            mounted: attached.is_alive(),
            connected: attached.is_connected(),
            problem: problem(attached),
            warnings: warning::all(member.name(), &member.profile(), &figures),
            entries: figures.entries,
            written_bytes: figures.written,
            logged_bytes: figures.logged,
            restated_bytes: figures.restated,
            area_bytes: figures.area_bytes,
            commits: figures.durable_requests,
            syncs_saved: figures.syncs_saved,
            commit_seconds: Spread::of(&figures.latencies, NANOSECONDS),
            entries_not_home: figures.entries_not_home,
            bytes_not_home: figures.bytes_not_home,
            memory_not_home_bytes: figures.memory_not_home,
            rounds: figures.rounds,
            home_bytes: figures.home,
            files: figures.files,
            repaired_blocks: figures.repaired,
            damaged: figures.damaged.iter().map(DamagedStatus::of).collect(),
            quota: QuotaStatus::of(figures.quota),
        }
    }
}

impl Status {
    pub(crate) fn put_together(data: PathBuf, uptime: Duration, waiting: Waiting, log: LogStatus) -> Self {
        Self {
            pid: std::process::id(),
            data,
            uptime_seconds: uptime.as_secs_f64(),
            waiting: waiting.to_string(),
            metrics: None,
            log,
            members: Vec::new(),
            not_served: Vec::new(),
            quarantined: Vec::new(),
            scrub: ScrubStatus::default(),
        }
    }
}
