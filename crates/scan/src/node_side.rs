//! A storage node, as scans see it: how to reach it, how fast the way there is, and how busy it is.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_remote::{RemoteDirectory, RemoteWork, Status};
use parking_lot::Mutex;

use crate::{Link, LinkMeter, Side};

/// Before anything was measured: a gigabit a second, over a floor.
const ASSUMED: Link = Link { bandwidth: 125e6, latency: Duration::from_micros(200), in_flight: 8 };

/// How old what a node said of its load may be.
const FRESH: Duration = Duration::from_secs(1);

/// How large the transfers are that measure a link for the first time.
const PROBE: usize = 256 << 10;

/// A directory of a storage node's and what is known of the way there. May be shared between threads.
pub struct NodeSide {
    place: String,
    directory: RemoteDirectory,
    known: Mutex<Known>,
    refused: AtomicU64,
}

/// What was measured.
#[derive(Debug)]
struct Known {
    meter: LinkMeter,
    probed: bool,
    side: Side,
    /// What the node said last, and when.
    status: Option<(Status, Instant)>,
}

impl fmt::Debug for NodeSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeSide({})", self.place)
    }
}

impl NodeSide {
    /// A directory, called `place` in messages.
    pub fn new(place: impl Into<String>, directory: RemoteDirectory) -> Self {
        let side = Side { cores: 1.0, others: 0.0, speed: 1.0, storage: f64::INFINITY };
        let known = Known { meter: LinkMeter::new(ASSUMED), probed: false, side, status: None };
        Self { place: place.into(), directory, known: Mutex::new(known), refused: AtomicU64::new(0) }
    }

    /// What it is called.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// How many fragments it has refused, which were done here instead.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn note_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Below the node's folder.
    pub(crate) fn path(&self) -> &str {
        self.directory.path()
    }

    /// Has the node do a fragment.
    pub(crate) fn work(&self, fragment: &[u8]) -> ishigaki_remote::Result<RemoteWork> {
        self.directory.client().work(fragment)
    }

    /// Takes in what a transfer took.
    pub(crate) fn observe(&self, bytes: u64, time: Duration) {
        self.known.lock().meter.observe(ByteSize(bytes), time);
    }

    /// The link and the node, as they are known.
    pub(crate) fn known(&self) -> (Link, Side) {
        let known = self.known.lock();
        (known.meter.link(), known.side)
    }

    /// Asks how busy the node is, if what it said is old; measures the link if it never was. May block. Who can not be
    /// asked stays as he was: the scan itself will tell.
    pub(crate) fn look(&self) {
        let (before, probed) = {
            let known = self.known.lock();
            (known.status, known.probed)
        };
        if before.is_some_and(|(_, at)| at.elapsed() < FRESH) {
            return;
        }
        let client = self.directory.client();
        let asked = Instant::now();
        let Ok(status) = client.status() else { return };
        let latency = asked.elapsed();
        let mut transfers = Vec::new();
        if !probed {
            // The first one finds memory that is not there yet.
            transfers.extend((0..3).filter_map(|_| client.blank(PROBE).ok()));
        }
        let mut known = self.known.lock();
        known.meter.observe(ByteSize(0), latency);
        transfers.iter().skip(1).for_each(|time| known.meter.observe(ByteSize(PROBE as u64), *time));
        known.probed = true;
        known.side.cores = f64::from(status.cores.max(1));
        if let Some((before, _)) = before {
            known.side.others = busy(&before, &status);
        }
        known.status = Some((status, Instant::now()));
    }
}

/// How many threads of the node's ran between two of its words, on average.
fn busy(before: &Status, now: &Status) -> f64 {
    let (processor, time) =
        (now.processor_nanos.checked_sub(before.processor_nanos), now.uptime_nanos.checked_sub(before.uptime_nanos));
    match (processor, time) {
        (Some(processor), Some(time)) if time > 0 => processor as f64 / time as f64,
        // It was started again.
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_load_is_what_its_process_used_between_two_words() {
        let at = |processor_nanos, uptime_nanos| Status { processor_nanos, uptime_nanos, ..Status::default() };
        assert!((busy(&at(0, 0), &at(1_500, 1_000)) - 1.5).abs() < 1e-9);
        assert!(busy(&at(5, 5), &at(5, 5)) == 0.0, "no time has passed");
        assert!(busy(&at(900, 900), &at(10, 100)) == 0.0, "it was started again");
    }
}
