//! Many reads at once by `io_uring`, in the thread that receives: no other thread is woken for a read.
//!
//! The thread waits in the kernel for two things at once, requests and reads that have landed; what has landed together is
//! sent together. Requests that may block (writes, syncs, names) go to a pool. While few reads are under way, and waiting is
//! short, the thread looks again and again rather than sleep, as it does for requests (see [`Patience`]). Where it may not do that, a
//! read that comes alone, while nothing is under way, is done at once if reads are quick: there is nothing to do side by side,
//! and who asks meanwhile waits no longer than for a wake-up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ishigaki_device::{Landed, Reads};
use ishigaki_fabric::{Outgoing, Patience, Spin, Target, Wait};

use super::memory::{Buffer, Taken};
use super::pool::{self, Pool};
use super::service::checked_read;
use super::session::{Done, Session};
use crate::Result;
use crate::protocol::{Answer, Failure, Request};

/// How often an idle connection looks whether the node stops.
const LOOK: Duration = Duration::from_secs(1);

/// With so many reads in flight, two are waited for.
const MANY: usize = 32;

/// After so many reads that were begun it is looked for others that have landed.
const STEP: usize = 4;

/// For so long at most.
const GATHER: Duration = Duration::from_micros(100);

/// Where reads take longer, the ring does lone ones, too.
const QUICK: Duration = Duration::from_micros(250);

/// So many of them, before it is tried again.
const REST: u32 = 256;

/// What is kept with a read.
struct Asked {
    id: u32,
    length: usize,
    target: Target,
    /// What its buffer is counted by.
    share: Taken,
}

/// Serves a connection until it ends.
pub(super) fn serve(session: &Arc<Session>) -> Result<()> {
    let reads = session.endpoint.readable().and_then(|descriptor| {
        let mut reads = Reads::new(u32::from(session.node.settings.fabric.window)).ok()?;
        reads.watch(descriptor).ok()?;
        Some(reads)
    });
    let Some(reads) = reads else {
        tracing::warn!(
            "no io_uring here, or a transport that can not be polled; this connection is served by a pool of threads"
        );
        return pool::serve(session);
    };
    let (pool, later, blanks) = (Pool::new(session), VecDeque::new(), Vec::new());
    let (lone, patience) = (Lone::default(), Patience::default());
    Ring { session, reads, pool, bytes: 0, later, blanks, lone, patience, spin: None }.serve()
}

struct Ring<'a> {
    session: &'a Arc<Session>,
    reads: Reads<Asked>,
    pool: Pool,
    /// Bytes that are being read.
    bytes: usize,
    /// Reads that have to wait until fewer bytes are.
    later: VecDeque<(u32, ishigaki_fabric::Message)>,
    /// Zeros that were asked for; they have nothing to wait for, and are sent together as reads are.
    blanks: Vec<Landed<Asked>>,
    lone: Lone,
    /// With reads that land.
    patience: Patience,
    /// How to wait for the read that is about to begin.
    spin: Option<Spin>,
}

/// How quick reads are that came alone.
#[derive(Debug, Default)]
struct Lone {
    /// What they took lately.
    took: Duration,
    /// So many more go to the ring.
    rest: u32,
}

impl Lone {
    /// Whether the next one is to be done at once.
    fn may(&mut self) -> bool {
        let may = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        may
    }

    fn learn(&mut self, took: Duration) {
        // An eighth of the way towards the new one, which a single slow read must not outweigh.
        self.took = (self.took * 7 + took.min(QUICK * 4)) / 8;
        if self.took > QUICK {
            *self = Self { took: Duration::ZERO, rest: REST };
        }
    }
}

