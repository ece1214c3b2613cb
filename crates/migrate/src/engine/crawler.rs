//! Goes through everything, and copies what no client has asked for.
//!
//! ```text
//!   queue ─▶ a directory to list ─▶ look_into ─▶ its directories go into the queue
//!         ─▶ directories to copy ─▶ names, in lots ─▶ small files: one call of the source for a lot
//!                                                  ─▶ large files: pieces, several threads at one file
//!   all files of a directory whole ─▶ settled ─▶ the log says so
//! ```
//!
//! Work is done on inodes. Clients move names meanwhile, and a directory that is copied may get a stub from one that is not: then, at the end, a sweep looks
//! everywhere. What clients of an earlier process have moved is not known, so a process that goes on with a migration sweeps in any case. While clients wait for something, the crawler waits a little before each piece.
//!
//! *Time on the way.* A call of the source takes a round trip, however fast this host is. So few calls wait for each other: many directories are listed at a
//! time, each as soon as the one above it is; and the small files of many directories share calls. About one round trip is left for each level of the tree, and a
//! few for each `threads` lots of files.
//!
//! Parts: `crew` are the threads, `lot` copies the files of directories, `pace` holds the crawler back.

mod crew;
mod lot;
mod pace;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use self::crew::{Next, Role};
use self::lot::Task;
use self::pace::Pace;
use super::log::Place;
use super::{Engine, Error, Progress, Result};
use crate::destination::{Destination, NodeId};
use crate::source::{Cancel, ErrorKind, Location};

/// The order in which directories are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Those near the root first (paper 5: the waiting of clients falls evenly).
    #[default]
    BreadthFirst,
    /// One branch after the other: less memory.
    DepthFirst,
}

/// What is brought when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passes {
    /// All directories are listed before data is copied.
    #[default]
    MetadataFirst,
    /// A directory's files are copied as soon as it is listed.
    Bulk,
}

/// How the crawler works.
#[derive(Clone, Copy, Debug)]
pub struct Crawl {
    /// Threads, each with a lot of requests under way: for up to 128 small files, of one or many directories, or for a piece of a large one. Over a long way, up
    /// to 16 directories are listed at a time for each.
    pub threads: usize,
    /// The order of directories.
    pub depth: Depth,
    /// What is brought when.
    pub passes: Passes,
    /// Bytes of data a second.
    pub bandwidth: Option<u64>,
}

impl Default for Crawl {
    fn default() -> Self {
        Self { threads: 8, depth: Depth::default(), passes: Passes::default(), bandwidth: None }
    }
}

/// How often what is whole is settled, at the latest. A file system commits about as often by itself; what is made and marked and whole within
/// one commit costs one write of its inode.
const SETTLE: Duration = Duration::from_secs(5);
/// So many directories and so many files the threads may hold open together, while they copy: fewer in a lot the more threads there are.
const HELD: usize = 4096;
/// The fewest and the most in a lot.
const LOTS: (usize, usize) = (16, 128);
/// Sweeps that let clients rename meanwhile; the next one holds renames back.
const PATIENT_SWEEPS: usize = 3;
/// Sweeps that may lead to nothing because clients move what they find.
const MOST_SWEEPS: usize = 8;

/// One run of the crawler.
struct Run<'a, D: Destination> {
    engine: &'a Arc<Engine<D>>,
    how: Crawl,
    cancel: &'a Cancel,
    pace: Pace,
    /// The most directories, and files, that are copied together.
    lot: usize,
    state: Mutex<State<D>>,
    wake: Condvar,
}

struct State<D: Destination> {
    /// Parts of directories that are being copied.
    tasks: VecDeque<Task<D>>,
    /// Threads that do something.
    active: usize,
    /// Threads that only list, and threads in the places of others.
    listers: usize,
    substitutes: usize,
    /// Nothing is left to do, or something failed.
    is_over: bool,
    /// Directories that are being copied.
    open: HashMap<NodeId, Arc<Place>>,
    /// Directories all of whose files are whole, but not settled.
    copied: Vec<NodeId>,
    settled_at: Instant,
    failed: Option<Error>,
}

