//! How a connection to the share is made, and waited for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::address::Address;
use super::answer::Trouble;
use super::connection::Connection;
use super::credentials::Credentials;
use super::session;
use crate::source::multiplex::{self, Dial, RETRY, Room};
use crate::source::{Cancel, Error, ErrorKind, socket};

/// The longest that a server may take until a connection can be used.
const BEGIN: Duration = Duration::from_secs(30);

/// Makes connections.
pub(super) struct Dialer {
    pub(super) address: Address,
    pub(super) credentials: Credentials,
}

/// The connections to the share.
pub(super) type Pool = multiplex::Pool<Dialer>;

impl Dialer {
    /// How long a call is waited for, over all attempts.
    pub(super) fn patience(&self) -> Duration {
        self.address.timeout
    }
}

impl Dial for Dialer {
    type Connection = Connection;

    fn dial(&self, address: SocketAddr, room: &Arc<Room>, cancel: &Cancel) -> Result<Connection, Error> {
        let failed =
            |error: std::io::Error| Error::new(ErrorKind::Unavailable, format!("connecting to {address}: {error}"));
        let stream = socket::connect(address, cancel).map_err(failed)?;
        let session = session::begin(&stream, &self.address, &self.credentials, BEGIN.min(self.patience()), cancel);
        let session = session.map_err(|trouble| match trouble {
            // A share that the account may not use is no question of time.
            Trouble::Malformed(_) => {
                let error = trouble.into_error(&self.address.to_string(), "connect to", "".as_ref());
                Error::new(ErrorKind::Invalid, error.message)
            }
            trouble => trouble.into_error(&self.address.to_string(), "connect to", "".as_ref()),
        })?;
        Connection::new(stream, session, Arc::clone(room), self.patience() / 2).map_err(failed)
    }
}

impl Pool {
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
            if since.elapsed() >= self.dial.patience() {
                let why = trouble.map_or_else(String::new, |error| format!(" ({error})"));
                let message = format!("no answer for {} s{why}", self.dial.patience().as_secs_f32());
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            self.room.wait(RETRY);
        }
    }
}
