//! Makes the children of a directory that has not been listed yet.
//!
//! One thread lists a directory, others wait. What lies in it already comes from a listing that a crash took back, and no client has
//! changed it: children that have the right record stay, so that inode numbers stay, and all else is replaced.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};

use super::hidden::{HIDDEN, LOST_AND_FOUND};
use super::progress::{Counters, Problem};
use super::settling::Listed;
use super::{Doing, Engine, Error, Result};
use crate::destination::{Destination, Name, NodeId};
use crate::record::{Record, Reference, State};
use crate::source::{self, Cancel, Entry, ErrorKind, Extras, FileType, Location, Source, Timestamp};

/// How often a waiter looks whether its caller has cancelled it.
const LOOK: Duration = Duration::from_millis(20);
/// So many directories are remembered as normal.
const REMEMBERED: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A thread lists it.
    Listing,
    /// All children are there; the mark still is, too.
    Listed,
}

/// Directories that the medium says are stubs, and which memory knows better.
#[derive(Default)]
pub(super) struct Directories {
    stages: Mutex<HashMap<NodeId, Stage>>,
    turn: Condvar,
    /// Some that have no mark. An inode number that comes again is forgotten when it does.
    normal: RwLock<HashSet<NodeId>>,
}

impl Directories {
    pub(super) fn settled(&self, nodes: impl Iterator<Item = NodeId>) {
        let mut stages = self.stages.lock();
        for node in nodes {
            stages.remove(&node);
        }
    }

    /// A new stub: whatever was known of an inode with that number is over.
    pub(super) fn is_new(&self, node: NodeId) {
        if self.normal.read().contains(&node) {
            self.normal.write().remove(&node);
        }
    }

    fn is_normal(&self, node: NodeId) {
        let mut normal = self.normal.write();
        if normal.len() >= REMEMBERED {
            normal.clear();
        }
        normal.insert(node);
    }
}

/// The extras of what is made whole at once, by one call for a page. What does not come by that is asked for one by one.
fn leaves(source: &dyn Source, above: &Path, page: &[Entry], cancel: &Cancel) -> HashMap<OsString, Extras> {
    let has_extras = source.capabilities().extras;
    let leaf = |entry: &&Entry| match entry.attributes.map(|attributes| attributes.file_type) {
        Some(FileType::Symlink) => true,
        Some(FileType::Regular | FileType::Directory) | None => false,
        Some(_) => has_extras,
    };
    let entries: Vec<&Entry> = page.iter().filter(leaf).collect();
    if entries.is_empty() {
        return HashMap::new();
    }
    let location = |entry: &&Entry| Location { path: above.join(&entry.name), handle: entry.handle.clone() };
    let locations: Vec<Location> = entries.iter().map(location).collect();
    let kinds = entries.iter().filter_map(|entry| entry.attributes).map(|attributes| attributes.file_type);
    let objects: Vec<(&Location, FileType)> = locations.iter().zip(kinds).collect();
    let told = source.extras_of(&objects, cancel);
    entries.iter().zip(told).filter_map(|(entry, told)| Some((entry.name.clone(), told.ok()?))).collect()
}

/// A listing under way.
pub(super) struct Listing<'a, D: Destination> {
    pub(super) directory: &'a D::Object,
    pub(super) record: &'a Record,
    pub(super) cancel: &'a Cancel,
    /// When the directory was accessed before.
    accessed: Timestamp,
    /// What it has of its own.
    own: Extras,
    /// What lies there and was not told of yet.
    pub(super) existing: HashMap<OsString, Name>,
    /// What was told.
    pub(super) seen: HashSet<OsString>,
    /// Targets of links, and attributes of what is no stub, that came for a whole page.
    pub(super) extras: HashMap<OsString, Extras>,
    pub(super) children: Vec<NodeId>,
    pub(super) directories: Vec<(NodeId, OsString)>,
    /// Files with data, and their bytes.
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl<'a, D: Destination> Listing<'a, D> {
    /// One of a directory in which nothing lies.
    pub(super) fn new(directory: &'a D::Object, record: &'a Record, cancel: &'a Cancel) -> Self {
        Self {
            directory,
            record,
            cancel,
            accessed: Timestamp { seconds: 0, nanos: 0 },
            own: Extras::default(),
            existing: HashMap::new(),
            seen: HashSet::new(),
            extras: HashMap::new(),
            children: Vec::new(),
            directories: Vec::new(),
            files: 0,
            bytes: 0,
        }
    }
}

