//! Decides on files that have changed at the source after the migration began, and on directories that can not be listed there.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::File;
use super::progress::Counters;
use super::sweep::path_of;
use super::{Doing, Engine, Error, Result};
use crate::destination::{Destination, NodeId};
use crate::ranges::RangeSet;
use crate::record::{Record, State};
use crate::source::{Attributes, Cancel, ErrorKind, FileType, Location};

/// Which version of a file stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// What is here. What was not copied becomes zeros, and the source's file is forgotten.
    KeepHere,
    /// The source's, as it is now. What is here is lost, clients' changes too.
    TakeSource,
}

pub(super) fn kind(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::BlockDevice | FileType::CharDevice => "device",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
    }
}

/// The source of a file, and its path there.
pub type AtSource = (u32, PathBuf);

impl<D: Destination> Engine<D> {
    /// Where files in conflict are now, below the destination: clients may have moved them. Those that were removed are not told, and of several names one is. Looks
    /// through the whole destination unless all are where they were.
    ///
    /// # Errors
    ///
    /// Of the destination.
    pub fn conflict_places(&self, mut wanted: HashSet<AtSource>) -> Result<HashMap<AtSource, PathBuf>> {
        let mut found = HashMap::new();
        let mut look = |wanted: &mut HashSet<AtSource>, object: &D::Object, path: PathBuf| -> Result<()> {
            let Some(node) = self.node(object)? else { return Ok(()) };
            let stub = node.lock();
            let key = (stub.record.source, stub.record.location.path.clone());
            if stub.record.conflict && wanted.remove(&key) {
                found.insert(key, path);
            }
            Ok(())
        };
        for (source, path) in wanted.clone() {
            let Some(origin) = self.origins.get(source as usize) else { continue };
            let path = origin.at.join(path);
            if let Some(object) = self.object_at(&path)?
                && self.destination.status(&object).doing("looking for a file in conflict")?.file_type
                    == FileType::Regular
            {
                look(&mut wanted, &object, path)?;
            }
        }
        let mut failed = Ok(());
        if !wanted.is_empty() {
            self.walk(&mut |place, name, _, object| {
                if let Some(name) = name {
                    failed = look(&mut wanted, object, path_of(place).join(name));
                }
                failed.is_ok() && !wanted.is_empty()
            })?;
        }
        failed.map(|()| found)
    }

    /// Ends a conflict of what is at that path below the destination; the number of its inode, if there was one. A directory is in conflict that could not be listed: it stays
    /// here without what the source has in it.
    ///
    /// # Errors
    ///
    /// Of any kind; then it is still in conflict.
    pub fn resolve(self: &Arc<Self>, path: &Path, how: Resolution, cancel: &Cancel) -> Result<Option<NodeId>> {
        let Some(object) = self.object_at(path)? else { return Ok(None) };
        let is_resolved = match self.destination.status(&object).doing("looking for a conflict")?.file_type {
            FileType::Regular => self.resolve_file(&object, path, how, cancel)?,
            FileType::Directory => self.resolve_directory(&object, how, cancel)?,
            _ => false,
        };
        Ok(is_resolved.then(|| self.destination.id(&object)))
    }

    fn resolve_file(
        self: &Arc<Self>,
        object: &D::Object,
        path: &Path,
        how: Resolution,
        cancel: &Cancel,
    ) -> Result<bool> {
        let Some(file) = self.file(object)?.filter(File::is_in_conflict) else { return Ok(false) };
        let resolved = match file.resolve(how, cancel) {
            Err(Error::NoVersion(_)) if self.takes_name(&file, path, cancel) => file.resolve(how, cancel),
            resolved => resolved,
        };
        resolved.map(|()| true)
    }

    /// A file with several names is known by the one that was listed first. Where that has gone, it is known by another one from now on, if the source has the file there.
    fn takes_name(&self, file: &File<D>, path: &Path, cancel: &Cancel) -> bool {
        let record = file.node.lock().record.clone();
        let Some(origin) = self.origins.get(record.source as usize) else { return false };
        let Ok(below) = path.strip_prefix(&origin.at) else { return false };
        let location = Location { path: below.to_owned(), handle: Box::default() };
        let asked = self.ask(record.source, below, cancel, |source| source.attributes(&location, cancel));
        let is_that = asked.is_ok_and(|now| now.id.1 == record.stamp.id && record.stamp.id != 0);
        if is_that {
            self.no_problem(record.source, &record.location.path);
            file.node.lock().record.location = location;
        }
        is_that
    }

