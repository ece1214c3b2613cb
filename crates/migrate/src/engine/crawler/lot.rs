//! Copies the files of directories, in lots.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Folder, Run, ends};
use crate::destination::Destination;
use crate::engine::file::File;
use crate::engine::log::Place;
use crate::engine::{Doing, Error, Result};
use crate::record::State;
use crate::source::FileType;

/// A file up to this size is copied with others in one call of the source.
const SMALL: u64 = 256 << 10;
/// Bytes of small files in one call.
const TOGETHER: u64 = 4 << 20;
/// A file of which so much is missing is copied by several threads.
const LARGE: u64 = 16 << 20;

/// Names of files in a directory.
pub(super) type Part<D> = (Arc<Folder<D>>, Vec<OsString>);

/// A part of what is to be copied.
pub(super) enum Task<D: Destination> {
    /// A lot: files of directories of one source.
    Names(Vec<Part<D>>),
    /// What is missing of a file.
    Data(Arc<Folder<D>>, File<D>),
}

impl<D: Destination> Task<D> {
    fn folder(&self) -> Option<&Folder<D>> {
        match self {
            Self::Names(parts) => parts.first().map(|(folder, _)| &**folder),
            Self::Data(folder, _) => Some(folder),
        }
    }

    pub(super) fn is_first(&self) -> bool {
        self.folder().is_some_and(|folder| folder.is_first)
    }

    pub(super) fn source(&self) -> u32 {
        self.folder().map_or(0, |folder| folder.source)
    }
}

