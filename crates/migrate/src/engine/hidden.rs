//! The engine's own directory at the destination's root.
//!
//! ```text
//!   .ishigaki-migrate/state       "begun", with how many sources, and a checksum of that; a directory without it has not begun
//!                     state.new   the same, before it takes the other's place
//!                     log         what the crawler knows: see `log`
//!                     roots         by what each source is known: see `roots`
//!                     links/      a name for each file with several names at the source
//!                     log.new     a log that was written anew, before it takes the other's place
//!                     records/    records that extended attributes have no room for
//!                     ahead       files were copied ahead: what lies here without `state` is looked at anew. "begun" once there is `state`, which must not be missing then
//! ```
//!
//! Other files in it are a service's. They go with the rest when the migration ends.

use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::roots::{self, KnownRoot, Roots};
use super::{Doing, Error, Result};
use crate::destination::{Destination, Make};
use crate::source::FileType;

/// The name of the engine's own directory at the destination's root.
pub const HIDDEN: &str = ".ishigaki-migrate";
/// Its file that says that the migration has begun.
pub const STATE: &str = "state";
/// Its file that says that files were copied ahead.
pub const AHEAD: &str = "ahead";
/// Its file that says by what each source is known.
const ROOTS: &str = "roots";
/// What mkfs puts into a new file system.
pub const LOST_AND_FOUND: &str = "lost+found";
/// What `state` says, before the number of sources in decimal digits, a space, the checksum (CRC-32C) in hexadecimal ones, and a line feed. Versions before wrote
/// no checksum.
const BEGUN: &str = "begun ";
const DIGITS: usize = 5;
/// More than there can be, by those digits.
const MOST_SOURCES: usize = 100_000;

pub(super) struct Hidden<D: Destination> {
    directory: D::Object,
    pub(super) links: D::Object,
    pub(super) records: D::Object,
    /// Written by one thread at a time, which may replace it.
    log: Mutex<D::Object>,
    log_end: AtomicU64,
    /// How long it was when it was written anew.
    log_base: AtomicU64,
    next_record: AtomicU64,
    /// Files were copied ahead.
    is_ahead: bool,
    /// Some record is, or was, in a file: its data is durable by a `syncfs` only.
    long_records: AtomicBool,
}

fn own<D: Destination>(destination: &D, directory: &D::Object, name: &str, what: Make<'_>) -> Result<D::Object> {
    let name = OsStr::new(name);
    match destination.lookup(directory, name).doing("looking into .ishigaki-migrate")? {
        Some(found) => Ok(found),
        None => destination.make(directory, name, what).doing("making .ishigaki-migrate"),
    }
}

/// A migration that has not begun may find nothing but what an earlier beginning has left, which was cut off: empty directories for the sources.
fn refuse_others<D: Destination>(destination: &D, root: &D::Object, directory: Option<&D::Object>) -> Result<()> {
    let names = destination.names(root).doing("reading the destination's root")?;
    let Some(other) = names.into_iter().find(|name| name.name != HIDDEN && name.name != LOST_AND_FOUND) else {
        return Ok(());
    };
    if let Some(directory) = directory {
        if destination.lookup(directory, OsStr::new(AHEAD)).doing("looking into .ishigaki-migrate")?.is_some() {
            return Ok(());
        }
        // The end removes `links` before `state`, and the beginning makes it before all else.
        let links = destination.lookup(directory, OsStr::new("links")).doing("looking into .ishigaki-migrate")?;
        if links.is_some() && other.file_type == FileType::Directory {
            return Ok(());
        }
        if links.is_none() && destination.names(directory).doing("looking into .ishigaki-migrate")?.is_empty() {
            // The end of an earlier migration was cut off at its last step.
            remove_empty(destination)?;
            return Err(Error::Ended);
        }
    }
    Err(Error::NotEmpty(other.name.into()))
}

