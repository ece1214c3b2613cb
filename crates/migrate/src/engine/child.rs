//! Makes a stub of what a listing tells, or the whole object where there is nothing to come.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::conflict::kind;
use super::hidden::LOST_AND_FOUND;
use super::listing::Listing;
use super::{Doing, Engine, Error, HIDDEN, Problem, Result};
use crate::access_list::mapped;
use crate::destination::{Destination, Make, Name};
use crate::ranges::RangeSet;
use crate::record::{Record, State};
use crate::source::{Attributes, Entry, Extras, FileType, Location};

/// Why a source must not give a child that name.
fn wrong(name: &OsStr) -> Option<&'static str> {
    let bytes = name.as_bytes();
    match bytes {
        b"" | b"." | b".." => Some("is no name"),
        _ if bytes.contains(&b'/') || bytes.contains(&0) => Some("has a slash or a zero in it"),
        _ => None,
    }
}

/// What is done when an object that is whole at once is made.
const MAKING: &str = "making an object";

/// Whether the destination refuses an object for what it is: a name or a symbolic link that is too long, a device's number that it has no room for, a
/// device where none may be made. Nothing of it is there then, and the others can be made.
pub(super) fn is_of_the_object(what: &str, kind: io::ErrorKind) -> bool {
    kind == io::ErrorKind::InvalidFilename
        || what == MAKING && matches!(kind, io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied)
}

fn count<D: Destination>(listing: &mut Listing<'_, D>, attributes: &Attributes, made: bool) {
    if made && attributes.file_type == FileType::Regular {
        listing.files += 1;
        listing.bytes += attributes.size;
    }
}

impl<D: Destination> Engine<D> {
    /// Makes one child of a directory. What can not be made is told, and others go on.
    pub(super) fn child(&self, listing: &mut Listing<'_, D>, entry: Entry) -> Result<()> {
        if listing.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        if !listing.seen.insert(entry.name.clone()) {
            return Ok(());
        }
        let record = listing.record;
        let path = record.location.path.join(&entry.name);
        let root = self.destination.id(listing.directory) == self.destination.id(&self.destination.root());
        let why = wrong(&entry.name)
            .or((root && entry.name == HIDDEN).then_some("is the name of the migration's own directory"))
            .or((root && self.is_origin(&entry.name)).then_some("is where another source goes"));
        if let Some(why) = why {
            let message = format!("the name `{}` {why}; it is left out", entry.name.display());
            self.problem(record.source, Problem { path, message, conflict: false, left_out: true });
            return Ok(());
        }
        let location = Location { path, handle: entry.handle };
        let attributes = match entry.attributes {
            Some(attributes) => Ok(attributes),
            None => self.ask(record.source, &location.path, listing.cancel, |source| {
                source.attributes(&location, listing.cancel)
            }),
        };
        let done =
            attributes.and_then(|attributes| self.make_child(listing, &entry.name, location.clone(), &attributes));
        match done {
            // What has gone since the source told of it, too: that may be true for a moment only.
            Err(Error::Source { path, error }) => {
                let message = error.to_string();
                self.problem(record.source, Problem { path, message, conflict: false, left_out: true });
                Ok(())
            }
            Err(Error::Destination { what, error }) if is_of_the_object(what, error.kind()) => {
                let message = format!("{what}: {error}");
                self.problem(record.source, Problem { path: location.path, message, conflict: false, left_out: true });
                Ok(())
            }
            other => other,
        }
    }

    fn make_child(
        &self,
        listing: &mut Listing<'_, D>,
        name: &OsString,
        location: Location,
        attributes: &Attributes,
    ) -> Result<()> {
        let existing = listing.existing.remove(name);
        let own = self.own_of_name(listing.directory, name)?;
        if let Some(own) = &own
            && let Some(why) = self.why_not(own, attributes)?
        {
            let message = format!("the destination has a lost+found of its own{why}; it is left out");
            let problem = Problem { path: location.path, message, conflict: false, left_out: true };
            self.problem(listing.record.source, problem);
            return Ok(());
        }
        let source = listing.record.source;
        let record = self.first_record(source, location, attributes);
        match attributes.file_type {
            FileType::Directory => {
                let child = self.make_stub(listing, name, existing, attributes, &record)?;
                let node = self.destination.id(&child);
                self.directories.is_new(node);
                listing.children.push(node);
                listing.directories.push((node, name.clone()));
                Ok(())
            }
            _ if attributes.links > 1 => {
                let directory = listing.directory;
                let left = existing.clone();
                let discard = || left.iter().try_for_each(|name| self.discard(directory, name));
                let mut made_here = None;
                let made = self.linked(
                    source,
                    attributes,
                    directory,
                    name,
                    || {
                        let made = self.make_leaf(listing, name, existing, attributes, &record)?;
                        made_here = Some(self.destination.id(&made));
                        Ok(made)
                    },
                    discard,
                )?;
                count(listing, attributes, made);
                listing.children.extend(made_here);
                Ok(())
            }
            _ => {
                let child = self.make_leaf(listing, name, existing, attributes, &record)?;
                listing.children.push(self.destination.id(&child));
                count(listing, attributes, true);
                Ok(())
            }
        }
    }

