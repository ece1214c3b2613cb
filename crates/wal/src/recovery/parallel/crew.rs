//! The threads that recover a log, and what they take their work from.
//!
//! Workers walk and give; two further threads only fetch, since whoever waits for the device needs no core. A worker
//! that is alone fetches as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;

use ishigaki_base::Lsn;
use ishigaki_device::Directory;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::batch::Part;
use super::court::Court;
use super::lane::{Feed, Lane, Walked};
use super::{Progress, Sink};
use crate::format::Control;
use crate::recovery::StreamSegments;
use crate::recovery::chunks::ChunkReader;
use crate::recovery::tail::Place;
use crate::recovery::window::{Pool, Stretch};
use crate::{Error, Result, Start};

/// Threads that only fetch.
const FETCHERS: usize = 2;

/// Stretches that are read ahead of each stream.
const AHEAD: usize = 4;

/// Stretches that are read ahead of all streams, but for the one that stands last.
const AHEAD_OF_ALL: usize = 16;

/// Parts of a stream's batches that may wait for a decision before only the stream that stands last is read on.
const WAITING: usize = 4;

/// Everything that the threads share.
pub(super) struct Crew<'a> {
    threads: usize,
    sink: &'a dyn Sink,
    progress: &'a Progress,
    pool: Arc<Pool>,
    /// By stream.
    feeds: Vec<Mutex<Feed<'a>>>,
    state: Mutex<State<'a>>,
    changed: Condvar,
}

/// What there is to do.
struct State<'a> {
    /// By stream.
    slots: Vec<Slot<'a>>,
    court: Court,
    /// To be given, by their first LSNs.
    jobs: BTreeMap<Lsn, Part>,
    /// The first LSNs of those that are being given.
    giving: BTreeSet<Lsn>,
    /// Jobs that may pile up.
    most_jobs: usize,
    /// There are threads that only fetch.
    has_fetchers: bool,
    /// What the sink was told last.
    passed: Lsn,
    /// Payload records given.
    records: u64,
    failure: Option<Error>,
}

/// The place of one stream in the queue.
struct Slot<'a> {
    /// `None` while somebody walks.
    lane: Option<Box<Lane<'a>>>,
    ended: bool,
    /// What the lane reads next.
    wants: Place,
    /// Stretches that were read ahead.
    ahead: BTreeMap<Place, Stretch>,
    /// Stretches that are being read.
    fetching: usize,
    /// What is fetched next, and whether there is nothing more.
    feed: (Place, bool),
}

/// A piece of work.
enum Task<'a> {
    Fetch { place: usize },
    Walk { place: usize, lane: Box<Lane<'a>>, ahead: Option<Stretch> },
    Give(Part),
}

/// What a thread is there for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Worker,
    Fetcher,
}

/// What is left when all is read and given.
pub(super) struct Done<'a> {
    pub(super) court: Court,
    /// By stream, at their ends.
    pub(super) lanes: Vec<Lane<'a>>,
    /// Payload records given.
    pub(super) records: u64,
}

