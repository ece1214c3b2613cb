//! The threads that answer for one mount, and how a request that waits for long takes no thread from the others.
//!
//! ```text
//!  a request waits (`waiting`) ──▶ one thread fewer is ready ──▶ another is started
//!  it is answered              ──▶ far too many are ready    ──▶ that thread ends
//! ```
//!
//! A request that waits hears when its program gives up ([`waiting`]'s `stop`). When the mount is handed over, it is not answered at
//! all: the kernel sends it again, to the successor.

use std::cell::RefCell;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;

/// Threads of a mount, waiting ones with them.
const MOST: usize = 1 << 10;

/// By how much more threads may be ready than are wanted: short waits start none then.
const SPARE: usize = 2;

thread_local! {
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

/// What a thread knows of itself.
#[derive(Clone)]
struct Own {
    crew: Arc<Crew>,
    slot: Arc<Slot>,
}

/// Starts a thread of that crew, with that number.
type Start = dyn Fn(&Arc<Crew>, usize) -> io::Result<JoinHandle<()>> + Send + Sync;

/// The threads of a mount.
pub(crate) struct Crew {
    start: Box<Start>,
    /// Threads that are to be ready.
    wanted: usize,
    /// Threads that wait for a request or are at one that does not wait.
    ready: AtomicUsize,
    number: AtomicUsize,
    slots: Mutex<Vec<Arc<Slot>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Nothing is to be read any more, and what waits is not to be answered.
    rests: AtomicBool,
    /// Requests that were not answered.
    left: AtomicUsize,
}

/// What one thread is at.
#[derive(Default)]
pub(crate) struct Slot(Mutex<AtWork>);

#[derive(Default)]
struct AtWork {
    request: u64,
    given_up: bool,
    stop: Option<Box<dyn Fn() + Send>>,
}

/// The payload of the unwinding of a request that is not answered.
pub(crate) struct Unanswered;

impl Crew {
    pub(crate) fn new(
        wanted: usize,
        start: impl Fn(&Arc<Self>, usize) -> io::Result<JoinHandle<()>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            start: Box::new(start),
            wanted: wanted.max(1),
            ready: AtomicUsize::new(0),
            number: AtomicUsize::new(0),
            slots: Mutex::default(),
            threads: Mutex::default(),
            rests: AtomicBool::new(false),
            left: AtomicUsize::new(0),
        })
    }

    /// Starts as many threads as are wanted.
    pub(crate) fn fill(self: &Arc<Self>) -> io::Result<()> {
        while self.ready.load(Ordering::Acquire) < self.wanted {
            self.add()?;
        }
        Ok(())
    }

    fn add(self: &Arc<Self>) -> io::Result<()> {
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        if threads.len() >= MOST {
            return Ok(());
        }
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        // Counted before it runs: it may be one too many already when it has answered its first request.
        self.ready.fetch_add(1, Ordering::AcqRel);
        match (self.start)(self, number) {
            Ok(thread) => {
                threads.push(thread);
                Ok(())
            }
            Err(error) => {
                self.ready.fetch_sub(1, Ordering::AcqRel);
                Err(error)
            }
        }
    }

    /// The calling thread belongs to it, until it [leaves](Self::leave).
    pub(crate) fn join_in(self: &Arc<Self>) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        self.slots.lock().push(slot.clone());
        OWN.set(Some(Own { crew: self.clone(), slot: slot.clone() }));
        slot
    }

    pub(crate) fn leave(&self, slot: &Arc<Slot>) {
        OWN.set(None);
        self.slots.lock().retain(|other| !Arc::ptr_eq(other, slot));
    }

    /// Whether the calling thread is one too many; then it counts no more.
    pub(crate) fn is_too_large(&self) -> bool {
        let fewer = |ready: usize| (ready > SPARE * self.wanted).then(|| ready - 1);
        self.ready.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer).is_ok()
    }

    /// The program that sent that request wants no answer any more. Whether the request is worked on.
    pub(crate) fn give_up(&self, request: u64) -> bool {
        let slots = self.slots.lock();
        slots.iter().any(|slot| slot.give_up(|at| at.request == request))
    }

    /// Nothing waits any more, nor will.
    pub(crate) fn rest(&self) {
        self.rests.store(true, Ordering::Release);
        for slot in &*self.slots.lock() {
            slot.give_up(|_| true);
        }
    }

    /// Waits until all threads have ended. Whether each of them ended well.
    pub(crate) fn join(&self) -> bool {
        let mut well = true;
        loop {
            let Some(thread) = self.threads.lock().pop() else { return well };
            well &= thread.join().is_ok();
        }
    }

    /// Requests that were not answered, because the mount is handed over.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// Whether no thread has ended that should be there.
    pub(crate) fn is_whole(&self) -> bool {
        let threads = self.threads.lock();
        threads.iter().filter(|thread| !thread.is_finished()).count() >= self.wanted
    }
}

impl Slot {
    /// It is at that request now.
    pub(crate) fn begin(&self, request: u64) {
        *self.0.lock() = AtWork { request, given_up: false, stop: None };
    }

    /// It is at none.
    pub(crate) fn end(&self) {
        self.begin(0);
    }

    fn give_up(&self, which: impl Fn(&AtWork) -> bool) -> bool {
        let mut at = self.0.lock();
        if at.request == 0 || !which(&at) {
            return false;
        }
        at.given_up = true;
        if let Some(stop) = &at.stop {
            stop();
        }
        true
    }
}

/// Does what may take long, within a request, while another thread answers other requests. `stop` is called, once or more, when the program
/// gives up or the mount is handed over; `work` is to end with an error soon then. May be called from any thread: from one that is at no
/// request, it only works.
///
/// # Errors
///
/// What `work` returns. When the mount is handed over, an error is not returned: the request ends here, without an answer.
pub fn waiting<T, E>(stop: impl Fn() + Send + 'static, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let Some(Own { crew, slot }) = OWN.with_borrow(Clone::clone) else { return work() };
    {
        let mut at = slot.0.lock();
        if at.given_up || crew.rests.load(Ordering::Acquire) {
            stop();
        }
        at.stop = Some(Box::new(stop));
    }
    let was_ready = crew.ready.fetch_sub(1, Ordering::AcqRel);
    if was_ready <= crew.wanted
        && !crew.rests.load(Ordering::Acquire)
        && let Err(error) = crew.add()
    {
        tracing::warn!(%error, "no other thread could be started: requests wait for one that waits");
    }
    let outcome = work();
    crew.ready.fetch_add(1, Ordering::AcqRel);
    slot.0.lock().stop = None;
    if outcome.is_err() && crew.rests.load(Ordering::Acquire) {
        crew.left.fetch_add(1, Ordering::AcqRel);
        resume_unwind(Box::new(Unanswered));
    }
    outcome
}
