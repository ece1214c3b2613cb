//! Samples: what has been done since the one before, and what log and service take now.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ishigaki_logpool_service::{Reply, Request, Status, ask};
use serde::{Deserialize, Serialize};

use super::member::Member;
use crate::one_log::Counts;
use crate::one_log::disk::Standing;
use crate::{Error, Latencies, Result};

/// One moment. Its JSON form, one object a line, is what `--json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Since the members began.
    pub seconds: f64,
    /// Acknowledged until now, by all members.
    pub commits: u64,
    /// Of them, since the sample before: in a second.
    pub rate: f64,
    /// Seconds that half of those took at most.
    pub p50: f64,
    /// Seconds that 99 of 100 of those took at most.
    pub p99: f64,
    /// Bytes of the log that are needed.
    pub log_live: u64,
    /// Bytes that it may take.
    pub log_bound: u64,
    /// Bytes that its files take on their file system.
    pub log_files: u64,
    /// Bytes of blocks in memory that are not home, of all members.
    pub not_home: u64,
    /// Bytes of memory that the service's process has.
    pub resident: u64,
    /// Log writes that somebody waited for.
    pub log_writes: u64,
    /// Rounds that brought changes home, of all members.
    pub rounds: u64,
    /// Writes, bytes and syncs that the disk was asked for, if it tells.
    pub disk: Option<[u64; 3]>,
}

/// Takes samples.
pub(super) struct Watch<'a> {
    members: &'a [Member],
    disk: &'a Standing,
    data: &'a Path,
    begun: Instant,
    before: (Instant, u64),
    disk_before: Option<Counts>,
}

impl<'a> Watch<'a> {
    /// From now on.
    pub(super) fn new(members: &'a [Member], disk: &'a Standing, data: &'a Path) -> Result<Self> {
        // The question is asked once before anything is measured.
        status(data)?;
        let begun = Instant::now();
        Ok(Self { members, disk, data, begun, before: (begun, 0), disk_before: disk.counts() })
    }

    pub(super) fn sample(&mut self) -> Result<Sample> {
        let (now, commits) = (Instant::now(), self.members.iter().map(Member::commits).sum());
        let mut latencies = Latencies::new();
        self.members.iter().for_each(|member| latencies.add(&member.take_latencies()));
        let status = status(self.data)?;
        let (then, earlier) = std::mem::replace(&mut self.before, (now, commits));
        let counts = |(now, before): (Counts, Counts)| {
            let since = now.since(before);
            [since.writes, since.bytes, since.syncs].map(|count| count as u64)
        };
        let sum = |of: fn(&ishigaki_logpool_service::MemberStatus) -> u64| status.members.iter().map(of).sum();
        Ok(Sample {
            seconds: (now - self.begun).as_secs_f64(),
            commits,
            rate: (commits - earlier) as f64 / (now - then).as_secs_f64(),
            p50: latencies.quantile(0.5),
            p99: latencies.quantile(0.99),
            log_live: status.log.live_bytes,
            log_bound: status.log.bound_bytes,
            log_files: log_files(self.data).map_err(|source| Error::Io {
                path: self.data.to_owned(),
                operation: "looking at the log's files",
                source,
            })?,
            not_home: sum(|member| member.memory_not_home_bytes),
            resident: resident(status.pid)?,
            log_writes: status.log.writes,
            rounds: sum(|member| member.rounds),
            disk: self.disk.counts().zip(self.disk_before).map(counts),
        })
    }
}

fn status(data: &Path) -> Result<Status> {
    match ask(data, &Request::Status {})? {
        Reply::Status(status) => Ok(*status),
        other => {
            let reason = format!("has answered another question: {other:?}");
            Err(Error::Process { what: "the pool", reason })
        }
    }
}

/// What the log's segments take on their file system, those that are spare included.
fn log_files(data: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // The control block is no segment: it lies beside what the bound is for.
        if !name.starts_with("wal-") || name == "wal-control" {
            continue;
        }
        match entry.metadata() {
            Ok(metadata) if metadata.is_file() => bytes += metadata.blocks() * 512,
            Ok(_) => {}
            // It was renamed meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// The memory that a process has, without what is given back or shared with no one's knowledge.
fn resident(process: u32) -> Result<u64> {
    let path = PathBuf::from(format!("/proc/{process}/status"));
    let failed = |source| Error::Io { path: path.clone(), operation: "reading the memory of the service", source };
    let told = fs::read_to_string(&path).map_err(failed)?;
    memory(&told).ok_or_else(|| failed(std::io::ErrorKind::InvalidData.into()))
}

/// As the kernel tells it, in KiB.
fn memory(told: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok().map(|kib: u64| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_process_is_read_as_the_kernel_tells_it() {
        assert_eq!(memory("Name:\ta\nVmRSS:\t    2048 kB\nVmData:\t 1 kB\n"), Some(2 << 20));
        assert_eq!(memory("Name:\ta\n"), None);
        assert!(resident(std::process::id()).unwrap() > 1 << 20);
    }
}
