//! Work under way for one connection: what has been made and not been asked for, and who has asked and got nothing yet.
//!
//! Nobody waits in a thread of the node's: a client that asks before there is anything is noted, and answered by whoever
//! makes the next results. If that takes long it is told to ask again, so that it can tell work from a dead node.
//!
//! What waits to be asked for counts as the node's [memory](super::memory). A work that begins gets room for one piece of
//! results, or is refused; so each work goes on, however little others are asked for. More than that it has only while there
//! is room.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ishigaki_device::{Directory, Error, Result};
use ishigaki_fabric::{Endpoint, Outgoing, Target};
use parking_lot::{Condvar, Mutex};

use super::Shared;
use super::memory::{Taken, Use};
use super::service::checked_read;
use super::session::invalid;
use crate::WorkError;
use crate::protocol::{Answer, Failure};

/// Works that a connection may have at a time.
const MOST: usize = 64;

/// Bytes of results that wait for the client to ask for them, about: before it takes some, no more are made.
const AHEAD: usize = 4 << 20;

/// The longest piece of results that is kept. A work always has room for one of them.
const PIECE: usize = 1 << 20;

/// After so long without results, who has asked is told to ask again.
const PATIENCE: Duration = Duration::from_secs(1);

/// The works of one connection.
#[derive(Debug)]
pub(super) struct Works {
    works: Mutex<HashMap<u32, Arc<Work>>>,
    /// How many have asked and got nothing yet.
    asking: Arc<AtomicUsize>,
}

/// One work.
#[derive(Debug)]
struct Work {
    node: Arc<Shared>,
    endpoint: Arc<dyn Endpoint>,
    asking: Arc<AtomicUsize>,
    state: Mutex<State>,
    taken: Condvar,
}

#[derive(Debug)]
struct State {
    /// Made and not asked for.
    ready: VecDeque<Vec<u8>>,
    /// Bytes of the first one that are gone.
    begun: usize,
    bytes: usize,
    /// What they are counted by: room for a piece at least, as long as the work goes on.
    share: Taken,
    /// Who has asked: number, length, target.
    ask: Option<(u32, usize, Target, Instant)>,
    ended: Option<Result<(), Failure>>,
    stopped: bool,
}

/// The served folder, for a [`Worker`](crate::Worker).
pub struct Folder(pub(super) Arc<Shared>);

impl Folder {
    pub(crate) fn below(&self, path: &str) -> Result<Arc<dyn Directory>> {
        self.0.exported.directory(path)
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Folder")
    }
}

/// Nobody wants the results any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody wants the results any more")]
pub struct Stopped;

/// Where a [`Worker`](crate::Worker) puts results.
#[derive(Debug)]
pub struct Results {
    work: Arc<Work>,
    finished: bool,
}

impl Results {
    /// Hands bytes out, behind those before them. Blocks while the client has several mebibytes to take.
    pub fn send(&self, bytes: Vec<u8>) -> Result<(), Stopped> {
        self.send_before(bytes, None).map(drop)
    }

    /// The same, but no longer than until then; false: it was that late, and the bytes are gone.
    pub fn send_until(&self, bytes: Vec<u8>, until: Instant) -> Result<bool, Stopped> {
        self.send_before(bytes, Some(until))
    }

