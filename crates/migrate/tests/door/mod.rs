//! A client of a simulated destination that goes through the engine as a real door does, and a model of what it must see.

#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

mod ops;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::destination::{Destination, Make, NodeId};
use ishigaki_migrate::engine::{Engine, Error, HIDDEN, Origin, Settings};
use ishigaki_migrate::source::{Cancel, FileType, simulated};

pub(crate) use ops::{Op, draw_op};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

pub(crate) const BLOCK: u64 = 4096;

/// Bytes of what is asked of the source at a time, under [`settings`].
pub(crate) const UNIT: usize = 4 * BLOCK as usize;

/// Bytes of which none is zero, and whose place can be told.
pub(crate) fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 100 % 251) as u8 + 1).collect()
}

/// A migration of one file, `file`.
pub(crate) fn with_file(data: Vec<u8>) -> (simulated::Simulated, Simulated, Door) {
    let source = simulated::Simulated::new();
    source.add(Path::new("file"), FileType::Regular, data);
    let destination = Simulated::new();
    let door = Door::open(&destination, &source).expect("begins");
    (source, destination, door)
}

pub(crate) fn settings() -> Settings {
    Settings { unit: 4 * BLOCK, log: 400, pause: std::time::Duration::from_micros(200), ..Settings::default() }
}

/// Adds a file whose path is too long for an attribute of its inode.
pub(crate) fn add_far_below(source: &simulated::Simulated, bytes: Vec<u8>) -> PathBuf {
    let mut path = PathBuf::new();
    for depth in 0..30 {
        path.push(format!("{depth:0200}"));
        source.add(&path, FileType::Directory, Vec::new());
    }
    path.push("file");
    source.add(&path, FileType::Regular, bytes);
    path
}

/// Draws a tree: directories, files with blocks of zeros, links, symbolic links, extended attributes.
pub(crate) fn draw_source(random: &mut Rng, objects: usize, plain: bool) -> simulated::Simulated {
    let source = if plain { simulated::Simulated::plain() } else { simulated::Simulated::new() };
    let mut directories = vec![PathBuf::new()];
    let mut files: Vec<PathBuf> = Vec::new();
    for number in 0..objects {
        let above = directories[random.usize(..directories.len())].clone();
        let path = above.join(format!("n{number}"));
        match random.u8(..10) {
            0..=2 => {
                source.add(&path, FileType::Directory, Vec::new());
                directories.push(path);
            }
            3 if !files.is_empty() => source.link(&files[random.usize(..files.len())], &path),
            4 => {
                source.add(&path, FileType::Symlink, Vec::new());
                let target = format!("to/{number}");
                source.change(&path, |object| {
                    object.attributes.size = target.len() as u64;
                    object.extras.target = Some(target.clone().into());
                });
            }
            5 if random.bool() => source.add(&path, FileType::Fifo, Vec::new()),
            _ => {
                source.add(&path, FileType::Regular, draw_bytes(random));
                if !plain && random.bool() {
                    source.change(&path, |object| {
                        object.extras.attributes.push(("user.note".into(), number.to_string().into_bytes()));
                    });
                }
                files.push(path);
            }
        }
    }
    source
}

fn draw_bytes(random: &mut Rng) -> Vec<u8> {
    let length = match random.u8(..5) {
        0 => 0,
        1 => random.usize(1..100),
        2 => random.usize(1..8) * BLOCK as usize,
        _ => random.usize(1..10 * BLOCK as usize),
    };
    let mut bytes = vec![0; length];
    for chunk in bytes.chunks_mut(BLOCK as usize) {
        if random.u8(..4) > 0 {
            chunk.fill_with(|| random.u8(1..));
        }
    }
    bytes
}

/// What a client knows of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) file_type: FileType,
    pub(crate) mode: u32,
    pub(crate) data: Vec<u8>,
    pub(crate) target: Option<PathBuf>,
    pub(crate) note: Option<Vec<u8>>,
    pub(crate) links: u32,
    /// Of an object that no client has changed: owner and times.
    pub(crate) untouched: Option<(u32, i64)>,
}

/// What a client must see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) names: BTreeMap<PathBuf, u64>,
    pub(crate) objects: BTreeMap<u64, Known>,
    next: u64,
}

