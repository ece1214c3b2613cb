//! Brings what is not in a listing: extended attributes and access control lists.
//!
//! That they are here is not written into the record by itself: a client that changes anything writes the record before that, and without a change they
//! may be brought again after a crash.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;

use super::copying::same;
use super::file::File;
use super::node::{Node, Stub};
use super::{Doing, Engine, Result};
use crate::destination::{CAPABILITIES, Destination};
use crate::record::{Record, State};
use crate::source::{Cancel, Extras, FileType, Location, ToldExtras, spread};

/// A file without its attributes, and its record.
type Lacking<'a, D> = (&'a Arc<Node<D>>, Record);

impl<D: Destination> Engine<D> {
    /// Brings the attributes of one file, and waits for an absent source. A file in conflict gets nothing more from the source: it has the attributes
    /// that are here.
    pub(super) fn bring_attributes(&self, node: &Arc<Node<D>>, cancel: &Cancel) -> Result<()> {
        let mut stub = node.lock();
        loop {
            if stub.record.state == State::Partial {
                return Ok(());
            }
            if stub.record.conflict {
                self.note_again(node, &mut stub);
                return Ok(());
            }
            if !stub.attributes {
                break;
            }
            node.wait(&mut stub, cancel)?;
        }
        stub.attributes = true;
        let record = stub.record.clone();
        drop(stub);
        let extras = self.fetch_extras(&record, cancel);
        let mut stub = node.lock();
        let done = extras.map(|extras| {
            node.alone(&mut stub);
            self.take_extras(node, &mut stub, &record, &extras);
        });
        stub.attributes = false;
        node.changed();
        match done.inspect_err(|error| self.note(node, &mut stub, error)) {
            Err(_) if stub.record.conflict => Ok(()),
            done => done,
        }
    }

    /// Brings the attributes of many files, by one call for all from the same source. Those that it does not get, one call for each
    /// [asks again](Self::bring_attributes).
    pub(super) fn bring_attributes_of(&self, files: &[File<D>], cancel: &Cancel) {
        let mut lots: BTreeMap<u32, Vec<Lacking<'_, D>>> = BTreeMap::new();
        for file in files {
            let stub = &mut *file.node.lock();
            if stub.record.state == State::Dummy && !stub.attributes && !stub.record.conflict {
                stub.attributes = true;
                lots.entry(stub.record.source).or_default().push((&file.node, stub.record.clone()));
            }
        }
        for (source, lot) in lots {
            let objects: Vec<(&Location, FileType)> =
                lot.iter().map(|(_, record)| (&record.location, FileType::Regular)).collect();
            let origin = self.origins.get(source as usize);
            let told = origin.map_or_else(Vec::new, |origin| origin.source.extras_of_told(&objects, cancel));
            let mut told: Vec<_> = told.into_iter().zip(&lot).map(|(told, (_, record))| (told.ok(), record)).collect();
            let extras = spread(&mut told, |(told, record)| {
                let (extras, now) = told.take()?;
                let now = match now {
                    Some(now) => now,
                    None => origin?.source.attributes(&record.location, cancel).ok()?,
                };
                same(record, &now).is_ok().then_some(extras)
            });
            let mut extras = extras.into_iter();
            for (node, record) in &lot {
                let mut stub = node.lock();
                if let Some(extras) = extras.next().flatten() {
                    node.alone(&mut stub);
                    self.take_extras(node, &mut stub, record, &extras);
                }
                stub.attributes = false;
                node.changed();
            }
        }
    }

    fn take_extras(&self, node: &Arc<Node<D>>, stub: &mut Stub, record: &Record, extras: &Extras) {
        self.put_extras(&node.object, extras, record);
        stub.record.state = State::Partial;
        self.check_complete(node, stub);
    }

    /// Makes a change of the engine's own for which the kernel takes a file's capabilities: of bytes, size or owner. They are put back. A kill
    /// just between leaves the file without, if its record says by then that its attributes are here: a client has changed them.
    ///
    /// # Errors
    ///
    /// Those of `act`; of the destination. The capabilities may be lost then.
    pub(super) fn keeping_capabilities(&self, object: &D::Object, act: impl FnOnce() -> Result<()>) -> Result<()> {
        const DOING: &str = "keeping a file's capabilities";
        let name = OsStr::new(CAPABILITIES);
        let Some(kept) = self.destination.xattr(object, name).doing(DOING)? else { return act() };
        let done = act();
        self.destination.set_xattr(object, name, &kept).doing(DOING)?;
        done
    }

    /// The extras of the object that the record speaks of, if that is still the same.
    fn fetch_extras(&self, record: &Record, cancel: &Cancel) -> Result<Extras> {
        let (extras, now) = self.ask_extras(record, cancel)?;
        self.is_same(record, now, cancel).map(|()| extras)
    }

    /// The extras of what is at that place now.
    pub(super) fn ask_extras(&self, record: &Record, cancel: &Cancel) -> Result<ToldExtras> {
        let location = &record.location;
        self.ask(record.source, &location.path, cancel, |source| {
            self.distances.timed(record.source, || source.extras_told(location, cancel))
        })
    }
}
