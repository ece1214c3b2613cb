//! A source that is opened when it is first needed.
//!
//! A service that goes on with a migration must not wait for the old server: what is here is served without it. So the engine gets a source that
//! nothing has opened yet. The first call opens it; until that succeeds every call is [`ErrorKind::Unavailable`], which the engine waits for.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::{
    Attributes, Cancel, Capabilities, Entry, Error, ErrorKind, FileType, Location, Result, Source, ToldExtras, of_each,
};

/// How often a waiter looks whether its caller has cancelled it.
const LOOK: Duration = Duration::from_millis(20);

type Open = dyn Fn(&Cancel) -> Result<Arc<dyn Source>> + Send + Sync;

/// Opens a source at the first call, and at each further one until it is open.
///
/// *Threads*: any number. One opens, the others wait and share what comes of it. *An error of opening* is
/// [`ErrorKind::Unavailable`], of whatever kind it was: an export that is not there while the old server starts comes later.
pub struct Deferred {
    name: String,
    open: Box<Open>,
    opened: OnceLock<Arc<dyn Source>>,
    attempts: Mutex<Attempts>,
    turn: Condvar,
}

#[derive(Default)]
struct Attempts {
    /// A thread opens it.
    opening: bool,
    /// Attempts that have failed.
    failed: u64,
    last: Option<Error>,
}

impl Deferred {
    /// A source of that name, which `open` opens.
    pub fn new(
        name: impl Into<String>,
        open: impl Fn(&Cancel) -> Result<Arc<dyn Source>> + Send + Sync + 'static,
    ) -> Self {
        let (opened, attempts, turn) = (OnceLock::new(), Mutex::default(), Condvar::new());
        Self { name: name.into(), open: Box::new(open), opened, attempts, turn }
    }

    fn source(&self, cancel: &Cancel) -> Result<&dyn Source> {
        if let Some(source) = self.opened.get() {
            return Ok(&**source);
        }
        let mut attempts = self.attempts.lock();
        let before = attempts.failed;
        while attempts.opening {
            if cancel.is_cancelled() {
                return Err(Error::cancelled());
            }
            self.turn.wait_for(&mut attempts, LOOK);
        }
        if let Some(source) = self.opened.get() {
            return Ok(&**source);
        }
        if attempts.failed != before
            && let Some(error) = &attempts.last
        {
            return Err(error.clone());
        }
        attempts.opening = true;
        drop(attempts);
        let done = (self.open)(cancel);
        let mut attempts = self.attempts.lock();
        attempts.opening = false;
        self.turn.notify_all();
        match done {
            Ok(source) => Ok(&**self.opened.get_or_init(|| source)),
            // Of this caller alone.
            Err(error) if error.kind == ErrorKind::Cancelled => Err(error),
            Err(error) => {
                let error = Error::new(ErrorKind::Unavailable, error.message);
                attempts.failed += 1;
                attempts.last = Some(error.clone());
                Err(error)
            }
        }
    }

    /// What the source answers for each of so many, or for each why it is not open.
    fn of_each<T>(
        &self,
        many: usize,
        cancel: &Cancel,
        ask: impl FnOnce(&dyn Source) -> Vec<Result<T>>,
    ) -> Vec<Result<T>> {
        of_each(many, self.source(cancel).map(ask))
    }
}

impl Source for Deferred {
    fn name(&self) -> String {
        self.name.clone()
    }

    /// Before it is open, everything that a source may have: then the engine asks, and the source decides.
    fn capabilities(&self) -> Capabilities {
        let all = || Capabilities { owners: true, extras: true, holes: true, read_size: 1 << 20, parallel: 1 };
        self.opened.get().map_or_else(all, |source| source.capabilities())
    }

    fn root(&self, cancel: &Cancel) -> Result<(Location, Attributes)> {
        self.source(cancel)?.root(cancel)
    }

    fn reopen(&self, cancel: &Cancel) -> Result<()> {
        self.source(cancel)?.reopen(cancel)
    }

