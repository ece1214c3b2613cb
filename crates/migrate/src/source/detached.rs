//! A source whose calls may hang for ever in the kernel: a mount of a server that does not answer.
//!
//! Nothing ends a system call that waits for such a server but the server, or the end of the process. So each call is made by a thread of its own, and its caller waits for
//! what comes of it as long as it likes: a caller that is cancelled leaves at once, and one that has waited [`PATIENCE`] learns that the source does not answer. The
//! thread stays behind, until the call returns; its result goes nowhere. While [`MOST`] are left behind, no more calls are made. A source that
//! [can not hang](Source::may_hang) now is called directly: its calls take less time than it takes to wake a thread.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{
    Attributes, Cancel, Capabilities, Entry, Error, ErrorKind, FileType, Location, Result, Source, ToldExtras, of_each,
};

/// How long a call may bring nothing.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a waiting caller looks whether it is cancelled.
const LOOK: Duration = Duration::from_millis(20);
/// So many calls hang at a time at most.
const MOST: usize = 64;
/// So many threads wait for work.
const IDLE: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

/// Makes the calls of another source in threads that its callers need not wait for.
///
/// *Threads*: any number. *Drop* leaves calls that hang behind.
pub struct Detached {
    source: Arc<dyn Source>,
    calls: Arc<Calls>,
}

#[derive(Default)]
struct Calls {
    idle: Mutex<Vec<SyncSender<Job>>>,
    /// Calls whose callers have left.
    hanging: Arc<AtomicUsize>,
}

/// What is left of a call in its thread, whose caller may leave before it ends.
struct Left {
    hanging: Arc<AtomicUsize>,
    state: Mutex<State>,
}

#[derive(PartialEq, Eq)]
enum State {
    Called,
    Ended,
    Left,
}

impl Left {
    fn leave(&self) {
        let mut state = self.state.lock();
        if *state == State::Called {
            *state = State::Left;
            self.hanging.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Ends a call in its thread, however it ends.
struct Ending(Arc<Left>);

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if *state == State::Left {
            self.0.hanging.fetch_sub(1, Ordering::AcqRel);
        }
        *state = State::Ended;
    }
}

impl Calls {
    /// Has a thread do it.
    fn start(self: &Arc<Self>, job: Job) -> Result<()> {
        let mut job = job;
        while let Some(thread) = { self.idle.lock().pop() } {
            match thread.send(job) {
                Ok(()) => return Ok(()),
                Err(unsent) => job = unsent.0,
            }
        }
        let calls = Arc::downgrade(self);
        let work = move || {
            job();
            loop {
                let (sender, jobs) = sync_channel::<Job>(1);
                {
                    let Some(calls) = calls.upgrade() else { return };
                    let mut idle = calls.idle.lock();
                    if idle.len() >= IDLE {
                        return;
                    }
                    idle.push(sender);
                }
                let Ok(job) = jobs.recv() else { return };
                job();
            }
        };
        let started = std::thread::Builder::new().name("source-call".to_owned()).spawn(work);
        started.map(drop).map_err(|error| Error::new(ErrorKind::Unavailable, format!("no thread for a call: {error}")))
    }
}

impl Detached {
    /// A source that may hang.
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self { source, calls: Arc::default() }
    }

    /// Opens a source, in a thread, too.
    ///
    /// # Errors
    ///
    /// Those of `open`; [`ErrorKind::Unavailable`] if it does not return.
    pub fn open<S: Source + 'static>(
        open: impl FnOnce() -> Result<S> + Send + 'static,
        cancel: &Cancel,
    ) -> Result<Self> {
        let calls = Arc::<Calls>::default();
        let source = Arc::new(wait(&calls, cancel, move |_| open())?);
        Ok(Self { source, calls })
    }

    /// The source, where it is called directly.
    fn direct(&self) -> Option<&dyn Source> {
        (!self.source.may_hang()).then_some(&*self.source)
    }

    fn call<T: Send + 'static>(
        &self,
        cancel: &Cancel,
        what: impl FnOnce(&dyn Source, &Cancel) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let source = self.source.clone();
        wait(&self.calls, cancel, move |cancel| what(&*source, cancel))
    }

    /// The same for so many, of which each has its result.
    fn call_each<T: Send + 'static>(
        &self,
        many: usize,
        cancel: &Cancel,
        what: impl FnOnce(&dyn Source, &Cancel) -> Vec<Result<T>> + Send + 'static,
    ) -> Vec<Result<T>> {
        of_each(many, self.call(cancel, move |source, cancel| Ok(what(source, cancel))))
    }
}

