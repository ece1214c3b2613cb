//! Copies on demand, and keeps account of what is here.
//!
//! A door (a file server in front of the destination) asks before it acts, by the inodes that it acts on:
//!
//! ```text
//!   lookup, readdir, open of a directory, its attributes       look_into(directory)
//!   create, link, unlink, rename, rmdir                        before_names_change(directory), each directory concerned
//!                                                              look_into(victim) if that is a directory; moving() around a rename or a link
//!   open, stat of a file                                       file(object): None, and it is normal for good: nothing more to ask
//!     a stub: extended attributes, access control lists        File::attributes_needed
//!             stat                                             File::status
//!             read, SEEK_DATA                                  File::read_needed, File::next_data
//!             write                                            File::before_write … Changing::wrote
//!             fallocate                                        File::read_needed, then as a write: what is allocated and not written
//!                                                              could be taken for data later
//!             truncate, punch                                  File::truncate, File::punch: the engine does it
//!             chmod, chown, utimes, setxattr                   File::before_attributes_change … drop
//!             what needs all of it (collapse, insert, clone)   File::read_needed(0..u64::MAX)
//! ```
//!
//! From time to time, also while no crawler is at work, the process calls [`settle`](Engine::settle): files that are whole keep a descriptor open
//! until then, and are still asked about. A process that serves many clients raises its limit of open files (10,000 and more).
//!
//! Calls block the thread until the source has given what is needed, or their [`Cancel`] ends them. An absent source makes them wait.
//!
//! **A directory** is a stub until it has been listed: its children then are there as stubs, and the engine remembers that in memory. Its
//! mark on the medium is taken away by the settler, when children and all that must be known of them are durable. A listing that a
//! crash has taken back is made again, and what lies in such a directory is replaced. Therefore nothing that a client changes may lie
//! below a directory whose mark is still there: a change waits for the settler first.
//!
//! **A file** is a stub until all is here. A block that is allocated is here; a hole is not, except at or behind `minsize` and in
//! the record's true holes. No bitmap is kept: a crash that loses a block's data loses its allocation, too (paper 5, section 2.3.3). While
//! a stub is in use, memory holds which ranges are missing.
//!
//! **Copied ahead** ([`Settings::ahead`]): while clients still use the source, an engine crawls and takes no mark away. A file of which all is here gets a
//! record that says so. The next engine, whether it copies ahead once more or begins the migration, finds every directory as a listing that a crash has taken back: what
//! the source tells now decides on each name. A file stays where number, size and times are those of its record, a directory where the number
//! is; all else is removed and made anew.
//!
//! Parts: `ahead` is what that takes, `file` is a stub's use, `node` what is known of one, `copying` brings data, `attributes` all else, `listing` and `child` make stubs, `left_out` those that could not be made at first, `conflict` decides on files that have changed at the source, `links` keeps hard
//! links together, `settling` makes durable and takes marks away, `records` reads and writes them, `asking` waits for sources, `roots` knows whether they are the same ones, `distance` knows how far they are, `hidden` is the
//! engine's own directory, `log` remembers directories for the crawler, `crawler` goes through them, `way` leads down to an object, `sweep` looks for stubs that nothing else
//! knows, `progress` counts.

mod ahead;
mod asking;
mod attributes;
mod child;
mod conflict;
mod copying;
mod crawler;
mod distance;
mod error;
mod file;
mod hidden;
mod left_out;
mod links;
mod listing;
mod log;
mod node;
mod progress;
mod records;
mod roots;
mod settling;
mod sweep;
mod way;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use self::ahead::LastListing;
use self::asking::{Absences, Calls};
use self::distance::Distances;
use self::error::Doing;
use self::hidden::Hidden;
use self::links::Links;
use self::listing::Directories;
use self::log::Queue;
use self::node::Nodes;
use self::progress::Counters;
use self::roots::KnownRoot;
use self::settling::Settling;
use crate::destination::{Destination, Make};
use crate::ranges::RangeSet;
use crate::record::{Record, State};
use crate::source::{Cancel, Owner, Source};

