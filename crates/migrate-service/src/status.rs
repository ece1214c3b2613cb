//! How far a migration is, for people and programs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the crawler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It copies.
    Crawling,
    /// It was told to pause; what clients ask for comes all the same.
    Paused,
    /// It can not go on now, or rests outside of its hours, and goes on by itself: see [`Status::trouble`].
    Waiting,
    /// It has brought everything that can be brought. Without problems, the migration can be finished.
    Done,
    /// Nothing of the migration is left in the destination; the folder serves it until the service ends.
    Finished,
}

/// Something that could not be copied, or must be decided on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Below the destination, as it was when the migration began. Bytes that are no text, and backslashes, are written `\xNN`.
    pub path: String,
    /// What and why, without the path.
    pub message: String,
}

/// A file that has changed at the source, or was removed there, and is not yet here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// Where it is now, below the destination, written as [`Problem::path`]: by this it is decided on.
    pub path: String,
    /// Where it was when the migration began, if a client has moved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_source: Option<String>,
    /// What and why, without the path.
    pub message: String,
}

/// How far a migration is. Files and bytes are those of directories that are listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Where files come from, and the directories that take them.
    pub sources: Vec<SourceStatus>,
    /// The destination.
    pub to: String,
    /// The folder that clients use.
    pub at: String,
    /// Whether the folder answers: a person may have unmounted it.
    pub is_mounted: bool,
    /// What the crawler does.
    pub phase: Phase,
    /// Why it could not go on, or which source is waited for.
    pub trouble: Option<String>,
    /// The sources that do not answer while calls wait for them, or have been given up.
    #[serde(default)]
    pub away: Vec<Away>,
    /// For how long this process has served.
    pub uptime_seconds: f64,
    /// Directories that are known.
    pub directories: u64,
    /// Directories whose names are here.
    pub listed: u64,
    /// Files that are known.
    pub files: u64,
    /// Files that are whole here.
    pub whole: u64,
    /// Bytes of the files that are known.
    pub bytes: u64,
    /// Bytes that need not be copied any more.
    pub here: u64,
    /// Bytes that this process has copied.
    pub copied: u64,
    /// Bytes copied a second, over the last quarter of a minute.
    pub rate: u64,
    /// An estimate; none while directories are still to be listed, or nothing is copied.
    pub seconds_left: Option<u64>,
    /// Calls that wait for a source that does not answer.
    pub waiting: u64,
    /// How many objects could not be copied, conflicts among them.
    pub problems: u64,
    /// How many files have changed at the source, and must be decided on.
    pub conflicts: u64,
    /// The first problems.
    pub first_problems: Vec<Problem>,
    /// Bytes that the crawler may copy a second.
    pub bandwidth: Option<u64>,
    /// Requests of the crawler under way at a time.
    pub parallel: usize,
    /// Files that clients opened and the kernel reads and writes itself.
    pub opened_passed: u64,
    /// Files that clients opened and the service reads and writes.
    pub opened_served: u64,
    /// The calls of sources that clients or the crawler have waited for longest.
    #[serde(default)]
    pub waits: Vec<Wait>,
    /// Where Prometheus finds the same figures.
    #[serde(default)]
    pub metrics: Option<String>,
}

/// A source that does not answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Away {
    /// As the configuration names it.
    pub from: String,
    /// Since when.
    pub seconds: f64,
    /// Why.
    pub message: String,
}

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, seconds, message } = self;
        write!(f, "{from} does not answer, since {seconds:.0} s; what is not yet here waits for it ({message})")
    }
}

/// A call of a source that takes long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// Below the destination, as it was when the migration began, written as [`Problem::path`].
    pub path: String,
    /// For how long.
    pub seconds: f64,
}

/// A source in a status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// As the configuration names it.
    pub from: String,
    /// Below the destination; empty for the destination itself.
    pub into: String,
}
