//! The load: which group is asked for how much in each phase, and the workers who ask.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::Size;
use super::database::{Database, TABLES};
use super::session::Session;

/// Groups of servers.
pub(super) const GROUPS: usize = 4;

/// Phases of a test set.
pub(super) const PHASES: usize = 10;

/// The share of the data that each group has: as much as its mean share of the load.
pub(super) const DATA_SHARES: [u64; GROUPS] = [10, 20, 30, 40];

/// Of 100 transactions, those that go to each group, by phase: after the elasticity phases of TPCx-V's specification.
const LOAD_SHARES: [[u32; GROUPS]; PHASES] = [
    [10, 20, 30, 40],
    [5, 10, 25, 60],
    [10, 5, 20, 65],
    [5, 10, 5, 80],
    [10, 5, 30, 55],
    [5, 35, 20, 40],
    [35, 25, 15, 25],
    [5, 65, 20, 10],
    [10, 15, 70, 5],
    [5, 10, 65, 20],
];

/// What a part of a run has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Part {
    /// Transactions a second.
    pub(super) throughput: f64,
    /// The share of what was read that came from the fast device.
    pub(super) hit_ratio: f64,
    /// The share of the time for which was prefetched.
    pub(super) share: f64,
}

/// What a run has come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Run {
    /// Transactions over all sets.
    pub(super) transactions: u64,
    /// Seconds that they took.
    pub(super) seconds: f64,
    /// Bytes that were read from the fast device, and from the slow one.
    pub(super) read: [u64; 2],
    /// Requests to the block devices that read, and that wrote.
    pub(super) requests: [u64; 2],
    /// Halves of phases.
    pub(super) parts: Vec<Part>,
}

impl Run {
    pub(super) fn throughput(&self) -> f64 {
        self.transactions as f64 / self.seconds.max(1e-9)
    }

    pub(super) fn hit_ratio(&self) -> f64 {
        ratio(self.read)
    }

    pub(super) fn reads(&self) -> f64 {
        ratio(self.requests)
    }
}

/// The first one's share of both.
pub(super) fn ratio([one, other]: [u64; 2]) -> f64 {
    if one + other == 0 { 0.0 } else { one as f64 / (one + other) as f64 }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transactions, .. } = self;
        write!(f, "{transactions} transactions, {:.1}/s, hit ratio {:.3}", self.throughput(), self.hit_ratio())?;
        write!(f, ", {:.0}% of requests read", self.reads() * 100.0)
    }
}

/// What workers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) done: AtomicU64,
    /// Rows that were changed, by server.
    pub(super) changed: Vec<AtomicU64>,
    pub(super) is_over: AtomicBool,
    began: Instant,
    phase: Duration,
}

impl Shared {
    pub(super) fn new(servers: usize, phase: Duration) -> Self {
        Self {
            done: AtomicU64::new(0),
            changed: (0..servers).map(|_| AtomicU64::new(0)).collect(),
            is_over: AtomicBool::new(false),
            began: Instant::now(),
            phase,
        }
    }

    /// The phase that is now. The first one lasts a phase longer, in which all becomes warm.
    fn phase(&self) -> usize {
        let now = (self.began.elapsed().as_secs_f64() / self.phase.as_secs_f64()) as usize;
        now.saturating_sub(1) % PHASES
    }
}

/// Does transactions until it is over, over a session to each server.
pub(super) fn work(
    size: &Size,
    databases: &[Database],
    sessions: &mut [Session],
    shared: &Shared,
    mut random: Rng,
) -> io::Result<()> {
    while !shared.is_over.load(Ordering::Relaxed) {
        let number = draw_server(shared.phase(), size.servers, &mut random);
        let database = &databases[number];
        let (table, row) = draw_row(database, size, &mut random);
        let session = &mut sessions[number];
        let writes = random.u32(0..100) < size.writing_percent;
        let answer = if writes {
            session.ask(&format!("update t{table} set changed = changed + 1 where id = {row}"))?
        } else {
            session.ask(&format!("select count(changed) from t{table} where id = {row}"))?
        };
        if answer != "1" {
            return Err(io::Error::other(format!("row {row} of table t{table} of {}: `{answer}`", database.name)));
        }
        if writes {
            shared.changed[number].fetch_add(1, Ordering::Relaxed);
        }
        shared.done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn draw_server(phase: usize, servers: usize, random: &mut Rng) -> usize {
    let mut left = random.u32(0..100);
    let mut group = 0;
    for share in LOAD_SHARES[phase] {
        if left < share {
            break;
        }
        left -= share;
        group += 1;
    }
    group.min(GROUPS - 1) * servers + random.usize(0..servers)
}

fn draw_row(database: &Database, size: &Size, random: &mut Rng) -> (usize, u64) {
    let table = random.usize(0..TABLES);
    let (part, asked) = size.hot_percent;
    let hot = (database.rows * u64::from(part) / 100).max(1);
    if random.u32(0..100) < asked {
        return (table, database.hot_begin(table, hot) + random.u64(0..hot));
    }
    (table, random.u64(0..database.rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_shares_out_all_and_a_group_has_as_much_data_as_load() {
        for shares in LOAD_SHARES {
            assert_eq!(shares.iter().sum::<u32>(), 100);
        }
        for (group, share) in DATA_SHARES.iter().enumerate() {
            let load: u32 = LOAD_SHARES.iter().map(|shares| shares[group]).sum();
            assert_eq!(u64::from(load), share * PHASES as u64);
        }
    }
}