impl Model {
    pub(crate) fn of(source: &simulated::Simulated) -> Self {
        let mut model = Self { next: 1 << 32, ..Self::default() };
        for (path, object) in source.objects() {
            let attributes = object.attributes;
            let known = Known {
                file_type: attributes.file_type,
                mode: if attributes.file_type == FileType::Symlink { 0 } else { attributes.mode },
                data: object.data,
                target: object.extras.target,
                note: object.extras.attributes.first().map(|(_, value)| value.clone()),
                links: attributes.links,
                untouched: Some((attributes.owner.user, attributes.modified.seconds)),
            };
            if !path.as_os_str().is_empty() {
                model.names.insert(path, attributes.id.1);
            }
            model.objects.insert(attributes.id.1, known);
        }
        model
    }

    pub(crate) fn paths(&self, wanted: impl Fn(&Known) -> bool) -> Vec<PathBuf> {
        let known = self.names.iter().filter(|(_, number)| wanted(&self.objects[number]));
        known.map(|(path, _)| path.clone()).collect()
    }

    pub(crate) fn at(&self, path: &Path) -> &Known {
        &self.objects[&self.names[path]]
    }

    fn above(&mut self, path: &Path) {
        if let Some(above) = path.parent().and_then(|above| self.names.get(above)) {
            self.objects.get_mut(above).expect("known").untouched = None;
        }
    }

    fn touch(&mut self, path: &Path) -> &mut Known {
        let known = self.objects.get_mut(&self.names[path]).expect("known");
        known.untouched = None;
        known
    }

    fn remove(&mut self, path: &Path) {
        if let Some(number) = self.names.remove(path) {
            self.objects.get_mut(&number).expect("known").links -= 1;
        }
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Write(path, at, bytes) => {
                let data = &mut self.touch(path).data;
                data.resize(data.len().max(*at as usize + bytes.len()), 0);
                data[*at as usize..*at as usize + bytes.len()].copy_from_slice(bytes);
            }
            Op::Truncate(path, size) => self.touch(path).data.resize(*size as usize, 0),
            Op::Punch(path, range) | Op::Zero(path, range) => {
                let data = &mut self.touch(path).data;
                let end = data.len().min(range.end as usize);
                data[(range.start as usize).min(end)..end].fill(0);
            }
            Op::Collapse(path, range) => drop(self.touch(path).data.drain(range.start as usize..range.end as usize)),
            Op::Copy((from, start), (to, at), length) => {
                let data = &self.at(from).data;
                let start = data.len().min(*start as usize);
                let bytes = data[start..data.len().min(start + *length as usize)].to_vec();
                if !bytes.is_empty() {
                    self.apply(&Op::Write(to.clone(), *at, bytes));
                }
            }
            Op::CreateLinked(path, bytes) => {
                self.apply(&Op::Create(path.clone(), FileType::Regular));
                self.touch(path).data.clone_from(bytes);
            }
            Op::RenameRefused(..) => {}
            Op::Mode(path, mode) => self.touch(path).mode = *mode,
            Op::Create(path, file_type) => {
                self.above(path);
                self.next += 1;
                let mode = if *file_type == FileType::Directory { 0o700 } else { 0o600 };
                let known = Known {
                    file_type: *file_type,
                    mode,
                    data: vec![],
                    target: None,
                    note: None,
                    links: 1,
                    untouched: None,
                };
                self.objects.insert(self.next, known);
                self.names.insert(path.clone(), self.next);
            }
            Op::Unlink(path) => {
                self.above(path);
                self.remove(path);
            }
            Op::Link(from, to) => {
                self.above(to);
                let number = self.names[from];
                self.objects.get_mut(&number).expect("known").links += 1;
                self.names.insert(to.clone(), number);
            }
            Op::Rename(from, to) => {
                self.above(from);
                self.above(to);
                if self.names.get(from) == self.names.get(to) {
                    return;
                }
                self.remove(to);
                let moved: Vec<_> = self.names.keys().filter(|path| path.starts_with(from)).cloned().collect();
                for path in moved {
                    let number = self.names.remove(&path).expect("a key");
                    let rest = path.strip_prefix(from).expect("below");
                    let path = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
                    self.names.insert(path, number);
                }
            }
        }
    }
}

/// A client, and the door that it comes by.
pub(crate) struct Door {
    pub(crate) engine: Arc<Engine<Simulated>>,
    pub(crate) destination: Simulated,
    pub(crate) cancel: Cancel,
}

impl Door {
    pub(crate) fn open(destination: &Simulated, source: &simulated::Simulated) -> Result<Self, Error> {
        let origin = Origin { source: Arc::new(source.clone()), at: PathBuf::new() };
        let cancel = Cancel::new();
        let engine = Engine::open(destination.clone(), vec![origin], settings(), &cancel)?;
        Ok(Self { engine, destination: destination.clone(), cancel })
    }

