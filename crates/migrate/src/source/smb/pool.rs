//! The connections to the server: made when there is work for them, made again when they are lost.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::address::Address;
use super::answer::Trouble;
use super::connection::{CAPACITY, Connection, Room};
use super::credentials::Credentials;
use super::session;
use crate::source::{Cancel, Error, ErrorKind, socket};

/// With so many chains under way on each connection, one more is opened.
const BUSY: usize = 4;
/// Between attempts to connect: at first, and at most.
const PAUSE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// After so long a waiting caller looks for a connection again.
pub(super) const RETRY: Duration = Duration::from_millis(20);
/// The longest that a server may take until a connection can be used.
const BEGIN: Duration = Duration::from_secs(30);

/// *Threads*: any number. *Drop* closes the connections.
pub(super) struct Pool {
    addresses: Vec<SocketAddr>,
    address: Address,
    credentials: Credentials,
    /// How long a call is waited for, over all attempts.
    pub(super) patience: Duration,
    slots: Box<[Mutex<Slot>]>,
    pub(super) room: Arc<Room>,
    /// Why the last attempt to connect failed.
    trouble: Mutex<Option<Error>>,
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
    pub(super) fn new(addresses: Vec<SocketAddr>, address: Address, credentials: Credentials) -> Self {
        let slots = (0..address.connections.max(1)).map(|_| Mutex::default()).collect();
        let patience = address.timeout;
        Self { addresses, address, credentials, patience, slots, room: Arc::default(), trouble: Mutex::default() }
    }

    /// Why there is no connection, for a person.
    pub(super) fn trouble(&self) -> Option<Error> {
        held(&self.trouble).clone()
    }

    /// A connection, as soon as there is one. `strictly`: what only a person can change is an error at once.
    pub(super) fn wait(&self, strictly: bool, cancel: &Cancel) -> Result<Arc<Connection>, Error> {
        let since = Instant::now();
        loop {
            if let Some(connection) = self.pick(cancel) {
                return Ok(connection);
            }
            if cancel.is_cancelled() {
                return Err(Error::cancelled());
            }
            let trouble = self.trouble();
            if let Some(error) = &trouble
                && strictly
                && error.kind != ErrorKind::Unavailable
            {
                return Err(error.clone());
            }
            if since.elapsed() >= self.patience {
                let why = trouble.map_or_else(String::new, |error| format!(" ({error})"));
                let message = format!("no answer for {} s{why}", self.patience.as_secs_f32());
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            self.room.wait(RETRY);
        }
    }

    /// The connection with the fewest chains; `None` if all are full, or none can be had now. Connects if that is worth it.
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
        let made = self.addresses.iter().find_map(|address| match self.begin(*address, cancel) {
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

    fn begin(&self, address: SocketAddr, cancel: &Cancel) -> Result<Connection, Error> {
        let failed =
            |error: std::io::Error| Error::new(ErrorKind::Unavailable, format!("connecting to {address}: {error}"));
        let stream = socket::connect(address, cancel).map_err(failed)?;
        let session = session::begin(&stream, &self.address, &self.credentials, BEGIN.min(self.patience), cancel);
        let session = session.map_err(|trouble| match trouble {
            // A share that the account may not use is no question of time.
            Trouble::Malformed(_) => {
                let error = trouble.into_error(&self.address.to_string(), "connect to", "".as_ref());
                Error::new(ErrorKind::Invalid, error.message)
            }
            trouble => trouble.into_error(&self.address.to_string(), "connect to", "".as_ref()),
        })?;
        Connection::new(stream, session, Arc::clone(&self.room), self.patience / 2).map_err(failed)
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