    fn send_before(&self, bytes: Vec<u8>, until: Option<Instant>) -> Result<bool, Stopped> {
        if bytes.len() <= PIECE {
            return self.send_piece(bytes, until);
        }
        for piece in bytes.chunks(PIECE) {
            if !self.send_piece(piece.to_vec(), until)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn send_piece(&self, bytes: Vec<u8>, until: Option<Instant>) -> Result<bool, Stopped> {
        let mut state = self.work.state.lock();
        while !state.stopped && !state.make_room(bytes.len()) {
            match until {
                None => self.work.taken.wait(&mut state),
                Some(until) if self.work.taken.wait_until(&mut state, until).timed_out() => return Ok(false),
                Some(_) => {}
            }
        }
        if state.stopped {
            return Err(Stopped);
        }
        if !bytes.is_empty() {
            state.bytes += bytes.len();
            state.ready.push_back(bytes);
            self.work.serve(&mut state);
        }
        Ok(true)
    }

    /// True when the client has gone or wants no more.
    pub fn is_stopped(&self) -> bool {
        self.work.state.lock().stopped
    }

    /// The last word: there are no more, or why there are none.
    pub fn finish(mut self, outcome: Result<(), WorkError>) {
        self.end(outcome.map_err(|error| failure(&error)));
    }

    fn end(&mut self, outcome: Result<(), Failure>) {
        self.finished = true;
        let mut state = self.work.state.lock();
        state.ended = Some(outcome);
        state.settle();
        self.work.serve(&mut state);
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        if !self.finished {
            let reason = "the work ended before its time; the node's log tells why".to_owned();
            self.end(Err(Failure::Invalid { reason }));
        }
    }
}

/// As it is told to a client.
fn failure(error: &WorkError) -> Failure {
    match error {
        WorkError::Refused { reason } => Failure::Refused { reason: reason.clone() },
        WorkError::Failed(error) => Failure::of(error),
    }
}

fn refused(reason: &str) -> Answer {
    Answer::Failed(Failure::Refused { reason: reason.to_owned() })
}

impl State {
    /// Whether so many bytes more may wait.
    fn make_room(&mut self, bytes: usize) -> bool {
        let all = self.bytes + bytes;
        // One piece has room in any case.
        self.bytes < AHEAD && (all <= PIECE || self.share.resize(all))
    }

    /// Gives back what is not needed any more.
    fn settle(&mut self) {
        let least = if self.ended.is_some() { 0 } else { PIECE };
        let _smaller = self.share.resize(self.bytes.max(least));
    }
}

impl Work {
    /// Answers who has asked, if there is anything to answer.
    fn serve(&self, state: &mut State) {
        let Some((id, length, target, _)) = state.ask else { return };
        let sent = if let Some(first) = state.ready.front() {
            let end = first.len().min(state.begun + length);
            let bytes = &first[state.begun..end];
            let sent = self.endpoint.send(&[Outgoing::Write { id, target, bytes, completes: Some(1) }]);
            self.node.bytes_of_results.fetch_add((end - state.begun) as u64, Ordering::Relaxed);
            state.bytes -= end - state.begun;
            state.begun = end;
            if end == first.len() {
                state.ready.pop_front();
                state.begun = 0;
                state.settle();
            }
            self.taken.notify_all();
            sent
        } else if let Some(ended) = &state.ended {
            let answer = ended.clone().map_or_else(Answer::Failed, |()| Answer::Ended);
            self.endpoint.send(&[Outgoing::Reply { id, credits: 1, bytes: &answer.encode() }])
        } else {
            return;
        };
        self.answered(state);
        if sent.is_err() {
            // Whoever receives on the connection finds out, too.
            state.stopped = true;
            self.taken.notify_all();
        }
    }

    fn answered(&self, state: &mut State) {
        state.ask = None;
        self.asking.fetch_sub(1, Ordering::Relaxed);
    }

    fn ask(&self, id: u32, length: usize, target: Target) -> Result<()> {
        let mut state = self.state.lock();
        if state.ask.is_some() {
            return Err(invalid("one request for the next results at a time"));
        }
        state.ask = Some((id, length, target, Instant::now()));
        self.asking.fetch_add(1, Ordering::Relaxed);
        self.serve(&mut state);
        Ok(())
    }

    /// Tells who has waited long to ask again.
    fn console(&self) {
        let mut state = self.state.lock();
        if let Some((id, .., since)) = state.ask
            && since.elapsed() >= PATIENCE
        {
            self.answered(&mut state);
            let later = Answer::Later.encode();
            if self.endpoint.send(&[Outgoing::Reply { id, credits: 1, bytes: &later }]).is_err() {
                state.stopped = true;
                self.taken.notify_all();
            }
        }
    }

    fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.ready.clear();
        (state.bytes, state.begun) = (0, 0);
        let _smaller = state.share.resize(0);
        self.taken.notify_all();
    }
}

impl Works {
    pub(super) fn new() -> Self {
        Self { works: Mutex::default(), asking: Arc::default() }
    }

    /// Has an order done; the answer has what it is called.
    pub(super) fn begin(&self, node: &Arc<Shared>, endpoint: &Arc<dyn Endpoint>, order: &[u8]) -> Answer {
        let Some(worker) = &node.worker else {
            return refused("this node does no work beside its files; fetch the pages instead");
        };
        let Some(share) = node.memory.take(Use::Results, PIECE) else {
            return refused(
                "the node's memory for results (a quarter of --memory) is taken by those that others have not asked for; fetch the \
                 pages instead",
            );
        };
        let state = State { ready: VecDeque::new(), begun: 0, bytes: 0, share, ask: None, ended: None, stopped: false };
        let work = Arc::new(Work {
            node: Arc::clone(node),
            endpoint: Arc::clone(endpoint),
            asking: Arc::clone(&self.asking),
            state: Mutex::new(state),
            taken: Condvar::new(),
        });
        let number = node.next_handle.fetch_add(1, Ordering::Relaxed);
        {
            let mut works = self.works.lock();
            if works.len() >= MOST {
                return refused("too many works at a time; take the results of some");
            }
            works.insert(number, Arc::clone(&work));
        }
        let results = Results { work, finished: false };
        match worker.take(order, Folder(Arc::clone(node)), results) {
            Ok(()) => Answer::Begun { work: number },
            Err(error) => {
                self.works.lock().remove(&number);
                Answer::Failed(failure(&error))
            }
        }
    }

    /// Answers with the next results, now or when there are any.
    pub(super) fn next(&self, work: u32, id: u32, length: u32, target: Target) -> Result<()> {
        let length = checked_read(length)?;
        if length == 0 {
            return Err(invalid("no room for results"));
        }
        self.find(work)?.ask(id, length, target)
    }

    fn find(&self, work: u32) -> Result<Arc<Work>, Error> {
        self.works.lock().get(&work).cloned().ok_or_else(|| invalid("there is no such work"))
    }

    /// Ends a work that nobody wants.
    pub(super) fn stop(&self, work: u32) {
        let work = self.works.lock().remove(&work);
        if let Some(work) = work {
            work.stop();
        }
    }

    /// Looks after those who wait; to be called from time to time.
    pub(super) fn console(&self) {
        if self.asking.load(Ordering::Relaxed) > 0 {
            let works: Vec<_> = self.works.lock().values().cloned().collect();
            for work in works {
                work.console();
            }
        }
    }

    /// The client has gone.
    pub(super) fn close(&self) {
        let works = std::mem::take(&mut *self.works.lock());
        for work in works.values() {
            work.stop();
        }
    }
}
