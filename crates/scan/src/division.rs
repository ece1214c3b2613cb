//! Dividing one scan between fetching and pushing while it runs.
//!
//! The pages of a scan lie in one queue, and both ways take from it: here unit after unit, at the node by *orders* of many
//! pages, one at a time. So the faster way does more, and one that becomes slow does less from then on.
//!
//! ```text
//!   queue  ┌──────────────────────────────┐
//!   order ◀─ front                   back ─▶ units that are fetched
//!          └──────────────────────────────┘
//!        ▲ an order of which nothing has come yet may be taken back
//! ```
//!
//! Each way has a pace, in pages a second: what the [cost model](crate::cost) believes until something was seen of it, then what
//! was seen, newer observations counting more; and what is under way for longer than it should take is slow while it is. Four
//! rules follow from the paces:
//!
//! - A way that is several times slower than the other one keeps out: it would save little, and both may stand in each other's
//!   way, since who sends pages can not count them meanwhile. It is tried at the beginning with a little, unless it seems
//!   hopeless, and from time to time. One reader tries for all of them.
//! - Nobody begins what the other way would have done sooner together with all that is left.
//! - An order has half of what the node is to do at its pace, so that there is time to think again; the first one less, and
//!   more of it if nothing is fetched beside it and its results come at its end: each order brings its own sums of all groups,
//!   and can be taken back all the time. Orders are not made so short that the way to the node and back counts.
//! - When nothing is left but an order that is late, it is taken back as soon as fetching its pages would be over before it
//!   may be expected: who is late by some time is expected to be late by as much again.
//!
//! Nobody waits for a way that does nothing, so the two never wait for each other. No clock here: times are given.

use std::time::Duration;

/// So many times slower than the other way, one keeps out.
const SLOW: f64 = 3.0;
/// So many times slower, one is not even tried.
const HOPELESS: f64 = 32.0;
/// Which part of the scan is enough to try how fast fetching is.
const TRIAL: u64 = 256;
/// How much of what was seen before counts beside a new observation.
const MEMORY: f64 = 0.7;
/// How long an order takes at least, in seconds, that the way there and back does not count.
const SHORTEST: f64 = 0.025;
/// Which part of the scan the first order has at most.
const FIRST: f64 = 8.0;
/// Which part of what is left an order has usually, and if the node works alone at one whose results come at its end.
const SHARED: f64 = 0.5;
const ALONE: f64 = 0.875;
/// How long a way that has just ended something, or is to begin, is taken for one that works.
const GRACE: Duration = Duration::from_millis(20);
/// After how long a slow way is tried again, and others need not wait any longer for who tries.
const AGAIN: Duration = Duration::from_millis(500);
/// By how much fetching must be sooner, in seconds, for an order to be taken back.
const CLEARLY: f64 = 0.005;

/// What one of the ways does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// These pages of the queue, at most: they are under way from now on.
    Take(u64),
    /// The pages of the order under way, which are in the queue again; its results must not be used.
    TakeBack,
    /// Nothing now. To be asked again soon, and when something has ended.
    Wait,
    /// Nothing any more.
    End,
}

/// How the pages of one scan are divided. What is asked for the node is asked by one who does one order after the other.
#[derive(Clone, Debug)]
pub struct Division {
    all: u64,
    left: u64,
    fetch: Way,
    push: Way,
    /// Who fetch side by side.
    readers: u64,
    /// Results come while an order is being done, and not at its end.
    streams: bool,
    /// One of the readers tries how fast all of them are.
    trial: bool,
    /// The pages of the order of which nothing has come.
    silent: Option<u64>,
    /// The node is given nothing any more.
    closed: bool,
}

/// One of the ways, as it is known.
#[derive(Clone, Copy, Debug)]
struct Way {
    believed: f64,
    /// What was seen: pages, and seconds for them.
    pages: f64,
    seconds: f64,
    pending: u64,
    /// When it last began after doing nothing, or ended something.
    since: Duration,
}

impl Way {
    fn new(believed: f64) -> Self {
        let believed = if believed.is_finite() { believed.max(1e-3) } else { 1e12 };
        Self { believed, pages: 0.0, seconds: 0.0, pending: 0, since: Duration::ZERO }
    }

    fn is_known(&self) -> bool {
        self.seconds > 0.0
    }

    /// Pages a second, if all goes as it did.
    fn usual(&self) -> f64 {
        // What took no time at all took a nanosecond.
        if self.is_known() { (self.pages / self.seconds).max(1e-3) } else { self.believed }
    }

    /// Pages a second now: less than usual if what is under way is late.
    fn pace(&self, now: Duration) -> f64 {
        let running = now.saturating_sub(self.since).as_secs_f64();
        if self.pending == 0 || running <= 0.0 {
            return self.usual();
        }
        self.usual().min(self.pending as f64 / running)
    }

    /// How many pages of what is under way are still to be done.
    fn rest(&self, now: Duration) -> f64 {
        let done = now.saturating_sub(self.since).as_secs_f64() * self.usual();
        (self.pending as f64 - done).max(0.0)
    }

    /// Does something, did so a moment ago, or is about to begin.
    fn works(&self, now: Duration) -> bool {
        self.pending > 0 || now < self.since + GRACE
    }

    fn begin(&mut self, pages: u64, now: Duration) {
        if self.pending == 0 {
            self.since = now;
        }
        self.pending += pages;
    }

