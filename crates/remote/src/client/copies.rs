//! Copies of pages that a client keeps, and when it may use them.
//!
//! A copy may be used while the client has a *watch* at the node, by which it hears of changes before they happen, and its
//! *lease* lasts (see `node::watch` for the other side). A copy may be made of what a read brought only if no change of the
//! file was under way at any moment since the read began: each file has a number that every change moves on, and counts of
//! changes under way, others' and our own.
//!
//! ```text
//!   read:    lease? look up the pages ─ all there ─▶ answer
//!            note the file's number ─▶ read from the node ─▶ number the same, nothing under way? keep ─▶ answer
//!   change:  (ours, or the node says "begin") number += 1, one more under way, pages gone ─▶ … ─▶ one less
//! ```
//!
//! When the watch is lost, everything goes. When a write of ours fails, we give the watch up ourselves: that write may still
//! happen, and the node would not tell us of it.
//!
//! Parts: [`pages`] is the memory, [`flights`] has missing pages asked for once, however many wait for them, [`watcher`] are the two threads that hear notices and renew the lease.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_fabric::Endpoint;
use parking_lot::Mutex;

use crate::protocol::Notice;
use crate::{Error, Result};
use flights::Flights;
use pages::Pages;

mod flights;
mod pages;
#[cfg(test)]
mod tests;
mod watcher;

pub(super) use flights::{Claim, Flight, Lead};
pub(super) use watcher::Watcher;

/// How a client keeps copies of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// Bytes of pages, at most.
    pub memory: ByteSize,
    /// Bytes of a page: what is read at least, kept and dropped together. A power of two from 4 KiB to 1 MiB.
    pub page: ByteSize,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self { memory: ByteSize::mib(256), page: ByteSize::kib(16) }
    }
}

/// What a cache has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Pages that were there when they were read.
    pub hits: u64,
    /// Pages that were on their way for another reader: waited for, and not asked for again. What was read so was no hit,
    /// but cost the node nothing. Reads of a [`ReadQueue`](crate::ReadQueue) wait for nobody.
    pub joined: u64,
    /// Pages that the node was asked for.
    pub misses: u64,
    /// Pages that were not kept because a change was under way, or because there was no watch.
    pub not_kept: u64,
    /// Pages that were dropped because they changed.
    pub dropped: u64,
    /// Pages that are kept now.
    pub pages: u64,
    /// Bytes that they take.
    pub bytes: u64,
}

/// Files that are remembered; when there are more, those of which nothing is under way are forgotten.
const MOST_FILES: usize = 65536;

/// All copies of a client.
#[derive(Debug)]
pub(super) struct Copies {
    pages: Pages,
    flights: Flights,
    state: Mutex<State>,
    begin: Instant,
    /// Until when copies may be used, in nanoseconds since `begin`. 0: not at all.
    until: AtomicU64,
    hits: AtomicU64,
    joined: AtomicU64,
    misses: AtomicU64,
    not_kept: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Our watch at the node; 0: none.
    watch: u64,
    /// The watch's connection.
    endpoint: Option<Arc<dyn Endpoint>>,
    files: HashMap<u64, File>,
    closed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct File {
    /// The watch that the node knows to keep copies of this file.
    watch: u64,
    /// Moved on by every change.
    number: u64,
    /// Changes under way: our own, and others'.
    own: u32,
    others: u32,
}

/// What a read noted before it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    file: u64,
    watch: u64,
    number: u64,
}