/// A directory whose files are being copied.
struct Folder<D: Destination> {
    object: D::Object,
    place: Arc<Place>,
    source: u32,
    /// It is taken before others.
    is_first: bool,
    /// Tasks that are not done.
    left: AtomicUsize,
    /// Some file could not be copied.
    failed: AtomicBool,
}

impl<D: Destination> Engine<D> {
    /// Copies everything that is not here. Returns when nothing is left to be done; [`problems`](Self::problems) tells what could not
    /// be. Its end by `cancel` is a pause: the next call goes on, also in another process.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`]; [`Error::GivenUp`] when a source does not answer; errors of the destination.
    pub fn crawl(self: &Arc<Self>, how: &Crawl, cancel: &Cancel) -> Result<()> {
        let mut sweeps = 0;
        // How far it was, and how many moves there had been, when the last sweep began.
        let mut last = None;
        loop {
            self.crawl_queue(how, cancel)?;
            let now = (self.progress(), self.moves.load(Ordering::Acquire));
            if !self.queue.was_moved() && self.swept.load(Ordering::Acquire) == now.1 {
                break;
            }
            // What can not be copied is found by each sweep again; what was moved meanwhile may not have been found.
            let is_like = |last: (Progress, u64)| last == now || (last.0 == now.0 && sweeps >= MOST_SWEEPS);
            if last.is_some_and(is_like) {
                break;
            }
            let held = (sweeps >= PATIENT_SWEEPS).then(|| self.moving.write());
            let before = self.moves.load(Ordering::Acquire);
            let found = self.sweep()?;
            let is_quiet = self.moves.load(Ordering::Acquire) == before;
            drop(held);
            sweeps += 1;
            last = Some((now.0, before));
            if !found && is_quiet {
                self.queue.nothing_moved();
                self.swept.store(before, Ordering::Release);
                break;
            }
        }
        self.forget_removed()?;
        if self.queue.problem_count() == 0 {
            self.counters.all_here();
        }
        Ok(())
    }

    /// Has the crawler take what is below a path of the destination before everything else, in this process. The path is as it was when the
    /// migration began.
    pub fn first(&self, path: &std::path::Path) {
        self.queue.first(path);
    }

    /// Whether the sources have that path of the destination, as far as they say so now: one that does not answer may have it.
    pub fn has_path(&self, path: &std::path::Path, cancel: &Cancel) -> bool {
        let mut above = self.origins.iter().filter(|origin| path.starts_with(&origin.at));
        if self.origins.iter().any(|origin| origin.at.starts_with(path)) {
            return true;
        }
        above.any(|origin| {
            let path = path.strip_prefix(&origin.at).unwrap_or(path).to_owned();
            match origin.source.attributes(&Location { path, handle: Box::default() }, cancel) {
                Ok(_) => true,
                Err(error) => error.kind != ErrorKind::Gone,
            }
        })
    }

    /// Has the next crawl look everywhere, so that it tries again what an earlier one could not copy.
    pub fn look_again(&self) {
        self.queue.moved();
    }

    fn crawl_queue(self: &Arc<Self>, how: &Crawl, cancel: &Cancel) -> Result<()> {
        let state = State {
            tasks: VecDeque::new(),
            active: 0,
            listers: 0,
            substitutes: 0,
            is_over: false,
            open: HashMap::new(),
            copied: Vec::new(),
            settled_at: Instant::now(),
            failed: None,
        };
        // What is listed all at first is waited for once.
        let passes = if self.settings.ahead.is_some() { Passes::MetadataFirst } else { how.passes };
        let run = Run {
            engine: self,
            how: Crawl { passes, ..*how },
            cancel,
            pace: Pace::new(how.bandwidth),
            lot: (HELD / how.threads.max(1)).clamp(LOTS.0, LOTS.1),
            state: Mutex::new(state),
            wake: Condvar::new(),
        };
        std::thread::scope(|scope| {
            let run = &run;
            for _ in 1..how.threads.max(1) {
                scope.spawn(move || run.work(scope, Role::Worker));
            }
            if self.origins.len() > 1 {
                scope.spawn(move || run.watch(scope));
            }
            run.work(scope, Role::Worker);
        });
        run.end()
    }