impl<D: Destination> Engine<D> {
    /// Before a client looks at names in a directory, or at its attributes: they are here.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if the source has no such directory any more; errors of any kind.
    pub fn look_into(&self, directory: &D::Object, cancel: &Cancel) -> Result<()> {
        let _demand = self.counters.demand();
        self.look_into_for_crawler(directory, cancel)
    }

    /// The same, without telling the crawler to let it go first.
    pub(super) fn look_into_for_crawler(&self, directory: &D::Object, cancel: &Cancel) -> Result<()> {
        self.list_once(directory, cancel, |record, reference| self.list(directory, record, reference, cancel))
    }

    /// Leaves out what the source has in a directory that is not listed; whether it was not. Returns when that can not be lost any more.
    pub(super) fn leave_empty(&self, directory: &D::Object, cancel: &Cancel) -> Result<bool> {
        let mut is_left = false;
        self.list_once(directory, cancel, |record, reference| {
            let listing = self.begin_listing(directory, record, cancel)?;
            self.end_listing(listing, reference)?;
            is_left = true;
            Ok(())
        })?;
        if is_left {
            self.settled(self.destination.id(directory))?;
        }
        Ok(is_left)
    }

    /// Lists a directory, unless that was done, by `list`; one thread at a time.
    fn list_once(
        &self,
        directory: &D::Object,
        cancel: &Cancel,
        list: impl FnOnce(&Record, Option<Reference>) -> Result<()>,
    ) -> Result<()> {
        let node = self.destination.id(directory);
        if self.directories.normal.read().contains(&node) {
            return Ok(());
        }
        let (record, reference) = {
            let mut stages = self.directories.stages.lock();
            loop {
                match stages.get(&node) {
                    Some(Stage::Listed) => return Ok(()),
                    Some(Stage::Listing) if cancel.is_cancelled() => return Err(Error::Cancelled),
                    Some(Stage::Listing) => {
                        self.directories.turn.wait_for(&mut stages, LOOK);
                    }
                    None => break,
                }
            }
            // Under the lock: the settler takes the mark first, and then the stage.
            let Some(found) = self.record(directory)? else {
                self.directories.is_normal(node);
                return Ok(());
            };
            stages.insert(node, Stage::Listing);
            found
        };
        let done = list(&record, reference);
        let mut stages = self.directories.stages.lock();
        // A round of the settler may have been faster: then the mark is gone.
        if done.is_ok() && self.has_record(directory).unwrap_or(true) {
            stages.insert(node, Stage::Listed);
        } else {
            stages.remove(&node);
        }
        self.directories.turn.notify_all();
        done
    }

    /// Whether it is known for a directory that is listed, without looking at it.
    pub(super) fn is_listed(&self, object: &D::Object) -> bool {
        let node = self.destination.id(object);
        self.directories.normal.read().contains(&node)
            || self.directories.stages.lock().get(&node) == Some(&Stage::Listed)
    }

    /// Whether a directory has no names yet, and no thread that lists it.
    pub(super) fn is_to_be_listed(&self, directory: &D::Object) -> Result<bool> {
        let node = self.destination.id(directory);
        let is_known =
            self.directories.normal.read().contains(&node) || self.directories.stages.lock().contains_key(&node);
        Ok(!is_known && self.has_record(directory)?)
    }

    fn list(
        &self,
        directory: &D::Object,
        record: &Record,
        reference: Option<Reference>,
        cancel: &Cancel,
    ) -> Result<()> {
        let done = self.list_told(directory, record, reference, cancel);
        if let Err(error) = &done
            && let Some(conflict) = match error {
                Error::Conflict(_) => Some(true),
                Error::Source { error, .. } => Some(error.kind == ErrorKind::Gone),
                _ => None,
            }
        {
            let problem =
                Problem { path: record.location.path.clone(), message: error.to_string(), conflict, left_out: false };
            self.problem(record.source, problem);
        }
        done
    }

    fn list_told(
        &self,
        directory: &D::Object,
        record: &Record,
        reference: Option<Reference>,
        cancel: &Cancel,
    ) -> Result<()> {
        let dummy = record.state == State::Dummy;
        // Over a long way, at the same time as the names.
        let is_far = dummy && self.distances.is_far(record.source);
        let early = if dummy && !is_far { self.ask_extras(record, cancel)?.0 } else { Extras::default() };
        let mut listing = self.begin_listing(directory, record, cancel)?;
        listing.own = if is_far {
            thread::scope(|scope| {
                let extras = scope.spawn(|| self.ask_extras(record, cancel));
                let taken = self.take_all(&mut listing);
                let extras = extras.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                taken.and(extras.map(|(extras, _)| extras))
            })?
        } else {
            self.take_all(&mut listing)?;
            early
        };
        self.end_listing(listing, reference)
    }

