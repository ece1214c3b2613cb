//! Waiting for peers to connect.

use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::{handshake, wire::Wire};
use crate::endpoint::{Endpoint, Settings};
use crate::security::Security;
use crate::{Error, Result};

/// How many may have connected and not been accepted yet.
const BACKLOG: i32 = 4096;

/// Peers who connect. They do so over TCP, whatever carries the bytes afterwards.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    settings: Settings,
    security: Security,
    closed: AtomicBool,
}

/// Somebody who has connected and not said anything yet.
#[derive(Debug)]
pub struct Arrival {
    socket: TcpStream,
    peer: SocketAddr,
    settings: Settings,
    security: Security,
}

/// Closes an [`Arrival`] that takes too long.
#[derive(Debug)]
pub struct ArrivalCloser(TcpStream);

impl ArrivalCloser {
    /// Ends the connection. The thread that greets gets an error; after [`Arrival::greet`] has returned this must not be used
    /// any more, since it would end the endpoint.
    pub fn close(&self) {
        // If it fails, the connection has ended by itself.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

impl Listener {
    /// Listens at `host:port`; port 0 takes any that is free.
    ///
    /// # Errors
    ///
    /// [`Error::Insecure`] for an address that other hosts reach, if there is no authentication.
    pub fn bind(address: &str, settings: Settings, security: Security) -> Result<Self> {
        settings.check()?;
        let failed = |source| Error::Listen { address: address.to_owned(), source };
        let candidates: Vec<_> = address.to_socket_addrs().map_err(failed)?.collect();
        candidates.iter().try_for_each(|candidate| security.check(candidate.ip()))?;
        let socket = TcpListener::bind(&candidates[..]).map_err(failed)?;
        // The library's own queue overflows where many come at once, and who does not fit tries again only after a second.
        rustix::net::listen(&socket, BACKLOG).map_err(|errno| failed(errno.into()))?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address, settings, security, closed: AtomicBool::new(false) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next peer. Nothing: the listener was closed. An error concerns one arrival or the moment (too many open
    /// files); the listener goes on.
    pub fn accept(&self) -> Result<Option<Arrival>> {
        let outcome = self.socket.accept();
        if self.closed.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let (socket, peer) = outcome.map_err(|source| Error::Listen { address: self.address.to_string(), source })?;
        Ok(Some(Arrival { socket, peer, settings: self.settings.clone(), security: self.security.clone() }))
    }

    /// Ends [`accept`](Self::accept), now and for good.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // Wakes who waits in `accept`. If it fails, nobody does.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

impl Arrival {
    /// Who it is, as far as the network knows.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Ends the arrival from another thread, also in the middle of [`greet`](Self::greet).
    pub fn closer(&self) -> Result<ArrivalCloser> {
        let socket = self.socket.try_clone();
        socket.map(ArrivalCloser).map_err(|source| Error::Unreachable { peer: self.peer.to_string(), source })
    }

    /// Exchanges greetings; takes as long as [`Settings::connect`] at most. `room` is asked once, when the peer has shown who
    /// it is: false, and the peer is told that there is no room for one more connection, and it is an error.
    pub fn greet(self, room: impl FnOnce() -> bool) -> Result<Arc<dyn Endpoint>> {
        let deadline = Instant::now() + self.settings.connect;
        let peer = self.peer.to_string();
        let wire = Wire::server(self.socket, &peer, &self.security, &self.settings)?;
        super::connected(wire, &peer, &self.settings, deadline, |wire| {
            handshake::server(wire, &self.settings, &self.security, room, deadline)
        })
    }
}