/// With how many sources the migration has begun, if it has.
pub(super) fn begun<D: Destination>(destination: &D) -> Result<Option<usize>> {
    let directory =
        destination.lookup(&destination.root(), OsStr::new(HIDDEN)).doing("looking for .ishigaki-migrate")?;
    let Some(directory) = directory else { return Ok(None) };
    let Some(state) = destination.lookup(&directory, OsStr::new(STATE)).doing("looking for state")? else {
        let ahead = destination.lookup(&directory, OsStr::new(AHEAD)).doing("looking for state")?;
        let size = ahead.map(|ahead| destination.status(&ahead)).transpose().doing("looking for state")?;
        // A migration that had begun has lost what says so.
        return if size.is_some_and(|status| status.size > 0) { Err(Error::State) } else { Ok(None) };
    };
    let mut bytes = [0; 64];
    let read = destination.read_at(&state, 0, &mut bytes).doing("reading state")?;
    match of_state(&bytes[..read]) {
        Some(sources) => Ok(Some(sources)),
        None => Err(Error::State),
    }
}

fn state_of(sources: usize) -> String {
    let text = format!("{BEGUN}{sources:0DIGITS$}");
    let checksum = crc32c::crc32c(text.as_bytes());
    format!("{text} {checksum:08x}\n")
}

/// The number of sources. `None` for what no version has written.
fn of_state(bytes: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(bytes).ok()?;
    let sources = text.strip_prefix(BEGUN)?.get(..DIGITS)?.parse().ok().filter(|sources| *sources > 0)?;
    (text == state_of(sources) || text == format!("{BEGUN}{sources:0DIGITS$}\n")).then_some(sources)
}

/// By what the sources are known with which the migration has begun, or from which files were copied ahead. What else is written there comes from a beginning that was cut off.
pub(super) fn roots<D: Destination>(destination: &D) -> Result<Roots> {
    const DOING: &str = "reading roots";
    let begun = begun(destination)?;
    let hidden = destination.lookup(&destination.root(), OsStr::new(HIDDEN)).doing(DOING)?;
    let look = |name| match &hidden {
        Some(hidden) => destination.lookup(hidden, OsStr::new(name)).doing(DOING),
        None => Ok(None),
    };
    let mut counts = begun.unwrap_or(0);
    if begun.is_none() && look(AHEAD)?.is_some() {
        counts = usize::MAX;
    }
    let Some(file) = look(ROOTS)? else { return Ok(Roots::new(Vec::new())) };
    let size = destination.status(&file).doing(DOING)?.size.min((MOST_SOURCES * roots::LINE) as u64);
    let mut bytes = vec![0; size as usize];
    let read = destination.read_at(&file, 0, &mut bytes).doing(DOING)?;
    let lines = bytes[..read].chunks(roots::LINE).take(counts).zip(0..);
    let known = lines.map(|(line, source)| {
        let known = roots::of_line(line);
        if known.is_none() && line != roots::unknown().as_bytes() {
            tracing::warn!(
                source,
                ".ishigaki-migrate/roots is damaged: whether this source is the one as before is not looked at"
            );
        }
        known
    });
    Ok(Roots::new(known.collect()))
}

/// Says it also in `ahead`, where that is, once `state` is durable: without that file the migration would be taken for one that has not begun.
fn say_begun_ahead<D: Destination>(destination: &D, directory: &D::Object) -> Result<()> {
    const DOING: &str = "writing ahead";
    match destination.lookup(directory, OsStr::new(AHEAD)).doing(DOING)? {
        Some(ahead) if destination.status(&ahead).doing(DOING)?.size == 0 => {
            destination.write_at(&ahead, 0, b"begun\n").and_then(|()| destination.sync(&ahead)).doing(DOING)
        }
        _ => Ok(()),
    }
}

/// Makes a file of the directory durable, and its name. A process that was killed before it did so has left it to the page cache: what is built on
/// the file must not become durable without it.
fn sync_file<D: Destination>(destination: &D, directory: &D::Object, name: &str) -> Result<()> {
    const DOING: &str = "syncing .ishigaki-migrate";
    let file = destination.lookup(directory, OsStr::new(name)).doing(DOING)?;
    let names = [directory.clone(), destination.root()];
    file.into_iter().chain(names).try_for_each(|object| destination.sync(&object)).doing(DOING)
}

