//! The seam between transports and all that stands on them: one end of a connection.
//!
//! An endpoint knows three things that can be sent: a request, the reply to a request, and bytes for a [`Region`] of the
//! peer's, which may be the reply themselves. It sends batches in order and hands out what has come in. Who waits for which
//! reply is the business of [`Caller`](crate::Caller); how a request is served, that of a server.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use ishigaki_device::AlignedBuffer;
use smallvec::SmallVec;

use crate::fabric::Fabric;
use crate::frame::{Head, Kind, MAX_MESSAGE, MAX_WRITE};
use crate::region::{Region, Target};
use crate::{Error, Result};

/// A message's bytes. Short ones need no memory of their own.
pub type Message = SmallVec<[u8; 64]>;

/// One thing to be sent.
#[derive(Clone, Copy, Debug)]
pub enum Outgoing<'a> {
    /// A message that wants one answer under the number that it has. Costs a credit.
    Request {
        /// The number, chosen by the sender.
        id: u32,
        /// At most [`MAX_MESSAGE`] bytes.
        bytes: &'a [u8],
    },
    /// A message that answers.
    Reply {
        /// The request's number.
        id: u32,
        /// How many more requests the peer may send: usually the one that this answers.
        credits: u16,
        /// At most [`MAX_MESSAGE`] bytes.
        bytes: &'a [u8],
    },
    /// Bytes for the peer's memory.
    Write {
        /// The number of the request that this belongs to.
        id: u32,
        /// Where they go.
        target: Target,
        /// At most [`MAX_WRITE`] bytes.
        bytes: &'a [u8],
        /// The bytes are the answer: how many more requests the peer may send. Otherwise the peer does not hear of them.
        completes: Option<u16>,
    },
}

impl<'a> Outgoing<'a> {
    /// Refuses what no peer would take.
    pub(crate) fn check(batch: &[Self]) -> Result<()> {
        for one in batch {
            let most = if let Self::Write { .. } = one { MAX_WRITE } else { MAX_MESSAGE };
            if one.bytes().len() > most {
                let reason = format!("a message of {} bytes; {most} are the most", one.bytes().len());
                return Err(Error::Invalid { reason });
            }
        }
        Ok(())
    }

    /// What its frame begins with.
    pub(crate) fn head(&self) -> Head {
        let length = self.bytes().len() as u32;
        match *self {
            Self::Request { id, .. } => Head { kind: Kind::Request, id, credits: 0, length },
            Self::Reply { id, credits, .. } => Head { kind: Kind::Reply, id, credits, length },
            Self::Write { id, target, completes, .. } => {
                let kind = Kind::Write { target, completes: completes.is_some() };
                Head { kind, id, credits: completes.unwrap_or(0), length }
            }
        }
    }

    /// What follows.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Request { bytes, .. } | Self::Reply { bytes, .. } | Self::Write { bytes, .. } => bytes,
        }
    }

    /// How many more requests the peer may send after it.
    pub(crate) fn credits(&self) -> u16 {
        match self {
            Self::Request { .. } => 0,
            Self::Reply { credits, .. } => *credits,
            Self::Write { completes, .. } => completes.unwrap_or(0),
        }
    }
}

/// One thing that came in. What the sender sent first comes first; bytes for a region are in their place before what was
/// sent after them is handed out.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer asks.
    Request {
        /// The number that the answer must have.
        id: u32,
        /// What it asks.
        bytes: Message,
    },
    /// The peer answers.
    Reply {
        /// The number of the request.
        id: u32,
        /// How many more requests may be sent.
        credits: u16,
        /// The answer.
        bytes: Message,
    },
    /// The peer has answered by bytes that are in their region now.
    Written {
        /// The number of the request.
        id: u32,
        /// How many more requests may be sent.
        credits: u16,
        /// How many bytes.
        length: u32,
    },
}

/// One end of a connection. Safe to share: any number of threads may send; one at a time receives.
///
/// Dropping it closes the connection. After an error of [`send`](Self::send) or [`receive`](Self::receive) other than
/// [`Error::Timeout`] of the latter, the connection is of no further use.
pub trait Endpoint: Send + Sync + Debug {
    /// The peer, for messages.
    fn peer(&self) -> &str;

    /// How many requests the peer takes before it has answered one.
    fn window(&self) -> u16;

    /// Makes memory of ours a place that the peer can write into.
    fn register(&self, memory: AlignedBuffer) -> Result<Region>;

    /// Sends everything in this order, in as few steps as the transport can. Returns when all of it is on its way and none
    /// of the bytes is needed any more; the peer need not have taken it. Fails when the peer takes nothing for as long as
    /// [`Settings::stall`].
    fn send(&self, batch: &[Outgoing<'_>]) -> Result<()>;

    /// Waits until something has come in and appends all that has. `wait`: not at all ([`Wait::No`]), or until a deadline
    /// at the latest, and then it fails with [`Error::Timeout`]. Nothing is lost by that.
    fn receive(&self, events: &mut Vec<Event>, wait: Wait) -> Result<()>;

    /// A descriptor that can be polled for reading, if the transport has one (libfabric's shm has not): when it is not readable, [`receive`](Self::receive) that has found
    /// nothing would find nothing still.
    fn readable(&self) -> Option<BorrowedFd<'_>>;

    /// Takes no more from the peer: whoever waits for something to come in gets an error soon. Answers can still be sent.
    fn close_incoming(&self);

    /// Tells the peer, behind all that was sent, that nothing more comes, and lets it come to its end: until it has closed or
    /// `patience` is over, what it still sends is taken and not looked at. Otherwise it could lose what we have sent, for
    /// want of a connection to send to. Nobody may be receiving.
    fn close_outgoing(&self, patience: Duration);

    /// Ends the connection; whoever waits gets an error. May be called at any time and more than once.
    fn close(&self);
}

/// How long to wait for the peer.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// Only what is there already.
    No,
    /// Until then.
    Until(Instant),
}

/// How a connection is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// To connect, with handshake.
    pub connect: Duration,
    /// A peer that takes none of our bytes for this long is given up.
    pub stall: Duration,
    /// How many requests of the peer's may be unanswered.
    pub window: u16,
    /// What carries the bytes. Who listens takes peers over TCP in any case, and over this if they ask for it.
    pub fabric: Fabric,
}

impl Default for Settings {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), stall: Duration::from_secs(10), window: 128, fabric: Fabric::Tcp }
    }
}

impl Settings {
    /// Refuses what could never work.
    pub(crate) fn check(&self) -> Result<()> {
        if self.window == 0 || self.connect.is_zero() || self.stall.is_zero() {
            let reason = "a window of no requests, or no time to connect or to send".to_owned();
            return Err(Error::Invalid { reason });
        }
        Ok(())
    }
}
