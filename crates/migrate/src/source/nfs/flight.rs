//! Calls of one caller that are under way, over all connections.
//!
//! The caller [sends](Flight::send) as many as it likes to have under way and takes the answers in the order in which they [come](Flight::next).
//! A call whose connection is lost is sent again over another one: everything that a source asks may be asked twice. A call that the server wants to
//! be asked again later (`NFS3ERR_JUKEBOX`) is, after a pause. Only what is not answered for the whole of the patience becomes an error.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::{Letter, Mailbox};
use super::pool::Pool;
use super::protocol::JUKEBOX;
use super::rpc::{self, Call, Refusal};
use super::xdr::{Malformed, Reader};
use crate::source::multiplex::{Lost, RETRY};
use crate::source::{Cancel, Error, ErrorKind, Result};

/// After so long a waiting caller looks at its [`Cancel`].
const TICK: Duration = Duration::from_millis(50);
/// Until a call is asked again whose file the server has to fetch: at first, and at most.
const JUKEBOX_PAUSE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// How often one call may lose its connection because the server breaks the protocol.
const BROKEN: u8 = 3;

/// An answer of a server that carried out the call.
#[derive(Debug)]
pub(super) struct Answer {
    record: Vec<u8>,
    /// Where the results begin.
    results: usize,
}

impl Answer {
    pub(super) fn results(&self) -> Reader<'_> {
        Reader::new(&self.record[self.results..])
    }
}

/// How a call ended without results.
#[derive(Debug)]
pub(super) struct Failure {
    /// How the server refuses to carry it out, if it does.
    pub(super) refusal: Option<Refusal>,
    /// What is wrong, but not on what.
    pub(super) error: Error,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { refusal: None, error }
    }
}

struct UnderWay {
    call: Call,
    since: Instant,
    pause: Duration,
    broken: u8,
    /// Why it has no answer yet.
    trouble: Option<Arc<str>>,
}

/// *Threads*: one. *Drop* leaves the calls alone; their answers go nowhere.
pub(super) struct Flight<'a> {
    pool: &'a Pool,
    cancel: &'a Cancel,
    mailbox: Arc<Mailbox>,
    calls: HashMap<u64, UnderWay>,
    unsent: VecDeque<u64>,
    later: Vec<(Instant, u64)>,
    next: u64,
    /// When an answer came last, less the time since then in which the caller did other things.
    quiet_since: Instant,
    /// When the caller went to do other things.
    left: Instant,
}

impl<'a> Flight<'a> {
    pub(super) fn new(pool: &'a Pool, cancel: &'a Cancel) -> Self {
        let now = Instant::now();
        Self {
            quiet_since: now,
            left: now,
            pool,
            cancel,
            mailbox: Arc::default(),
            calls: HashMap::new(),
            unsent: VecDeque::new(),
            later: Vec::new(),
            next: 0,
        }
    }

    /// One call and its answer.
    pub(super) fn call(pool: &'a Pool, cancel: &'a Cancel, call: Call) -> Result<Answer, Failure> {
        let mut flight = Self::new(pool, cancel);
        flight.send(call);
        flight.next()?.1
    }

    /// Calls that are not answered.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Puts a call under way; its ticket, which counts from 0. It goes out when the next answer is asked for, together with others.
    pub(super) fn send(&mut self, call: Call) -> u64 {
        let ticket = self.next;
        self.next += 1;
        let under_way = UnderWay { call, since: Instant::now(), pause: JUKEBOX_PAUSE[0], broken: 0, trouble: None };
        self.calls.insert(ticket, under_way);
        self.unsent.push_back(ticket);
        ticket
    }

    /// Sends what is waiting to be sent, as far as there is room.
    pub(super) fn flush(&mut self) {
        while !self.unsent.is_empty() {
            let Some(connection) = self.pool.pick(self.cancel) else { return };
            let calls = &self.calls;
            let waiting = self.unsent.iter().filter_map(|ticket| Some((*ticket, &calls.get(ticket)?.call)));
            // Spread over the connections rather than behind one another.
            let share = self.unsent.len().div_ceil(2).max(8);
            let sent = connection.send(waiting.take(share), &self.pool.dial.credentials, &self.mailbox);
            self.unsent.drain(..sent.min(self.unsent.len()));
        }
    }

    /// The next answer, with the ticket of its call.
    ///
    /// # Errors
    ///
    /// The outer one if the caller has enough; the inner one is the call's.
    pub(super) fn next(&mut self) -> Result<(u64, Result<Answer, Failure>)> {
        self.quiet_since += self.left.elapsed();
        let next = self.wait_for_next();
        self.left = Instant::now();
        next
    }

