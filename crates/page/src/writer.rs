//! Writing a page file: making one, and appending to it.
//!
//! An append fills pages in memory and writes them as segments, each a device of its own, once it has enough of them.
//! Nobody sees a segment until a new manifest names it. [`commit`](Append::commit) makes that one current by a rename:
//! so a crash, at any moment, leaves the file as it was or with the whole append.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use ishigaki_base::ByteSize;
use ishigaki_device::{Directory, DirectoryLock};

use crate::blocks;
use crate::error::{Error, Result};
use crate::manifest::{ColumnStatistics, Manifest};
use crate::name;
use crate::page::Layout;
use crate::reader::{layout_of, read_manifest};
use crate::schema;
use crate::settings::Settings;
use crate::sheet::header_len;
use crate::state::State;

mod append;
mod resting;

pub use append::{Append, Appended};
pub use resting::RestingWriter;

/// The one who appends to a page file. Readers are never in its way, nor it in theirs.
///
/// On a file system it locks the file against a second writer, in this process or another. In a directory that only
/// this process sees, two writers at a time are the caller's mistake; the one who commits second is told so by
/// [`Error::Overtaken`].
///
/// Dropping it only lets go of the lock. After a crash the next writer removes what an append left behind.
#[derive(Debug)]
pub struct Writer {
    directory: Arc<dyn Directory>,
    layout: Layout,
    manifest: Manifest,
    settings: Settings,
    random: fastrand::Rng,
    /// An append failed while it became current.
    closed: bool,
    _lock: DirectoryLock,
}

impl Writer {
    /// Makes a page file. It is there, empty and durable, when this returns; a crash leaves it so or not at all.
    pub fn create(directory: Arc<dyn Directory>, file: &str, schema: SchemaRef, settings: Settings) -> Result<Self> {
        name::check(file)?;
        schema::check(file, &schema)?;
        let page_size = settings.page_size.as_u64() as usize;
        let columns = schema.fields().len();
        let fault = settings.fault().or_else(|| {
            // At least half a page for what is in the columns.
            (2 * header_len(columns) > page_size).then(|| {
                format!("{columns} columns do not fit into a page of {}; choose larger pages", settings.page_size)
            })
        });
        if let Some(reason) = fault {
            return Err(Error::Invalid { file: file.to_owned(), reason });
        }
        let lock = take_lock(directory.as_ref(), file)?;
        match read_manifest(directory.as_ref(), file) {
            Err(Error::NotFound { .. }) => {}
            // Who made it may have died before its name was durable.
            Ok(_) | Err(Error::Damaged { .. } | Error::Version { .. }) => {
                return Err(Error::AlreadyExists { file: file.to_owned() });
            }
            Err(other) => return Err(other),
        }
        let mut random = settings.seed.generator();
        // The first is the file's.
        random.u64(..);
        let manifest = Manifest {
            file: settings.identity(),
            page_size,
            appends: 0,
            columns: schema.fields().iter().map(|field| ColumnStatistics::empty(field.data_type())).collect(),
            schema,
            segments: Vec::new(),
        };
        remove_leftovers(directory.as_ref(), file, &manifest)?;
        let layout = layout_of(file, &manifest);
        let mut writer = Self { directory, layout, manifest, settings, random, closed: false, _lock: lock };
        let manifest = writer.manifest.clone();
        writer.make_current(manifest)?;
        Ok(writer)
    }

    /// Opens a page file for appending. Of the settings only the segments' size and the seed are used.
    ///
    /// Makes durable what the file shows, also where an append had failed at its very end, and removes what others
    /// that came to nothing have left. That takes a few syncs: who appends often keeps the writer.
    pub fn open(directory: Arc<dyn Directory>, file: &str, settings: Settings) -> Result<Self> {
        Self::open_known(directory, file, settings, None)
    }

    /// The same, of a file that is `known`: of another one, or an older copy, nothing is touched.
    ///
    /// # Errors
    ///
    /// As [`State::check`].
    pub fn open_known(
        directory: Arc<dyn Directory>,
        file: &str,
        settings: Settings,
        known: Option<State>,
    ) -> Result<Self> {
        let manifest = read_manifest(directory.as_ref(), file)?;
        let settings = Settings { page_size: ByteSize(manifest.page_size as u64), ..settings };
        if let Some(reason) = settings.fault() {
            return Err(Error::Invalid { file: file.to_owned(), reason });
        }
        let lock = take_lock(directory.as_ref(), file)?;
        // Again, now that nobody else changes it.
        let manifest = read_known(directory.as_ref(), file, known)?;
        let (layout, random) = (layout_of(file, &manifest), settings.seed.generator());
        let mut writer =
            Self { directory, layout, manifest: manifest.clone(), settings, random, closed: false, _lock: lock };
        // Who made it current may have failed or died before that was durable, and after a failed sync no other helps:
        // so it is made anew.
        writer.make_current(manifest)?;
        remove_leftovers(writer.directory.as_ref(), &writer.layout.file, &writer.manifest)?;
        Ok(writer)
    }

    /// The columns that batches must have.
    pub fn schema(&self) -> &SchemaRef {
        &self.layout.schema
    }

    /// What tells the file from others that had or will have its name: drawn at random when it was made.
    pub fn identity(&self) -> u64 {
        self.manifest.file
    }

    /// Which file it is, and how many appends it has.
    pub fn state(&self) -> State {
        State::of(&self.manifest)
    }

    /// How many rows the file has.
    pub fn rows(&self) -> u64 {
        self.manifest.rows()
    }