/// Removes the directory, when nothing is in it any more.
fn remove_empty<D: Destination>(destination: &D) -> Result<()> {
    const DOING: &str = "removing .ishigaki-migrate";
    let root = destination.root();
    let before = destination.status(&root).doing(DOING)?;
    let removed = destination.remove_directory(&root, OsStr::new(HIDDEN));
    or_gone(removed).doing(DOING)?;
    destination.set_times(&root, before.accessed, before.modified).doing(DOING)?;
    destination.sync_all().doing(DOING)
}

/// What an earlier call has removed is no error.
fn or_gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

impl<D: Destination> Hidden<D> {
    /// Opens it, or makes it in an empty directory; with how many sources the migration has begun, if it has. Before that, nothing counts of what was
    /// copied ahead but the objects themselves.
    pub(super) fn open(destination: &D, ahead: bool) -> Result<(Self, Option<usize>)> {
        let root = destination.root();
        let directory = destination.lookup(&root, OsStr::new(HIDDEN)).doing("looking for .ishigaki-migrate")?;
        let begun = begun(destination)?;
        if begun.is_none() {
            refuse_others(destination, &root, directory.as_ref())?;
        }
        if ahead && begun.is_some() {
            return Err(Error::Begun);
        }
        let directory = own(destination, &root, HIDDEN, Make::Directory)?;
        if begun.is_some() && !destination.is_ordered() {
            // A mark that a killed process took away could come back, although what clients do below it from now on is synced.
            destination.sync_all().doing("syncing what an earlier process has left")?;
        } else if begun.is_some() {
            sync_file(destination, &directory, STATE)?;
        }
        if ahead {
            own(destination, &directory, AHEAD, Make::File)?;
            sync_file(destination, &directory, AHEAD)?;
        }
        let mark = destination.lookup(&directory, OsStr::new(AHEAD)).doing("looking into .ishigaki-migrate")?;
        let is_ahead = mark.is_some();
        if begun.is_some()
            && let Err(error) = say_begun_ahead(destination, &directory)
        {
            // Where no room is left, for example.
            tracing::warn!(%error, "it is not said twice that the migration has begun");
        }
        let links = own(destination, &directory, "links", Make::Directory)?;
        let records = own(destination, &directory, "records", Make::Directory)?;
        let log = own(destination, &directory, "log", Make::File)?;
        if is_ahead && begun.is_none() {
            const DOING: &str = "forgetting what was copied ahead";
            for name in destination.names(&links).doing(DOING)? {
                destination.unlink(&links, &name.name).doing(DOING)?;
            }
            destination.truncate(&log, 0).doing(DOING)?;
        }
        let end = destination.status(&log).doing("looking at the log")?.size;
        let names = destination.names(&records).doing("reading records")?;
        let last = names.iter().filter_map(|name| name.name.to_str()?.parse::<u64>().ok()).max();
        let (log_end, next_record) = (AtomicU64::new(end), AtomicU64::new(last.map_or(0, |last| last + 1)));
        let long_records = AtomicBool::new(last.is_some());
        let (log, log_base) = (Mutex::new(log), AtomicU64::new(0));
        Ok((Self { directory, links, records, log, log_end, log_base, next_record, is_ahead, long_records }, begun))
    }

    /// From now on a restart goes on with this migration, from so many sources. It is said whole or not at all: what else is found there is damage.
    pub(super) fn say_begun(&self, destination: &D, sources: usize) -> Result<()> {
        const DOING: &str = "writing state";
        let [from, to] = ["state.new", STATE].map(OsStr::new);
        let new = own(destination, &self.directory, "state.new", Make::File)?;
        let written = destination.truncate(&new, 0).and_then(|()| {
            destination.write_at(&new, 0, state_of(sources).as_bytes())?;
            destination.sync(&new)
        });
        written.doing(DOING)?;
        destination.rename((&self.directory, from), (&self.directory, to)).doing(DOING)?;
        destination.sync_all().doing(DOING)?;
        say_begun_ahead(destination, &self.directory)
    }

