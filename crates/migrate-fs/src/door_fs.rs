//! The destination as a file system: each request is done on the destination's own file system, after what it needs has
//! [arrived](crate::Arrivals).
//!
//! Names and attributes are asked of the door, and believed by the kernel for some time, as all changes of them come through the kernel. Locks are the
//! kernel's own: all programs use one mount, so it knows of all locks, and they outlive the service.
//!
//! Parts: `names` finds, makes, renames and removes, `attributes` tells and changes what an object says of itself, `extras` its extended
//! attributes, `bytes` opens, reads and writes, `listing` lists, `beside` is what the library does not know.

mod attributes;
mod beside;
mod bytes;
mod extras;
mod file_system;
mod listing;
mod names;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuse_backend_rs::api::filesystem::Entry;
use ishigaki_fuse::{Connection, waiting};
use ishigaki_migrate::source::Cancel;
use rustix::fs::{FileType, OFlags, Statx, StatxTimestamp};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::arrivals::{Arrivals, Object};
use crate::caller;
use crate::nodes::{Known, Nodes, ROOT};
use crate::opens::Opens;
use crate::places::Places;
use crate::volume::{self, Identity, Volume};

/// For how long the kernel may believe a name. All changes of names come through it.
const NAMES: Duration = Duration::from_hours(1);

/// For how long it may believe attributes: it forgets them by itself when it changes them.
const ATTRIBUTES: Duration = Duration::from_hours(1);

/// For how long while a migration is under way, which sets times of what it has brought.
const SOON: Duration = Duration::from_secs(1);

/// For how long of a file that was just made and may be mapped. The kernel hears nothing of writes to a mapping; it only
/// needs the mode once more to open the file.
const AT_ONCE: Duration = Duration::from_millis(10);

/// Nanoseconds in a second.
const BILLION: i64 = 1_000_000_000;

/// Directories that are held open.
const DIRECTORIES: usize = 256;

/// Files that are held open, where the process may have many.
const FILES: usize = 1024;

/// The destination as a file system. Any number of threads may ask at a time.
pub(crate) struct DoorFs {
    volume: Volume,
    nodes: Nodes,
    opens: Opens,
    /// Directories in which requests name something.
    places: Places,
    /// Files, and what else is asked about.
    files: Places,
    root_is_whole: AtomicBool,
    arrivals: Arc<dyn Arrivals>,
    connection: OnceLock<Connection>,
    /// The kernel can pass files through.
    passes: AtomicBool,
    /// It tells when the set-group-ID bit goes with an access control list.
    extended: AtomicBool,
}

impl DoorFs {
    pub(crate) fn new(volume: Volume, arrivals: Arc<dyn Arrivals>, next_handle: u64) -> Self {
        Self {
            volume,
            nodes: Nodes::default(),
            opens: Opens::new(next_handle),
            places: Places::new(DIRECTORIES),
            files: Places::new(files_held()),
            root_is_whole: AtomicBool::new(false),
            arrivals,
            connection: OnceLock::new(),
            passes: AtomicBool::new(false),
            extended: AtomicBool::new(false),
        }
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub(crate) fn opens(&self) -> &Opens {
        &self.opens
    }

    pub(crate) fn connection(&self) -> Option<&Connection> {
        self.connection.get()
    }

    /// What was agreed upon with the kernel.
    pub(crate) fn agreed(&self) -> (bool, bool) {
        (self.passes.load(Ordering::Acquire), self.extended.load(Ordering::Acquire))
    }

    pub(crate) fn agree(&self, (passes, extended): (bool, bool)) {
        self.passes.store(passes, Ordering::Release);
        self.extended.store(extended, Ordering::Release);
    }

    /// The number by which the kernel knows an object.
    fn node_of(&self, identity: Identity) -> u64 {
        if identity == self.volume.root_identity() { ROOT } else { identity.number }
    }

    /// What the kernel knows the directory by that has this inode.
    pub(crate) fn node_of_directory(&self, number: u64) -> u64 {
        if number == self.volume.root_identity().number { ROOT } else { number }
    }

    /// Which object a node is, unless it is held as an orphan.
    fn identity(&self, node: u64) -> io::Result<Result<Identity, Arc<OwnedFd>>> {
        if node == ROOT {
            return Ok(Ok(self.volume.root_identity()));
        }
        Ok(match self.nodes.known(node) {
            Known::Orphan(held) => Err(held),
            Known::Generation(generation) => Ok(Identity { number: node, generation }),
            Known::Nothing => Ok(Identity { number: node, generation: self.volume.generation(node)? }),
        })
    }

    /// Before the engine is asked: it works in root's name.
    fn ask(&self) -> io::Result<&dyn Arrivals> {
        caller::root()?;
        Ok(&*self.arrivals)
    }

    /// After something was done in a program's name: the engine goes on, unless it is asked no more.
    fn back(&self) -> io::Result<()> {
        if self.arrivals.is_over() { Ok(()) } else { Ok(caller::root()?) }
    }

    /// The object of a node.
    fn place(&self, node: u64) -> io::Result<Place<'_>> {
        if node == ROOT {
            return Ok(Place { number: self.volume.root_identity().number, held: Held::Root(self.volume.root()) });
        }
        if let Some(held) = self.places.get(node).or_else(|| self.files.get(node)) {
            return Ok(Place { number: node, held: Held::Shared(held) });
        }
        let held = match self.identity(node)? {
            Ok(identity) => Held::Opened(self.volume.place(identity)?),
            Err(orphan) => Held::Shared(orphan),
        };
        Ok(Place { number: node, held })
    }

