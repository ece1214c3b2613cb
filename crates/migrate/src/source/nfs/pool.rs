//! How a connection to one service of the server is made.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::connection::Connection;
use super::rpc::Credentials;
use crate::source::multiplex::{self, Dial, Room};
use crate::source::{Cancel, Error, ErrorKind, socket};

/// How long a server is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// A call, over all attempts.
    pub(super) patience: Duration,
    /// A connection on which calls are under way and nothing comes.
    pub(super) silence: Duration,
}

/// Makes connections.
pub(super) struct Dialer {
    pub(super) credentials: Credentials,
    pub(super) limits: Limits,
}

/// The connections to one service of the server.
pub(super) type Pool = multiplex::Pool<Dialer>;

impl Dial for Dialer {
    type Connection = Connection;

    fn dial(&self, address: SocketAddr, room: &Arc<Room>, cancel: &Cancel) -> Result<Connection, Error> {
        let stream = socket::connect_privileged(address, cancel);
        let made = stream.and_then(|stream| Connection::new(stream, Arc::clone(room), self.limits.silence));
        made.map_err(|error| Error::new(ErrorKind::Unavailable, format!("connecting to {address}: {error}")))
    }
}
