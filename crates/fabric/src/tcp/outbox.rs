//! Sending: many small requests in one system call, large ones without copying.
//!
//! Callers that send little queue it; whoever finds the socket free sends what all of them have queued. So while one system
//! call lasts, the next one's bytes gather.

use std::io::IoSlice;

use parking_lot::Mutex;

use super::wire::Wire;
use crate::endpoint::Outgoing;
use crate::frame::{HEADER, TARGET};
use crate::source::Fault;

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

impl Outbox {
    /// Sends a batch whole and in order. After an error the connection is of no use.
    pub(super) fn send(&self, wire: &Wire, batch: &[Outgoing<'_>]) -> Result<(), Fault> {
        let size: usize = batch.iter().map(|one| HEADER + TARGET + one.bytes().len()).sum();
        if size > SMALL {
            return self.send_now(wire, batch);
        }
        {
            let mut queue = self.queue.lock();
            for one in batch {
                one.head().encode(&mut queue);
                queue.extend_from_slice(one.bytes());
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
            one.head().encode(heads);
            ends.push(heads.len());
        }
        let mut slices = Vec::with_capacity(2 * batch.len() + 1);
        slices.push(IoSlice::new(queued));
        let mut begin = 0;
        for (one, end) in batch.iter().zip(ends) {
            slices.push(IoSlice::new(&heads[begin..end]));
            slices.push(IoSlice::new(one.bytes()));
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