    /// The directory of a node, in which a request names something.
    fn directory(&self, node: u64) -> io::Result<Place<'_>> {
        Ok(self.hold(self.place(node)?, &self.places))
    }

    /// The object of a node, about which requests ask more than once.
    fn asked(&self, node: u64) -> io::Result<Place<'_>> {
        Ok(self.hold(self.place(node)?, &self.files))
    }

    /// Holds a place that was opened for this request, for the next ones.
    fn hold<'a>(&self, place: Place<'a>, places: &Places) -> Place<'a> {
        let Place { number, held: Held::Opened(opened) } = place else { return place };
        let opened = Arc::new(opened);
        places.hold(number, opened.clone());
        // It may have been removed meanwhile.
        if self.nodes.is_orphan(number) {
            places.forget(number);
        }
        Place { number, held: Held::Shared(opened) }
    }

    /// The kernel knows a node no more, or its last name has gone: nothing is held that would keep its space.
    fn let_go(&self, node: u64) {
        self.places.forget(node);
        self.files.forget(node);
        self.opens.forget(node, self.connection.get());
    }

    /// The mount goes to another process.
    pub(crate) fn hand_over(&self) {
        self.opens.forget_all(self.connection.get());
    }

    /// Opens the object of a node.
    fn open_node(&self, node: u64, flags: OFlags) -> io::Result<File> {
        Ok(match self.identity(node)? {
            Ok(identity) => self.volume.open_object(identity, flags)?,
            Err(orphan) => self.volume.reopen(orphan.as_fd(), flags)?,
        })
    }

    /// Lets `ask` wait for something, while others go on.
    fn wait<T>(ask: impl FnOnce(&Cancel) -> io::Result<T>) -> io::Result<T> {
        let cancel = Cancel::new();
        let stop = {
            let cancel = cancel.clone();
            move || cancel.cancel()
        };
        waiting(stop, || ask(&cancel)).map_err(|error| if cancel.is_cancelled() { Errno::INTR.into() } else { error })
    }

    fn names_needed(&self, directory: &Place<'_>) -> io::Result<()> {
        if self.is_whole(directory.number) {
            return Ok(());
        }
        let arrivals = self.ask()?;
        Self::wait(|cancel| arrivals.names_needed(directory.object(), cancel))?;
        self.set_whole(directory.number);
        Ok(())
    }

    fn names_change(&self, directory: &Place<'_>) -> io::Result<()> {
        if self.arrivals.is_over() {
            return Ok(());
        }
        let arrivals = self.ask()?;
        Self::wait(|cancel| arrivals.names_change(directory.object(), cancel))
    }

    /// Whether it is known that nothing is missing of an object.
    fn is_whole(&self, node: u64) -> bool {
        self.arrivals.is_over() || self.was_whole(node, None)
    }

    fn was_whole(&self, number: u64, generation: Option<u64>) -> bool {
        if number == ROOT || number == self.volume.root_identity().number {
            self.root_is_whole.load(Ordering::Acquire)
        } else {
            self.nodes.was_whole(number, generation)
        }
    }

    fn set_whole(&self, number: u64) {
        if number == self.volume.root_identity().number {
            self.root_is_whole.store(true, Ordering::Release);
        } else {
            self.nodes.is_whole(number);
        }
    }

    /// The same, and that programs see its attributes as the destination has them.
    fn is_seen(&self, number: u64, generation: Option<u64>, found: &Statx) -> bool {
        let has_hidden_name = || !is_directory(found) && self.arrivals.has_hidden_name(number);
        self.arrivals.is_over() || self.was_whole(number, generation) && !has_hidden_name()
    }

    fn is_normal(&self, place: &Place<'_>) -> io::Result<bool> {
        if self.is_whole(place.number) {
            return Ok(true);
        }
        let is_normal = self.ask()?.is_normal(place.object())?;
        if is_normal {
            self.set_whole(place.number);
        }
        Ok(is_normal)
    }

    /// What a program sees of an object's attributes, given what the destination has.
    fn seen(&self, place: &Place<'_>, mut found: Statx) -> io::Result<Statx> {
        if self.is_seen(place.number, None, &found) {
            return Ok(found);
        }
        if is_directory(&found) {
            self.names_needed(place)?;
            return Ok(volume::attributes(place)?);
        }
        self.ask()?.seen(place.object(), &mut found)?;
        Ok(found)
    }

    /// The kernel gets an object that a name was found to lead to.
    fn give(&self, (identity, found): (Identity, Statx)) -> io::Result<Entry> {
        let found = if self.is_seen(identity.number, Some(identity.generation), &found) {
            found
        } else {
            let place = Place { number: identity.number, held: Held::Opened(self.volume.place(identity)?) };
            self.seen(&place, found)?
        };
        if self.node_of(identity) != ROOT {
            self.nodes.give(identity);
        }
        let found = self.steady(self.node_of(identity), found);
        Ok(self.entry(identity, &found))
    }

    /// Has programs see one time of change for as long as none of them changes the object. What the engine brings, and its marks, change an object, too: a
    /// program that looks whether a file changes while it reads it, as `tar` does, would take every file for changed that comes because it is read.
    ///
    /// Not of a file that is whole: the kernel may write it by itself, of which nothing is heard here.
    fn steady(&self, node: u64, mut found: Statx) -> Statx {
        let is_kept = || is_directory(&found) || !(self.was_whole(node, None) || self.opens.is_passed_through(node));
        if !self.arrivals.is_over() && is_kept() {
            self.nodes.tells_change(node, nanoseconds(&found.stx_ctime));
        }
        if let Some(told) = self.nodes.told_change(node) {
            set_nanoseconds(&mut found.stx_ctime, told);
        }
        found
    }

    fn entry(&self, identity: Identity, found: &Statx) -> Entry {
        let inode = self.node_of(identity);
        Entry {
            inode,
            generation: if inode == ROOT { 0 } else { identity.generation },
            attr: attributes::stat(found),
            attr_timeout: self.belief(inode, found),
            entry_timeout: NAMES,
            ..Entry::default()
        }
    }

    /// For how long attributes hold. The kernel forgets them when a file is mapped, but hears neither of writes to the mapping, nor of set-user-ID and set-group-ID bits that a write
    /// takes from a file which is passed through.
    fn belief(&self, node: u64, found: &Statx) -> Duration {
        let has_bits = found.stx_mode & 0o6000 != 0 && !is_directory(found);
        if has_bits || self.opens.may_be_mapped(node) {
            Duration::ZERO
        } else if self.arrivals.is_over() {
            ATTRIBUTES
        } else {
            SOON
        }
    }
}

