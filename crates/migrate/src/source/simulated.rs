//! A source in memory, with faults, for tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{
    Attributes, Cancel, Capabilities, Entry, Error, ErrorKind, Extras, FileType, Location, Owner, Result, Source,
    Timestamp, ToldExtras,
};

/// An object of the source.
#[derive(Clone, Debug)]
pub struct Object {
    /// What it says of itself.
    pub attributes: Attributes,
    /// Of a file.
    pub data: Vec<u8>,
    /// Target and extended attributes.
    pub extras: Extras,
    /// It answers with this error.
    pub fails: Option<ErrorKind>,
}

/// A tree in memory. Clones are one.
#[derive(Clone, Default)]
pub struct Simulated {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    tree: Mutex<Tree>,
    /// Of 65,536 requests so many are answered with [`ErrorKind::Unavailable`].
    unavailable: AtomicU32,
    /// Each request takes so many microseconds.
    distance: AtomicU32,
    plain: bool,
}

#[derive(Default)]
struct Tree {
    /// By path; the root's is empty. Names of one object have one number.
    names: BTreeMap<PathBuf, u64>,
    objects: BTreeMap<u64, Object>,
    next: u64,
    requests: u64,
}

impl Simulated {
    /// One with nothing but a root.
    pub fn new() -> Self {
        let source = Self::default();
        source.add(Path::new(""), FileType::Directory, Vec::new());
        source
    }

    /// One that has neither extended attributes nor holes, as `NFSv3`.
    pub fn plain() -> Self {
        let source = Self { shared: Arc::new(Shared { plain: true, ..Shared::default() }) };
        source.add(Path::new(""), FileType::Directory, Vec::new());
        source
    }

    /// Adds an object, whose attributes follow from its number.
    pub fn add(&self, path: &Path, file_type: FileType, data: Vec<u8>) {
        let mut tree = self.tree();
        tree.next += 1;
        let number = tree.next;
        let seconds = 1_000 + number as i64;
        let moment = |nanos| Timestamp { seconds, nanos };
        let attributes = Attributes {
            file_type,
            mode: if file_type == FileType::Directory { 0o755 } else { 0o640 },
            owner: Owner { user: 1000 + number as u32 % 7, group: 100 },
            links: 1,
            size: data.len() as u64,
            device: (0, 0),
            id: (1, number),
            accessed: moment(1),
            modified: moment(2),
            changed: moment(3),
            created: None,
        };
        tree.names.insert(path.to_owned(), number);
        tree.objects.insert(number, Object { attributes, data, extras: Extras::default(), fails: None });
    }

    /// Gives an object another name.
    ///
    /// # Panics
    ///
    /// If there is no such object.
    pub fn link(&self, path: &Path, other: &Path) {
        let mut tree = self.tree();
        let number = tree.names[path];
        tree.names.insert(other.to_owned(), number);
        tree.objects.get_mut(&number).expect("a name has an object").attributes.links += 1;
    }

    /// Changes an object as `what` says.
    ///
    /// # Panics
    ///
    /// If there is no such object.
    pub fn change<T>(&self, path: &Path, what: impl FnOnce(&mut Object) -> T) -> T {
        let mut tree = self.tree();
        let number = tree.names[path];
        what(tree.objects.get_mut(&number).expect("a name has an object"))
    }

    /// Removes a name.
    pub fn remove(&self, path: &Path) {
        self.tree().names.remove(path);
    }

    /// Gives an object, and all that is below it, another path. No time changes.
    pub fn rename(&self, from: &Path, to: &Path) {
        let mut tree = self.tree();
        let moved: Vec<PathBuf> = tree.names.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in moved {
            if let (Some(number), Ok(rest)) = (tree.names.remove(&path), path.strip_prefix(from)) {
                let path = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
                tree.names.insert(path, number);
            }
        }
    }

    /// All paths with their objects.
    pub fn objects(&self) -> Vec<(PathBuf, Object)> {
        let tree = self.tree();
        tree.names.iter().map(|(path, number)| (path.clone(), tree.objects[number].clone())).collect()
    }

    /// From now on so many of 65,536 requests are not answered.
    pub fn fail(&self, of_65536: u32) {
        self.shared.unavailable.store(of_65536, Ordering::Relaxed);
    }

