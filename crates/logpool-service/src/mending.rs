//! What a service is asked to do for one member while it serves the others: look, mend, take out, take in again.

use std::path::PathBuf;

use ishigaki_base::ByteSize;
use ishigaki_logpool::{DamagedFile, Member, ScrubStatistics, Scrubbed};
use serde::{Deserialize, Serialize};

/// What a look at a member's home, or at all of them, has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// The member; all members where it is not given.
    pub name: Option<String>,
    /// Bytes at home that were compared with their checksums.
    pub bytes: u64,
    /// Blocks of 4 KiB that did not fit.
    pub damaged_blocks: u64,
    /// How many of these were made anew, from memory or the log.
    pub repaired_blocks: u64,
    /// What can not be served, in words.
    pub problems: Vec<String>,
}

/// A member that was taken out of service, or is served again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The member.
    pub name: String,
    /// Where it is served now, in words; nowhere where it was taken out.
    pub place: Option<String>,
}

/// A member's files that were written as plain ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuiltFiles {
    /// Its name.
    pub member: String,
    /// The folder.
    pub to: PathBuf,
    /// Files in it.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// A member that is not served, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedStatus {
    /// The member.
    pub name: String,
    /// Why, and what helps.
    pub problem: String,
}

/// A file of which something can not be served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedStatus {
    /// Its path within the member.
    pub path: String,
    /// Blocks of 4 KiB that are damaged.
    pub blocks: u64,
    /// Where the first of them begins, in bytes.
    pub first: u64,
}

impl DamagedStatus {
    pub(crate) fn of(file: &DamagedFile) -> Self {
        Self { path: file.path.clone(), blocks: file.blocks, first: file.first }
    }
}

/// What the scrubber does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScrubStatus {
    /// Bytes a second; zero where it stands still.
    pub rate_bytes: u64,
    /// Passes over all homes since the service began.
    pub passes: u64,
    /// How long ago the last one ended.
    pub ended_seconds_ago: Option<f64>,
    /// Bytes that the last one compared.
    pub last_bytes: u64,
    /// Blocks of 4 KiB that it found damaged.
    pub last_damaged_blocks: u64,
    /// Bytes that were compared in all, also where that was asked for.
    pub bytes: u64,
    /// Blocks that were found damaged in all; one that stays damaged counts each time.
    pub damaged_blocks: u64,
    /// How many were made anew.
    pub repaired_blocks: u64,
}

impl ScrubStatus {
    pub(crate) fn of(scrub: &ScrubStatistics) -> Self {
        Self {
            rate_bytes: scrub.rate.0,
            passes: scrub.passes,
            ended_seconds_ago: scrub.ended.map(|ended| ended.as_secs_f64()),
            last_bytes: scrub.last.bytes,
            last_damaged_blocks: scrub.last.damaged,
            bytes: scrub.total.bytes,
            damaged_blocks: scrub.total.damaged,
            repaired_blocks: scrub.total.repaired,
        }
    }
}

impl Verified {
    /// Nothing as yet.
    pub(crate) fn of(name: Option<String>) -> Self {
        Self { name, bytes: 0, damaged_blocks: 0, repaired_blocks: 0, problems: Vec::new() }
    }

    /// One member's home, and what can not be served of it.
    pub(crate) fn add(&mut self, found: Scrubbed, problems: Vec<String>) {
        self.bytes += found.bytes;
        self.damaged_blocks += found.damaged;
        self.repaired_blocks += found.repaired;
        self.problems.extend(problems);
    }
}

/// What can not be served of a member, file by file.
pub(crate) fn damage(member: &Member) -> Vec<String> {
    let name = member.name();
    let words = |DamagedFile { path, blocks, first }: DamagedFile| {
        let more = if blocks == 1 { String::new() } else { format!(" and {} blocks more", blocks - 1) };
        format!("member `{name}`: `{path}` is damaged at {first}{more}; the log does not have it any more")
    };
    member.statistics().damaged.into_iter().map(words).collect()
}

/// The rate that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubRate {
    /// Bytes a second; zero where the scrubber stands still.
    pub rate_bytes: u64,
}

impl ScrubRate {
    /// As a size.
    pub fn rate(self) -> ByteSize {
        ByteSize(self.rate_bytes)
    }
}
