//! What is copied ahead, and what the next engine keeps of it.
//!
//! Between two engines clients of the source change it. A file that was copied ahead stays only where the source still tells the stamp with which it was copied.
//! That is sound only if every change since gives another stamp. A clock ticks in steps, so two changes within one step bear the same time: a
//! file that changed just before it was listed may change once more after it was read, and look as before. Therefore an engine that copies ahead waits for a whole
//! [step](super::Settings::ahead) between a listing and the first read of what it told. It needs no clock in common with the source.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::node::{Node, Stub};
use super::progress::{Counters, Problem};
use super::{Doing, Engine, Error, Result};
use crate::destination::{Destination, Name};
use crate::ranges::RangeSet;
use crate::record::Record;
use crate::source::{Attributes, Cancel, FileType};

/// Longer than the steps of any clock that file systems stamp changes by: FAT counts in two seconds.
pub const TICK: Duration = Duration::from_secs(2);

/// Extended attributes that a source may bring begin with these.
const BROUGHT: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system.posix_acl_"];
/// The attribute of a security module, which the destination gives by itself.
const LABEL: &str = "security.selinux";

/// When the last listing ended.
#[derive(Default)]
pub(super) struct LastListing(Mutex<Option<Instant>>);

impl<D: Destination> Engine<D> {
    /// A listing has ended.
    pub(super) fn has_listed(&self) {
        if self.settings.ahead.is_some() {
            *self.last_listing.0.lock() = Some(Instant::now());
        }
    }

    /// Before anything is read of files that were listed: any change from now on bears another time than what was listed.
    pub(super) fn wait_a_tick(&self, cancel: &Cancel) -> Result<()> {
        let Some(tick) = self.settings.ahead else { return Ok(()) };
        loop {
            let last = *self.last_listing.0.lock();
            let left = last.map_or(Duration::ZERO, |last| tick.saturating_sub(last.elapsed()));
            if left.is_zero() {
                return Ok(());
            }
            if cancel.wait(left) {
                return Err(Error::Cancelled);
            }
        }
    }

    /// All of a file is here, and durable: its record says so.
    pub(super) fn keep_ahead(&self, node: &Node<D>, stub: &mut Stub) -> Result<()> {
        let record = Record { minsize: 0, holes: RangeSet::default(), ..stub.record.clone() };
        if self.record(&node.object)?.is_some_and(|(here, _)| here == record) {
            return Ok(());
        }
        stub.reference = self.store_again(&node.object, &record, stub.reference)?;
        stub.record = record;
        Ok(())
    }

    /// What lies under a name already, and is what the source has there now: made by a listing that a crash took back, or copied ahead. It
    /// has that record then.
    pub(super) fn found(
        &self,
        directory: &D::Object,
        existing: &Name,
        attributes: &Attributes,
        record: &Record,
    ) -> Result<Option<D::Object>> {
        if existing.file_type != attributes.file_type {
            return Ok(None);
        }
        let Some(found) = self.destination.lookup(directory, &existing.name).doing("looking at a stub")? else {
            return Ok(None);
        };
        let Ok(Some((old, reference))) = self.record(&found) else { return Ok(None) };
        if old.modified || old.conflict || old.source != record.source {
            return Ok(None);
        }
        let is_file = attributes.file_type == FileType::Regular;
        if !self.hidden.is_ahead() {
            return Ok((old.location == record.location && old.stamp.is_same(&record.stamp)).then_some(found));
        }
        if !is_file {
            // Nothing is believed of a directory: it is listed anew, whatever its times are.
            if !old.stamp.is_of_one_object(&record.stamp) {
                return Ok(None);
            }
            if old != *record {
                self.store_again(&found, record, reference)?;
            }
            return Ok(Some(found));
        }
        if !old.stamp.is_same(&record.stamp) || (old.minsize < record.minsize && !self.is_untouched(&found, &old)?) {
            return Ok(None);
        }
        if old.location != record.location {
            // A file with several names is found by any of them first.
            let moved = Record { location: record.location.clone(), ..old.clone() };
            self.store_again(&found, &moved, reference)?;
        }
        if old.minsize < record.minsize {
            Counters::add(&self.counters.here, record.minsize - old.minsize);
        }
        Ok(Some(found))
    }

    /// Whether a file that is wholly here looks as the engine left it, and not as if another program had written to it.
    fn is_untouched(&self, file: &D::Object, record: &Record) -> Result<bool> {
        let status = self.destination.status(file).doing("looking at what was copied ahead")?;
        let stamp = &record.stamp;
        Ok(status.size == stamp.size && status.modified.seconds == stamp.modified.seconds)
    }

    /// Whether an object has the attributes of a listing already.
    pub(super) fn has_attributes(&self, object: &D::Object, told: &Attributes, source: u32) -> Result<bool> {
        if !self.hidden.is_ahead() {
            return Ok(false);
        }
        let here = self.destination.status(object).doing("looking at what was copied ahead")?;
        let has_owners = self.origins.get(source as usize).is_some_and(|origin| origin.source.capabilities().owners);
        Ok((here.mode, here.accessed, here.modified) == (told.mode, told.accessed, told.modified)
            && (told.file_type != FileType::Regular || here.size == told.size)
            && (!has_owners || here.owner == (self.settings.owners)(told.owner)))
    }

    /// Before a directory that may have been copied ahead is listed: attributes of then are gone. Those of now come with the listing.
    pub(super) fn drop_extras(&self, directory: &D::Object) -> Result<()> {
        if self.hidden.is_ahead() { self.remove_extras(directory) } else { Ok(()) }
    }

    /// Removes extended attributes and access lists, such as come from a source.
    pub(super) fn remove_extras(&self, object: &D::Object) -> Result<()> {
        const DOING: &str = "removing attributes";
        for name in self.destination.xattrs(object).doing(DOING)? {
            let is_brought = BROUGHT.iter().any(|space| name.as_encoded_bytes().starts_with(space));
            if is_brought && !self.is_own_attribute(&name) && name != LABEL {
                self.destination.remove_xattr(object, &name).doing(DOING)?;
            }
        }
        Ok(())
    }

    /// An object that has changed while it was copied ahead is no conflict: nothing is decided yet.
    pub(super) fn told_ahead(&self, problem: Problem) -> Problem {
        if self.settings.ahead.is_none() || !problem.conflict {
            return problem;
        }
        let message =
            "it changed while it was copied; the next `ishigaki migrate seed` takes it, or `ishigaki migrate serve`";
        Problem { message: message.to_owned(), ..problem }
    }
}
