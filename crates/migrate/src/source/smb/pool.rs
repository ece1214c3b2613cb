//! How a connection to the share is made, and waited for.
//!
//! A server may see the share's directory as it was when the connection began: one that began before its disk was mounted sees an empty one, beside others that
//! see the disk. So all connections must have the same root; one with another root is not used.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::address::Address;
use super::answer::{self, About, Trouble};
use super::connection::Connection;
use super::credentials::Credentials;
use super::request::{self, Aim, OPENED};
use super::{name, session, time};
use crate::source::multiplex::{self, Dial, RETRY, Room, held};
use crate::source::{Cancel, Error, ErrorKind, Identity, socket};

/// The longest that a server may take until a connection can be used.
const BEGIN: Duration = Duration::from_secs(30);

/// Makes connections.
pub(super) struct Dialer {
    address: Address,
    credentials: Credentials,
    /// That of the connections that there are.
    root: Mutex<Option<Identity>>,
}

/// The connections to the share.
pub(super) type Pool = multiplex::Pool<Dialer>;

impl Dialer {
    pub(super) fn new(address: Address, credentials: Credentials) -> Self {
        Self { address, credentials, root: Mutex::default() }
    }

    /// Whether the root of a new connection is that of the others.
    fn check_root(&self, connection: &Connection, cancel: &Cancel) -> Result<(), Error> {
        let Some(about) = self.ask_root(connection, cancel)? else { return Ok(()) };
        let root = Identity::new(about.id, (about.created != 0).then(|| time::here(about.created)));
        if root.is_same(*held(&self.root).get_or_insert(root)) {
            return Ok(());
        }
        let message =
            "the share's directory is another one by a new connection than by those before: is its disk mounted?";
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// What a connection tells of the root. Nothing if the server can not say so now; the next call learns why.
    fn ask_root(&self, connection: &Connection, cancel: &Cancel) -> Result<Option<About>, Error> {
        let Some(path) = name::path(&self.address.path, "".as_ref()) else { return Ok(None) };
        let chain = [request::create(&path, Aim::Look), request::query_all(&OPENED), request::close(&OPENED)];
        let mailbox = Arc::default();
        if connection.send(std::iter::once((0, &chain[..])), &mailbox) == 0 {
            return Ok(None);
        }
        let until = Instant::now() + BEGIN.min(self.patience());
        while Instant::now() < until {
            if cancel.is_cancelled() {
                return Err(Error::cancelled());
            }
            match mailbox.take(RETRY) {
                None => {}
                Some((_, Ok(answers))) if answers.len() == chain.len() => return Ok(answer::all(&answers[1]).ok()),
                Some(_) => return Ok(None),
            }
        }
        Ok(None)
    }

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
        let connection = Connection::new(stream, session, Arc::clone(room), self.patience() / 2).map_err(failed)?;
        self.check_root(&connection, cancel)?;
        Ok(connection)
    }
}

impl Pool {
    /// Has all connections made anew, with whatever root there is by now.
    pub(super) fn reopen(&self) {
        *held(&self.dial.root) = None;
        self.hang_up();
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
            if since.elapsed() >= self.dial.patience() {
                let why = trouble.map_or_else(String::new, |error| format!(" ({error})"));
                let message = format!("no answer for {} s{why}", self.dial.patience().as_secs_f32());
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            self.room.wait(RETRY);
        }
    }
}
