//! What a pool and its volumes do, for people and programs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::Kind;

/// A pool, at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The directory of its map.
    pub map: PathBuf,
    /// The fast device.
    pub fast: PathBuf,
    /// Where the volumes lie.
    pub slow: String,
    /// Whether a service serves it, which was asked.
    pub is_served: bool,
    /// For how long this process has it open.
    pub uptime_seconds: f64,
    /// Bytes of a chunk.
    pub chunk: u64,
    /// Chunks that the fast device has room for.
    pub slots: u64,
    /// Of these, those that are used.
    pub used_slots: u64,
    /// Bytes that are on the fast device.
    pub fast_bytes: u64,
    /// Of these, bytes that are nowhere else.
    pub dirty_bytes: u64,
    /// Bytes written to the fast device since the start.
    #[serde(default)]
    pub written_bytes: u64,
    /// So much was written that nothing comes to it for now.
    #[serde(default)]
    pub is_worn: bool,
    /// What is brought before it is asked for.
    pub prefetch: PrefetchStatus,
    /// The volumes, by name.
    pub volumes: Vec<VolumeStatus>,
    /// Volumes that can not be opened.
    pub away: Vec<AwayStatus>,
    /// The file in memory that says which blocks are dirty, for the process after this one.
    #[serde(default)]
    pub memory: Option<PathBuf>,
    /// Where agents in guests tell what they know.
    #[serde(default)]
    pub agents: Option<String>,
    /// Where Prometheus finds the same figures.
    #[serde(default)]
    pub metrics: Option<String>,
}

/// What is brought to the fast device before it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrefetchStatus {
    /// The share of a window for which it may be brought, 0 to 1.
    pub share: f64,
    /// Windows since the start.
    pub windows: u64,
    /// Of the last window: the share of read requests that the fast device has answered.
    pub hit_ratio: Option<f64>,
    /// Of the last window: work done a second, as agents tell it; else read requests.
    pub work: f64,
    /// The share of the last window for which chunks were brought: less than it may be when nothing more is worth it.
    #[serde(default)]
    pub used: f64,
    /// Bytes of chunks that are worth bringing and are not there yet.
    #[serde(default)]
    pub wanted_bytes: u64,
    /// Bytes that were brought since the start.
    pub brought_bytes: u64,
}

/// A volume, at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// `write-back`, `write-through` or `read-only`.
    pub mode: String,
    /// All of it is to be on the fast device, and stays there.
    #[serde(default)]
    pub pinned: bool,
    /// How it is used; none if it has no door, or that could not be opened.
    pub door: Option<DoorStatus>,
    /// Why it is not served, or not wholly.
    pub trouble: Option<String>,
    /// Bytes read from the fast device, since the pool was opened.
    pub hit_bytes: u64,
    /// Bytes read from the slow device.
    pub miss_bytes: u64,
    /// Bytes that it has on the fast device.
    pub fast_bytes: u64,
    /// Of these, bytes that are nowhere else.
    pub dirty_bytes: u64,
    /// The largest files, if an agent tells of them.
    #[serde(default)]
    pub files: Vec<FileStatus>,
}

impl VolumeStatus {
    /// The share of what was read that came from the fast device.
    pub fn hit_ratio(&self) -> Option<f64> {
        let all = self.hit_bytes + self.miss_bytes;
        (all > 0).then(|| self.hit_bytes as f64 / all as f64)
    }
}

/// A file of a volume, as its agent has told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileStatus {
    /// A table, or a path in the guest.
    pub name: String,
    /// Its bytes on the disk.
    pub bytes: u64,
    /// Of these, bytes of chunks that are on the fast device, as far as can be told.
    pub fast_bytes: u64,
}

/// The door of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorStatus {
    /// For a virtual machine, or for the host.
    pub kind: Kind,
    /// The socket, or the link to the block device.
    pub path: PathBuf,
    /// The block device.
    pub device: Option<PathBuf>,
    /// A virtual machine is connected, or a file system mounted.
    pub in_use: bool,
}

/// A volume that can not be opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AwayStatus {
    /// Its name.
    pub name: String,
    /// Why.
    pub message: String,
    /// Its slow device does not answer: it is served as soon as it does.
    #[serde(default)]
    pub is_silent: bool,
    /// For how long it has been away.
    #[serde(default)]
    pub away_seconds: f64,
    /// Bytes of it that are on the fast device alone.
    #[serde(default)]
    pub dirty_bytes: u64,
}