    fn list(
        &self,
        directory: &Location,
        cancel: &Cancel,
        take: &mut dyn FnMut(Vec<Entry>) -> Result<()>,
    ) -> Result<()> {
        self.source(cancel)?.list(directory, cancel, take)
    }

    fn attributes(&self, object: &Location, cancel: &Cancel) -> Result<Attributes> {
        self.source(cancel)?.attributes(object, cancel)
    }

    fn extras_told(&self, object: &Location, cancel: &Cancel) -> Result<ToldExtras> {
        self.source(cancel)?.extras_told(object, cancel)
    }

    fn extras_of_told(&self, objects: &[(&Location, FileType)], cancel: &Cancel) -> Vec<Result<ToldExtras>> {
        self.of_each(objects.len(), cancel, |source| source.extras_of_told(objects, cancel))
    }

    fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<usize> {
        self.source(cancel)?.read(file, offset, buffer, cancel)
    }

    fn read_files(&self, files: &mut [(&Location, &mut [u8])], cancel: &Cancel) -> Vec<Result<usize>> {
        self.of_each(files.len(), cancel, |source| source.read_files(files, cancel))
    }

    fn read_told(
        &self,
        file: &Location,
        offset: u64,
        buffer: &mut [u8],
        cancel: &Cancel,
    ) -> Result<(usize, Option<Attributes>)> {
        self.source(cancel)?.read_told(file, offset, buffer, cancel)
    }

    fn read_files_told(
        &self,
        files: &mut [(&Location, &mut [u8])],
        cancel: &Cancel,
    ) -> Vec<Result<(usize, Option<Attributes>)>> {
        self.of_each(files.len(), cancel, |source| source.read_files_told(files, cancel))
    }

    fn next_data(&self, file: &Location, offset: u64, cancel: &Cancel) -> Result<Option<Range<u64>>> {
        self.source(cancel)?.next_data(file, offset, cancel)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::simulated::Simulated;
    use super::*;

    #[test]
    fn a_caller_that_waits_for_the_attempt_of_another_can_be_cancelled() {
        let attempts = Arc::new(AtomicUsize::new(0));
        let (count, enter) = (attempts.clone(), Arc::new(std::sync::Barrier::new(2)));
        let inside = enter.clone();
        let source = Deferred::new("old", move |cancel| {
            count.fetch_add(1, Ordering::Relaxed);
            inside.wait();
            // Until the test has seen the others wait.
            inside.wait();
            cancel.wait(Duration::from_millis(50));
            Err(Error::new(ErrorKind::Invalid, "no such export"))
        });
        let source = &source;
        std::thread::scope(|scope| {
            let first = scope.spawn(move || source.root(&Cancel::new()));
            enter.wait();
            let cancelled = Cancel::new();
            cancelled.cancel();
            let other = scope.spawn(move || source.root(&cancelled));
            assert_eq!(other.join().expect("ends").expect_err("is cancelled").kind, ErrorKind::Cancelled);
            enter.wait();
            assert_eq!(first.join().expect("ends").expect_err("it is away").kind, ErrorKind::Unavailable);
        });
        assert_eq!(attempts.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_source_that_came_back_is_opened_once() {
        let attempts = Arc::new(AtomicUsize::new(0));
        let count = attempts.clone();
        let source = Deferred::new("old", move |_| match count.fetch_add(1, Ordering::Relaxed) {
            0 => Err(Error::new(ErrorKind::Gone, "not there")),
            _ => Ok(Arc::new(Simulated::plain()) as Arc<dyn Source>),
        });
        assert!(source.capabilities().holes);
        assert_eq!(source.root(&Cancel::new()).expect_err("it is away").kind, ErrorKind::Unavailable);
        source.root(&Cancel::new()).expect("answers");
        source.root(&Cancel::new()).expect("answers");
        assert!(!source.capabilities().holes, "its own");
        assert_eq!(attempts.load(Ordering::Relaxed), 2);
    }
}
