//! Reads and writes records at inodes.
//!
//! A record that the inode has no room for goes to a file of the hidden directory, and the inode holds that file's number. A new file is
//! written for each new content, and is durable before an inode that may be durable names it.

use std::ffi::OsString;
use std::io;

use super::{Doing, Engine, Error, Result};
use crate::destination::{Destination, Make};
use crate::record::{Record, Reference, Stored, decode};

/// The longest record that is read from a file: a path of a thousand components.
const LONGEST: u64 = 1 << 20;

fn name(reference: Reference) -> OsString {
    reference.0.to_string().into()
}

impl<D: Destination> Engine<D> {
    /// The record of an object; `None` if it is no stub.
    pub(super) fn record(&self, object: &D::Object) -> Result<Option<(Record, Option<Reference>)>> {
        let damaged = |damage| Error::Damaged { node: self.destination.id(object).0, damage };
        let bytes = self.destination.xattr(object, &self.settings.attribute).doing("reading a stub's record")?;
        let Some(bytes) = bytes else { return Ok(None) };
        let reference = match decode(&bytes).map_err(damaged)? {
            Stored::Record(record) => return Ok(Some((*record, None))),
            Stored::Elsewhere(reference) => reference,
        };
        let file = self.destination.lookup(&self.hidden.records, &name(reference)).doing("looking for a record")?;
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound)).doing("looking for a record")?;
        let size = self.destination.status(&file).doing("reading a record")?.size.min(LONGEST);
        let mut bytes = vec![0; size as usize];
        let read = self.destination.read_at(&file, 0, &mut bytes).doing("reading a record")?;
        match decode(&bytes[..read]).map_err(damaged)? {
            Stored::Record(record) => Ok(Some((*record, Some(reference)))),
            Stored::Elsewhere(_) => Err(damaged(crate::record::Damage::Field("kind"))),
        }
    }

    /// Whether it is a stub.
    pub(super) fn has_record(&self, object: &D::Object) -> Result<bool> {
        Ok(self.destination.xattr(object, &self.settings.attribute).doing("reading a stub's record")?.is_some())
    }

    /// Gives an object its first record, in a directory that is not yet listed: it need not be durable before that.
    pub(super) fn store(&self, object: &D::Object, record: &Record) -> Result<Option<Reference>> {
        self.put(object, record, None, false)
    }

    /// Gives an object another record than that before, wherever that was.
    pub(super) fn store_again(
        &self,
        object: &D::Object,
        record: &Record,
        before: Option<Reference>,
    ) -> Result<Option<Reference>> {
        self.put(object, record, before, true)
    }

    fn put(
        &self,
        object: &D::Object,
        record: &Record,
        before: Option<Reference>,
        durable: bool,
    ) -> Result<Option<Reference>> {
        let bytes = record.encode();
        let after = match self.destination.set_xattr(object, &self.settings.attribute, &bytes) {
            Ok(()) => None,
            Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::ArgumentListTooLong) => {
                let reference = self.put_elsewhere(&bytes, durable)?;
                let short = reference.encode();
                let done = self.destination.set_xattr(object, &self.settings.attribute, &short);
                done.doing("writing a stub's record").inspect_err(|_| self.give_back(reference))?;
                Some(reference)
            }
            Err(error) => return Err(error).doing("writing a stub's record"),
        };
        self.drop_reference(before)?;
        Ok(after)
    }

    fn put_elsewhere(&self, bytes: &[u8], durable: bool) -> Result<Reference> {
        let reference = Reference(self.hidden.new_record());
        let made = self.destination.make(&self.hidden.records, &name(reference), Make::File);
        let file = made.doing("writing a long record")?;
        let written = self.destination.write_at(&file, 0, bytes);
        let written = written.and_then(|()| if durable { self.destination.sync(&file) } else { Ok(()) });
        written.doing("writing a long record").inspect_err(|_| self.give_back(reference))?;
        Ok(reference)
    }

    /// Removes a file of `records` that no inode has ever named: where room is short, what is tried again must not take the last of it.
    fn give_back(&self, reference: Reference) {
        if let Err(error) = self.destination.unlink(&self.hidden.records, &name(reference)) {
            tracing::debug!(%error, "a long record that nothing names stays until the migration ends");
        }
    }

    /// The object is no stub any more.
    pub(super) fn drop_record(&self, object: &D::Object, reference: Option<Reference>) -> Result<()> {
        let removed = self.destination.remove_xattr(object, &self.settings.attribute);
        removed.doing("removing a stub's record")?;
        self.drop_reference(reference)
    }

    /// Removes a file of `records`. After a crash it may be gone while an inode that is still durable names it: then only if
    /// the file system keeps no order.
    fn drop_reference(&self, reference: Option<Reference>) -> Result<()> {
        let Some(reference) = reference else { return Ok(()) };
        if !self.destination.is_ordered() {
            self.destination.sync_all().doing("removing a long record")?;
        }
        match self.destination.unlink(&self.hidden.records, &name(reference)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).doing("removing a long record"),
            _ => Ok(()),
        }
    }
}