    /// From now on each request takes so long, of which many can be under way at a time.
    pub fn delay(&self, time: Duration) {
        self.shared.distance.store(time.as_micros().try_into().unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.tree().requests
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.shared.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at an object, if no fault comes between.
    fn look<T>(&self, at: &Location, cancel: &Cancel, what: impl FnOnce(&Tree, &Object) -> T) -> Result<T> {
        if cancel.is_cancelled() {
            return Err(Error::cancelled());
        }
        let distance = self.shared.distance.load(Ordering::Relaxed);
        if distance > 0 {
            cancel.wait(Duration::from_micros(distance.into()));
        }
        let mut tree = self.tree();
        tree.requests += 1;
        if fastrand::u32(..65536) < self.shared.unavailable.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unavailable, "the simulated source does not answer"));
        }
        let gone = || Error::new(ErrorKind::Gone, format!("{}: not there", at.path.display()));
        let number = tree.names.get(&at.path).ok_or_else(gone)?;
        let object = &tree.objects[number];
        match object.fails {
            Some(kind) => Err(Error::new(kind, format!("{}: a fault of {kind:?}", at.path.display()))),
            None => Ok(what(&tree, object)),
        }
    }
}

impl Source for Simulated {
    fn name(&self) -> String {
        "simulated".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        let rich = !self.shared.plain;
        Capabilities { owners: true, extras: rich, holes: rich, read_size: 1 << 20, parallel: 8 }
    }

    fn root(&self, cancel: &Cancel) -> Result<(Location, Attributes)> {
        let root = Location { path: PathBuf::new(), handle: Box::default() };
        let attributes = self.attributes(&root, cancel)?;
        Ok((root, attributes))
    }

    fn list(
        &self,
        directory: &Location,
        cancel: &Cancel,
        take: &mut dyn FnMut(Vec<Entry>) -> Result<()>,
    ) -> Result<()> {
        let kind = self.look(directory, cancel, |_, object| object.attributes.file_type)?;
        if kind != FileType::Directory {
            return Err(Error::new(ErrorKind::Gone, "it is no directory"));
        }
        let entries: Vec<Entry> = self.look(directory, cancel, |tree, _| {
            let below = tree.names.iter().filter(|(path, _)| path.parent() == Some(&directory.path));
            below
                .map(|(path, number)| Entry {
                    name: path.file_name().map_or_else(OsString::new, OsString::from),
                    handle: Box::from(number.to_le_bytes()),
                    attributes: (number % 5 != 0).then_some(tree.objects[number].attributes),
                })
                .collect()
        })?;
        for page in entries.chunks(3) {
            take(page.to_vec())?;
            self.look(directory, cancel, |_, _| ())?;
        }
        Ok(())
    }

    fn attributes(&self, object: &Location, cancel: &Cancel) -> Result<Attributes> {
        self.look(object, cancel, |_, object| object.attributes)
    }

    fn extras_told(&self, object: &Location, cancel: &Cancel) -> Result<ToldExtras> {
        self.look(object, cancel, |_, object| {
            (object.extras.clone(), object.attributes.id.1.is_multiple_of(2).then_some(object.attributes))
        })
    }

    fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<usize> {
        self.look(file, cancel, |_, object| {
            let from = (offset as usize).min(object.data.len());
            let length = buffer.len().min(object.data.len() - from);
            buffer[..length].copy_from_slice(&object.data[from..from + length]);
            length
        })
    }

    fn next_data(&self, file: &Location, offset: u64, cancel: &Cancel) -> Result<Option<std::ops::Range<u64>>> {
        if self.shared.plain {
            return Ok(Some(offset..u64::MAX));
        }
        self.look(file, cancel, |_, object| {
            let rest = object.data.get(offset as usize..)?;
            let start = rest.iter().position(|&byte| byte != 0)?;
            let end = rest[start..].chunks(4096).position(|chunk| chunk.iter().all(|&byte| byte == 0));
            let end = end.map_or(rest.len(), |chunks| start + chunks * 4096);
            Some(offset + start as u64..offset + end as u64)
        })
    }
}