impl<'a> Crew<'a> {
    pub(super) fn new(
        directory: &'a dyn Directory,
        control: &Control,
        start: Start,
        streams: &[StreamSegments],
        threads: usize,
        sink: &'a dyn Sink,
        progress: &'a Progress,
    ) -> Result<Self> {
        let pool = Arc::<Pool>::default();
        let mut slots = Vec::new();
        for stream in streams {
            let chunks = ChunkReader::new(control, stream.open(directory), pool.clone());
            let place = chunks.place();
            slots.push(Slot {
                lane: Some(Box::new(Lane::new(chunks, start, progress)?)),
                ended: false,
                wants: place,
                ahead: BTreeMap::new(),
                fetching: 0,
                feed: (place, false),
            });
        }
        let state = State {
            court: Court::new(slots.len(), start),
            slots,
            jobs: BTreeMap::new(),
            giving: BTreeSet::new(),
            most_jobs: 4 * threads,
            has_fetchers: false,
            passed: Lsn::ZERO,
            records: 0,
            failure: None,
        };
        let feeds = streams.iter().map(|stream| Mutex::new(Feed::new(stream.open(directory)))).collect();
        Ok(Self { threads, sink, progress, pool, feeds, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Reads and gives everything. The calling thread is one of the crew.
    pub(super) fn work(self) -> Result<Done<'a>> {
        let this = &self;
        thread::scope(|scope| {
            let start = |name: &str, role| {
                let thread = thread::Builder::new().name(name.to_owned());
                // With fewer threads it takes longer.
                thread.spawn_scoped(scope, move || this.serve(role)).is_ok()
            };
            if self.threads > 1 {
                let fetchers = (0..FETCHERS).filter(|_| start("ishigaki-fetch", Role::Fetcher)).count();
                self.state.lock().has_fetchers = fetchers > 0;
                for _ in 1..self.threads {
                    start("ishigaki-recover", Role::Worker);
                }
            }
            self.serve(Role::Worker);
        });
        let State { slots, court, records, failure, .. } = self.state.into_inner();
        if let Some(error) = failure {
            return Err(error);
        }
        let lanes = slots.into_iter().filter_map(|slot| slot.lane).map(|lane| *lane).collect();
        Ok(Done { court, lanes, records })
    }

    /// Takes on work as long as there is any.
    fn serve(&self, role: Role) {
        let _guard = Deserter(self);
        let mut state = self.state.lock();
        while !state.is_over() {
            let Some(task) = state.pick(role) else {
                self.changed.wait(&mut state);
                continue;
            };
            drop(state);
            let done = match task {
                Task::Fetch { place } => Ok(self.fetch(place)),
                Task::Walk { place, lane, ahead } => self.walk(place, lane, ahead),
                Task::Give(part) => self.give(part),
            };
            state = match done {
                Ok(state) => state,
                Err(error) => {
                    let mut state = self.state.lock();
                    state.failure.get_or_insert(error);
                    state
                }
            };
            self.changed.notify_all();
        }
        self.changed.notify_all();
    }

    /// Reads the stream's next stretch. One that can not be read is left to whoever needs it.
    fn fetch(&self, place: usize) -> MutexGuard<'_, State<'a>> {
        let (reserved, feed) = {
            let mut feed = self.feeds[place].lock();
            (feed.reserve(), (feed.next(), feed.is_over()))
        };
        let read = match reserved {
            Ok(Some((at, device))) => Stretch::read(device.as_ref(), at.offset, &self.pool).ok().map(|read| (at, read)),
            Ok(None) | Err(_) => None,
        };
        let mut state = self.state.lock();
        let slot = &mut state.slots[place];
        slot.fetching -= 1;
        slot.feed = slot.feed.max(feed);
        if let Some((at, stretch)) = read
            && at >= slot.wants
            && !slot.ended
        {
            slot.ahead.insert(at, stretch);
        }
        state
    }

    fn walk(&self, place: usize, mut lane: Box<Lane<'a>>, ahead: Option<Stretch>) -> Result<MutexGuard<'_, State<'a>>> {
        let Walked { batch, is_over, wants } = lane.walk(ahead, self.progress)?;
        let feed = {
            let mut feed = self.feeds[place].lock();
            feed.skip_to(wants);
            (feed.next(), feed.is_over())
        };
        let mut state = self.state.lock();
        let State { slots, court, jobs, .. } = &mut *state;
        let mut keep = |part: Part| drop(jobs.insert(part.first(), part));
        court.hear(place, &Arc::new(batch), is_over, &mut keep)?;
        let slot = &mut slots[place];
        slot.ended = is_over;
        slot.lane = Some(lane);
        slot.wants = wants;
        slot.feed = slot.feed.max(feed);
        slot.ahead = if slot.ended { BTreeMap::new() } else { slot.ahead.split_off(&wants) };
        Ok(state)
    }

    fn give(&self, part: Part) -> Result<MutexGuard<'_, State<'a>>> {
        let first = part.first();
        let given = part.batch.give(part.entries, self.sink)?;
        drop(part.batch);
        let mut state = self.state.lock();
        state.giving.remove(&first);
        state.records += given;
        if let Some(passed) = state.passed() {
            // Others need not wait until the sink has heard it.
            MutexGuard::unlocked(&mut state, || self.sink.passed(passed));
        }
        Ok(state)
    }
}

impl<'a> State<'a> {
    fn is_over(&self) -> bool {
        let is_done = self.jobs.is_empty() && self.giving.is_empty() && self.slots.iter().all(|slot| slot.ended);
        self.failure.is_some() || is_done
    }

    /// What the sink has not been told yet of how far everything was given.
    fn passed(&mut self) -> Option<Lsn> {
        let jobs = self.jobs.keys().next().into_iter().chain(self.giving.first()).copied();
        let passed = jobs.fold(self.court.settled(), Lsn::min);
        (passed > self.passed).then(|| {
            self.passed = passed;
            passed
        })
    }

    /// Something to do for a thread of that role, now; `None` if there is nothing.
    fn pick(&mut self, role: Role) -> Option<Task<'a>> {
        if role == Role::Worker {
            let walk = if self.jobs.len() < self.most_jobs { self.pick_walk() } else { None };
            if let Some(task) = walk.or_else(|| self.pick_job()) {
                return Some(task);
            }
        }
        if role == Role::Fetcher || !self.has_fetchers { self.pick_fetch() } else { None }
    }

    fn pick_job(&mut self) -> Option<Task<'a>> {
        let (first, part) = self.jobs.pop_first()?;
        self.giving.insert(first);
        Some(Task::Give(part))
    }