impl<D: Destination> Run<'_, D> {
    /// Begins with directories.
    pub(super) fn copy(&self, places: &[Arc<Place>]) -> Result<()> {
        let mut folders = Vec::new();
        for place in places {
            match self.open_folder(place) {
                // They stay open: they are given back when the crawler ends.
                done if ends(&done) => return done.map(drop),
                Ok(Some(folder)) => folders.push(folder),
                _ => drop(self.state.lock().open.remove(&place.node)),
            }
        }
        let opened: Vec<_> = folders.iter().map(|(folder, _)| folder.clone()).collect();
        let mut lots = self.lots(folders).into_iter();
        let first = lots.next();
        self.push(lots.map(Task::Names).collect());
        for folder in opened {
            self.done(&folder, true);
        }
        first.map_or(Ok(()), |lot| self.task(Task::Names(lot)))
    }

    /// A directory that is listed, with the names of its files.
    fn open_folder(&self, place: &Arc<Place>) -> Result<Option<Part<D>>> {
        let Some(directory) = self.open_for_names(place)? else { return Ok(None) };
        let names = self.engine.destination.names(&directory).doing("reading a directory")?;
        let files =
            names.into_iter().filter(|name| name.file_type == FileType::Regular).map(|name| name.name).collect();
        let folder = Folder {
            object: directory,
            place: place.clone(),
            source: self.engine.source_of(place),
            is_first: self.engine.queue.is_first(place),
            left: AtomicUsize::new(1),
            failed: AtomicBool::new(false),
        };
        Ok(Some((Arc::new(folder), files)))
    }

    /// Names of several directories together, as many as a lot may have.
    fn lots(&self, folders: Vec<Part<D>>) -> Vec<Vec<Part<D>>> {
        let (mut lots, mut lot, mut room) = (Vec::new(), Vec::new(), self.lot);
        for (folder, files) in folders {
            let mut files = files.into_iter();
            loop {
                let names: Vec<OsString> = files.by_ref().take(room).collect();
                if names.is_empty() {
                    break;
                }
                room -= names.len();
                folder.left.fetch_add(1, Ordering::AcqRel);
                lot.push((folder.clone(), names));
                if room == 0 {
                    lots.push(std::mem::take(&mut lot));
                    room = self.lot;
                }
            }
        }
        if !lot.is_empty() {
            lots.push(lot);
        }
        lots
    }

    fn push(&self, tasks: Vec<Task<D>>) {
        if tasks.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        if tasks[0].is_first() {
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

    /// What ends the crawler leaves directories open: they are given back.
    pub(super) fn task(&self, task: Task<D>) -> Result<()> {
        match task {
            Task::Names(lot) => {
                let well = self.names(&lot)?;
                lot.iter().zip(well).for_each(|((folder, _), well)| self.done(folder, well));
            }
            Task::Data(folder, file) => {
                let well = self.data(&file)?;
                self.done(&folder, well);
            }
        }
        Ok(())
    }

    /// Looks at files by name, and copies the small ones; whether all went well, for each part of the lot.
    fn names(&self, lot: &[Part<D>]) -> Result<Vec<bool>> {
        let files = self.find(lot)?;
        let all: Vec<File<D>> = files.iter().map(|(_, file)| file.clone()).collect();
        for file in &all {
            self.engine.look_at_conflict(&file.node, self.cancel)?;
        }
        let is_lacking = |file: &File<D>| {
            let stub = file.node.lock();
            stub.record.state == State::Dummy || !stub.missing.is_empty()
        };
        if all.iter().any(is_lacking) {
            self.engine.wait_a_tick(self.cancel)?;
        }
        self.engine.bring_attributes_of(&all, self.cancel);
        drop(all);
        let (mut mine, mut small, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (part, file) in files {
            let done = self.engine.bring_attributes(&file.node, self.cancel);
            if ends(&done) {
                return done.map(|()| Vec::new());
            }
            let missing = file.node.lock().missing.len();
            if done.is_ok() && missing > SMALL {
                self.large(&lot[part].0, &file, missing);
                continue;
            }
            if done.is_ok() && missing > 0 {
                bytes += missing;
                small.push(file.clone());
            }
            mine.push((part, file));
            if bytes >= self.together() {
                self.small(&std::mem::take(&mut small))?;
                bytes = 0;
            }
        }
        self.small(&small)?;
        let mut well = vec![true; lot.len()];
        for (part, file) in mine {
            well[part] &= file.is_normal() || file.node.lock().complete;
        }
        Ok(well)
    }

    /// The stubs of a lot, each with the number of its part.
    fn find(&self, lot: &[Part<D>]) -> Result<Vec<(usize, File<D>)>> {
        let mut files = Vec::new();
        for (part, (folder, names)) in lot.iter().enumerate() {
            for name in names {
                let object = self.engine.destination.lookup(&folder.object, name).doing("looking for a file")?;
                let Some(object) = object else {
                    self.engine.queue.moved();
                    continue;
                };
                match self.engine.file(&object) {
                    done if ends(&done) => return done.map(|_| Vec::new()),
                    Ok(file) => files.extend(file.map(|file| (part, file))),
                    Err(_) => {}
                }
            }
        }
        Ok(files)
    }

    fn large(&self, folder: &Arc<Folder<D>>, file: &File<D>, missing: u64) {
        let threads = if missing >= LARGE { self.how.threads.max(1) } else { 1 };
        folder.left.fetch_add(threads, Ordering::AcqRel);
        self.push((0..threads).map(|_| Task::Data(folder.clone(), file.clone())).collect());
    }

    /// Copies what is missing of a file, piece by piece; other threads may do so, too.
    fn data(&self, file: &File<D>) -> Result<bool> {
        loop {
            self.give_way();
            // Not within the call: the file's lock would be held for as long as that waits, and clients need it.
            let missing = file.node.lock().missing.len();
            self.pace.take(self.engine.settings.unit.min(missing), self.cancel);
            if self.cancel.is_cancelled() {
                return Err(Error::Cancelled);
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

    /// How many bytes go into one call: with a small bandwidth what it allows in a second, so that a pause and what comes first need not wait longer.
    fn together(&self) -> u64 {
        self.how.bandwidth.map_or(TOGETHER, |bandwidth| bandwidth.clamp(SMALL, TOGETHER))
    }

    /// Copies small files together. What one of them refuses is told, and the file is not whole.
    fn small(&self, files: &[File<D>]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        self.give_way();
        let bytes = files.iter().map(|file| file.node.lock().missing.len()).sum();
        self.pace.take(bytes, self.cancel);
        self.engine.bring_small(files, self.cancel).into_iter().find(ends).unwrap_or(Ok(()))
    }
}