    pub(crate) fn find(&self, path: &Path) -> Outcome<NodeId> {
        let mut at = self.destination.root();
        for name in path {
            self.engine.look_into(&at, &self.cancel)?;
            at = self.destination.lookup(&at, name)?.ok_or_else(|| format!("{}: not there", path.display()))?;
        }
        Ok(at)
    }

    fn above(&self, path: &Path) -> Outcome<(NodeId, OsString)> {
        let directory = self.find(path.parent().expect("a name"))?;
        self.engine.before_names_change(&directory, &self.cancel)?;
        Ok((directory, path.file_name().expect("a name").to_owned()))
    }

    pub(crate) fn read(&self, path: &Path) -> Outcome<Vec<u8>> {
        let file = self.find(path)?;
        let size = self.destination.status(&file)?.size;
        if let Some(stub) = self.engine.file(&file)? {
            stub.read_needed(0..size, &self.cancel)?;
        }
        let mut bytes = vec![0; size as usize];
        let read = self.destination.read_at(&file, 0, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    pub(crate) fn perform(&self, op: &Op) -> Outcome {
        let destination = &self.destination;
        match op {
            Op::Write(path, at, bytes) => self.write(path, *at, bytes)?,
            Op::Truncate(path, size) => {
                let file = self.find(path)?;
                match self.engine.file(&file)? {
                    None => destination.truncate(&file, *size)?,
                    Some(stub) => stub.truncate(*size, &self.cancel)?,
                }
            }
            Op::Punch(path, range) => {
                let file = self.find(path)?;
                match self.engine.file(&file)? {
                    None => destination.punch(&file, range.clone())?,
                    Some(stub) => stub.punch(range.clone(), &self.cancel)?,
                }
            }
            Op::Zero(path, range) => {
                let file = self.find(path)?;
                let end = range.end.min(destination.status(&file)?.size);
                if range.start < end {
                    self.write(path, range.start, &vec![0; (end - range.start) as usize])?;
                }
            }
            Op::Collapse(path, range) => {
                let mut bytes = self.read(path)?;
                bytes.drain(range.start as usize..range.end as usize);
                let file = self.find(path)?;
                let stub = self.engine.file(&file)?;
                let changing = stub.as_ref().map(|stub| stub.before_write(0..u64::MAX, &self.cancel)).transpose()?;
                destination.write_at(&file, range.start, &bytes[range.start as usize..])?;
                destination.truncate(&file, bytes.len() as u64)?;
                drop(changing);
            }
            Op::Copy((from, start), (to, at), length) => {
                let file = self.find(from)?;
                if let Some(stub) = self.engine.file(&file)? {
                    stub.read_needed(*start..start + length, &self.cancel)?;
                }
                let mut bytes = vec![0; *length as usize];
                let read = destination.read_at(&file, *start, &mut bytes)?;
                if read > 0 {
                    self.write(to, *at, &bytes[..read])?;
                }
            }
            Op::Mode(path, mode) => {
                let file = self.find(path)?;
                let stub = self.engine.file(&file)?;
                let changing = stub.as_ref().map(|stub| stub.before_attributes_change(&self.cancel)).transpose()?;
                destination.set_mode(&file, *mode)?;
                drop(changing);
            }
            Op::Create(path, file_type) => {
                let (directory, name) = self.above(path)?;
                let what = if *file_type == FileType::Directory { Make::Directory } else { Make::File };
                destination.make(&directory, &name, what)?;
            }
            Op::Unlink(path) => {
                let (directory, name) = self.above(path)?;
                destination.unlink(&directory, &name)?;
            }
            Op::Link(from, to) => {
                let file = self.find(from)?;
                let (directory, name) = self.above(to)?;
                let _moving = self.engine.moving();
                destination.link(&file, &directory, &name)?;
            }
            Op::CreateLinked(path, bytes) => {
                // A file without a name: one that no client sees.
                let hidden = destination.lookup(&destination.root(), HIDDEN.as_ref())?.ok_or("the hidden directory")?;
                let file = destination.make(&hidden, "unnamed".as_ref(), Make::File)?;
                destination.write_at(&file, 0, bytes)?;
                destination.sync(&file)?;
                let done =
                    self.above(path).and_then(|(directory, name)| Ok(destination.link(&file, &directory, &name)?));
                destination.unlink(&hidden, "unnamed".as_ref())?;
                done?;
            }
            Op::Rename(from, to) => self.rename(from, to)?,
            Op::RenameRefused(from, to) => {
                let refused = self.rename(from, to).expect_err("it is not empty");
                let kind = refused.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
                if kind != Some(std::io::ErrorKind::DirectoryNotEmpty) {
                    return Err(refused);
                }
            }
        }
        Ok(())
    }

    fn write(&self, path: &Path, at: u64, bytes: &[u8]) -> Outcome {
        let file = self.find(path)?;
        let range = at..at + bytes.len() as u64;
        match self.engine.file(&file)? {
            None => self.destination.write_at(&file, at, bytes)?,
            Some(stub) => {
                let changing = stub.before_write(range.clone(), &self.cancel)?;
                self.destination.write_at(&file, at, bytes)?;
                assert_eq!(changing.wrote(range), bytes.len() as u64);
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Outcome {
        let (from, to) = (self.above(from)?, self.above(to)?);
        if let Some(victim) = self.destination.lookup(&to.0, &to.1)?
            && self.destination.status(&victim)?.file_type == FileType::Directory
        {
            self.engine.look_into(&victim, &self.cancel)?;
        }
        let _moving = self.engine.moving();
        self.destination.rename((&from.0, &from.1), (&to.0, &to.1))?;
        Ok(())
    }

    /// Everything that is below the root, as a client sees it.
    pub(crate) fn see(&self) -> Outcome<BTreeMap<PathBuf, (NodeId, Known)>> {
        let mut seen = BTreeMap::new();
        let mut folders = vec![(PathBuf::new(), self.destination.root())];
        while let Some((path, folder)) = folders.pop() {
            self.engine.look_into(&folder, &self.cancel)?;
            for name in self.destination.names(&folder)? {
                if path.as_os_str().is_empty() && self.engine.is_hidden(&name.name) {
                    continue;
                }
                let path = path.join(&name.name);
                if name.file_type == FileType::Directory {
                    folders.push((path.clone(), name.node));
                    self.engine.look_into(&name.node, &self.cancel)?;
                }
                let data = if name.file_type == FileType::Regular { self.read(&path)? } else { Vec::new() };
                if let Some(stub) = self.engine.file(&name.node)? {
                    stub.attributes_needed(&self.cancel)?;
                }
                let attributes = match self.engine.file(&name.node)? {
                    Some(stub) => stub.status()?,
                    None => self.destination.status(&name.node)?,
                };
                let known = Known {
                    file_type: attributes.file_type,
                    mode: if attributes.file_type == FileType::Symlink { 0 } else { attributes.mode },
                    data,
                    target: if attributes.file_type == FileType::Symlink {
                        Some(self.destination.target(&name.node)?)
                    } else {
                        None
                    },
                    note: self.destination.xattr(&name.node, "user.note".as_ref())?,
                    links: self.engine.names_seen(&name.node, attributes.links),
                    untouched: Some((attributes.owner.user, attributes.modified.seconds)),
                };
                seen.insert(path, (name.node, known));
            }
        }
        Ok(seen)
    }

    /// Compares all with the model; `links` says whether all names are known by now.
    pub(crate) fn check(&self, model: &Model, links: bool) -> Outcome {
        let seen = self.see()?;
        let names: Vec<_> = seen.keys().collect();
        assert_eq!(names, model.names.keys().collect::<Vec<_>>());
        let mut nodes = BTreeMap::new();
        for (path, (node, seen)) in &seen {
            let want = model.at(path).clone();
            let mut seen = seen.clone();
            if want.untouched.is_none() {
                seen.untouched = None;
            }
            if !links {
                seen.links = want.links;
            }
            assert!(seen == want, "{}: {:?} and not {:?}", path.display(), brief(&seen), brief(&want));
            assert_eq!(nodes.entry(model.names[path]).or_insert(*node), node, "{}: another inode", path.display());
        }
        Ok(())
    }
}

/// With the first byte of each block instead of all.
fn brief(known: &Known) -> Known {
    let first = known.data.chunks(BLOCK as usize).map(|chunk| chunk[0]).collect();
    Known { data: first, ..known.clone() }
}

/// Nothing of the migration may be left.
pub(crate) fn no_trace(destination: &Simulated) {
    let mut folders = vec![destination.root()];
    while let Some(folder) = folders.pop() {
        for name in destination.names(&folder).expect("a directory") {
            assert_ne!(name.name, ".ishigaki-migrate");
            let xattrs = destination.xattrs(&name.node).expect("an inode");
            assert!(xattrs.iter().all(|xattr| xattr.to_string_lossy().starts_with("user.")), "{xattrs:?}");
            if name.file_type == FileType::Directory {
                folders.push(name.node);
            }
        }
        let xattrs = destination.xattrs(&folder).expect("an inode");
        assert!(xattrs.iter().all(|xattr| xattr.to_string_lossy().starts_with("user.")), "{xattrs:?}");
    }
}
