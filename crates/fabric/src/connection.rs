//! One end of a connection over any stream of bytes: frames out, events in.
//!
//! The two transports differ in how bytes get to the peer, which is what a [`Stream`] does. All else is here and in the
//! [`inbox`](crate::inbox): what is accepted, which errors end a connection, who is told.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ishigaki_device::AlignedBuffer;

use crate::endpoint::{Endpoint, Event, Outgoing, Settings, Wait};
use crate::inbox::Inbox;
use crate::region::{Region, Regions};
use crate::source::{Fault, Source};
use crate::{Error, Result};

/// Bytes in both directions.
pub(crate) trait Stream: Source + Send + Sync + Debug {
    /// Sends a batch whole and in order. After an error the stream is of no use.
    fn send(&self, batch: &[Outgoing<'_>]) -> Result<(), Fault>;

    /// A descriptor to poll, as [`Endpoint::readable`] has it.
    fn readable(&self) -> Option<BorrowedFd<'_>>;

    /// From now on nothing is received; whoever waits for it finds out soon.
    fn close_incoming(&self);

    /// Whether that was said.
    fn is_deaf(&self) -> bool;

    /// Ends the outgoing direction, and throws away what comes until the peer has ended the other one.
    fn close_outgoing(&self, deadline: Instant);

    /// Ends both directions.
    fn close(&self);
}

/// One end.
#[derive(Debug)]
pub(crate) struct Connection<S: Stream> {
    peer: String,
    window: u16,
    stream: S,
    inbox: parking_lot::Mutex<Inbox>,
    regions: Regions,
    /// How many requests the peer may still send.
    allowed: Arc<AtomicU32>,
}

impl<S: Stream> Connection<S> {
    /// To a peer that takes `window` requests at a time.
    pub(crate) fn new(stream: S, peer: &str, settings: &Settings, window: u16) -> Self {
        let regions = Regions::default();
        let allowed = Arc::new(AtomicU32::new(settings.window.into()));
        let inbox = parking_lot::Mutex::new(Inbox::new(regions.clone(), Arc::clone(&allowed)));
        Self { peer: peer.to_owned(), window, stream, inbox, regions, allowed }
    }

    fn lost(&self, reason: String) -> Error {
        // Nobody else shall wait for what can not come any more.
        self.stream.close();
        Error::Lost { peer: self.peer.clone(), reason, sent: true }
    }
}

impl<S: Stream> Endpoint for Connection<S> {
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
        Outgoing::check(batch)?;
        // Before the peer can hear of them.
        self.allowed.fetch_add(batch.iter().map(|one| u32::from(one.credits())).sum(), Ordering::Relaxed);
        self.stream.send(batch).map_err(|fault| match fault {
            Fault::Late => self.lost("the peer takes nothing any more".to_owned()),
            Fault::Broken(reason) | Fault::Refused(reason) => self.lost(reason),
        })
    }

    fn receive(&self, events: &mut Vec<Event>, wait: Wait) -> Result<()> {
        let begin = Instant::now();
        self.inbox.lock().receive(&self.stream, events, wait).map_err(|fault| match fault {
            Fault::Late => Error::Timeout { peer: self.peer.clone(), operation: "a message", after: begin.elapsed() },
            // Answers may still be sent.
            Fault::Broken(reason) if self.stream.is_deaf() => {
                Error::Lost { peer: self.peer.clone(), reason, sent: true }
            }
            Fault::Broken(reason) => self.lost(reason),
            Fault::Refused(reason) => {
                self.stream.close();
                Error::Protocol { peer: self.peer.clone(), reason }
            }
        })
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.stream.readable()
    }

    fn close_incoming(&self) {
        self.stream.close_incoming();
    }

    fn close_outgoing(&self, patience: Duration) {
        self.stream.close_outgoing(Instant::now() + patience);
    }

    fn close(&self) {
        self.stream.close();
    }
}

impl<S: Stream> Drop for Connection<S> {
    fn drop(&mut self) {
        self.stream.close();
    }
}
