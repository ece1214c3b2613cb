//! Walks both sides, a directory at a time.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ishigaki_migrate::engine::{AHEAD, HIDDEN, LOST_AND_FOUND, STATE};
use ishigaki_migrate::source::{Entry, Location, Result as SourceResult, Source};
use parking_lot::{Condvar, Mutex};

use super::Comparison;
use super::pair::{Seen, word};
use super::report::{Difference, Kind};
use crate::{Error, Result};

/// A directory that both sides have.
struct Folder {
    source: usize,
    /// Below the destination.
    path: PathBuf,
    old: Location,
    new: Location,
}

#[derive(Default)]
struct Queue {
    folders: VecDeque<Folder>,
    /// Threads at work.
    active: usize,
    failed: Option<Error>,
}

#[derive(Default)]
struct Work {
    queue: Mutex<Queue>,
    wake: Condvar,
}

fn here(path: &Path) -> Location {
    Location { path: path.to_owned(), handle: Box::default() }
}

impl Comparison<'_> {
    pub(super) fn walk(&self, threads: usize) -> Result<()> {
        let work = Work::default();
        for number in 0..self.old.len() {
            self.root(number, &work)?;
        }
        self.between()?;
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| self.work(&work));
            }
            self.work(&work);
        });
        work.queue.into_inner().failed.map_or(Ok(()), Err)
    }

    fn work(&self, work: &Work) {
        loop {
            let folder = {
                let mut queue = work.queue.lock();
                loop {
                    if queue.failed.is_some() {
                        return;
                    }
                    if let Some(folder) = queue.folders.pop_front() {
                        queue.active += 1;
                        break folder;
                    }
                    if queue.active == 0 {
                        return;
                    }
                    work.wake.wait_for(&mut queue, Duration::from_millis(100));
                }
            };
            let done = self.folder(&folder, work);
            let mut queue = work.queue.lock();
            queue.active -= 1;
            if let Err(error) = done {
                queue.failed.get_or_insert(error);
            }
            drop(queue);
            work.wake.notify_all();
        }
    }

    /// A source's own directory.
    fn root(&self, source: usize, work: &Work) -> Result<()> {
        let config = &self.config.sources[source];
        let root = self.old[source].root(self.cancel).and_then(|(location, attributes)| {
            self.roots.check(source, &attributes)?;
            Ok((location, attributes))
        });
        let (location, attributes) = root.map_err(|error| config.from.failed(error))?;
        let path = config.into.clone();
        let old = Seen { location, attributes };
        let new = match self.new.attributes(&here(&path), self.cancel) {
            Ok(attributes) => Seen { location: here(&path), attributes },
            Err(error) if error.kind == ishigaki_migrate::source::ErrorKind::Gone => {
                self.tell(Difference::new(&path, Kind::OnlyAtSource, "directory", ""));
                return Ok(());
            }
            Err(error) => return self.unreadable(&path, None, error),
        };
        if self.pair(source, &path, &old, &new)? {
            work.queue.lock().folders.push_back(Folder { source, path, old: old.location, new: new.location });
        }
        Ok(())
    }

    /// Directories that are there only because a source goes below them: what else is in them comes from no source.
    fn between(&self) -> Result<()> {
        let intos: Vec<&Path> = self.config.sources.iter().map(|source| source.into.as_path()).collect();
        if intos.iter().any(|into| into.as_os_str().is_empty()) {
            return Ok(());
        }
        let mut above: Vec<&Path> = intos.iter().flat_map(|into| into.ancestors().skip(1)).collect();
        above.sort();
        above.dedup();
        for directory in above {
            let names = match list(&self.new, &here(directory), self) {
                Ok(names) => names,
                Err(error) => {
                    self.unreadable(directory, None, error)?;
                    continue;
                }
            };
            for (name, entry) in names {
                let path = directory.join(&name);
                if !self.is_own(&path) && !intos.iter().any(|into| into.starts_with(&path)) {
                    self.tell(Difference::new(&path, Kind::OnlyHere, "", kind_of(&entry)));
                }
            }
        }
        Ok(())
    }

    /// What is no client's at the destination's root. When no migration is under way any more, its directory is a program's.
    fn is_own(&self, path: &Path) -> bool {
        let is_under_way = || [STATE, AHEAD].iter().any(|name| self.config.to.join(HIDDEN).join(name).exists());
        path == Path::new(LOST_AND_FOUND) || path == Path::new(HIDDEN) && is_under_way()
    }

    /// Whether another source goes there, into a directory at the destination's root.
    fn is_others(&self, source: usize, path: &Path) -> bool {
        self.config.sources[source].into.as_os_str().is_empty()
            && path.components().count() == 1
            && self.config.sources.iter().any(|other| other.into.starts_with(path))
    }

    fn folder(&self, folder: &Folder, work: &Work) -> Result<()> {
        let Folder { source, path, .. } = folder;
        let old = match list(&*self.old[*source], &folder.old, self) {
            Ok(names) => names,
            Err(error) => return self.unreadable(path, Some(*source), error),
        };
        let mut new = match list(&self.new, &folder.new, self) {
            Ok(names) => names,
            Err(error) => return self.unreadable(path, None, error),
        };
        for (name, entry) in old {
            if self.cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let path = path.join(&name);
            if path == Path::new(HIDDEN) {
                self.leave_out(&path, kind_of(&entry));
                new.remove(&name);
                continue;
            }
            let counterpart = new.remove(&name);
            if self.is_others(*source, &path) {
                self.tell(Difference::new(&path, Kind::Hidden, kind_of(&entry), ""));
            } else if let Some(counterpart) = counterpart {
                self.entry(folder, &path, entry, counterpart, work)?;
            } else {
                self.tell(Difference::new(&path, Kind::OnlyAtSource, kind_of(&entry), ""));
            }
        }
        for (name, entry) in new {
            let path = path.join(&name);
            if !self.is_own(&path) && !self.is_others(*source, &path) {
                self.tell(Difference::new(&path, Kind::OnlyHere, "", kind_of(&entry)));
            }
        }
        Ok(())
    }

    /// A name that both sides have.
    fn entry(&self, folder: &Folder, path: &Path, old: Entry, new: Entry, work: &Work) -> Result<()> {
        let source = folder.source;
        let old = match self.see(&*self.old[source], &folder.old, old) {
            Ok(old) => old,
            Err(error) => return self.unreadable(path, Some(source), error),
        };
        let new = match self.see(&self.new, &folder.new, new) {
            Ok(new) => new,
            Err(error) => return self.unreadable(path, None, error),
        };
        if self.pair(source, path, &old, &new)? {
            let folder = Folder { source, path: path.to_owned(), old: old.location, new: new.location };
            work.queue.lock().folders.push_back(folder);
            work.wake.notify_one();
        }
        Ok(())
    }

    fn see(&self, side: &dyn Source, directory: &Location, entry: Entry) -> SourceResult<Seen> {
        let location = Location { path: directory.path.join(entry.name), handle: entry.handle };
        let attributes = match entry.attributes {
            Some(attributes) => attributes,
            None => side.attributes(&location, self.cancel)?,
        };
        Ok(Seen { location, attributes })
    }
}

fn kind_of(entry: &Entry) -> &'static str {
    entry.attributes.map_or("", |attributes| word(attributes.file_type))
}

fn list(side: &dyn Source, directory: &Location, of: &Comparison<'_>) -> SourceResult<BTreeMap<OsString, Entry>> {
    let mut names = BTreeMap::new();
    side.list(directory, of.cancel, &mut |page| {
        names.extend(page.into_iter().map(|entry| (entry.name.clone(), entry)));
        Ok(())
    })?;
    Ok(names)
}
