//! A source behind a link with a long round trip, and a tree in it.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ishigaki_migrate::source::simulated::Simulated as Tree;
use ishigaki_migrate::source::{
    Attributes, Cancel, Capabilities, Entry, FileType, Location, Result, Source, ToldExtras,
};
use parking_lot::{Condvar, Mutex};

/// How long a round trip takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trip {
    /// So long.
    Takes(Duration),
    /// Until no call has begun for so long: all that are under way then end together. So trips are counted exactly, however busy the host is.
    EndsWhenQuiet(Duration),
}

#[derive(Default)]
struct Trips {
    done: u64,
    last: Option<Instant>,
}

/// A source each of whose calls takes one round trip; many objects in one call, too, as requests are sent together.
pub(crate) struct Distant {
    tree: Tree,
    children: HashMap<PathBuf, Vec<Entry>>,
    trip: Trip,
    trips: Mutex<Trips>,
    ends: Condvar,
    under_way: AtomicUsize,
    most: AtomicUsize,
}

impl Distant {
    /// A tree that does not change, behind a link.
    pub(crate) fn new(tree: Tree, trip: Trip) -> Self {
        let mut children: HashMap<PathBuf, Vec<Entry>> = HashMap::new();
        for (path, object) in tree.objects() {
            if let (Some(above), Some(name)) = (path.parent(), path.file_name()) {
                let (handle, attributes) = (Box::default(), Some(object.attributes));
                let entry = Entry { name: name.to_owned(), handle, attributes };
                children.entry(above.to_owned()).or_default().push(entry);
            }
        }
        let (trips, ends) = (Mutex::default(), Condvar::new());
        Self { tree, children, trip, trips, ends, under_way: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    /// Round trips that had to wait for each other, where they are counted.
    pub(crate) fn trips(&self) -> u64 {
        self.trips.lock().done
    }

    /// The most calls that were under way at a time.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    fn travel(&self) {
        self.most.fetch_max(self.under_way.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        match self.trip {
            Trip::Takes(time) if time.is_zero() => {}
            Trip::Takes(time) => std::thread::sleep(time),
            Trip::EndsWhenQuiet(quiet) => self.wait(quiet),
        }
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    fn wait(&self, quiet: Duration) {
        let mut trips = self.trips.lock();
        let mine = trips.done;
        trips.last = Some(Instant::now());
        while trips.done == mine {
            let left = trips.last.map_or(Duration::ZERO, |last| quiet.saturating_sub(last.elapsed()));
            if left.is_zero() {
                trips.done += 1;
                self.ends.notify_all();
            } else {
                self.ends.wait_for(&mut trips, left);
            }
        }
    }
}

impl Source for Distant {
    fn name(&self) -> String {
        "distant".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { holes: false, ..self.tree.capabilities() }
    }

    fn root(&self, cancel: &Cancel) -> Result<(Location, Attributes)> {
        self.travel();
        self.tree.root(cancel)
    }

    fn list(&self, at: &Location, _: &Cancel, take: &mut dyn FnMut(Vec<Entry>) -> Result<()>) -> Result<()> {
        self.travel();
        take(self.children.get(&at.path).cloned().unwrap_or_default())
    }

    fn attributes(&self, object: &Location, cancel: &Cancel) -> Result<Attributes> {
        self.travel();
        self.tree.attributes(object, cancel)
    }

    fn extras_told(&self, object: &Location, cancel: &Cancel) -> Result<ToldExtras> {
        self.travel();
        Ok((self.tree.extras(object, cancel)?, Some(self.tree.attributes(object, cancel)?)))
    }

    fn extras_of_told(&self, objects: &[(&Location, FileType)], cancel: &Cancel) -> Vec<Result<ToldExtras>> {
        self.travel();
        let told = |&(object, _): &(&Location, FileType)| {
            Ok((self.tree.extras(object, cancel)?, Some(self.tree.attributes(object, cancel)?)))
        };
        objects.iter().map(told).collect()
    }

    fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<usize> {
        self.travel();
        self.tree.read(file, offset, buffer, cancel)
    }

    fn read_files_told(
        &self,
        files: &mut [(&Location, &mut [u8])],
        cancel: &Cancel,
    ) -> Vec<Result<(usize, Option<Attributes>)>> {
        self.travel();
        let read = |(file, buffer): &mut (&Location, &mut [u8])| {
            Ok((self.tree.read(file, 0, buffer, cancel)?, Some(self.tree.attributes(file, cancel)?)))
        };
        files.iter_mut().map(read).collect()
    }

    fn next_data(&self, _: &Location, offset: u64, _: &Cancel) -> Result<Option<Range<u64>>> {
        Ok(Some(offset..u64::MAX))
    }
}

/// What the file of that number holds.
pub(crate) fn bytes(number: usize) -> Vec<u8> {
    (0..500 + number % 3000).map(|at| ((at + number) % 251) as u8 + 1).collect()
}

/// So many directories, in chains that are ten deep, each with so many small files.
pub(crate) fn deep_tree(directories: usize, files: usize) -> (Tree, Vec<PathBuf>) {
    const DEPTH: usize = 10;
    let (tree, mut paths) = (Tree::new(), Vec::new());
    let mut at = PathBuf::new();
    for directory in 0..directories {
        let name = format!("d{directory}");
        at = if directory % DEPTH == 0 { PathBuf::from(name) } else { at.join(name) };
        tree.add(&at, FileType::Directory, Vec::new());
        for file in 0..files {
            let path = at.join(format!("f{file}"));
            tree.add(&path, FileType::Regular, bytes(paths.len()));
            paths.push(path);
        }
    }
    (tree, paths)
}