    /// The number of the source that a place was found in.
    fn source_of(&self, place: &Place) -> u32 {
        let path = super::sweep::path_of(place);
        let origins = (0..).zip(&self.origins).filter(|(_, origin)| path.starts_with(&origin.at));
        origins.max_by_key(|(_, origin)| origin.at.components().count()).map_or(0, |(number, _)| number)
    }

    /// The directory of a place, if it is still there.
    fn open_place(&self, place: &Place, cancel: &Cancel) -> Result<Option<D::Object>> {
        let found = self.descend(&super::sweep::path_of(place), cancel)?;
        Ok(found.filter(|directory| self.destination.id(directory) == place.node))
    }
}

impl<D: Destination> Run<'_, D> {
    fn perform(&self, next: Next<D>) -> Result<()> {
        match next {
            Next::List(place) => {
                let done = self.list(&place).map(drop);
                if ends(&done) {
                    self.engine.queue.again(place, true);
                    return done;
                }
                Ok(())
            }
            Next::Copy(places) => self.copy(&places),
            Next::Task(task) => self.task(task),
        }
    }

    /// Lists a directory that may be a stub; `None` if it is not where it was.
    fn list(&self, place: &Place) -> Result<Option<D::Object>> {
        self.give_way();
        let Some(directory) = self.engine.open_place(place, self.cancel)? else {
            self.engine.queue.moved();
            return Ok(None);
        };
        self.engine.look_into_for_crawler(&directory, self.cancel)?;
        Ok(Some(directory))
    }

    /// A directory that is to be copied. If a crash has taken its listing back, over a long way, the listers make it again, with others at a time.
    fn open_for_names(&self, place: &Arc<Place>) -> Result<Option<D::Object>> {
        if self.engine.distances.listings() > 1
            && let Some(directory) = self.engine.open_place(place, self.cancel)?
            && self.engine.is_to_be_listed(&directory)?
        {
            self.engine.queue.again(place.clone(), true);
            return Ok(None);
        }
        self.list(place)
    }

    /// Waits a little for clients that wait.
    fn give_way(&self) {
        for _ in 0..20 {
            if !self.engine.counters.is_in_demand() || self.cancel.wait(Duration::from_millis(1)) {
                break;
            }
        }
    }

    fn settle_in_time(&self) -> Result<()> {
        let copied = {
            let mut state = self.state.lock();
            if state.settled_at.elapsed() < SETTLE {
                drop(state);
                return self.engine.settle_many();
            }
            state.settled_at = Instant::now();
            std::mem::take(&mut state.copied)
        };
        self.settle(copied)
    }

    /// Settles, and then says which directories are copied: a directory of which the log says so has no stub file left.
    fn settle(&self, copied: Vec<NodeId>) -> Result<()> {
        if let Err(error) = self.engine.settle() {
            self.state.lock().copied.extend(copied);
            return Err(error);
        }
        for node in copied {
            self.engine.queue.copied(node);
        }
        Ok(())
    }

    /// Settles what was done, and gives back what was not.
    fn end(self) -> Result<()> {
        let copied = std::mem::take(&mut self.state.lock().copied);
        let settled = self.settle(copied).and_then(|()| self.engine.settle());
        let state = self.state.into_inner();
        self.engine.queue.unpark();
        for place in state.open.into_values() {
            self.engine.queue.again(place, false);
        }
        match state.failed {
            Some(error) => Err(error),
            None => settled,
        }
    }
}

/// Whether the crawler ends by that, and does not just go on with something else.
pub(super) fn ends<T>(done: &Result<T>) -> bool {
    match done {
        Ok(_) | Err(Error::Conflict(_) | Error::Damaged { .. } | Error::UnknownSource { .. }) => false,
        Err(Error::Source { error, .. }) => matches!(error.kind, ErrorKind::Cancelled | ErrorKind::Invalid),
        Err(_) => true,
    }
}
