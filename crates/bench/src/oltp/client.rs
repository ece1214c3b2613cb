//! A worker: one transaction after the other, repeated until it commits, acknowledged when it is durable.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fastrand::Rng;
use ishigaki_txn::{self as txn, Age, Session, Ticket, Transaction};

use super::tally::Tally;
use crate::pace::Times;

/// What one worker does.
pub(crate) trait Client {
    /// What the world is told of a transaction when it is acknowledged.
    type Receipt: Send;

    /// Draws the input of the next transaction; says of which type it is.
    fn draw(&mut self) -> usize;

    /// Attempts it. Called again with a new transaction after a conflict, so it changes nothing else.
    fn attempt(&mut self, transaction: &mut Transaction) -> Result<Ended<Self::Receipt>, Stop>;

    /// It committed and everything that it read and wrote is durable.
    fn acknowledge(&mut self, receipt: Self::Receipt) -> Result<(), Stop>;
}

/// How an attempt ended that met no conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended<R> {
    /// With everything done; it is to be committed.
    Commit(R),
    /// The user takes it back.
    Rollback,
}

/// Why a client can not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    /// The engine says so.
    #[error(transparent)]
    Engine(#[from] txn::Error),
    /// The tables do not hold what they should.
    #[error("{0}")]
    Wrong(String),
}

/// A transaction that committed and is not acknowledged yet.
struct Pending<R> {
    begun: Instant,
    kind: usize,
    ticket: Ticket,
    receipt: R,
}

/// Runs a client in one thread.
pub(crate) struct Worker<C: Client> {
    session: Session,
    /// Transactions that may be outstanding.
    most: usize,
    random: Rng,
    /// In the order of their commits.
    pending: VecDeque<Pending<C::Receipt>>,
    pub(crate) client: C,
    pub(crate) tally: Tally,
}

impl<C: Client> Worker<C> {
    pub(crate) fn new(session: Session, client: C, most: usize, kinds: usize, random: Rng) -> Self {
        Self { session, most, random, pending: VecDeque::new(), client, tally: Tally::new(kinds) }
    }

    #[cfg(test)]
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Works until the time is over, then waits for what is outstanding.
    pub(crate) fn work(&mut self, mut times: Times) -> Result<Times, Stop> {
        while let Some(begun) = times.begin() {
            let kind = self.client.draw();
            if let Some((ticket, receipt)) = self.transact(times.measures(begun))? {
                self.pending.push_back(Pending { begun, kind, ticket, receipt });
                self.notice(&mut times)?;
                while self.pending.len() >= self.most {
                    self.settle_oldest(&mut times)?;
                }
            } else {
                self.tally.rolled_back(kind, times.end_apart(begun).is_some());
            }
        }
        while !self.pending.is_empty() {
            self.settle_oldest(&mut times)?;
        }
        Ok(times)
    }

    /// Attempts what was drawn until it commits; `None` if its user took it back.
    fn transact(&mut self, measured: bool) -> Result<Option<(Ticket, C::Receipt)>, Stop> {
        let mut transaction = self.session.begin()?;
        let age = transaction.age();
        let mut attempt = 0;
        loop {
            let conflict = match self.client.attempt(&mut transaction) {
                Ok(Ended::Rollback) => {
                    transaction.rollback();
                    return Ok(None);
                }
                Ok(Ended::Commit(receipt)) => match transaction.commit() {
                    Ok(ticket) => return Ok(Some((ticket, receipt))),
                    Err(txn::Error::Conflict { reason }) => reason,
                    Err(error) => return Err(error.into()),
                },
                Err(Stop::Engine(txn::Error::Conflict { reason })) => {
                    drop(transaction);
                    reason
                }
                // Who validates only in the end may have seen what never was. It is wrong if this could commit.
                Err(Stop::Wrong(reason)) => match transaction.commit() {
                    Err(txn::Error::Conflict { reason }) => reason,
                    Err(error) => return Err(error.into()),
                    Ok(_) => return Err(Stop::Wrong(reason)),
                },
                Err(stop @ Stop::Engine(_)) => return Err(stop),
            };
            self.tally.aborted(conflict, measured);
            transaction = self.again(age, attempt)?;
            attempt += 1;
        }
    }

    /// Begins an attempt after a pause, as [`Session::run`] does: the first two times the processor is only given to
    /// somebody else.
    fn again(&mut self, age: Age, attempt: u32) -> txn::Result<Transaction> {
        if attempt < 2 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(self.random.u64(0..10 << attempt.min(8))));
        }
        self.session.begin_with_age(age)
    }

    /// Acknowledges what has become durable, in the order of the commits.
    fn notice(&mut self, times: &mut Times) -> Result<(), Stop> {
        while self.pending.front().is_some_and(|next| next.ticket.is_durable()) {
            self.settle_oldest(times)?;
        }
        Ok(())
    }

    fn settle_oldest(&mut self, times: &mut Times) -> Result<(), Stop> {
        let Some(Pending { begun, kind, ticket, receipt }) = self.pending.pop_front() else { return Ok(()) };
        ticket.wait()?;
        self.tally.committed(kind, times.end_apart(begun));
        self.client.acknowledge(receipt)
    }
}
