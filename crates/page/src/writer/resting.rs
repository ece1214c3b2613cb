//! A writer between its appends: it has let go of the file, and knows what it left there.

use std::sync::Arc;

use ishigaki_device::Directory;

use super::{Writer, remove_leftovers, take_lock};
use crate::error::Result;
use crate::manifest::Manifest;
use crate::reader::{layout_of, read_manifest};
use crate::settings::Settings;
use crate::state::State;

/// A [`Writer`] that has let go of its lock, so that other writers have their turn.
///
/// Opening a file for writing takes several syncs, since the writer before may have died. A writer that finds the
/// file as it left it needs none: it has made that durable itself.
#[derive(Debug)]
pub struct RestingWriter {
    directory: Arc<dyn Directory>,
    manifest: Manifest,
    settings: Settings,
    random: fastrand::Rng,
    file: String,
}

impl Writer {
    /// Lets go of the file until [`resume`](RestingWriter::resume). Nothing: an append failed at its very end, and only
    /// opening the file settles what became of it.
    pub fn rest(self) -> Option<RestingWriter> {
        let Self { directory, layout, manifest, settings, random, closed, _lock } = self;
        (!closed).then_some(RestingWriter { directory, manifest, settings, random, file: layout.file })
    }
}

impl RestingWriter {
    /// Takes the file for writing again, as [`Writer::open`] does.
    pub fn resume(self) -> Result<Writer> {
        let Self { directory, manifest, settings, random, file } = self;
        let lock = take_lock(directory.as_ref(), &file)?;
        let known = State::of(&manifest);
        if State::of(&read_manifest(directory.as_ref(), &file)?) != known {
            drop(lock);
            return Writer::open_known(directory, &file, settings, Some(known));
        }
        // Other writers may have begun appends and died.
        remove_leftovers(directory.as_ref(), &file, &manifest)?;
        let layout = layout_of(&file, &manifest);
        Ok(Writer { directory, layout, manifest, settings, random, closed: false, _lock: lock })
    }
}