impl std::fmt::Debug for DoorFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DoorFs").field("path", &self.volume.path()).finish_non_exhaustive()
    }
}

/// How many files are held: a small part of what the process may have open.
fn files_held() -> usize {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    FILES.min(usize::try_from(most / 4).unwrap_or(FILES))
}

/// Since 1970. What no 64 bits hold was not changed by programs of our days.
fn nanoseconds(time: &StatxTimestamp) -> i64 {
    time.tv_sec.saturating_mul(BILLION).saturating_add(time.tv_nsec.into())
}

fn set_nanoseconds(time: &mut StatxTimestamp, nanoseconds: i64) {
    (time.tv_sec, time.tv_nsec) = (nanoseconds.div_euclid(BILLION), nanoseconds.rem_euclid(BILLION) as u32);
}

fn is_directory(found: &Statx) -> bool {
    FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory
}

/// An object, held open as a place.
struct Place<'a> {
    number: u64,
    held: Held<'a>,
}

enum Held<'a> {
    Root(BorrowedFd<'a>),
    /// An orphan, or a directory that is held.
    Shared(Arc<OwnedFd>),
    Opened(OwnedFd),
}

impl Place<'_> {
    fn object(&self) -> Object<'_> {
        Object { number: self.number, place: self.as_fd() }
    }
}

impl AsFd for Place<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.held {
            Held::Root(held) => *held,
            Held::Shared(held) => held.as_fd(),
            Held::Opened(held) => held.as_fd(),
        }
    }
}