    /// So many pages are done, and as many as `seen` would have been by all who go this way.
    fn end(&mut self, pages: u64, seen: u64, now: Duration) {
        self.pages = self.pages * MEMORY + seen as f64;
        self.seconds = self.seconds * MEMORY + now.saturating_sub(self.since).as_secs_f64().max(1e-9);
        self.pending = self.pending.saturating_sub(pages);
        self.since = now;
    }
}

impl Division {
    /// Of so many pages, with what is believed of both ways, in pages a second.
    pub fn new(pages: u64, fetch: f64, push: f64) -> Self {
        let (fetch, push) = (Way::new(fetch), Way::new(push));
        let (readers, streams, trial) = (1, false, false);
        Self { all: pages, left: pages, fetch, push, readers, streams, trial, silent: None, closed: false }
    }

    /// The same for so many who fetch side by side, if that is more than one.
    #[must_use]
    pub fn read_by(self, readers: u64) -> Self {
        Self { readers: readers.max(1), ..self }
    }

    /// The same where results of an order come while it is being done: an order is not taken back then once they have begun.
    #[must_use]
    pub fn streamed(self, streams: bool) -> Self {
        Self { streams, ..self }
    }

    /// Pages in the queue.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether a unit of so many pages is to be fetched now, or fewer of them.
    pub fn fetch(&mut self, unit: u64, now: Duration) -> Turn {
        if self.left == 0 {
            return self.take_back(now);
        }
        let (here, there) = (self.fetch.pace(now), self.push.pace(now));
        let mut unit = unit.min(self.left);
        if !self.closed {
            if self.push.works(now) {
                let known = self.fetch.is_known();
                // One trial that takes long says little of all readers.
                let slow = if known { here * SLOW < there } else { self.fetch.usual() * HOPELESS < there };
                let again = known && self.fetch.pending == 0 && now > self.fetch.since + AGAIN;
                let tried = self.trial && now <= self.fetch.since + AGAIN;
                if tried || (slow && !again) {
                    return Turn::Wait;
                }
                if slow || (!known && self.fetch.pending == 0) {
                    unit = unit.min((self.all / TRIAL).max(1));
                    self.trial = true;
                }
            }
            let own = (self.fetch.pending + unit) as f64 / here;
            if self.push.pending > 0 && own > (self.left as f64 + self.push.rest(now)) / there {
                return Turn::Wait;
            }
        }
        self.left -= unit;
        self.fetch.begin(unit, now);
        Turn::Take(unit)
    }

    /// That many fetched pages are done.
    pub fn fetched(&mut self, pages: u64, now: Duration) {
        let seen = if std::mem::take(&mut self.trial) { pages * self.readers } else { pages };
        self.fetch.end(pages, seen, now);
    }

    /// What the node is to do now. Not to be asked while an order is under way.
    pub fn push(&mut self, now: Duration) -> Turn {
        if self.left == 0 || self.closed {
            return Turn::End;
        }
        let (here, there) = (self.fetch.pace(now), self.push.pace(now));
        let (left, shortest) = (self.left as f64, there * SHORTEST);
        let untried = !self.push.is_known() && there * HOPELESS >= here;
        let again = self.push.is_known() && now > self.push.since + AGAIN;
        let slow = there * SLOW < here && self.fetch.works(now);
        if slow && !untried && !again {
            return Turn::Wait;
        }
        let helped = here * SLOW >= there && self.fetch.works(now);
        let share = match helped || slow {
            true => there / (there + here) * SHARED,
            false if self.streams => SHARED,
            false => ALONE,
        };
        let most = if slow { shortest } else { f64::INFINITY };
        let first = if self.push.is_known() { f64::INFINITY } else { self.all as f64 / FIRST };
        let mut pages = (share * left).min(first).max(shortest).min(most);
        if left - pages < shortest {
            // What is left would be too short; together it is not too long.
            pages = left;
        }
        if self.fetch.pending > 0 && pages / there > (left + self.fetch.rest(now)) / here {
            // So many that both end at the same time.
            pages = there / (there + here) * (left + self.fetch.rest(now));
            if pages < shortest / 4.0 {
                return Turn::Wait;
            }
        }
        let pages = (pages.ceil() as u64).clamp(1, self.left);
        self.left -= pages;
        self.push.begin(pages, now);
        self.silent = Some(pages);
        Turn::Take(pages)
    }

    /// Results of the order under way have come: it can not be taken back any more.
    pub fn answered(&mut self) {
        self.silent = None;
    }

    /// The order of so many pages is done.
    pub fn pushed(&mut self, pages: u64, now: Duration) {
        self.silent = None;
        self.push.end(pages, pages, now);
    }

    /// The node does not do the order: its pages are in the queue again, and it gets no more.
    pub fn refused(&mut self) {
        self.left += self.silent.take().unwrap_or(0);
        self.push.pending = 0;
        self.closed = true;
    }

    /// The queue is empty; pages of an order may be left.
    fn take_back(&mut self, now: Duration) -> Turn {
        let Some(pages) = self.silent else { return Turn::End };
        let expected = pages as f64 / self.push.usual();
        let late = (now.saturating_sub(self.push.since).as_secs_f64() - expected).abs();
        let fetching = (self.fetch.rest(now) + pages as f64) / self.fetch.pace(now);
        if late <= fetching + CLEARLY {
            return Turn::Wait;
        }
        self.refused();
        Turn::TakeBack
    }
}