impl Copies {
    pub(super) fn new(settings: CacheSettings) -> Result<Self> {
        let page = settings.page.0 as usize;
        if !page.is_power_of_two() || !(4096..=crate::MAX_READ).contains(&page) {
            let reason = format!("pages of {page} bytes; a power of two from 4 KiB to 1 MiB is possible");
            return Err(Error::Invalid { reason });
        }
        if settings.memory.0 < 16 * settings.page.0 {
            return Err(Error::Invalid { reason: "a cache has room for 16 pages at least".to_owned() });
        }
        Ok(Self {
            pages: Pages::new(settings.memory.0, page),
            flights: Flights::default(),
            state: Mutex::default(),
            begin: Instant::now(),
            until: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            joined: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            not_kept: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// Bytes of a page.
    pub(super) fn page(&self) -> usize {
        self.pages.page()
    }

    /// The longest run of pages that is kept; a longer one would only drive out others.
    pub(super) fn longest_run(&self) -> usize {
        self.pages.memory() / 8
    }

    pub(super) fn statistics(&self) -> CacheStatistics {
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (pages, bytes) = self.pages.held();
        let (hits, joined, misses) = (count(&self.hits), count(&self.joined), count(&self.misses));
        let (not_kept, dropped) = (count(&self.not_kept), count(&self.dropped));
        CacheStatistics { hits, joined, misses, not_kept, dropped, pages, bytes }
    }

    /// True while copies may be used.
    pub(super) fn may_use(&self) -> bool {
        self.now() < self.until.load(Ordering::Acquire)
    }

    /// A page of which a copy may be used at this moment.
    pub(super) fn get(&self, file: u64, page: u64) -> Option<Arc<[u8]>> {
        let found = if self.may_use() { self.pages.get(file, page) } else { None };
        self.hits.fetch_add(found.is_some().into(), Ordering::Relaxed);
        found
    }

    /// The node is asked for so many pages.
    pub(super) fn missed(&self, pages: u64) {
        self.misses.fetch_add(pages, Ordering::Relaxed);
    }

    /// A page that another reader had asked for has come.
    pub(super) fn joined(&self) {
        self.joined.fetch_add(1, Ordering::Relaxed);
    }

    /// A flight that is to read the file from this page on, and that others may join if they begin while nothing changes; nothing
    /// where no copies may be used, or none made.
    pub(super) fn lead(&self, file: u64, first: u64) -> Option<Lead<'_>> {
        // In this order: what is noted holds at a moment at which there was a lease, or later.
        let noted = if self.may_use() { self.note(file) } else { None };
        noted.map(|noted| self.flights.begin(noted, first))
    }

    /// What is to be done about the next page.
    pub(super) fn claim(&self, lead: &mut Lead<'_>) -> Claim {
        lead.claim(|file, page| self.get(file, page))
    }

    /// Pages of which copies may be used at this moment, all of them or none.
    pub(super) fn get_all(&self, file: u64, pages: Range<u64>) -> Option<Vec<Arc<[u8]>>> {
        let count = pages.end - pages.start;
        let found = if self.may_use() { pages.map(|page| self.pages.get(file, page)).collect() } else { None };
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(count, Ordering::Relaxed);
        found
    }

    /// Our watch, if there is one, unless the node knows already that we keep copies of the file.
    pub(super) fn watch_to_tell(&self, file: u64) -> Option<u64> {
        let state = self.state.lock();
        let told = state.files.get(&file).is_some_and(|file| file.watch == state.watch);
        if state.watch == 0 || told { None } else { Some(state.watch) }
    }

    /// The node knows now that this watch keeps copies of the file.
    pub(super) fn told(&self, file: u64, watch: u64) {
        let mut state = self.state.lock();
        if state.watch == watch {
            state.file(file).watch = watch;
        }
    }

    /// Before a read is sent: what must be the same when it has come, if anything can be kept of it.
    pub(super) fn note(&self, file: u64) -> Option<Noted> {
        let state = self.state.lock();
        let File { watch, number, own, others } = state.files.get(&file).copied()?;
        (watch != 0 && watch == state.watch && own == 0 && others == 0).then_some(Noted { file, watch, number })
    }

    /// Keeps pages that a read has brought, from the page of that number on.
    pub(super) fn keep(&self, noted: Option<Noted>, first: u64, bytes: &[u8]) {
        let state = self.state.lock();
        let good = noted.filter(|noted| {
            let file = state.files.get(&noted.file).copied().unwrap_or_default();
            // A change that has begun since has moved the number on.
            file.watch == noted.watch && state.watch == noted.watch && file.number == noted.number
        });
        for (page, bytes) in (first..).zip(bytes.chunks(self.page())) {
            match good {
                // Under the lock, so that no change can come between the question and the answer.
                Some(noted) => self.pages.insert(noted.file, page, bytes),
                None => {
                    self.not_kept.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// A change of our own is about to be sent.
    pub(super) fn begin_own(&self, file: u64, offset: u64, length: u64) {
        let mut state = self.state.lock();
        let entry = state.file(file);
        entry.own += 1;
        entry.number += 1;
        self.drop_pages(file, offset, length);
    }

    /// It is done; or it has failed and may still happen.
    pub(super) fn end_own(&self, file: u64, done: bool) {
        if !done {
            self.lose_watch();
        }
        let mut state = self.state.lock();
        let entry = state.file(file);
        entry.own = entry.own.saturating_sub(1);
        entry.number += 1;
    }

    /// The node says that somebody changes something.
    fn hear(&self, notice: Notice) {
        let mut state = self.state.lock();
        match notice {
            Notice::Begin { file, offset, length } => {
                let entry = state.file(file);
                entry.others += 1;
                entry.number += 1;
                self.drop_pages(file, offset, length);
            }
            Notice::End { file, .. } => {
                let entry = state.file(file);
                entry.others = entry.others.saturating_sub(1);
            }
        }
    }

    fn drop_pages(&self, file: u64, offset: u64, length: u64) {
        let dropped = self.pages.remove(file, offset, length);
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    /// There is a watch, whose lease began at that moment. False: it is not wanted any more.
    fn begin_watch(&self, watch: u64, endpoint: &Arc<dyn Endpoint>, since: Instant, lease: Duration) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        state.watch = watch;
        state.endpoint = Some(Arc::clone(endpoint));
        self.until.store(self.moment(since + lease), Ordering::Release);
        true
    }

    /// The node has heard of us after that moment.
    fn renewed(&self, watch: u64, since: Instant, lease: Duration) {
        let state = self.state.lock();
        if state.watch == watch && watch != 0 {
            self.until.fetch_max(self.moment(since + lease), Ordering::AcqRel);
        }
    }

    fn watch(&self) -> u64 {
        self.state.lock().watch
    }

    /// No copy may be used any more, and none may be made until there is another watch.
    fn lose_watch(&self) {
        self.until.store(0, Ordering::Release);
        let mut state = self.state.lock();
        state.watch = 0;
        if let Some(endpoint) = state.endpoint.take() {
            endpoint.close();
        }
        for file in state.files.values_mut() {
            file.watch = 0;
            file.others = 0;
            file.number += 1;
        }
        self.until.store(0, Ordering::Release);
        self.pages.clear();
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.lose_watch();
    }

    fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    fn now(&self) -> u64 {
        self.moment(Instant::now())
    }

    fn moment(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.begin).as_nanos() as u64
    }
}

impl State {
    fn file(&mut self, file: u64) -> &mut File {
        if self.files.len() >= MOST_FILES && !self.files.contains_key(&file) {
            self.files.retain(|_, file| file.own > 0 || file.others > 0);
        }
        self.files.entry(file).or_default()
    }
}
