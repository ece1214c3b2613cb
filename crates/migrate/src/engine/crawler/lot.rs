//! Copies the files of a directory.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Folder, Run, ends};
use crate::destination::Destination;
use crate::engine::file::File;
use crate::engine::log::Place;
use crate::engine::{Doing, Result};
use crate::record::State;
use crate::source::FileType;

/// Names that are looked up by one thread.
const LOT: usize = 128;
/// A file up to this size is copied with others in one call of the source.
const SMALL: u64 = 256 << 10;
/// Bytes of small files in one call.
const TOGETHER: u64 = 4 << 20;
/// A file of which so much is missing is copied by several threads.
const LARGE: u64 = 16 << 20;

/// A part of a directory.
pub(super) enum Task<D: Destination> {
    /// Files of these names.
    Names(Arc<Folder<D>>, Vec<OsString>),
    /// What is missing of a file.
    Data(Arc<Folder<D>>, File<D>),
}

impl<D: Destination> Task<D> {
    pub(super) fn is_first(&self) -> bool {
        let (Self::Names(folder, _) | Self::Data(folder, _)) = self;
        folder.is_first
    }
}

impl<D: Destination> Run<'_, D> {
    /// Begins with a directory.
    pub(super) fn copy(&self, place: &Arc<Place>) -> Result<()> {
        let directory = match self.list(place) {
            Ok(Some(directory)) => directory,
            Ok(None) => {
                self.state.lock().open.remove(&place.node);
                return Ok(());
            }
            done if ends(&done) => return done.map(drop),
            _ => {
                self.state.lock().open.remove(&place.node);
                return Ok(());
            }
        };
        let names = self.engine.destination.names(&directory).doing("reading a directory")?;
        let files: Vec<OsString> =
            names.into_iter().filter(|name| name.file_type == FileType::Regular).map(|name| name.name).collect();
        let (is_first, left, failed) = (self.engine.queue.is_first(place), AtomicUsize::new(1), AtomicBool::new(false));
        let folder = Arc::new(Folder { object: directory, place: place.clone(), is_first, left, failed });
        let mut lots = files.chunks(LOT).map(<[OsString]>::to_vec);
        let first = lots.next();
        self.push(&folder, lots.map(|names| Task::Names(folder.clone(), names)).collect());
        if let Some(first) = first {
            return self.task(Task::Names(folder, first));
        }
        self.done(&folder, true);
        Ok(())
    }

    fn push(&self, folder: &Folder<D>, tasks: Vec<Task<D>>) {
        folder.left.fetch_add(tasks.len(), Ordering::AcqRel);
        let mut state = self.state.lock();
        if folder.is_first {
            tasks.into_iter().rev().for_each(|task| state.tasks.push_front(task));
        } else {
            state.tasks.extend(tasks);
        }
        drop(state);
        self.wake.notify_all();
    }

    /// One of a directory's tasks is done; the last one ends the directory.
    fn done(&self, folder: &Folder<D>, well: bool) {
        if !well {
            folder.failed.store(true, Ordering::Release);
        }
        if folder.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut state = self.state.lock();
            state.open.remove(&folder.place.node);
            if !folder.failed.load(Ordering::Acquire) {
                state.copied.push(folder.place.node);
            }
        }
    }

    pub(super) fn task(&self, task: Task<D>) -> Result<()> {
        let (folder, done) = match task {
            Task::Names(folder, names) => {
                let done = self.names(&folder, names);
                (folder, done)
            }
            Task::Data(folder, file) => {
                let done = self.data(&file);
                (folder, done)
            }
        };
        if ends(&done) {
            // The directory stays open: it is given back when the crawler ends.
            return done.map(drop);
        }
        self.done(&folder, matches!(done, Ok(true)));
        Ok(())
    }

    /// Looks at files by name, and copies the small ones; whether all went well.
    fn names(&self, folder: &Arc<Folder<D>>, names: Vec<OsString>) -> Result<bool> {
        let mut files = Vec::new();
        for name in names {
            let object = self.engine.destination.lookup(&folder.object, &name).doing("looking for a file")?;
            let Some(object) = object else {
                self.engine.queue.moved();
                continue;
            };
            let file = match self.engine.file(&object) {
                done if ends(&done) => done?,
                Ok(file) => file,
                Err(_) => None,
            };
            files.extend(file);
        }
        let is_lacking = |file: &File<D>| {
            let stub = file.node.lock();
            stub.record.state == State::Dummy || !stub.missing.is_empty()
        };
        if files.iter().any(is_lacking) {
            self.engine.wait_a_tick(self.cancel)?;
        }
        self.engine.bring_attributes_of(&files, self.cancel);
        let (mut well, mut small, mut bytes) = (true, Vec::new(), 0);
        for file in files {
            let done = self.engine.bring_attributes(&file.node, self.cancel);
            if ends(&done) {
                return done.map(|()| true);
            }
            let missing = file.node.lock().missing.len();
            if done.is_err() {
                well = false;
            } else if missing > SMALL {
                self.large(folder, &file, missing);
            } else if missing > 0 {
                bytes += missing;
                small.push(file);
            }
            if bytes >= TOGETHER {
                well &= self.small(&std::mem::take(&mut small))?;
                bytes = 0;
            }
        }
        Ok(well & self.small(&small)?)
    }

    fn large(&self, folder: &Arc<Folder<D>>, file: &File<D>, missing: u64) {
        let threads = if missing >= LARGE { self.how.threads.max(1) } else { 1 };
        self.push(folder, (0..threads).map(|_| Task::Data(folder.clone(), file.clone())).collect());
    }

    /// Copies what is missing of a file, piece by piece; other threads may do so, too.
    fn data(&self, file: &File<D>) -> Result<bool> {
        loop {
            self.give_way();
            // Not within the call: the file's lock would be held for as long as that waits, and clients need it.
            let missing = file.node.lock().missing.len();
            self.pace.take(self.engine.settings.unit.min(missing), self.cancel);
            if self.cancel.is_cancelled() {
                return Err(crate::engine::Error::Cancelled);
            }
            let done = self.engine.bring_any(&file.node, self.cancel);
            match done {
                Ok(true) => {}
                Ok(false) => return Ok(true),
                _ if ends(&done) => return done,
                Err(_) => return Ok(false),
            }
        }
    }

    fn small(&self, files: &[File<D>]) -> Result<bool> {
        if files.is_empty() {
            return Ok(true);
        }
        self.give_way();
        let bytes = files.iter().map(|file| file.node.lock().missing.len()).sum();
        self.pace.take(bytes, self.cancel);
        let mut well = true;
        for done in self.engine.bring_small(files, self.cancel) {
            if ends(&done) {
                return done.map(|()| true);
            }
            well &= done.is_ok();
        }
        Ok(well)
    }
}