    /// The record of a stub of which nothing is here but attributes.
    pub(super) fn first_record(&self, source: u32, location: Location, attributes: &Attributes) -> Record {
        let extras = self.origins.get(source as usize).is_some_and(|origin| origin.source.capabilities().extras);
        Record {
            state: if extras { State::Dummy } else { State::Partial },
            modified: false,
            conflict: false,
            source,
            location,
            stamp: attributes.stamp(),
            minsize: if attributes.file_type == FileType::Regular { attributes.size } else { 0 },
            holes: RangeSet::default(),
        }
    }

    /// Anything but a directory.
    pub(super) fn make_leaf(
        &self,
        listing: &mut Listing<'_, D>,
        name: &OsString,
        existing: Option<Name>,
        attributes: &Attributes,
        record: &Record,
    ) -> Result<D::Object> {
        if attributes.file_type == FileType::Regular {
            return self.make_stub(listing, name, existing, attributes, record);
        }
        if let Some(existing) = existing {
            self.discard(listing.directory, &existing)?;
        }
        let link = attributes.file_type == FileType::Symlink;
        let extras = if let Some(extras) = listing.extras.remove(name) {
            extras
        } else if link || record.state == State::Dummy {
            self.ask_extras(record, listing.cancel)?.0
        } else {
            Extras::default()
        };
        let target = extras.target.as_deref().unwrap_or(Path::new(""));
        let what = if link { Make::Symlink(target) } else { Make::Special(attributes.file_type, attributes.device) };
        let made = self.destination.make(listing.directory, name, what).doing(MAKING)?;
        self.put_attributes(&made, attributes, record.source)?;
        self.put_extras(&made, &extras, record);
        Ok(made)
    }

    /// A file or directory with its record; one that is there already is taken, if it is the same.
    pub(super) fn make_stub(
        &self,
        listing: &Listing<'_, D>,
        name: &OsString,
        existing: Option<Name>,
        attributes: &Attributes,
        record: &Record,
    ) -> Result<D::Object> {
        let directory = listing.directory;
        let mut stub = None;
        if let Some(existing) = existing {
            stub = self.found(directory, &existing, attributes, record)?;
            if stub.is_none() {
                self.discard(directory, &existing)?;
            }
        }
        if let (None, Some(own)) = (&stub, self.own_of_name(directory, name)?) {
            self.store(&own, record)?;
            stub = Some(own);
        }
        let is_left = stub.is_some();
        let stub = if let Some(stub) = stub {
            stub
        } else {
            let regular = attributes.file_type == FileType::Regular;
            let what = if regular { Make::File } else { Make::Directory };
            let made = self.destination.make(directory, name, what).doing("making a stub")?;
            self.store(&made, record)?;
            made
        };
        let put = || {
            if attributes.file_type == FileType::Regular && attributes.size > 0 {
                self.destination.truncate(&stub, attributes.size).doing("making a stub")?;
            }
            self.put_attributes(&stub, attributes, record.source)
        };
        let done = match is_left {
            true if self.has_attributes(&stub, attributes, record.source)? => Ok(()),
            true => self.keeping_capabilities(&stub, put),
            false => put(),
        };
        done.map(|()| stub)
    }

    /// What the destination has under a name from its beginning on.
    fn own_of_name(&self, directory: &D::Object, name: &OsString) -> Result<Option<D::Object>> {
        if name == LOST_AND_FOUND { self.lost_and_found(directory) } else { Ok(None) }
    }

    /// Why what the destination has of its own can not become that directory of the source.
    fn why_not(&self, own: &D::Object, attributes: &Attributes) -> Result<Option<String>> {
        if attributes.file_type != FileType::Directory {
            return Ok(Some(format!(", and this is a {}", kind(attributes.file_type))));
        }
        let is_empty = match self.destination.names(own) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => false,
            names => names.doing("looking at lost+found")?.is_empty(),
        };
        Ok((!is_empty).then(|| " with files in it".to_owned()))
    }

    /// What a listing tells: owner, mode and times.
    pub(super) fn put_attributes(&self, object: &D::Object, attributes: &Attributes, source: u32) -> Result<()> {
        let known = self.origins.get(source as usize).is_some_and(|origin| origin.source.capabilities().owners);
        if known {
            let owner = (self.settings.owners)(attributes.owner);
            self.destination.set_owner(object, owner).doing("setting an owner")?;
        }
        if attributes.file_type != FileType::Symlink {
            self.destination.set_mode(object, attributes.mode).doing("setting a mode")?;
        }
        self.destination.set_times(object, attributes.accessed, attributes.modified).doing("setting times")
    }

    /// What takes requests of its own. An attribute that the destination does not take is told.
    pub(super) fn put_extras(&self, object: &D::Object, extras: &Extras, record: &Record) {
        for (name, value) in &extras.attributes {
            if self.is_own_attribute(name) {
                let path = record.location.path.display();
                tracing::warn!(%path, "the attribute {} is left out: the migration keeps that name for itself", name.display());
                continue;
            }
            let value = mapped(name, value.clone(), &*self.settings.owners);
            if let Err(error) = self.destination.set_xattr(object, name, &value) {
                let path = record.location.path.clone();
                let message = format!("the destination does not take the attribute {}: {error}", name.display());
                self.problem(record.source, Problem { path, message, conflict: false, left_out: false });
            }
        }
    }
}
