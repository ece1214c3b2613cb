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
//! Parts: [`wire`] moves bytes, through TLS where that is asked for; [`handshake`] is what both sides say first;
//! [`outbox`] and [`inbox`] are the two directions; [`listener`] waits for peers.

use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ishigaki_device::AlignedBuffer;

use crate::endpoint::{Endpoint, Event, Outgoing, Settings, Wait};
use crate::region::{Region, Regions};
use crate::security::Security;
use crate::{Error, Result};
use inbox::Inbox;
use outbox::Outbox;
use wire::Wire;

pub(crate) mod handshake;
pub(crate) mod inbox;
mod listener;
mod outbox;
mod wire;

pub use listener::{Arrival, Listener};

/// A connection over TCP.
#[derive(Debug)]
struct Tcp {
    peer: String,
    window: u16,
    wire: Wire,
    outbox: Outbox,
    inbox: parking_lot::Mutex<Inbox>,
    regions: Regions,
    /// How many requests the peer may still send.
    allowed: Arc<AtomicU32>,
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
                return Ok(Arc::new(Tcp::greeted(wire, address, settings, deadline, |wire| {
                    handshake::client(wire, settings, security, deadline)
                })?));
            }
            Err(source) => outcome = Err(unreachable(source)),
        }
    }
    outcome
}

impl Tcp {
    /// Makes a connection of a wire, once the greeting has told the peer's window.
    fn greeted(
        wire: Wire,
        peer: &str,
        settings: &Settings,
        deadline: Instant,
        greet: impl FnOnce(&Wire) -> Result<u16, wire::Fault>,
    ) -> Result<Self> {
        let window = greet(&wire).map_err(|fault| match fault {
            wire::Fault::Late => Error::Timeout {
                peer: peer.to_owned(),
                operation: "the handshake",
                after: settings.connect.saturating_sub(deadline.saturating_duration_since(Instant::now())),
            },
            wire::Fault::Broken(reason) | wire::Fault::Refused(reason) => {
                Error::Refused { peer: peer.to_owned(), reason }
            }
        })?;
        let regions = Regions::default();
        let allowed = Arc::new(AtomicU32::new(settings.window.into()));
        let inbox = parking_lot::Mutex::new(Inbox::new(regions.clone(), Arc::clone(&allowed)));
        Ok(Self { peer: peer.to_owned(), window, wire, outbox: Outbox::default(), inbox, regions, allowed })
    }

    fn lost(&self, reason: String) -> Error {
        // Nobody else shall wait for what can not come any more.
        self.wire.close();
        Error::Lost { peer: self.peer.clone(), reason, sent: true }
    }
}

impl Endpoint for Tcp {
    fn peer(&self) -> &str {
        &self.peer
    }

    fn window(&self) -> u16 {
        self.window
    }

    fn register(&self, memory: AlignedBuffer) -> Result<Region> {
        self.regions.register(memory)
    }

    fn send(&self, batch: &[Outgoing<'_>]) -> Result<()> {
        outbox::check(batch)?;
        // Before the peer can hear of them.
        self.allowed.fetch_add(batch.iter().map(|one| u32::from(one.credits())).sum(), Ordering::Relaxed);
        self.outbox.send(&self.wire, batch).map_err(|fault| match fault {
            wire::Fault::Late => self.lost("the peer takes nothing any more".to_owned()),
            wire::Fault::Broken(reason) | wire::Fault::Refused(reason) => self.lost(reason),
        })
    }

    fn receive(&self, events: &mut Vec<Event>, wait: Wait) -> Result<()> {
        let begin = Instant::now();
        self.inbox.lock().receive(&self.wire, events, wait).map_err(|fault| match fault {
            wire::Fault::Late => {
                Error::Timeout { peer: self.peer.clone(), operation: "a message", after: begin.elapsed() }
            }
            // Answers may still be sent.
            wire::Fault::Broken(reason) if self.wire.is_deaf() => {
                Error::Lost { peer: self.peer.clone(), reason, sent: true }
            }
            wire::Fault::Broken(reason) => self.lost(reason),
            wire::Fault::Refused(reason) => {
                self.wire.close();
                Error::Protocol { peer: self.peer.clone(), reason }
            }
        })
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wire.socket().as_fd())
    }

    fn close_incoming(&self) {
        self.wire.close_incoming();
    }

    fn close_outgoing(&self, patience: Duration) {
        self.wire.close_outgoing(Instant::now() + patience);
    }

    fn close(&self) {
        self.wire.close();
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.wire.close();
    }
}
