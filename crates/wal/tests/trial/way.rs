//! How a log is kept: its kind, its rule, and what lies beneath.

use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_device::{Directory, RawDirectory, Result, SimDirectory, SimSettings};
use ishigaki_testkit::seeded_runs;
use ishigaki_wal::{CommitRule, LogKind};

/// A way to keep a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) kind: LogKind,
    pub(crate) commit: CommitRule,
    pub(crate) medium: Medium,
}

/// What lies beneath a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Files; the chunks of a batch are written one after the other.
    Files,
    /// Files; the chunks of a batch are in flight at once.
    Ring,
    /// Regions of one raw device; the chunks of a batch are in flight at once.
    Raw,
}

impl Medium {
    pub(crate) const ALL: [Self; 3] = [Self::Files, Self::Ring, Self::Raw];

    /// One on which nothing has happened yet.
    pub(crate) fn fresh(self, seed: Seed) -> SimDirectory {
        let runs_at_once = self != Self::Files;
        let medium = SimDirectory::new(SimSettings { seed, runs_at_once, ..SimSettings::default() });
        if self != Self::Raw {
            return medium;
        }
        drop(RawDirectory::format(medium.medium(64 << 20).unwrap()).unwrap());
        medium.survivors(seed)
    }

    /// The directory on it.
    pub(crate) fn directory(self, medium: &SimDirectory) -> Result<Arc<dyn Directory>> {
        if self == Self::Raw {
            return Ok(Arc::new(RawDirectory::open(medium.medium(0)?)?));
        }
        Ok(Arc::new(medium.clone()))
    }
}

/// Runs a test for every way in which a log can be kept, with that many seeds.
pub(crate) fn each_way(name: &str, runs: u64, test: impl Fn(Seed, Way)) {
    let mut ways = Vec::new();
    for medium in Medium::ALL {
        for commit in [CommitRule::Watermark, CommitRule::Dependencies] {
            ways.extend([LogKind::Parallel, LogKind::Serial].map(|kind| Way { kind, commit, medium }));
        }
    }
    ways.push(Way { kind: LogKind::EPOCH, commit: CommitRule::Dependencies, medium: Medium::Ring });
    seeded_runs(name, runs, |seed| ways.iter().for_each(|&way| test(seed, way)));
}
