//! What a service does, in Prometheus' words (text format 0.0.4).

use std::fmt;

use ishigaki_logpool::Pool;
use ishigaki_logpool_fs::Attached;
use ishigaki_service::Page;

use crate::status::NANOSECONDS;
use crate::warning;

/// Upper ends of the buckets of times, in nanoseconds.
const TIMES: [u64; 16] = [
    20_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// Upper ends of the buckets of batch sizes.
const SIZES: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// All of it, in a text.
pub(crate) fn text(uptime_seconds: f64, pool: &Pool, attached: &[Attached]) -> String {
    let mut page = Page::default();
    // Writing to memory does not fail.
    let _ = write(&mut page, uptime_seconds, pool, attached);
    page.text()
}

/// One figure of each member: its name, kind and meaning, and where it comes from.
type OfMember = (&'static str, &'static str, &'static str, fn(&Figures) -> u64);

/// A member's figures, taken once.
struct Figures {
    name: String,
    is_alive: bool,
    has_failed: bool,
    statistics: ishigaki_logpool::MemberStatistics,
}

const OF_MEMBERS: [OfMember; 21] = [
    ("mounted", "gauge", "1 if the folder answers, or a virtual machine can connect", |member| member.is_alive.into()),
    ("failed", "gauge", "1 if the server gets errors until the service is started again", |member| {
        member.has_failed.into()
    }),
    ("entries_total", "counter", "Entries in the log", |member| member.statistics.entries),
    ("written_bytes_total", "counter", "Bytes that the server wrote", |member| member.statistics.written),
    ("logged_bytes_total", "counter", "Bytes of entries", |member| member.statistics.logged),
    ("restated_bytes_total", "counter", "Bytes said again since the home did not keep up", |member| {
        member.statistics.restated
    }),
    ("area_bytes_total", "counter", "Bytes that went to checkpoint areas", |member| member.statistics.area_bytes),
    ("commits_total", "counter", "Requests that had to be durable", |member| member.statistics.durable_requests),
    ("syncs_saved_total", "counter", "Commits that needed no sync of their own", |member| {
        member.statistics.syncs_saved
    }),
    ("rounds_total", "counter", "Rounds that brought changes home", |member| member.statistics.rounds),
    ("not_home_entries", "gauge", "Entries that are not home", |member| member.statistics.entries_not_home),
    ("not_home_bytes", "gauge", "Bytes of entries that are not home", |member| member.statistics.bytes_not_home),
    ("not_home_memory_bytes", "gauge", "Bytes of blocks in memory that are not home", |member| {
        member.statistics.memory_not_home
    }),
    ("home_bytes", "gauge", "Bytes of files at home", |member| member.statistics.home),
    ("files", "gauge", "Files and directories", |member| member.statistics.files),
    ("damaged_blocks", "gauge", "Blocks of 4 KiB of files that can not be served", |member| {
        member.statistics.damaged.iter().map(|file| file.blocks).sum()
    }),
    ("repaired_blocks_total", "counter", "Damaged blocks that were made anew", |member| member.statistics.repaired),
    ("quota_share_bytes", "gauge", "Limit of not_home_bytes and not_home_memory_bytes", |member| {
        member.statistics.quota.share.0
    }),
    ("quota_home_bytes", "gauge", "Limit of home_bytes", |member| member.statistics.quota.home.0),
    ("near_limit", "gauge", "1 if four fifths of the home or of the number of files are used", |member| {
        let figures = &member.statistics;
        (!warning::near(&member.name, figures.home, figures.files, figures.quota).is_empty()).into()
    }),
    ("quota_files", "gauge", "Limit of files", |member| member.statistics.quota.files.into()),
];

fn write(page: &mut Page, uptime_seconds: f64, pool: &Pool, attached: &[Attached]) -> fmt::Result {
    let (log, scrub) = (pool.statistics(), pool.scrub_statistics());
    page.figure("pool_uptime_seconds", "gauge", "For how long the service has served", uptime_seconds)?;
    for (name, kind, help, value) in [
        ("pool_writes_total", "counter", "Writes of the log that a request waited for", log.writes),
        ("pool_requests_total", "counter", "Requests that they answered", log.requests),
        ("pool_delayed_total", "counter", "Writes held back for members about to come", log.delayed),
        ("pool_medium_bytes_total", "counter", "Bytes written to the log's medium", log.medium_bytes),
        ("pool_medium_writes_total", "counter", "Writes of the log's medium", log.medium_writes),
        ("pool_live_bytes", "gauge", "Bytes of the log that are needed", log.live.0),
        ("pool_bound_bytes", "gauge", "Bytes that the log may take", log.bound.0),
        ("pool_quarantined", "gauge", "Members that are quarantined", pool.quarantined().len() as u64),
        ("pool_scrub_rate_bytes", "gauge", "Bytes of homes that are compared each second", scrub.rate.0),
        ("pool_scrub_passes_total", "counter", "Passes over all homes", scrub.passes),
        ("pool_scrub_bytes_total", "counter", "Bytes of homes compared with their checksums", scrub.total.bytes),
        ("pool_scrub_damaged_total", "counter", "Blocks found damaged, each time", scrub.total.damaged),
        ("pool_scrub_repaired_total", "counter", "Blocks made anew by these looks", scrub.total.repaired),
    ] {
        page.figure(name, kind, help, value)?;
    }
    let delay = log.delay.as_secs_f64();
    page.figure("pool_delay_seconds_total", "counter", "For how long writes were held back", delay)?;
    page.head("pool_batch_size", "histogram", "Requests answered by one write")?;
    page.histogram("pool_batch_size", "", &log.batch_sizes, &SIZES, 1.0)?;
    page.head("pool_write_seconds", "histogram", "How long a write of the log took")?;
    page.histogram("pool_write_seconds", "", &log.write_times, &TIMES, NANOSECONDS)?;
    members(page, attached)
}

fn members(page: &mut Page, attached: &[Attached]) -> fmt::Result {
    let figures = |attached: &Attached| Figures {
        name: attached.member().name().to_owned(),
        is_alive: attached.is_alive(),
        has_failed: attached.member().failure().is_some(),
        statistics: attached.member().statistics(),
    };
    let members: Vec<Figures> = attached.iter().map(figures).collect();
    for (name, kind, help, value) in OF_MEMBERS {
        let name = format!("pool_member_{name}");
        page.head(&name, kind, help)?;
        for member in &members {
            page.labelled(&name, "member", &member.name, value(member))?;
        }
    }
    page.head("pool_member_commit_seconds", "histogram", "How long commits took")?;
    for member in &members {
        let label = format!("member=\"{}\"", member.name);
        let times = &member.statistics.latencies;
        page.histogram("pool_member_commit_seconds", &label, times, &TIMES, NANOSECONDS)?;
    }
    Ok(())
}
