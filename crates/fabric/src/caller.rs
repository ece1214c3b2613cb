//! Asking: many requests in flight on one connection, for any number of threads.
//!
//! There is no receiving thread. Of those who wait, one *leads*: it receives for all, hands out what has come, and when its
//! own answer is there it passes the lead on. So a lone request is answered in the thread that asked, without any other
//! being woken, and under load one system call brings the answers of many.
//!
//! ```text
//!   submit:  take a slot and a credit for each ─▶ send all in one batch
//!   wait:    is it there? take it
//!            does nobody lead? lead: receive, mark the slots, wake their waiters, look again
//!            else sleep until woken: by the leader with the answer, or to lead
//! ```
//!
//! Parts: [`board`] is what all share under one lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::endpoint::{Endpoint, Event, Message, Outgoing, Wait};
use crate::region::{Region, Target};
use crate::{Error, Result};
use board::Board;

mod board;

/// One request.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The message.
    pub message: &'a [u8],
    /// Bytes that go into the peer's memory before the message.
    pub before: Option<(Target, &'a [u8])>,
    /// Our memory that the peer is to write the answer into. Kept until the answer has come, whatever becomes of the caller.
    pub region: Option<Region>,
    /// The caller's own number for it; the peer does not see it.
    pub token: u64,
}

impl<'a> Call<'a> {
    /// A message and nothing else.
    pub fn message(message: &'a [u8]) -> Self {
        Self { message, before: None, region: None, token: 0 }
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A message.
    Message(Message),
    /// So many bytes, which are in their region.
    Written(u32),
}

/// The asking side of a connection. Safe to share.
///
/// The first error of the connection is its end: all who wait get it, and so does everybody who asks later.
#[derive(Debug)]
pub struct Caller {
    endpoint: Arc<dyn Endpoint>,
    timeout: Duration,
    board: Mutex<Board>,
}

/// A request that was sent. Dropping it gives the answer up, not the request.
#[derive(Debug)]
pub struct Pending {
    caller: Arc<Caller>,
    id: u32,
    token: u64,
    deadline: Instant,
    /// The answer was taken; nothing is left to be given up.
    settled: bool,
}

impl Caller {
    /// Asks over `endpoint`. Each answer has `timeout` to come.
    pub fn new(endpoint: Arc<dyn Endpoint>, timeout: Duration) -> Arc<Self> {
        let board = Mutex::new(Board::new(endpoint.window()));
        Arc::new(Self { endpoint, timeout, board })
    }

    /// The connection.
    pub fn endpoint(&self) -> &Arc<dyn Endpoint> {
        &self.endpoint
    }

    /// True when the connection is of no further use.
    pub fn is_lost(&self) -> bool {
        self.board.lock().failed.is_some()
    }

    /// Sends one request and waits for its answer.
    pub fn call(self: &Arc<Self>, call: &Call<'_>) -> Result<Answer> {
        let mut pending = self.submit(std::slice::from_ref(call))?;
        match pending.pop() {
            Some(pending) => pending.wait(),
            None => Err(Error::Invalid { reason: "no request was sent".to_owned() }),
        }
    }