    /// The stream that stands last of those that may be read on.
    fn pick_walk(&mut self) -> Option<Task<'a>> {
        let last = self.last();
        let ready = |place: &usize| {
            let may_wait = self.court.waiting(*place) < WAITING || Some(*place) == last;
            may_wait && self.slots[*place].is_ready()
        };
        let places = (0..self.slots.len()).filter(ready);
        let place = places.min_by_key(|&place| self.court.reading(place))?;
        let slot = &mut self.slots[place];
        let (lane, ahead) = (slot.lane.take()?, slot.ahead.remove(&slot.wants));
        Some(Task::Walk { place, lane, ahead })
    }

    /// The stream that stands last of those that are not read ahead far enough.
    fn pick_fetch(&mut self) -> Option<Task<'a>> {
        let all: usize = self.slots.iter().map(Slot::ahead).sum();
        let last = self.last();
        let wanted = |place: &usize| {
            let slot = &self.slots[*place];
            let has_room = all < AHEAD_OF_ALL || Some(*place) == last;
            has_room && !slot.ended && !slot.feed.1 && slot.ahead() < AHEAD
        };
        let places = (0..self.slots.len()).filter(wanted);
        let place = places.min_by_key(|&place| (self.slots[place].ahead(), self.court.reading(place)))?;
        self.slots[place].fetching += 1;
        Some(Task::Fetch { place })
    }

    /// The stream that stands at the smallest LSN.
    fn last(&self) -> Option<usize> {
        let places = (0..self.slots.len()).filter(|&place| !self.slots[place].ended);
        places.min_by_key(|&place| self.court.reading(place))
    }
}

impl Slot<'_> {
    /// Stretches that are read ahead, or will be soon.
    fn ahead(&self) -> usize {
        self.ahead.len() + self.fetching
    }

    /// Whether the lane can go on: with what was read ahead, or because nobody reads ahead what it wants.
    fn is_ready(&self) -> bool {
        let (next, is_over) = self.feed;
        let comes = self.fetching > 0 || (next <= self.wants && !is_over);
        !self.ended && self.lane.is_some() && (self.ahead.contains_key(&self.wants) || !comes)
    }
}

/// A thread that panics has work of its own that nobody else does: the others must not wait for it.
struct Deserter<'c, 'a>(&'c Crew<'a>);

impl Drop for Deserter<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let reason = "a thread that recovered the log has panicked".to_owned();
            self.0.state.lock().failure.get_or_insert(Error::Invalid { reason });
            self.0.changed.notify_all();
        }
    }
}