pub use ahead::TICK;
pub use asking::{Absence, Call};
pub use conflict::{AtSource, Resolution};
pub use crawler::{Crawl, Depth, Passes};
pub use error::{Error, Result};
pub use file::{Changing, File};
pub use hidden::{AHEAD, HIDDEN, LOST_AND_FOUND, STATE};
pub use left_out::Appeared;
#[cfg(fuzzing)]
pub use log::fuzz;
pub use progress::{Problem, Progress};
pub use roots::Roots;

/// A source, and where its tree goes.
#[derive(Clone)]
pub struct Origin {
    /// The server that is replaced.
    pub source: Arc<dyn Source>,
    /// The directory below the destination's root that takes the source's root; empty for the root itself.
    pub at: PathBuf,
}

/// How the engine works. [`Settings::default`] is right for most.
#[derive(Clone)]
pub struct Settings {
    /// The extended attribute that holds records.
    pub attribute: OsString,
    /// Data is copied in aligned pieces of so many bytes, a multiple of the destination's blocks.
    pub unit: u64,
    /// How long a source may not answer before calls fail; `None`: they wait.
    pub give_up: Option<Duration>,
    /// The pause before an absent source is asked again; it doubles up to a hundred times this.
    pub pause: Duration,
    /// Files are only copied ahead, while clients still use the source: records stay, and the next engine looks at everything anew. Two changes that
    /// lie so far apart bear different times at the source: [`TICK`] is enough everywhere.
    pub ahead: Option<Duration>,
    /// The log is written anew when it is longer than this, and than four times what it must say.
    pub log: u64,
    /// Turns the source's owners into the destination's.
    pub owners: Arc<dyn Fn(Owner) -> Owner + Send + Sync>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            attribute: "trusted.ishigaki.stub".into(),
            unit: 1 << 20,
            give_up: None,
            pause: Duration::from_millis(50),
            ahead: None,
            log: 1 << 20,
            owners: Arc::new(|owner| owner),
        }
    }
}

/// A migration into one destination.
///
/// *Threads*: any number. *Drop* stops nothing that is under way elsewhere and loses nothing that a crash would not lose. *A crash* loses
/// what was not durable, and the next [`open`](Engine::open) goes on from there.
///
/// ```
/// use std::ffi::OsStr;
/// use std::path::Path;
/// use std::sync::Arc;
///
/// use ishigaki_migrate::destination::{Destination, simulated};
/// use ishigaki_migrate::engine::{Engine, Origin, Settings};
/// use ishigaki_migrate::source::{Cancel, FileType, simulated::Simulated};
///
/// let source = Simulated::new();
/// source.add(Path::new("letter"), FileType::Regular, b"Dear reader".to_vec());
/// let destination = simulated::Simulated::new();
/// let origin = Origin { source: Arc::new(source), at: "".into() };
/// let engine = Engine::open(destination.clone(), vec![origin], Settings::default(), &Cancel::new())?;
///
/// let root = destination.root();
/// engine.look_into(&root, &Cancel::new())?;
/// let letter = destination.lookup(&root, OsStr::new("letter"))?.expect("a stub");
/// engine.file(&letter)?.expect("not yet here").read_needed(0..4, &Cancel::new())?;
/// let mut bytes = [0; 4];
/// destination.read_at(&letter, 0, &mut bytes)?;
/// assert_eq!(&bytes, b"Dear");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Engine<D: Destination> {
    destination: D,
    origins: Vec<Origin>,
    /// One for each of them.
    roots: Vec<KnownRoot>,
    settings: Settings,
    hidden: Hidden<D>,
    nodes: Nodes<D>,
    /// Stubs of which the medium may say that more is here than is: they are held in memory.
    doubtful: Mutex<Vec<Arc<node::Node<D>>>>,
    directories: Directories,
    last_listing: LastListing,
    settling: Settling<D>,
    links: Links,
    queue: Queue,
    counters: Counters,
    absences: Absences,
    distances: Distances,
    calls: Calls,
    /// Renames and links hold it shared; a sweep that must see all holds it alone.
    moving: RwLock<()>,
    moves: AtomicU64,
    /// How many of them there had been when a sweep found nothing that was missing.
    swept: AtomicU64,
}