/// What comes of a call that a thread makes.
fn wait<T: Send + 'static>(
    calls: &Arc<Calls>,
    cancel: &Cancel,
    what: impl FnOnce(&Cancel) -> Result<T> + Send + 'static,
) -> Result<T> {
    let mut done = None;
    let take = &mut |result: Result<T>| {
        done = Some(result);
        Ok(())
    };
    wait_for_all(calls, cancel, take, move |cancel, tell| {
        let _ = tell(what(cancel));
        Ok(())
    })?;
    done.unwrap_or_else(|| Err(silent()))
}

fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, format!("a call has hung for {} s in the kernel", PATIENCE.as_secs()))
}

/// Gives what a call tells, piece by piece, to `take`, until it has returned.
fn wait_for_all<P: Send + 'static>(
    calls: &Arc<Calls>,
    cancel: &Cancel,
    take: &mut dyn FnMut(P) -> Result<()>,
    what: impl FnOnce(&Cancel, &dyn Fn(P) -> Result<()>) -> Result<()> + Send + 'static,
) -> Result<()> {
    enum Piece<P> {
        Told(P),
        Returned(Result<()>),
    }
    if calls.hanging.load(Ordering::Acquire) >= MOST {
        return Err(Error::new(ErrorKind::Unavailable, format!("{MOST} calls hang in the kernel")));
    }
    let left = Arc::new(Left { hanging: calls.hanging.clone(), state: Mutex::new(State::Called) });
    let (tell, told): (SyncSender<Piece<P>>, Receiver<Piece<P>>) = sync_channel(1);
    let (of_thread, ending) = (cancel.clone(), Ending(left.clone()));
    calls.start(Box::new(move || {
        let ending = ending;
        // Where its caller has left, so does the call, when it returns.
        let gone = |_| Error::cancelled();
        let returned = what(&of_thread, &|piece| tell.send(Piece::Told(piece)).map_err(gone));
        // Before the caller hears of it.
        drop(ending);
        let _ = tell.send(Piece::Returned(returned));
    }))?;
    let mut since = Instant::now();
    loop {
        match told.recv_timeout(LOOK) {
            Ok(Piece::Told(piece)) => {
                take(piece).inspect_err(|_| left.leave())?;
                since = Instant::now();
            }
            Ok(Piece::Returned(returned)) => return returned,
            // It has panicked, and has said so.
            Err(RecvTimeoutError::Disconnected) => return Err(Error::new(ErrorKind::Broken, "the call has panicked")),
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => {
                left.leave();
                return Err(Error::cancelled());
            }
            Err(RecvTimeoutError::Timeout) if since.elapsed() >= PATIENCE => {
                left.leave();
                return Err(silent());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

impl Source for Detached {
    fn name(&self) -> String {
        self.source.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.source.capabilities()
    }

    fn root(&self, cancel: &Cancel) -> Result<(Location, Attributes)> {
        self.call(cancel, |source, cancel| source.root(cancel))
    }

    fn reopen(&self, cancel: &Cancel) -> Result<()> {
        self.call(cancel, |source, cancel| source.reopen(cancel))
    }

    fn list(
        &self,
        directory: &Location,
        cancel: &Cancel,
        take: &mut dyn FnMut(Vec<Entry>) -> Result<()>,
    ) -> Result<()> {
        if let Some(source) = self.direct() {
            return source.list(directory, cancel, take);
        }
        let (source, directory) = (self.source.clone(), directory.clone());
        wait_for_all(&self.calls, cancel, take, move |cancel, tell| {
            source.list(&directory, cancel, &mut |page| tell(page))
        })
    }

    fn attributes(&self, object: &Location, cancel: &Cancel) -> Result<Attributes> {
        if let Some(source) = self.direct() {
            return source.attributes(object, cancel);
        }
        let object = object.clone();
        self.call(cancel, move |source, cancel| source.attributes(&object, cancel))
    }

    fn extras_told(&self, object: &Location, cancel: &Cancel) -> Result<ToldExtras> {
        if let Some(source) = self.direct() {
            return source.extras_told(object, cancel);
        }
        let object = object.clone();
        self.call(cancel, move |source, cancel| source.extras_told(&object, cancel))
    }

    fn extras_of_told(&self, objects: &[(&Location, FileType)], cancel: &Cancel) -> Vec<Result<ToldExtras>> {
        if let Some(source) = self.direct() {
            return source.extras_of_told(objects, cancel);
        }
        let owned: Vec<_> = objects.iter().map(|&(object, kind)| (object.clone(), kind)).collect();
        self.call_each(objects.len(), cancel, move |source, cancel| {
            let objects: Vec<_> = owned.iter().map(|(object, kind)| (object, *kind)).collect();
            source.extras_of_told(&objects, cancel)
        })
    }

    fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<usize> {
        Ok(self.read_told(file, offset, buffer, cancel)?.0)
    }

    fn read_told(
        &self,
        file: &Location,
        offset: u64,
        buffer: &mut [u8],
        cancel: &Cancel,
    ) -> Result<(usize, Option<Attributes>)> {
        if let Some(source) = self.direct() {
            return source.read_told(file, offset, buffer, cancel);
        }
        let (file, length) = (file.clone(), buffer.len());
        let (read, bytes) = self.call(cancel, move |source, cancel| {
            let mut bytes = vec![0; length];
            source.read_told(&file, offset, &mut bytes, cancel).map(|read| (read, bytes))
        })?;
        buffer.copy_from_slice(&bytes);
        Ok(read)
    }

    fn read_files_told(
        &self,
        files: &mut [(&Location, &mut [u8])],
        cancel: &Cancel,
    ) -> Vec<Result<(usize, Option<Attributes>)>> {
        if let Some(source) = self.direct() {
            return source.read_files_told(files, cancel);
        }
        let mut owned: Vec<_> = files.iter().map(|(file, buffer)| ((*file).clone(), vec![0; buffer.len()])).collect();
        let results = self.call_each(files.len(), cancel, move |source, cancel| {
            let mut asked: Vec<_> = owned.iter_mut().map(|(file, bytes)| (&*file, &mut bytes[..])).collect();
            let read = source.read_files_told(&mut asked, cancel);
            read.into_iter().zip(owned).map(|(read, (_, bytes))| Ok((read?, bytes))).collect()
        });
        let fill = |(result, (_, buffer)): (Result<_>, &mut (&Location, &mut [u8]))| {
            let (read, bytes): (_, Vec<u8>) = result?;
            buffer.copy_from_slice(&bytes);
            Ok(read)
        };
        results.into_iter().zip(files).map(fill).collect()
    }

    fn next_data(&self, file: &Location, offset: u64, cancel: &Cancel) -> Result<Option<Range<u64>>> {
        if let Some(source) = self.direct() {
            return source.next_data(file, offset, cancel);
        }
        let file = file.clone();
        self.call(cancel, move |source, cancel| source.next_data(&file, offset, cancel))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::simulated::Simulated;
    use super::*;

    /// A tree that answers through a source which waits as long as the guard is held.
    struct Hanging {
        tree: Simulated,
        guard: Arc<Mutex<()>>,
    }

    impl Source for Hanging {
        fn name(&self) -> String {
            "hanging".to_owned()
        }

        fn capabilities(&self) -> Capabilities {
            self.tree.capabilities()
        }

        fn may_hang(&self) -> bool {
            true
        }

        fn root(&self, _: &Cancel) -> Result<(Location, Attributes)> {
            drop(self.guard.lock());
            self.tree.root(&Cancel::new())
        }

        fn list(&self, at: &Location, cancel: &Cancel, take: &mut dyn FnMut(Vec<Entry>) -> Result<()>) -> Result<()> {
            self.tree.list(at, cancel, take)
        }

        fn attributes(&self, object: &Location, cancel: &Cancel) -> Result<Attributes> {
            self.tree.attributes(object, cancel)
        }

        fn extras_told(&self, object: &Location, cancel: &Cancel) -> Result<ToldExtras> {
            self.tree.extras_told(object, cancel)
        }

        fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<usize> {
            self.tree.read(file, offset, buffer, cancel)
        }

        fn next_data(&self, file: &Location, offset: u64, cancel: &Cancel) -> Result<Option<Range<u64>>> {
            self.tree.next_data(file, offset, cancel)
        }
    }

    fn at(path: &str) -> Location {
        Location { path: path.into(), handle: Box::default() }
    }

    #[test]
    fn everything_is_answered_as_by_the_source_itself() {
        let tree = Simulated::new();
        for number in 0..5 {
            tree.add(Path::new(&format!("file-{number}")), FileType::Regular, vec![number; 1000 * usize::from(number)]);
        }
        let hanging = Hanging { tree: tree.clone(), guard: Arc::default() };
        let (detached, cancel) = (Detached::new(Arc::new(hanging)), Cancel::new());
        assert_eq!(detached.root(&cancel), tree.root(&cancel));
        let listed = |source: &dyn Source| {
            let mut names = Vec::new();
            let listing = source.list(&at(""), &cancel, &mut |page| {
                names.extend(page);
                Ok(())
            });
            listing.expect("lists");
            names
        };
        assert_eq!(listed(&detached), listed(&tree));
        let refused = detached.list(&at(""), &cancel, &mut |_| Err(Error::new(ErrorKind::Broken, "mine")));
        assert_eq!(refused.expect_err("as the caller has it").message, "mine");
        let paths: Vec<_> = ["file-0", "file-4", "none", "file-1"].map(at).to_vec();
        let objects: Vec<_> = paths.iter().map(|path| (path, FileType::Regular)).collect();
        assert_eq!(detached.extras_of_told(&objects, &cancel), tree.extras_of_told(&objects, &cancel));
        let read = |source: &dyn Source| {
            let mut buffers = vec![vec![9; 3000]; paths.len()];
            let mut files: Vec<_> =
                paths.iter().zip(&mut buffers).map(|(path, buffer)| (path, &mut buffer[..])).collect();
            let read = source.read_files_told(&mut files, &cancel);
            let found: Vec<_> = read
                .into_iter()
                .zip(buffers)
                .map(|(read, bytes)| read.map(|read| (read, bytes[..read.0].to_vec())))
                .collect();
            found
        };
        assert_eq!(read(&detached), read(&tree));
        for path in &paths {
            assert_eq!(detached.attributes(path, &cancel), tree.attributes(path, &cancel));
            assert_eq!(detached.next_data(path, 0, &cancel), tree.next_data(path, 0, &cancel));
            let (mut one, mut other) = ([0; 2000], [0; 2000]);
            let (one_read, other_read) =
                (detached.read(path, 500, &mut one, &cancel), tree.read(path, 500, &mut other, &cancel));
            assert!(one_read == other_read && (one_read.is_err() || one == other));
        }
        assert!(detached.calls.idle.lock().len() <= IDLE);
    }

    #[test]
    fn a_caller_leaves_a_call_that_hangs_and_calls_that_hang_do_not_become_ever_more() {
        let guard = Arc::new(Mutex::new(()));
        let detached = Detached::new(Arc::new(Hanging { tree: Simulated::new(), guard: guard.clone() }));
        let held = guard.lock();
        for hanging in 0..MOST {
            assert_eq!(detached.calls.hanging.load(Ordering::Acquire), hanging);
            let cancel = Cancel::new();
            cancel.cancel();
            assert_eq!(detached.root(&cancel).expect_err("left").kind, ErrorKind::Cancelled);
        }
        let refused = detached.root(&Cancel::new()).expect_err("too many hang");
        assert!(refused.kind == ErrorKind::Unavailable && refused.message.contains("hang"), "{refused}");
        drop(held);
        let until = Instant::now() + Duration::from_mins(1);
        while detached.root(&Cancel::new()).is_err() {
            assert!(Instant::now() < until, "they return");
            std::thread::sleep(Duration::from_millis(1));
        }
        while detached.calls.hanging.load(Ordering::Acquire) > 0 {
            assert!(Instant::now() < until, "all of them");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
