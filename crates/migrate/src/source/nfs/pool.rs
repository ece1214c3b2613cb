//! The connections to one service of the server: made when there is work for them, made again when they are lost.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::{CAPACITY, Connection, Room};
use super::rpc::Credentials;
use crate::source::{Cancel, socket};

/// With so many calls under way on each connection, one more is opened.
const BUSY: usize = 4;
/// Between attempts to connect: at first, and at most.
const PAUSE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// How long a server is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// A call, over all attempts.
    pub(super) patience: Duration,
    /// A connection on which calls are under way and nothing comes.
    pub(super) silence: Duration,
}

/// *Threads*: any number. *Drop* closes the connections.
pub(super) struct Pool {
    addresses: Vec<SocketAddr>,
    pub(super) credentials: Credentials,
    pub(super) limits: Limits,
    slots: Box<[Mutex<Slot>]>,
    pub(super) room: Arc<Room>,
    /// Why the last attempt to connect failed.
    trouble: Mutex<Option<String>>,
}

#[derive(Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
    connecting: bool,
    /// In a row.
    failures: u32,
    rests_until: Option<Instant>,
}

impl Slot {
    fn rest(&mut self) {
        let pause = PAUSE[0].saturating_mul(1 << self.failures.min(10)).min(PAUSE[1]);
        self.failures += 1;
        self.rests_until = Some(Instant::now() + pause);
    }

    fn may_connect(&self) -> bool {
        self.connection.is_none() && !self.connecting && self.rests_until.is_none_or(|until| until <= Instant::now())
    }
}

impl Pool {
    pub(super) fn new(
        addresses: Vec<SocketAddr>,
        connections: usize,
        credentials: Credentials,
        limits: Limits,
    ) -> Self {
        let slots = (0..connections.max(1)).map(|_| Mutex::default()).collect();
        Self { addresses, credentials, limits, slots, room: Arc::default(), trouble: Mutex::default() }
    }

    /// Why there is no connection, for a person.
    pub(super) fn trouble(&self) -> Option<String> {
        held(&self.trouble).clone()
    }

    /// The connection with the fewest calls; `None` if all are full, or none can be had now. Connects if that is worth it.
    pub(super) fn pick(&self, cancel: &Cancel) -> Option<Arc<Connection>> {
        let mut best: Option<(usize, Arc<Connection>)> = None;
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

    fn connect(&self, number: usize, cancel: &Cancel) -> Option<Arc<Connection>> {
        {
            let mut slot = held(&self.slots[number]);
            if !slot.may_connect() {
                return None;
            }
            slot.connecting = true;
        }
        let made = self.addresses.iter().find_map(|address| {
            let stream = socket::connect_privileged(*address, cancel);
            let made = stream.and_then(|stream| Connection::new(stream, Arc::clone(&self.room), self.limits.silence));
            match made {
                Ok(connection) => Some(Arc::new(connection)),
                Err(error) => {
                    *held(&self.trouble) = Some(format!("connecting to {address}: {error}"));
                    None
                }
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

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
