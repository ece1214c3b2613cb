//! Chains of one caller that are under way, over all connections.
//!
//! The caller [sends](Flight::send) as many as it likes to have under way and takes the answers in the order in which they [come](Flight::next).
//! A chain whose connection is lost is sent again over another one: everything that a source asks may be asked twice. A chain that the server wants to
//! be asked again later is, after a pause. Only what is not answered for the whole of the patience becomes an error.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::answer::{Answer, Trouble};
use super::connection::{Connection, Letter, Mailbox};
use super::pool::Pool;
use super::request::Request;
use crate::source::multiplex::{Lost, Multiplexed, RETRY};
use crate::source::{Cancel, Error, ErrorKind, Result};

/// After so long a waiting caller looks at its [`Cancel`].
const TICK: Duration = Duration::from_millis(50);
/// Until a chain is asked again that the server can not carry out now: at first, and at most.
const LATER: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// How often one chain may lose its connection because the server breaks the protocol.
pub(super) const BROKEN: u8 = 3;

struct UnderWay {
    chain: Vec<Request>,
    since: Instant,
    pause: Duration,
    broken: u8,
    /// Why it has no answer yet.
    trouble: Option<Arc<str>>,
}

/// *Threads*: one. *Drop* leaves the chains alone; their answers go nowhere.
pub(super) struct Flight<'a> {
    pool: &'a Pool,
    cancel: &'a Cancel,
    /// The only connection that will do, because something is open there.
    only: Option<Arc<Connection>>,
    mailbox: Arc<Mailbox>,
    chains: HashMap<u64, UnderWay>,
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
            pool,
            cancel,
            only: None,
            mailbox: Arc::default(),
            chains: HashMap::new(),
            unsent: VecDeque::new(),
            later: Vec::new(),
            next: 0,
            quiet_since: now,
            left: now,
        }
    }

    /// One chain and its answers.
    pub(super) fn ask(pool: &'a Pool, cancel: &'a Cancel, chain: Vec<Request>) -> Result<Vec<Answer>, Trouble> {
        let mut flight = Self::new(pool, cancel);
        flight.send(chain);
        flight.next()?.1
    }

    /// Many chains, `most` of them under way, by their numbers. Gives what `take` makes of the answers of each, and nothing for a number without a
    /// chain; when the whole flight fails, all that have nothing by then get that error.
    pub(super) fn ask_many<T>(
        pool: &'a Pool,
        cancel: &'a Cancel,
        most: usize,
        chains: Vec<Option<Vec<Request>>>,
        mut take: impl FnMut(usize, Result<Vec<Answer>, Trouble>) -> Result<T>,
    ) -> Vec<Option<Result<T>>> {
        let mut taken: Vec<Option<Result<T>>> = chains.iter().map(|_| None).collect();
        let mut flight = Self::new(pool, cancel);
        let mut asked: HashMap<u64, usize> = HashMap::new();
        let mut waiting = chains.into_iter().enumerate().filter_map(|(number, chain)| Some((number, chain?)));
        loop {
            while flight.len() < most
                && let Some((number, chain)) = waiting.next()
            {
                asked.insert(flight.send(chain), number);
            }
            if flight.len() == 0 {
                return taken;
            }
            match flight.next() {
                Ok((ticket, answers)) => {
                    if let Some(number) = asked.remove(&ticket) {
                        taken[number] = Some(take(number, answers));
                    }
                }
                Err(error) => {
                    return taken.into_iter().map(|one| one.or_else(|| Some(Err(error.clone())))).collect();
                }
            }
        }
    }

    /// One chain on that connection: [`Trouble::Lost`] if that is.
    pub(super) fn ask_on(
        connection: &Arc<Connection>,
        pool: &'a Pool,
        cancel: &'a Cancel,
        chain: Vec<Request>,
    ) -> Result<Vec<Answer>, Trouble> {
        let mut flight = Self { only: Some(Arc::clone(connection)), ..Self::new(pool, cancel) };
        flight.send(chain);
        flight.next()?.1
    }

    /// Chains that are not answered.
    pub(super) fn len(&self) -> usize {
        self.chains.len()
    }

    /// Puts a chain under way; its ticket, which counts from 0. It goes out when the next answer is asked for, together with others.
    pub(super) fn send(&mut self, chain: Vec<Request>) -> u64 {
        let ticket = self.next;
        self.next += 1;
        let under_way = UnderWay { chain, since: Instant::now(), pause: LATER[0], broken: 0, trouble: None };
        self.chains.insert(ticket, under_way);
        self.unsent.push_back(ticket);
        ticket
    }

    /// Sends what is waiting to be sent, as far as there is room. The only connection may be lost.
    fn flush(&mut self) -> Result<(), Trouble> {
        while !self.unsent.is_empty() {
            let connection = match &self.only {
                Some(only) if only.under_way().is_some() => Arc::clone(only),
                Some(_) => {
                    let reason = "the connection is lost".into();
                    return Err(Trouble::Lost(Lost { broken: false, reason }));
                }
                None => match self.pool.pick(self.cancel) {
                    Some(connection) => connection,
                    None => return Ok(()),
                },
            };
            let chains = &self.chains;
            let waiting = self.unsent.iter().filter_map(|ticket| Some((*ticket, &chains.get(ticket)?.chain[..])));
            // Spread over the connections rather than behind one another.
            let share = self.unsent.len().div_ceil(2).max(8);
            let sent = connection.send(waiting.take(share), &self.mailbox);
            self.unsent.drain(..sent.min(self.unsent.len()));
            if sent == 0 {
                // No credits: those under way bring new ones.
                return Ok(());
            }
        }
        Ok(())
    }

    /// The next answers, with the ticket of their chain.
    ///
    /// # Errors
    ///
    /// The outer one if the caller has enough; the inner one is the chain's.
    pub(super) fn next(&mut self) -> Result<(u64, Result<Vec<Answer>, Trouble>)> {
        self.quiet_since += self.left.elapsed();
        let next = self.wait_for_next();
        self.left = Instant::now();
        next
    }

    fn wait_for_next(&mut self) -> Result<(u64, Result<Vec<Answer>, Trouble>)> {
        loop {
            if self.cancel.is_cancelled() {
                return Err(Error::cancelled());
            }
            let now = Instant::now();
            let due = self.later.extract_if(.., |(when, _)| *when <= now).map(|(_, ticket)| ticket);
            self.unsent.extend(due);
            if let Err(lost) = self.flush()
                && let Some(ticket) = self.unsent.pop_front()
            {
                self.chains.remove(&ticket);
                return Ok((ticket, Err(lost)));
            }
            let letter = match self.mailbox.take(Duration::ZERO) {
                None => self.wait(),
                some => some,
            };
            if let Some((ticket, letter)) = letter {
                if let Some(answers) = self.opened(ticket, letter) {
                    self.chains.remove(&ticket);
                    self.quiet_since = Instant::now();
                    return Ok((ticket, answers));
                }
            } else if let Some(expired) = self.expired() {
                return Ok(expired);
            }
        }
    }

    fn wait(&self) -> Option<Letter> {
        if self.unsent.len() + self.later.len() == self.chains.len() && !self.unsent.is_empty() {
            self.pool.room.wait(RETRY);
            return None;
        }
        let tick = if self.unsent.is_empty() { TICK } else { RETRY };
        let due = self.later.iter().map(|(when, _)| when.saturating_duration_since(Instant::now())).min();
        self.mailbox.take(due.map_or(tick, |due| due.clamp(Duration::from_millis(1), tick)))
    }

    /// What the chain's end is, unless it goes on.
    fn opened(&mut self, ticket: u64, letter: Result<Vec<Answer>, Lost>) -> Option<Result<Vec<Answer>, Trouble>> {
        let under_way = self.chains.get_mut(&ticket)?;
        let answers = match letter {
            Ok(answers) if answers.len() == under_way.chain.len() => answers,
            Ok(_) => return Some(Err(Error::new(ErrorKind::Broken, "answers are missing").into())),
            Err(lost) if self.only.is_some() => return Some(Err(Trouble::Lost(lost))),
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
        if let Some(later) = answers.iter().map(Answer::status).find(|status| status.is_later()) {
            under_way.trouble = Some(later.to_string().into());
            self.later.push((Instant::now() + under_way.pause, ticket));
            under_way.pause = (under_way.pause * 2).min(LATER[1]);
            return None;
        }
        let is_strange = |(request, answer): (&Request, &Answer)| request.command != answer.command();
        if under_way.chain.iter().zip(&answers).any(is_strange) {
            return Some(Err(Error::new(ErrorKind::Broken, "the server answered something else").into()));
        }
        Some(Ok(answers))
    }

    /// A chain that was waited for long enough, without any other answer meanwhile.
    fn expired(&mut self) -> Option<(u64, Result<Vec<Answer>, Trouble>)> {
        let patience = self.pool.dial.patience();
        let is_over = |under_way: &UnderWay| under_way.since.max(self.quiet_since).elapsed() >= patience;
        let ticket = *self.chains.iter().find(|(_, under_way)| is_over(under_way))?.0;
        let under_way = self.chains.remove(&ticket)?;
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