    /// Writes by what the sources are known; not durable by itself. The line of one that has begun stays as it is.
    pub(super) fn write_roots(&self, destination: &D, roots: &[KnownRoot]) -> Result<()> {
        let file = own(destination, &self.directory, ROOTS, Make::File)?;
        let lines: String = roots.iter().map(|root| root.get().map_or_else(roots::unknown, roots::line)).collect();
        destination.write_at(&file, 0, lines.as_bytes()).doing("writing roots")
    }

    /// Whether objects may be here that were copied ahead.
    pub(super) fn is_ahead(&self) -> bool {
        self.is_ahead
    }

    /// A number that no file of `records` has.
    pub(super) fn new_record(&self) -> u64 {
        self.long_records.store(true, Ordering::Release);
        self.next_record.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether names are durable only with data.
    pub(super) fn takes_long_records(&self) -> bool {
        self.long_records.load(Ordering::Acquire)
    }

    /// Appends to the log; not durable by itself.
    pub(super) fn write_log(&self, destination: &D, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let at = self.log_end.load(Ordering::Relaxed);
        destination.write_at(&self.log.lock(), at, bytes).doing("writing the log")?;
        self.log_end.store(at + bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn log(&self) -> D::Object {
        self.log.lock().clone()
    }

    /// Whether the log is longer than that, and has grown to several times what it was.
    pub(super) fn log_is_long(&self, most: u64) -> bool {
        let end = self.log_end.load(Ordering::Relaxed);
        end > most && end / 4 > self.log_base.load(Ordering::Relaxed)
    }

    /// Replaces the log by one that says the same in other bytes. It is whole before it takes the other's place. One that could not be written gives
    /// its room back.
    pub(super) fn replace_log(&self, destination: &D, bytes: &[u8]) -> Result<()> {
        const DOING: &str = "writing the log anew";
        let [from, to] = ["log.new", "log"].map(OsStr::new);
        let new = own(destination, &self.directory, "log.new", Make::File)?;
        destination.truncate(&new, 0).doing(DOING)?;
        let written = destination.write_at(&new, 0, bytes).and_then(|()| destination.sync(&new));
        written.doing(DOING).inspect_err(|_| drop(destination.unlink(&self.directory, from)))?;
        let mut log = self.log.lock();
        destination.rename((&self.directory, from), (&self.directory, to)).doing(DOING)?;
        *log = new;
        self.log_end.store(bytes.len() as u64, Ordering::Relaxed);
        self.log_base.store(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The log ends there.
    pub(super) fn set_log_end(&self, end: u64) {
        self.log_end.store(end, Ordering::Relaxed);
    }

    /// Removes it, with all that is in it. It begins with what nothing needs any more, so that a crash on the way leaves what can be removed again;
    /// what an earlier call has removed is passed over.
    pub(super) fn remove(&self, destination: &D) -> Result<()> {
        for (name, directory) in [("links", &self.links), ("records", &self.records)] {
            for entry in destination.names(directory).doing("reading .ishigaki-migrate")? {
                or_gone(destination.unlink(directory, &entry.name)).doing("removing a temporary name")?;
            }
            let removed = destination.remove_directory(&self.directory, OsStr::new(name));
            or_gone(removed).doing("removing a temporary name")?;
        }
        // The log, and what a service keeps beside it.
        for entry in destination.names(&self.directory).doing("reading .ishigaki-migrate")? {
            if entry.name != STATE {
                or_gone(destination.unlink(&self.directory, &entry.name)).doing("removing the log")?;
            }
        }
        destination.sync_all().doing("removing .ishigaki-migrate")?;
        or_gone(destination.unlink(&self.directory, OsStr::new(STATE))).doing("removing state")?;
        remove_empty(destination)
    }
}
