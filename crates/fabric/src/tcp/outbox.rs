//! Sending: many small requests in one system call, large ones without copying.
//!
//! Callers that send little queue it; whoever finds the socket free sends what all of them have queued. So while one system
//! call lasts, the next one's bytes gather.

use std::io::IoSlice;

use parking_lot::Mutex;

use super::wire::{Fault, Wire};
use crate::endpoint::Outgoing;
use crate::frame::{HEADER, Head, Kind, MAX_MESSAGE, MAX_WRITE, TARGET};
use crate::{Error, Result};

/// Batches up to this many bytes are copied into the queue.
const SMALL: usize = 2048;

/// The sending direction.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Encoded frames that nobody has sent yet.
    queue: Mutex<Vec<u8>>,
    /// Held by who sends. Within are two buffers that keep their memory.
    sending: Mutex<Scratch>,
}

#[derive(Debug, Default)]
struct Scratch {
    queued: Vec<u8>,
    heads: Vec<u8>,
}

/// Refuses what no peer would take.
pub(super) fn check(batch: &[Outgoing<'_>]) -> Result<()> {
    for one in batch {
        let (bytes, most) = match one {
            Outgoing::Request { bytes, .. } | Outgoing::Reply { bytes, .. } => (bytes, MAX_MESSAGE),
            Outgoing::Write { bytes, .. } => (bytes, MAX_WRITE),
        };
        if bytes.len() > most {
            let reason = format!("a message of {} bytes; {most} are the most", bytes.len());
            return Err(Error::Invalid { reason });
        }
    }
    Ok(())
}

impl Outbox {
    /// Sends a batch whole and in order. After an error the connection is of no use.
    pub(super) fn send(&self, wire: &Wire, batch: &[Outgoing<'_>]) -> Result<(), Fault> {
        let size: usize = batch.iter().map(|one| HEADER + TARGET + bytes_of(one).len()).sum();
        if size > SMALL {
            return self.send_now(wire, batch);
        }
        {
            let mut queue = self.queue.lock();
            for one in batch {
                head_of(one).encode(&mut queue);
                queue.extend_from_slice(bytes_of(one));
            }
        }
        // Who holds the socket may have looked into the queue for the last time; so look again after it was let go.
        while !self.queue.lock().is_empty() {
            let Some(mut scratch) = self.sending.try_lock() else { break };
            self.send_queued(wire, &mut scratch)?;
        }
        Ok(())
    }

    fn send_queued(&self, wire: &Wire, scratch: &mut Scratch) -> Result<(), Fault> {
        scratch.queued.clear();
        std::mem::swap(&mut *self.queue.lock(), &mut scratch.queued);
        if scratch.queued.is_empty() { Ok(()) } else { wire.send(&mut [IoSlice::new(&scratch.queued)]) }
    }

    /// Sends the callers' own bytes, behind what is queued.
    fn send_now(&self, wire: &Wire, batch: &[Outgoing<'_>]) -> Result<(), Fault> {
        let mut scratch = self.sending.lock();
        let Scratch { queued, heads } = &mut *scratch;
        queued.clear();
        std::mem::swap(&mut *self.queue.lock(), queued);
        heads.clear();
        let mut ends = Vec::with_capacity(batch.len());
        for one in batch {
            head_of(one).encode(heads);
            ends.push(heads.len());
        }
        let mut slices = Vec::with_capacity(2 * batch.len() + 1);
        slices.push(IoSlice::new(queued));
        let mut begin = 0;
        for (one, end) in batch.iter().zip(ends) {
            slices.push(IoSlice::new(&heads[begin..end]));
            slices.push(IoSlice::new(bytes_of(one)));
            begin = end;
        }
        wire.send(&mut slices)?;
        drop(slices);
        // Meanwhile others may have queued and found the socket taken.
        drop(scratch);
        while !self.queue.lock().is_empty() {
            let Some(mut scratch) = self.sending.try_lock() else { break };
            self.send_queued(wire, &mut scratch)?;
        }
        Ok(())
    }
}

fn head_of(one: &Outgoing<'_>) -> Head {
    let length = bytes_of(one).len() as u32;
    match *one {
        Outgoing::Request { id, .. } => Head { kind: Kind::Request, id, credits: 0, length },
        Outgoing::Reply { id, credits, .. } => Head { kind: Kind::Reply, id, credits, length },
        Outgoing::Write { id, target, completes, .. } => {
            let kind = Kind::Write { target, completes: completes.is_some() };
            Head { kind, id, credits: completes.unwrap_or(0), length }
        }
    }
}

fn bytes_of<'a>(one: &Outgoing<'a>) -> &'a [u8] {
    match one {
        Outgoing::Request { bytes, .. } | Outgoing::Reply { bytes, .. } | Outgoing::Write { bytes, .. } => bytes,
    }
}
