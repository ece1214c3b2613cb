//! Connections over TCP, with or without TLS.
//!
//! A one-sided write is emulated: the bytes travel in a frame that names the region, and the peer's receiving side puts
//! them there, straight from the socket when they are many.
//!
//! ```text
//!   send    short messages ─▶ queue ─▶ whoever finds the socket free sends what all have queued, in one system call
//!           long ones      ─▶ headers and the callers' own bytes, vectored, in one system call
//!   receive one system call takes what is there: the rest of an unfinished write into its region, all else into the inbox
//! ```
//!
//! Parts: [`wire`] moves bytes, through TLS where that is asked for; [`handshake`] is what both sides say first, whichever
//! transport they then take; [`outbox`] is the sending direction; [`listener`] waits for peers.

use std::io::IoSliceMut;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use crate::connection::{Connection, Stream};
use crate::endpoint::{Endpoint, Outgoing, Settings};
use crate::fabric::Fabric;
use crate::ofi;
use crate::security::Security;
use crate::source::{Block, Fault, Source};
use crate::{Error, Result};
use handshake::Greeted;
use outbox::Outbox;
use wire::Wire;

pub(crate) mod handshake;
mod listener;
mod outbox;
pub(crate) mod wire;

pub use listener::{Arrival, ArrivalCloser, Listener};

/// Bytes over TCP.
#[derive(Debug)]
struct Tcp {
    wire: Wire,
    outbox: Outbox,
}

/// Connects to `host:port` and greets.
///
/// # Errors
///
/// [`Error::Insecure`] where the address is another host's and there is no authentication, [`Error::Unreachable`],
/// [`Error::Refused`] or [`Error::Timeout`] otherwise.
pub fn connect(address: &str, settings: &Settings, security: &Security) -> Result<Arc<dyn Endpoint>> {
    settings.check()?;
    let deadline = Instant::now() + settings.connect;
    let unreachable = |source| Error::Unreachable { peer: address.to_owned(), source };
    let mut outcome = Err(unreachable(std::io::Error::other("the name has no address")));
    for candidate in address.to_socket_addrs().map_err(unreachable)? {
        security.check(candidate.ip())?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&candidate, left) {
            Ok(socket) => {
                let wire = Wire::client(socket, address, security, settings)?;
                return connected(wire, address, settings, deadline, |wire| {
                    handshake::client(wire, settings, security, deadline)
                });
            }
            Err(source) => outcome = Err(unreachable(source)),
        }
    }
    outcome
}

/// Makes a connection of a wire: greets, and then leaves the bytes to the transport that both sides have agreed on.
fn connected(
    wire: Wire,
    peer: &str,
    settings: &Settings,
    deadline: Instant,
    greet: impl FnOnce(&Wire) -> Result<Greeted, Fault>,
) -> Result<Arc<dyn Endpoint>> {
    let failed = |fault| match fault {
        Fault::Late => Error::Timeout {
            peer: peer.to_owned(),
            operation: "the handshake",
            after: settings.connect.saturating_sub(deadline.saturating_duration_since(Instant::now())),
        },
        Fault::Broken(reason) | Fault::Refused(reason) => Error::Refused { peer: peer.to_owned(), reason },
    };
    let Greeted { window, side, libfabric } = greet(&wire).map_err(failed)?;
    match &settings.fabric {
        Fabric::Libfabric { provider } if libfabric => {
            let stream = ofi::meet(wire, provider, side, settings, deadline).map_err(failed)?;
            Ok(Arc::new(Connection::new(stream, peer, settings, window)))
        }
        _ => Ok(Arc::new(Connection::new(Tcp { wire, outbox: Outbox::default() }, peer, settings, window))),
    }
}

impl Source for Tcp {
    fn receive(&self, slices: &mut [IoSliceMut<'_>], block: Block) -> Result<usize, Fault> {
        self.wire.receive(slices, block)
    }

    fn is_plain(&self) -> bool {
        self.wire.is_plain()
    }

    fn keeps_rest_readable(&self) -> bool {
        // Records of TLS that were taken from the socket are not there any more.
        self.wire.is_plain()
    }
}

impl Stream for Tcp {
    fn send(&self, batch: &[Outgoing<'_>]) -> Result<(), Fault> {
        self.outbox.send(&self.wire, batch)
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wire.socket().as_fd())
    }

    fn close_incoming(&self) {
        self.wire.close_incoming();
    }

    fn is_deaf(&self) -> bool {
        self.wire.is_deaf()
    }

    fn close_outgoing(&self, deadline: Instant) {
        self.wire.close_outgoing(deadline);
    }

    fn close(&self) {
        self.wire.close();
    }
}