    fn resolve_directory(&self, directory: &D::Object, how: Resolution, cancel: &Cancel) -> Result<bool> {
        let Some((record, _)) = self.record(directory)? else { return Ok(false) };
        let path = &record.location.path;
        // The whole of a source is none of its objects.
        if path.as_os_str().is_empty() || !self.queue.has_problem(record.source, path) {
            return Ok(false);
        }
        match how {
            Resolution::KeepHere => self.leave_empty(directory, cancel),
            // It is listed when the crawler comes to it.
            Resolution::TakeSource => self.version(&record, FileType::Directory, cancel).map(|_| true),
        }
    }

    /// The source's version of an object, if it is of that type.
    fn version(&self, record: &Record, wanted: FileType, cancel: &Cancel) -> Result<Attributes> {
        let location = &record.location;
        let asked = self.ask(record.source, &location.path, cancel, |source| source.attributes(location, cancel));
        let now = asked.map_err(|error| match error {
            Error::Source { path, error } if error.kind == ErrorKind::Gone => Error::NoVersion(path),
            error => error,
        })?;
        if now.file_type != wanted {
            let (path, was) = (location.path.clone(), kind(wanted));
            return Err(Error::OtherKind { path, was, kind: kind(now.file_type) });
        }
        Ok(now)
    }
}

impl<D: Destination> File<D> {
    /// Whether the file has changed at the source.
    pub fn is_in_conflict(&self) -> bool {
        !self.is_normal() && self.node.lock().record.conflict
    }

    /// Ends a conflict. Nothing happens to a file that is in none.
    ///
    /// # Errors
    ///
    /// Of any kind; then the file is still in conflict.
    pub fn resolve(&self, how: Resolution, cancel: &Cancel) -> Result<()> {
        match how {
            Resolution::KeepHere => self.keep_here(),
            Resolution::TakeSource => self.take_source(cancel),
        }
    }

    fn keep_here(&self) -> Result<()> {
        let (engine, node) = (&self.engine, &self.node);
        let mut stub = node.lock();
        node.alone(&mut stub);
        if !stub.record.conflict || stub.settled {
            return Ok(());
        }
        let before = stub.record.clone();
        (stub.record.conflict, stub.record.minsize, stub.record.state) = (false, 0, State::Partial);
        if let Err(error) = engine.store_stub(node, &mut stub) {
            stub.record = before;
            return Err(error);
        }
        engine.no_longer_missing(&mut stub, 0..u64::MAX);
        engine.check_complete(node, &mut stub);
        Ok(())
    }

    fn take_source(&self, cancel: &Cancel) -> Result<()> {
        let (engine, node) = (&self.engine, &self.node);
        let record = node.lock().record.clone();
        if !record.conflict {
            return Ok(());
        }
        let now = engine.version(&record, FileType::Regular, cancel)?;
        let size = now.size;
        let extras = engine.origins.get(record.source as usize).is_some_and(|it| it.source.capabilities().extras);
        let mut stub = node.lock();
        node.alone(&mut stub);
        if !stub.record.conflict || stub.settled {
            return Ok(());
        }
        // Everything is a hole before the record speaks of the new file: no old block may pass for one of it.
        let here = engine.destination.status(&node.object).doing("taking the source's file")?.size;
        engine.destination.truncate(&node.object, here.max(size)).doing("taking the source's file")?;
        // To the end of the last block: of a part of a block zeros would be left, which are data.
        let end = here.max(size).checked_next_multiple_of(engine.destination.block_size()).unwrap_or(u64::MAX);
        engine.destination.punch(&node.object, 0..end).doing("taking the source's file")?;
        let before = (stub.missing.len(), stub.record.clone());
        stub.record.state = if extras { State::Dummy } else { State::Partial };
        (stub.record.conflict, stub.record.modified) = (false, false);
        (stub.record.stamp, stub.record.minsize, stub.record.holes) = (now.stamp(), size, RangeSet::default());
        stub.missing = RangeSet::from(0..size);
        if let Err(error) = engine.store_stub(node, &mut stub) {
            stub.record = before.1;
            return Err(error);
        }
        engine.destination.truncate(&node.object, size).doing("taking the source's file")?;
        if extras {
            engine.remove_extras(&node.object)?;
        }
        engine.put_attributes(&node.object, &now, record.source)?;
        Counters::add(&engine.counters.bytes, size.saturating_sub(before.0));
        engine.no_problem(record.source, &record.location.path);
        engine.check_complete(node, &mut stub);
        Ok(())
    }
}
