//! The connections to one service of a server: made when there is work for them, made again when they are lost.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{CAPACITY, Room, held};
use crate::source::{Cancel, Error};

/// With so many requests under way on each connection, one more is opened.
const BUSY: usize = 4;
/// Between attempts to connect: at first, and at most.
const PAUSE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// After so long a waiting caller looks for a connection again.
pub(in crate::source) const RETRY: Duration = Duration::from_millis(20);

/// A connection with many requests under way.
pub(in crate::source) trait Multiplexed {
    /// How many there are, or `None` if it is lost.
    fn under_way(&self) -> Option<usize>;

    /// Whether the server has ever answered here.
    fn answered(&self) -> bool;

    /// Ends it, whatever is under way.
    fn hang_up(&self);
}

/// Makes the connections of a pool.
pub(in crate::source) trait Dial {
    /// What it makes.
    type Connection: Multiplexed;

    /// Connects; the connection rings the room when it has place again.
    fn dial(&self, address: SocketAddr, room: &Arc<Room>, cancel: &Cancel) -> Result<Self::Connection, Error>;
}

/// *Threads*: any number. *Drop* closes the connections.
pub(in crate::source) struct Pool<D: Dial> {
    addresses: Vec<SocketAddr>,
    pub(in crate::source) dial: D,
    slots: Box<[Mutex<Slot<D::Connection>>]>,
    pub(in crate::source) room: Arc<Room>,
    /// Why the last attempt to connect failed.
    trouble: Mutex<Option<Error>>,
}

struct Slot<C> {
    connection: Option<Arc<C>>,
    connecting: bool,
    /// In a row.
    failures: u32,
    rests_until: Option<Instant>,
}

impl<C> Default for Slot<C> {
    fn default() -> Self {
        Self { connection: None, connecting: false, failures: 0, rests_until: None }
    }
}

impl<C> Slot<C> {
    fn rest(&mut self) {
        let pause = PAUSE[0].saturating_mul(1 << self.failures.min(10)).min(PAUSE[1]);
        self.failures += 1;
        self.rests_until = Some(Instant::now() + pause);
    }

    fn may_connect(&self) -> bool {
        self.connection.is_none() && !self.connecting && self.rests_until.is_none_or(|until| until <= Instant::now())
    }
}

impl<D: Dial> Pool<D> {
    pub(in crate::source) fn new(addresses: Vec<SocketAddr>, connections: usize, dial: D) -> Self {
        let slots = (0..connections.max(1)).map(|_| Mutex::default()).collect();
        Self { addresses, dial, slots, room: Arc::default(), trouble: Mutex::default() }
    }

    /// Why there is no connection, for a person.
    pub(in crate::source) fn trouble(&self) -> Option<Error> {
        held(&self.trouble).clone()
    }

    /// Has all connections made anew. What is under way is asked again.
    pub(in crate::source) fn hang_up(&self) {
        for slot in &self.slots {
            let connection = held(slot).connection.take();
            if let Some(connection) = connection {
                connection.hang_up();
            }
        }
    }

    /// The connection with the fewest requests; `None` if all are full, or none can be had now. Connects if that is worth it.
    pub(in crate::source) fn pick(&self, cancel: &Cancel) -> Option<Arc<D::Connection>> {
        let mut best: Option<(usize, Arc<D::Connection>)> = None;
        let mut free = None;
        for (number, slot) in self.slots.iter().enumerate() {
            let mut slot = held(slot);
            let under_way = slot.connection.as_ref().map(|connection| connection.under_way());
            match under_way {
                Some(None) => {
                    let lost = slot.connection.take();
                    if lost.is_some_and(|lost| !lost.answered()) {
                        slot.rest();
                    }
                }
                Some(Some(count)) if best.as_ref().is_none_or(|(least, _)| count < *least) => {
                    best = slot.connection.as_ref().map(|connection| (count, Arc::clone(connection)));
                }
                _ => {}
            }
            if slot.may_connect() && free.is_none() {
                free = Some(number);
            }
        }
        match (best, free) {
            (Some((count, connection)), _) if count < BUSY => Some(connection),
            (best, Some(number)) => self.connect(number, cancel).or(best.map(|(_, connection)| connection)),
            (Some((count, connection)), None) if count < CAPACITY => Some(connection),
            _ => None,
        }
    }

    fn connect(&self, number: usize, cancel: &Cancel) -> Option<Arc<D::Connection>> {
        {
            let mut slot = held(&self.slots[number]);
            if !slot.may_connect() {
                return None;
            }
            slot.connecting = true;
        }
        let made = self.addresses.iter().find_map(|address| match self.dial.dial(*address, &self.room, cancel) {
            Ok(connection) => Some(Arc::new(connection)),
            Err(error) => {
                *held(&self.trouble) = Some(error);
                None
            }
        });
        let mut slot = held(&self.slots[number]);
        slot.connecting = false;
        match &made {
            Some(connection) => {
                slot.connection = Some(Arc::clone(connection));
                slot.failures = 0;
                slot.rests_until = None;
            }
            // The caller's end is not the server's fault.
            None if cancel.is_cancelled() => {}
            None => slot.rest(),
        }
        drop(slot);
        self.room.ring();
        made
    }
}