impl Ring<'_> {
    fn serve(mut self) -> Result<()> {
        let outcome = self.serve_all();
        if self.session.node.stopping.load(Ordering::SeqCst) {
            self.finish()?;
        }
        outcome
    }

    /// Answers the reads that are under way, and begins no others but those that had to wait.
    fn finish(&mut self) -> Result<()> {
        let mut landed = Vec::new();
        while self.reads.in_flight() > 0 {
            self.reads.wait(&mut landed, Some(LOOK))?;
            self.answer(&mut landed)?;
        }
        Ok(())
    }

    fn serve_all(&mut self) -> Result<()> {
        let (mut events, mut requests, mut landed) = (Vec::new(), Vec::new(), Vec::new());
        let mut readable = true;
        while !self.session.is_over() {
            if self.reads.in_flight() == 0 {
                // Nothing else can come. This way of waiting spins where that pays.
                self.session.receive(&mut requests)?;
            } else if readable {
                self.session.endpoint.receive(&mut events, Wait::No)?;
                self.session.requests(&mut events, &mut requests)?;
            }
            let mut found = false;
            if let [(id, message)] = &requests[..]
                && self.reads.in_flight() == 0
                && self.did_at_once(*id, message)?
            {
                requests.clear();
            }
            for (number, (id, message)) in requests.drain(..).enumerate() {
                if self.begin(id, message)? {
                    return Ok(());
                }
                // Each costs the kernel some microseconds, which is no time for what has landed to lie about.
                if number % STEP == STEP - 1 && self.reads.in_flight() > 0 {
                    found |= self.reads.look(&mut landed)?;
                    self.answer(&mut landed)?;
                }
            }
            self.send_blanks()?;
            if self.reads.in_flight() == 0 {
                // What was to be waited for was refused. Others may want to spin.
                self.spin = None;
            } else {
                readable = self.wait(&mut landed)? | found;
                self.answer(&mut landed)?;
                if !readable {
                    // Nothing is received, which would see to it.
                    self.session.works.console();
                }
            }
        }
        Ok(())
    }

    /// Waits for reads that land. Of many, for two at once: each time that this thread wakes, asks the device and sends costs
    /// as much for one as for several, and where so many are in flight nobody waits for a certain one. For more of them the
    /// device would be left with too little to do.
    fn wait(&mut self, landed: &mut Vec<Landed<Asked>>) -> Result<bool> {
        if self.reads.in_flight() >= MANY {
            return Ok(self.reads.wait_for(2, landed, Some(GATHER))?);
        }
        let (begin, mut readable) = (Instant::now(), false);
        if let Some(mut spin) = self.spin.take().or_else(|| self.patience.spin(begin)) {
            loop {
                readable = self.reads.look(landed)?;
                if readable || !landed.is_empty() || !spin.again() {
                    break;
                }
            }
            self.patience.spun(&spin);
        }
        if !readable && landed.is_empty() {
            readable = self.reads.wait(landed, Some(LOOK))?;
        }
        self.patience.learn(begin.elapsed());
        Ok(readable)
    }

    /// Does a request that came alone, if it is a read, reads are quick, and one that lands later is not looked for.
    fn did_at_once(&mut self, id: u32, message: &ishigaki_fabric::Message) -> Result<bool> {
        let Some(read @ Request::Read { .. }) = Request::decode(message) else { return Ok(false) };
        if !self.lone.may() {
            return Ok(false);
        }
        let begin = Instant::now();
        self.spin = self.patience.spin(begin);
        if self.spin.is_some() {
            return Ok(false);
        }
        let done = self.session.execute(id, &read);
        self.lone.learn(begin.elapsed());
        self.session.reply(id, done)?;
        Ok(true)
    }

    /// Begins a request; true: the connection is a watch now.
    fn begin(&mut self, id: u32, message: ishigaki_fabric::Message) -> Result<bool> {
        let Some(request) = Request::decode(&message) else {
            return Err(self.session.nonsense("a request that there is not"));
        };
        match request {
            Request::Read { handle, offset, length, target } => match self.read(id, handle, offset, length, target) {
                Ok(true) => {}
                Ok(false) => self.later.push_back((id, message)),
                Err(error) => self.session.reply(id, Done::Said(Answer::Failed(Failure::of(&error))))?,
            },
            Request::Blank { .. } => {
                if self.bytes > 0 && !self.has_room_for(crate::protocol::MAX_READ) {
                    // It may be our own zeros that the next ones would wait for.
                    self.send_blanks()?;
                }
                match self.session.execute(id, &request) {
                    Done::Read { buffer: Buffer { bytes: buffer, share }, length, target } => {
                        self.bytes += length;
                        self.blanks.push(Landed {
                            token: Asked { id, length, target, share },
                            buffer,
                            outcome: Ok(()),
                        });
                    }
                    refused @ (Done::Said(_) | Done::Noted) => self.session.reply(id, refused)?,
                }
            }
            Request::Hello
            | Request::Load
            | Request::Renew { .. }
            | Request::Close { .. }
            | Request::Next { .. }
            | Request::Stop { .. } => {
                let done = self.session.execute(id, &request);
                self.session.reply(id, done)?;
            }
            Request::Watch => return self.session.take_watch(id, &message),
            _ => self.pool.give(id, message),
        }
        Ok(false)
    }

    /// Whether the connection, and the node, have room for so many bytes more.
    fn has_room_for(&self, length: usize) -> bool {
        let node = &self.session.node;
        self.bytes + length <= node.settings.connection_memory.0 as usize && node.memory.has_room_for(length)
    }

    /// Begins a read. False: there is no room for it before others have landed.
    fn read(
        &mut self,
        id: u32,
        handle: u32,
        offset: u64,
        length: u32,
        target: Target,
    ) -> Result<bool, ishigaki_device::Error> {
        let length = checked_read(length)?;
        // A read that waits for others of this connection must not keep their answers from being sent.
        let buffer = if self.bytes == 0 {
            Some(self.session.buffer(length)?)
        } else if self.bytes + length <= self.session.node.settings.connection_memory.0 as usize {
            self.session.node.memory.buffer(length)
        } else {
            None
        };
        let Some(Buffer { bytes: mut buffer, share }) = buffer else { return Ok(false) };
        let file = self.session.file_to_read(handle, offset, length as u32)?;
        let asked = Asked { id, length, target, share };
        let Some(device) = &file.file else {
            file.device.read_at(offset, &mut buffer[..length])?;
            // As if it had just landed.
            self.bytes += length;
            let landed = Landed { token: asked, buffer, outcome: Ok(()) };
            self.answer(&mut vec![landed]).map_err(|error| error.of_device("", "read"))?;
            return Ok(true);
        };
        self.reads.begin(device, offset, buffer, length, asked)?;
        self.bytes += length;
        Ok(true)
    }

    /// Sends what has landed.
    fn answer(&mut self, landed: &mut Vec<Landed<Asked>>) -> Result<()> {
        let bytes: usize = landed.iter().map(|read| read.token.length).sum();
        self.session.node.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
        self.send(landed)
    }

    fn send_blanks(&mut self) -> Result<()> {
        let mut blanks = std::mem::take(&mut self.blanks);
        self.send(&mut blanks)
    }

    /// Sends all of it in one batch, takes the memory back, and begins what had to wait for that.
    fn send(&mut self, landed: &mut Vec<Landed<Asked>>) -> Result<()> {
        if landed.is_empty() {
            return Ok(());
        }
        let mut failures = Vec::new();
        for read in &*landed {
            if let Err(error) = &read.outcome {
                failures.push((read.token.id, Answer::Failed(Failure::of(error)).encode()));
            }
        }
        let good = landed.iter().filter(|read| read.outcome.is_ok()).map(|read| {
            let Asked { id, length, target, .. } = read.token;
            Outgoing::Write { id, target, bytes: &read.buffer[..length], completes: Some(1) }
        });
        let bad = failures.iter().map(|(id, bytes)| Outgoing::Reply { id: *id, credits: 1, bytes });
        let batch: Vec<_> = good.chain(bad).collect();
        self.session.endpoint.send(&batch)?;
        drop(batch);
        let mut bytes = 0;
        for Landed { token, buffer, .. } in landed.drain(..) {
            bytes += token.length;
            self.session.node.memory.put(Buffer { bytes: buffer, share: token.share });
        }
        self.bytes -= bytes;
        for (id, message) in std::mem::take(&mut self.later) {
            self.begin(id, message)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_reads_are_done_at_once_unless_they_are_slow() {
        let mut lone = Lone::default();
        for _ in 0..1000 {
            assert!(lone.may());
            lone.learn(Duration::from_micros(100));
        }
        lone.learn(Duration::from_secs(1));
        assert!(lone.may(), "one that was slow says little");
        (0..8).for_each(|_| lone.learn(Duration::from_millis(5)));
        assert_eq!((0..10_000).take_while(|_| !lone.may()).count(), REST as usize);
        lone.learn(Duration::from_micros(100));
        assert!(lone.may());
    }
}