    fn wait_for_next(&mut self) -> Result<(u64, Result<Answer, Failure>)> {
        loop {
            if self.cancel.is_cancelled() {
                return Err(Error::cancelled());
            }
            let now = Instant::now();
            let due = self.later.extract_if(.., |(when, _)| *when <= now).map(|(_, ticket)| ticket);
            self.unsent.extend(due);
            self.flush();
            let letter = match self.mailbox.take(Duration::ZERO) {
                None => self.wait(),
                some => some,
            };
            if let Some((ticket, letter)) = letter {
                if let Some(answer) = self.opened(ticket, letter) {
                    self.calls.remove(&ticket);
                    self.quiet_since = Instant::now();
                    return Ok((ticket, answer));
                }
            } else if let Some(expired) = self.expired() {
                return Ok(expired);
            }
        }
    }

    fn wait(&self) -> Option<Letter> {
        if self.unsent.len() + self.later.len() == self.calls.len() && !self.unsent.is_empty() {
            self.pool.room.wait(RETRY);
            return None;
        }
        let tick = if self.unsent.is_empty() { TICK } else { RETRY };
        let due = self.later.iter().map(|(when, _)| when.saturating_duration_since(Instant::now())).min();
        self.mailbox.take(due.map_or(tick, |due| due.clamp(Duration::from_millis(1), tick)))
    }

    /// What the call's end is, unless it goes on.
    fn opened(&mut self, ticket: u64, letter: Result<Vec<u8>, Lost>) -> Option<Result<Answer, Failure>> {
        let under_way = self.calls.get_mut(&ticket)?;
        let record = match letter {
            Ok(record) => record,
            Err(lost) => {
                under_way.broken += u8::from(lost.broken);
                if under_way.broken >= BROKEN {
                    return Some(Err(Error::new(ErrorKind::Broken, &*lost.reason).into()));
                }
                under_way.trouble = Some(lost.reason);
                self.unsent.push_back(ticket);
                return None;
            }
        };
        let tells_status = under_way.call.program.tells_status;
        match answer(record, tells_status) {
            Ok(Ok(Some(answer))) => Some(Ok(answer)),
            Ok(Ok(None)) => {
                under_way.trouble = Some("the server is still fetching it (NFS3ERR_JUKEBOX)".into());
                self.later.push((Instant::now() + under_way.pause, ticket));
                under_way.pause = (under_way.pause * 2).min(JUKEBOX_PAUSE[1]);
                None
            }
            Ok(Err(refusal)) => {
                let error = refusal.error(&under_way.call);
                Some(Err(Failure { refusal: Some(refusal), error }))
            }
            Err(Malformed(reason)) => {
                let message = format!("the server's answer breaks the protocol: {reason}");
                Some(Err(Error::new(ErrorKind::Broken, message).into()))
            }
        }
    }

    /// A call that was waited for long enough, without any other answer meanwhile.
    fn expired(&mut self) -> Option<(u64, Result<Answer, Failure>)> {
        let patience = self.pool.dial.limits.patience;
        let is_over = |under_way: &UnderWay| under_way.since.max(self.quiet_since).elapsed() >= patience;
        let ticket = *self.calls.iter().find(|(_, under_way)| is_over(under_way))?.0;
        let under_way = self.calls.remove(&ticket)?;
        self.unsent.retain(|unsent| *unsent != ticket);
        self.later.retain(|(_, later)| *later != ticket);
        let trouble = match under_way.trouble {
            Some(trouble) => Some(trouble.to_string()),
            None => self.pool.trouble().map(|error| error.message),
        };
        let trouble = trouble.map_or_else(String::new, |trouble| format!(" ({trouble})"));
        let message = format!("no answer for {} s{trouble}", patience.as_secs_f32());
        Some((ticket, Err(Error::new(ErrorKind::Unavailable, message).into())))
    }
}

/// The answer in a record; `None` if the server wants to be asked later.
pub(super) fn answer(record: Vec<u8>, tells_status: bool) -> Result<Result<Option<Answer>, Refusal>, Malformed> {
    let (_, rest) = rpc::split_xid(&record).ok_or(Malformed("it has no number"))?;
    let results = match rpc::results(rest)? {
        Ok(results) => results,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if tells_status && results.clone().u32() == Ok(JUKEBOX) {
        return Ok(Ok(None));
    }
    let results = record.len() - results.left();
    Ok(Ok(Some(Answer { record, results })))
}
