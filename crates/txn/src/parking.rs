//! Transactions that have committed and hold their write locks until they are durable ([`Release::Normal`](crate::Release)).
//!
//! They stay with their session, as a group. The group is made durable, and its locks are let go of,
//!
//! - when it is full, or somebody waits for one of its tickets, or the session ends;
//! - when the session itself meets a lock, in reading or in writing: it may be one of its own, and if it is another
//!   session's, that one may be waiting for this one (paper 2, section 3);
//! - when another session meets a lock and the group has been there for a while: a session that fell silent must not keep
//!   others waiting.
//!
//! So nobody waits for ever, whoever holds what.

use std::time::{Duration, Instant};

use ishigaki_wal::{Receipt, Stream};
use parking_lot::Mutex;

use crate::protocol::Held;
use crate::session::Homes;

/// How long a group may be there before others see to it: longer than most sessions need for their next transaction.
const STALE: Duration = Duration::from_millis(1);

/// The group of one session.
#[derive(Debug, Default)]
pub(crate) struct Parking(Mutex<Vec<Parked>>);

#[derive(Debug)]
struct Parked {
    receipt: Receipt,
    held: Held,
    since: Instant,
}

impl Parking {
    /// Adds a transaction; how many there are now.
    pub(crate) fn add(&self, receipt: Receipt, held: Held) -> usize {
        let mut group = self.0.lock();
        group.push(Parked { receipt, held, since: Instant::now() });
        group.len()
    }

    /// Makes the group durable and lets go of its locks. False if there was none. If the log has failed nothing is
    /// acknowledged any more; then what they hold is of no use to anybody.
    pub(crate) fn flush(&self, stream: &Stream) -> bool {
        // Not under the lock: the session may be used by others meanwhile.
        let group = std::mem::take(&mut *self.0.lock());
        for parked in &group {
            let _ = stream.settle(&parked.receipt);
        }
        let any = !group.is_empty();
        for parked in group {
            parked.held.release();
        }
        any
    }

    /// Lets go of the locks of those who are durable.
    pub(crate) fn release_durable(&self, is_durable: impl Fn(&Receipt) -> bool) {
        let mut durable = Vec::new();
        self.0.lock().retain_mut(|parked| {
            let is_durable = is_durable(&parked.receipt);
            if is_durable {
                durable.push(std::mem::take(&mut parked.held));
            }
            !is_durable
        });
        durable.into_iter().for_each(Held::release);
    }

    fn is_stale(&self) -> bool {
        self.0.lock().first().is_some_and(|first| first.since.elapsed() > STALE)
    }
}

/// Makes durable what has been there for a while, in any session.
pub(crate) fn flush_stale(homes: &Homes) {
    for home in homes.living().iter().filter(|home| home.parking.is_stale()) {
        home.parking.flush(&home.stream);
    }
}