    /// Sends requests, in this order, as many at once as there are credits for. Waits for credits, not for answers.
    ///
    /// # Errors
    ///
    /// If some of them could not be sent, those that were are given up.
    pub fn submit(self: &Arc<Self>, mut calls: &[Call<'_>]) -> Result<Vec<Pending>> {
        let deadline = Instant::now() + self.timeout;
        let mut pending = Vec::with_capacity(calls.len());
        while !calls.is_empty() {
            let ids = self.until(deadline, "credits", |board| board.begin(calls))?;
            let (now, later) = calls.split_at(ids.len());
            let mut batch = Vec::with_capacity(2 * now.len());
            for (call, &id) in now.iter().zip(&ids) {
                pending.push(Pending { caller: Arc::clone(self), id, token: call.token, deadline, settled: false });
                if let Some((target, bytes)) = call.before {
                    batch.push(Outgoing::Write { id, target, bytes, completes: None });
                }
                batch.push(Outgoing::Request { id, bytes: call.message });
            }
            self.endpoint.send(&batch).inspect_err(|error| self.fail(error))?;
            calls = later;
        }
        Ok(pending)
    }

    /// Waits until at least one of them is answered and moves all that are to `done`. Returns at once if there are none. All
    /// must be this caller's own.
    pub fn wait_any(&self, pending: &mut Vec<Pending>, done: &mut Vec<(u64, Answer)>) -> Result<()> {
        let Some(deadline) = pending.iter().map(|pending| pending.deadline).min() else { return Ok(()) };
        let (before, own) = (done.len(), std::thread::current());
        self.until(deadline, "a request", |board| {
            pending.retain_mut(|pending| match board.take(pending.id) {
                Some(answer) => {
                    pending.settled = true;
                    done.push((pending.token, answer));
                    false
                }
                None => true,
            });
            if done.len() > before {
                return Some(());
            }
            for pending in &*pending {
                board.wait_for(pending.id, &own);
            }
            None
        })
    }

    /// Ends the connection. Whoever waits gets an error.
    pub fn close(&self) {
        self.endpoint.close();
        self.fail(&Error::Lost { peer: self.endpoint.peer().to_owned(), reason: "closed".to_owned(), sent: true });
    }

    /// Waits until `look` finds what it looks for; it is called under the lock. Leads if nobody else does.
    fn until<T>(
        &self,
        deadline: Instant,
        operation: &'static str,
        mut look: impl FnMut(&mut Board) -> Option<T>,
    ) -> Result<T> {
        let mut events = Vec::new();
        let mut board = self.board.lock();
        loop {
            if let Some(found) = look(&mut board) {
                Self::let_another_lead(board);
                return Ok(found);
            }
            if let Some(reason) = &board.failed {
                let reason = reason.clone();
                Self::let_another_lead(board);
                let sent = operation != "credits";
                return Err(Error::Lost { peer: self.endpoint.peer().to_owned(), reason, sent });
            }
            if board.led {
                board.sleep();
                drop(board);
                std::thread::park_timeout(deadline.saturating_duration_since(Instant::now()));
                board = self.board.lock();
                board.woken();
                if Instant::now() >= deadline {
                    return Err(self.late(board, operation));
                }
                continue;
            }
            board.led = true;
            drop(board);
            let outcome = self.endpoint.receive(&mut events, Wait::Until(deadline));
            board = self.board.lock();
            board.led = false;
            let outcome = outcome.and_then(|()| self.hand_out(&mut board, &mut events));
            match outcome {
                Ok(()) => {}
                Err(Error::Timeout { .. }) => return Err(self.late(board, operation)),
                // All hear of it, and this one in the next round.
                Err(error) => board.fail(&error),
            }
            let woken = std::mem::take(&mut board.to_wake);
            if !woken.is_empty() {
                // Not under the lock, which is the first thing that they want.
                MutexGuard::unlocked(&mut board, || woken.iter().for_each(std::thread::Thread::unpark));
            }
        }
    }

    fn hand_out(&self, board: &mut Board, events: &mut Vec<Event>) -> Result<()> {
        let own = std::thread::current().id();
        for event in events.drain(..) {
            let known = match event {
                Event::Reply { id, credits, bytes } => board.answer(id, credits, Answer::Message(bytes), own),
                Event::Written { id, credits, length } => board.answer(id, credits, Answer::Written(length), own),
                Event::Request { .. } => false,
            };
            if !known {
                self.endpoint.close();
                let reason = "an answer to a request that there is not, or a request".to_owned();
                return Err(Error::Protocol { peer: self.endpoint.peer().to_owned(), reason });
            }
        }
        Ok(())
    }

    /// A deadline has passed: the peer is as good as dead.
    fn late(&self, mut board: MutexGuard<'_, Board>, operation: &'static str) -> Error {
        let peer = self.endpoint.peer().to_owned();
        let error = Error::Timeout { peer, operation, after: self.timeout };
        board.fail(&error);
        self.endpoint.close();
        Self::let_another_lead(board);
        error
    }

    fn fail(&self, error: &Error) {
        let mut board = self.board.lock();
        board.fail(error);
        Self::let_another_lead(board);
    }

    /// Wakes one who waits if nobody leads, and all who are to be woken anyway.
    fn let_another_lead(mut board: MutexGuard<'_, Board>) {
        let next = if board.led { None } else { board.next_leader() };
        let woken = std::mem::take(&mut board.to_wake);
        drop(board);
        woken.iter().chain(&next).for_each(std::thread::Thread::unpark);
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.endpoint.close();
    }
}

impl Pending {
    /// The number that the call had.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Waits for the answer.
    pub fn wait(mut self) -> Result<Answer> {
        let (caller, id, own) = (Arc::clone(&self.caller), self.id, std::thread::current());
        let answer = caller.until(self.deadline, "a request", |board| {
            let answer = board.take(id);
            if answer.is_none() {
                board.wait_for(id, &own);
            }
            answer
        })?;
        self.settled = true;
        Ok(answer)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.settled {
            self.caller.board.lock().give_up(self.id);
        }
    }
}