    /// Begins an append. Nobody sees anything of it before it is committed; dropping it leaves nothing behind.
    pub fn append(&mut self) -> Result<Append<'_>> {
        if self.closed {
            return Err(Error::Closed { file: self.layout.file.clone() });
        }
        Append::new(self)
    }

    /// Appends some batches, all of them or none.
    pub fn append_all<'a>(&mut self, batches: impl IntoIterator<Item = &'a RecordBatch>) -> Result<Appended> {
        let mut append = self.append()?;
        batches.into_iter().try_for_each(|batch| append.write(batch))?;
        append.commit()
    }

    /// Writes a manifest and makes it current. Everything that it names is durable before it is.
    fn make_current(&mut self, manifest: Manifest) -> Result<()> {
        let (file, directory) = (&self.layout.file, self.directory.as_ref());
        let new = name::new_manifest(file);
        remove_if_there(directory, &new)?;
        blocks::write_new(directory, &new, &[&manifest.encode()])?;
        // The names of the segments and of this, before anybody can see them.
        directory.sync()?;
        // From here on it is not known what a failure leaves.
        self.closed = true;
        directory.rename(&new, &name::manifest(file))?;
        directory.sync()?;
        self.manifest = manifest;
        self.closed = false;
        Ok(())
    }
}

/// Removes a page file. Readers that have opened its segments go on; a crash leaves it whole or gone, and what it
/// leaves of one that is gone is removed when a file of that name is made again.
pub fn remove(directory: &dyn Directory, file: &str) -> Result<()> {
    name::check(file)?;
    let _lock = take_lock(directory, file)?;
    remove_locked(directory, file)
}

/// The same, but only of the file with that [identity](Writer::identity). False: there is none of that name any more, or
/// another one, which stays. What is left of one that never had a manifest, or has it no more, goes.
pub fn remove_made(directory: &dyn Directory, file: &str, identity: u64) -> Result<bool> {
    name::check(file)?;
    let _lock = take_lock(directory, file)?;
    match read_manifest(directory, file) {
        Ok(manifest) if manifest.file == identity => remove_locked(directory, file).map(|()| true),
        Ok(_) => Ok(false),
        Err(Error::NotFound { .. }) => remove_rest(directory, file).map(|()| false),
        Err(other) => Err(other),
    }
}

/// Removes what killed appends have left of a file that is there: segments that it does not name, and a manifest that never
/// became current. Nothing that it names. False: a writer has it now, and what is there may be the writer's.
///
/// What a manifest does not name was durable under a newer one, should this be an older copy: the caller says what is `known`.
///
/// # Errors
///
/// As [`State::check`]; then nothing is touched.
pub fn settle(directory: &dyn Directory, file: &str, known: Option<State>) -> Result<bool> {
    name::check(file)?;
    let manifest = read_known(directory, file, known)?;
    if leftovers(directory, file, &manifest)?.is_empty() {
        return Ok(true);
    }
    let _lock = match take_lock(directory, file) {
        Err(Error::Device(ishigaki_device::Error::Locked { .. })) => return Ok(false),
        lock => lock?,
    };
    // Again, now that no writer changes it.
    remove_leftovers(directory, file, &read_known(directory, file, known)?)?;
    Ok(true)
}

/// The current manifest, which must follow on what is known.
fn read_known(directory: &dyn Directory, file: &str, known: Option<State>) -> Result<Manifest> {
    let manifest = read_manifest(directory, file)?;
    known.map_or(Ok(()), |known| State::of(&manifest).check(file, known))?;
    Ok(manifest)
}

fn remove_locked(directory: &dyn Directory, file: &str) -> Result<()> {
    directory.remove(&name::manifest(file)).map_err(|error| match error {
        ishigaki_device::Error::NotFound { .. } => Error::NotFound { file: file.to_owned() },
        other => other.into(),
    })?;
    directory.sync()?;
    remove_rest(directory, file)
}

/// Removes what is left of a file that has no manifest; by the one who has its lock.
fn remove_rest(directory: &dyn Directory, file: &str) -> Result<()> {
    for other in directory.list()? {
        if name::segment_number(file, &other).is_some() || other == name::new_manifest(file) {
            directory.remove(&other)?;
        }
    }
    directory.remove(&name::lock(file))?;
    Ok(directory.sync()?)
}

/// Locks the file against other writers, by a device that is there for that alone.
fn take_lock(directory: &dyn Directory, file: &str) -> Result<DirectoryLock> {
    let name = name::lock(file);
    let device = match directory.open(&name) {
        Err(ishigaki_device::Error::NotFound { .. }) => match directory.create(&name, 1) {
            // Somebody else has just made it.
            Err(ishigaki_device::Error::AlreadyExists { .. }) => directory.open(&name),
            made => made,
        },
        opened => opened,
    }?;
    Ok(device.lock()?)
}

fn remove_if_there(directory: &dyn Directory, name: &str) -> Result<()> {
    match directory.remove(name) {
        Ok(()) | Err(ishigaki_device::Error::NotFound { .. }) => Ok(()),
        Err(other) => Err(other.into()),
    }
}

/// Segments that the manifest does not name, and a manifest that never became current.
fn leftovers(directory: &dyn Directory, file: &str, manifest: &Manifest) -> Result<Vec<String>> {
    let is_left = |other: &String| match name::segment_number(file, other) {
        Some(number) => manifest.segments.iter().all(|segment| segment.number != number),
        None => *other == name::new_manifest(file),
    };
    Ok(directory.list()?.into_iter().filter(is_left).collect())
}

/// Removes these. Only for the one who has the file's lock.
fn remove_leftovers(directory: &dyn Directory, file: &str, manifest: &Manifest) -> Result<()> {
    let leftovers = leftovers(directory, file, manifest)?;
    for device in &leftovers {
        tracing::info!(%file, %device, "what an append without an end has left is removed");
        directory.remove(device)?;
    }
    // Their space is free then.
    if leftovers.is_empty() { Ok(()) } else { Ok(directory.sync()?) }
}