/// While it is held, a rename or a link may be under way.
pub struct Moving<'a> {
    _held: RwLockReadGuard<'a, ()>,
}

impl<D: Destination> Engine<D> {
    /// Begins a migration in an empty directory, or goes on with one.
    ///
    /// # Errors
    ///
    /// [`Error::NotEmpty`] if the directory holds anything that no migration has put there; [`Error::Ended`] if a migration into it has ended, and a
    /// crash had left the last step; [`Error::Begun`] if files are to be copied ahead of a migration that has begun; [`Error::FewerSources`]; [`Error::Taken`] where a further source can not join; errors of source and destination.
    pub fn open(destination: D, origins: Vec<Origin>, settings: Settings, cancel: &Cancel) -> Result<Arc<Self>> {
        let (hidden, begun) = Hidden::open(&destination, settings.ahead.is_some())?;
        let given = origins.len();
        if let Some(begun) = begun.filter(|begun| *begun > given) {
            return Err(Error::FewerSources { begun, given });
        }
        let queue = Queue::open(&destination, &hidden)?;
        let engine = Self {
            nodes: Nodes::default(),
            doubtful: Mutex::default(),
            directories: Directories::default(),
            last_listing: LastListing::default(),
            settling: Settling::default(),
            links: Links::open(&destination, &hidden)?,
            counters: Counters::default(),
            absences: Absences::default(),
            distances: Distances::default(),
            calls: Calls::default(),
            moving: RwLock::new(()),
            // Those of clients of the process before, of which nothing tells, count as one.
            moves: AtomicU64::new(u64::from(begun.is_some())),
            swept: AtomicU64::new(0),
            roots: hidden::roots(&destination)?.known(given),
            destination,
            origins,
            settings,
            hidden,
            queue,
        };
        let begun = begun.unwrap_or(0);
        if begun < given {
            engine.begin(begun, cancel)?;
        }
        engine.counters.restore(engine.queue.totals());
        Ok(Arc::new(engine))
    }

    /// How many sources the migration into a directory has begun with; 0 if none has begun.
    ///
    /// # Errors
    ///
    /// Of the destination.
    pub fn begun(destination: &D) -> Result<usize> {
        Ok(hidden::begun(destination)?.unwrap_or(0))
    }

    /// By what the sources of a destination are known.
    ///
    /// # Errors
    ///
    /// Of the destination.
    pub fn roots(destination: &D) -> Result<Roots> {
        hidden::roots(destination)
    }

    /// Makes the roots of the sources from that number on, and then says that they have begun.
    fn begin(&self, first: usize, cancel: &Cancel) -> Result<()> {
        for (number, origin) in self.origins.iter().enumerate().skip(first) {
            let number = number as u32;
            if first > 0 {
                self.free_for(number, first)?;
            }
            let (location, attributes) = self.learn_root(number, cancel)?;
            let directory = self.plain_directory(&origin.at)?;
            let record = Record {
                state: if origin.source.capabilities().extras { State::Dummy } else { State::Partial },
                modified: false,
                conflict: false,
                source: number,
                location,
                stamp: attributes.stamp(),
                minsize: 0,
                holes: RangeSet::default(),
            };
            self.store(&directory, &record)?;
            self.put_attributes(&directory, &attributes, number)?;
            self.queue.found_root(self.destination.id(&directory), &origin.at);
        }
        let events = self.queue.take_events();
        self.hidden.write_log(&self.destination, &events)?;
        self.hidden.write_roots(&self.destination, &self.roots)?;
        self.destination.sync_all().doing("syncing the new roots")?;
        if self.settings.ahead.is_some() {
            return Ok(());
        }
        self.hidden.say_begun(&self.destination, self.origins.len())
    }

