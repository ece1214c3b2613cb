//! Makes what was left out when its directory was listed, as soon as that can be.
//!
//! Clients have worked in that directory since. So the object is made in the engine's own directory, with its record, and moved to its place when it is
//! durable, if no other object has taken the name meanwhile: a crash leaves the whole stub or none.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::child::is_of_the_object;
use super::crawler::ends;
use super::listing::Listing;
use super::progress::Counters;
use super::{Doing, Engine, Error, Result};
use crate::destination::{Destination, Name, NodeId};
use crate::source::{Attributes, Cancel, ErrorKind, FileType, Location};

/// What an object is called until it has its place.
const UNBORN: &str = "left-out";
const DOING: &str = "making what was left out";

/// A name that is there now: its directory, and itself.
pub type Appeared = (NodeId, OsString);

impl<D: Destination> Engine<D> {
    /// Tries again what was left out, where its place is free and the source gives it; the crawler copies it. One thread at a time.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`]; errors of the destination.
    pub fn bring_left_out(&self, cancel: &Cancel) -> Result<Vec<Appeared>> {
        let (mut appeared, mut silent) = (Vec::new(), HashSet::new());
        if self.queue.problem_count() > 0 {
            for (source, problem) in self.queue.problems() {
                if problem.left_out && !silent.contains(&source) {
                    appeared.extend(self.bring_one(source, &problem.path, &mut silent, cancel)?);
                }
            }
        }
        if !appeared.is_empty() {
            self.queue.moved();
        }
        Ok(appeared)
    }

    /// `silent` are sources that do not answer: the others are not to wait for each of their objects.
    fn bring_one(
        &self,
        source: u32,
        path: &Path,
        silent: &mut HashSet<u32>,
        cancel: &Cancel,
    ) -> Result<Option<Appeared>> {
        let (origin, root) = self.source(source)?;
        let (Some(name), Some(above)) = (path.file_name(), path.parent()) else { return Ok(None) };
        let Some(directory) = self.listed(&origin.at.join(above), cancel)? else { return Ok(None) };
        if let Some(there) = self.destination.lookup(&directory, name).doing(DOING)? {
            // A crash may have left it, and not that it is no problem any more.
            if let Ok(Some((record, _))) = self.record(&there)
                && (record.source, record.location.path.as_path()) == (source, path)
            {
                self.no_problem(source, path);
            }
            return Ok(None);
        }
        let location = Location { path: path.to_owned(), handle: Box::default() };
        let asked = root.is_that_of(&*origin.source, cancel);
        let attributes = match asked.and_then(|()| origin.source.attributes(&location, cancel)) {
            // One of several names would become a file of its own.
            Ok(attributes) if attributes.file_type == FileType::Directory || attributes.links <= 1 => attributes,
            Err(error) if error.kind == ErrorKind::Cancelled => return Err(Error::Cancelled),
            told => {
                if told.is_err_and(|error| error.kind == ErrorKind::Unavailable) {
                    silent.insert(source);
                }
                return Ok(None);
            }
        };
        if !self.make_unborn(source, location, &attributes, cancel)? {
            return Ok(None);
        }
        let status = self.destination.status(&directory).doing(DOING)?;
        let unborn = (&self.hidden.records, OsStr::new(UNBORN));
        match self.destination.move_to_free(unborn, (&directory, name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            moved => moved.doing(DOING)?,
        }
        self.destination.set_times(&directory, status.accessed, status.modified).doing(DOING)?;
        if !self.destination.is_ordered() {
            self.destination.sync_all().doing(DOING)?;
        }
        if attributes.file_type == FileType::Directory {
            Counters::add(&self.counters.directories, 1);
        } else if attributes.file_type == FileType::Regular {
            Counters::add(&self.counters.files, 1);
            Counters::add(&self.counters.bytes, attributes.size);
        }
        self.no_problem(source, path);
        Ok(Some((self.destination.id(&directory), name.to_owned())))
    }

    /// The directory of a path below the destination, listed, if one is there.
    fn listed(&self, path: &Path, cancel: &Cancel) -> Result<Option<D::Object>> {
        let found = self.descend(path, cancel).and_then(|found| match found {
            Some(directory) => Ok(self.list_if_directory(&directory, cancel)?.then_some(directory)),
            None => Ok(None),
        });
        if ends(&found) { found } else { Ok(found.ok().flatten()) }
    }

    /// Makes the object where no client sees it, durably; whether the source and the destination let it be made.
    fn make_unborn(&self, source: u32, location: Location, attributes: &Attributes, cancel: &Cancel) -> Result<bool> {
        let (place, name) = (&self.hidden.records, OsString::from(UNBORN));
        // An earlier one that a crash has left, or for which there was no place.
        if let Some(left) = self.destination.lookup(place, &name).doing(DOING)? {
            let file_type = self.destination.status(&left).doing(DOING)?.file_type;
            self.discard(place, &Name { name: name.clone(), node: self.destination.id(&left), file_type })?;
        }
        let record = self.first_record(source, location, attributes);
        let mut listing = Listing::new(place, &record, cancel);
        let made = if attributes.file_type == FileType::Directory {
            self.make_stub(&listing, &name, None, attributes, &record)
        } else {
            self.make_leaf(&mut listing, &name, None, attributes, &record)
        };
        let made = match made {
            Err(Error::Source { error, .. }) if error.kind != ErrorKind::Cancelled => return Ok(false),
            Err(Error::Destination { what, error }) if is_of_the_object(what, error.kind()) => return Ok(false),
            made => made?,
        };
        match attributes.file_type {
            FileType::Directory => self.directories.is_new(self.destination.id(&made)),
            FileType::Regular => {}
            // It is whole, and has no record that must be there before its name.
            _ => return Ok(true),
        }
        self.destination.sync(&made).doing(DOING)?;
        Ok(true)
    }
}