    fn begin_listing<'a>(
        &self,
        directory: &'a D::Object,
        record: &'a Record,
        cancel: &'a Cancel,
    ) -> Result<Listing<'a, D>> {
        let node = self.destination.id(directory);
        let status = self.destination.status(directory).doing("looking at a directory")?;
        let existing = self.existing(directory, node)?;
        self.drop_extras(directory)?;
        Ok(Listing { accessed: status.accessed, existing, ..Listing::new(directory, record, cancel) })
    }

    /// All that it has was told.
    fn end_listing(&self, listing: Listing<'_, D>, reference: Option<Reference>) -> Result<()> {
        let Listing { directory, record, accessed, own, existing, children, directories, files, bytes, .. } = listing;
        for name in existing.into_values() {
            self.discard(directory, &name)?;
        }
        // Behind the children: they would inherit a default access control list.
        self.put_extras(directory, &own, record);
        let times = self.destination.set_times(directory, accessed, record.stamp.modified);
        times.doing("setting the times of a directory")?;
        self.no_problem(record.source, &record.location.path);
        self.has_listed();
        let node = self.destination.id(directory);
        let found = directories.len() as u64;
        if self.queue.listed(node, directories, files, bytes) {
            Counters::add(&self.counters.listed, 1);
            Counters::add(&self.counters.directories, found);
            Counters::add(&self.counters.files, files);
            Counters::add(&self.counters.bytes, bytes);
        }
        self.settling.listed(Listed { node, object: directory.clone(), reference }, children);
        Ok(())
    }

    fn existing(&self, directory: &D::Object, node: NodeId) -> Result<HashMap<OsString, Name>> {
        let names = self.destination.names(directory).doing("reading a directory")?;
        let root = node == self.destination.id(&self.destination.root());
        let found = self.lost_and_found(directory)?.map(|_| OsStr::new(LOST_AND_FOUND));
        let own = |name: &Name| {
            root && (name.name == HIDDEN || self.is_origin(&name.name)) || Some(name.name.as_os_str()) == found
        };
        Ok(names.into_iter().filter(|name| !own(name)).map(|name| (name.name.clone(), name)).collect())
    }

    /// The directory that a file system brings along, of the destination's root, unless it came from a source.
    pub(super) fn lost_and_found(&self, directory: &D::Object) -> Result<Option<D::Object>> {
        const DOING: &str = "looking at lost+found";
        if self.destination.id(directory) != self.destination.id(&self.destination.root()) {
            return Ok(None);
        }
        let found = self.destination.lookup(directory, OsStr::new(LOST_AND_FOUND)).doing(DOING)?;
        found.map_or(Ok(None), |found| Ok((!self.has_record(&found)?).then_some(found)))
    }

    /// Whether a source goes into the directory of that name, or below it.
    pub(super) fn is_origin(&self, name: &OsStr) -> bool {
        self.origins.iter().any(|origin| origin.at.starts_with(name))
    }

    /// Makes a child of each entry, as pages come.
    fn take_all(&self, listing: &mut Listing<'_, D>) -> Result<()> {
        let (number, location, cancel) = (listing.record.source, listing.record.location.clone(), listing.cancel);
        let mut failed = None;
        let listed = self.ask(number, &location.path, cancel, |source| {
            let mut asked = Some(Instant::now());
            let mut answered =
                || asked.take().into_iter().for_each(|asked| self.distances.took(number, asked.elapsed()));
            source.list(&location, cancel, &mut |entries: Vec<Entry>| {
                answered();
                listing.extras = leaves(source, &location.path, &entries, cancel);
                for entry in entries {
                    if let Err(error) = self.child(listing, entry) {
                        failed = Some(error);
                        return Err(source::Error::cancelled());
                    }
                }
                Ok(())
            })?;
            answered();
            Ok(())
        });
        match failed {
            Some(error) => Err(error),
            None => listed,
        }
    }

    /// Removes what an earlier listing has left.
    pub(super) fn discard(&self, directory: &D::Object, name: &Name) -> Result<()> {
        if name.file_type != FileType::Directory {
            return self.destination.unlink(directory, &name.name).doing("removing what a crash has left");
        }
        let below = self.destination.lookup(directory, &name.name).doing("removing what a crash has left")?;
        if let Some(below) = below {
            for name in self.destination.names(&below).doing("removing what a crash has left")? {
                self.discard(&below, &name)?;
            }
        }
        self.destination.remove_directory(directory, &name.name).doing("removing what a crash has left")
    }
}