    /// Refuses a source that joins a migration where anything lies in its place already. What an earlier beginning has left, which was cut off, is
    /// no obstacle.
    fn free_for(&self, number: u32, begun: usize) -> Result<()> {
        const DOING: &str = "looking for a source's directory";
        let at = &self.origins[number as usize].at;
        let taken = || Error::Taken { number, at: at.clone() };
        let mut directory = self.destination.root();
        let mut path = PathBuf::new();
        for name in at {
            path.push(name);
            let Some(next) = self.destination.lookup(&directory, name).doing(DOING)? else { return Ok(()) };
            directory = next;
            let leads_to_another = self.origins[..begun].iter().any(|other| other.at.starts_with(&path));
            if self.destination.status(&directory).doing(DOING)?.file_type != crate::source::FileType::Directory {
                return Err(taken());
            }
            match self.record(&directory)? {
                Some((record, _)) if record.source == number => return Ok(()),
                None if leads_to_another => {}
                // What clients have made lies beside the source's directory, and not in it.
                None if path != *at => {}
                None if self.destination.names(&directory).doing(DOING)?.is_empty() => return Ok(()),
                Some(_) | None => return Err(taken()),
            }
        }
        Err(taken())
    }

    /// The directory of that path, made where it is not there.
    fn plain_directory(&self, path: &Path) -> Result<D::Object> {
        let mut directory = self.destination.root();
        for name in path {
            let next = self.destination.lookup(&directory, name).doing("looking for a source's directory")?;
            directory = if let Some(next) = next {
                next
            } else {
                let made = self.destination.make(&directory, name, Make::Directory);
                let made = made.doing("making a source's directory")?;
                self.destination.set_mode(&made, 0o755).doing("making a source's directory")?;
                made
            };
        }
        Ok(directory)
    }

    /// The destination.
    pub fn destination(&self) -> &D {
        &self.destination
    }

    /// Whether clients must not see that name of the root directory.
    pub fn is_hidden(&self, name: &OsStr) -> bool {
        name == HIDDEN
    }

    /// Whether clients must not see that extended attribute.
    pub fn is_own_attribute(&self, name: &OsStr) -> bool {
        name == self.settings.attribute
    }

    /// Before a name is added to a directory, or taken from it: all names are there, and the listing can no longer be lost.
    ///
    /// # Errors
    ///
    /// Those of [`look_into`](Self::look_into), and of the destination.
    pub fn before_names_change(&self, directory: &D::Object, cancel: &Cancel) -> Result<()> {
        self.look_into(directory, cancel)?;
        // What gets a new name may have come to be in any directory: that one must not be listed again, and make another of that name.
        self.settle_listed()
    }

    /// Held while a client moves a name from one directory to another, or gives a file another name: with the first one removed, that is a move.
    pub fn moving(&self) -> Moving<'_> {
        let held = self.moving.read();
        self.moves.fetch_add(1, Ordering::Release);
        Moving { _held: held }
    }

    /// Ends the migration: removes every trace of it. Nothing must be missing. What an error or a crash has left, the next call removes, or the
    /// one of the process that goes on.
    ///
    /// # Errors
    ///
    /// [`Error::Unfinished`] names something that is not yet here, [`Error::LeftOut`] what could not be copied; errors of the destination.
    pub fn finish(&self) -> Result<()> {
        self.settle()?;
        if let Some(path) = self.any_stub()? {
            return Err(Error::Unfinished(path));
        }
        self.forget_removed()?;
        if let Some(problem) = self.problems().into_iter().next() {
            return Err(Error::LeftOut { path: problem.path, message: problem.message });
        }
        self.hidden.remove(&self.destination)?;
        self.links.forget();
        Ok(())
    }
}
