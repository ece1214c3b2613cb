//! What a client knows of its directory, and how it changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Create(PathBuf, Vec<u8>),
    Write(PathBuf, usize, Vec<u8>),
    Resize(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
    MakeDirectory(PathBuf),
    MoveDirectory(PathBuf, PathBuf),
}

/// Without the bytes, of which there are many.
impl fmt::Debug for Op {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(path, bytes) => write!(to, "Create({}, {} bytes)", path.display(), bytes.len()),
            Self::Write(path, at, bytes) => write!(to, "Write({}, {} bytes at {at})", path.display(), bytes.len()),
            Self::Resize(path, size) => write!(to, "Resize({}, {size})", path.display()),
            Self::Rename(from, new) => write!(to, "Rename({}, {})", from.display(), new.display()),
            Self::Link(from, new) => write!(to, "Link({}, {})", from.display(), new.display()),
            Self::Remove(path) => write!(to, "Remove({})", path.display()),
            Self::MakeDirectory(path) => write!(to, "MakeDirectory({})", path.display()),
            Self::MoveDirectory(from, new) => write!(to, "MoveDirectory({}, {})", from.display(), new.display()),
        }
    }
}

/// A file, by the names that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) bytes: Vec<u8>,
    /// Whether the client has changed it.
    pub(crate) touched: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) names: BTreeMap<PathBuf, u64>,
    pub(crate) files: BTreeMap<u64, Known>,
    pub(crate) directories: BTreeSet<PathBuf>,
    next: u64,
}

/// Names below a directory, of files and of directories.
pub(crate) fn names(root: &Path) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
    let (mut files, mut directories) = (BTreeSet::new(), BTreeSet::new());
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                directories.insert(path.clone());
                folders.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    (files, directories)
}

impl Model {
    /// Of a tree of files with one name each.
    pub(crate) fn of(root: &Path) -> Self {
        let (files, directories) = names(root);
        let mut model = Self { directories, ..Self::default() };
        for path in files {
            model.add(path.clone(), Known { bytes: fs::read(root.join(path)).unwrap(), touched: false });
        }
        model
    }

    fn add(&mut self, path: PathBuf, known: Known) {
        self.files.insert(self.next, known);
        self.names.insert(path, self.next);
        self.next += 1;
    }

    /// The file of that name, which the client changes.
    fn change(&mut self, path: &Path) -> &mut Vec<u8> {
        let known = self.files.get_mut(&self.names[path]).expect("each name leads to one");
        known.touched = true;
        &mut known.bytes
    }

    fn drop_unnamed(&mut self) {
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|number, _| named.contains(number));
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Create(path, bytes) => self.add(path.clone(), Known { bytes: bytes.clone(), touched: true }),
            Op::Write(path, at, bytes) => {
                let all = self.change(path);
                all.resize(all.len().max(at + bytes.len()), 0);
                all[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Op::Resize(path, size) => self.change(path).resize(*size, 0),
            Op::Rename(from, to) => {
                let number = self.names.remove(from).expect("it is there");
                self.names.insert(to.clone(), number);
                self.drop_unnamed();
            }
            Op::Link(from, to) => {
                self.names.insert(to.clone(), self.names[from]);
                self.drop_unnamed();
            }
            Op::Remove(path) => {
                self.names.remove(path);
                self.drop_unnamed();
            }
            Op::MakeDirectory(path) => drop(self.directories.insert(path.clone())),
            Op::MoveDirectory(from, to) => {
                let moved = |path: PathBuf| match path.strip_prefix(from) {
                    // To join nothing would add a slash.
                    Ok(rest) if rest.as_os_str().is_empty() => to.clone(),
                    Ok(rest) => to.join(rest),
                    Err(_) => path,
                };
                self.names = std::mem::take(&mut self.names).into_iter().map(|(path, it)| (moved(path), it)).collect();
                self.directories = std::mem::take(&mut self.directories).into_iter().map(moved).collect();
            }
        }
    }

    /// Whether its names are those.
    pub(crate) fn has(&self, (files, directories): &(BTreeSet<PathBuf>, BTreeSet<PathBuf>)) -> bool {
        self.names.keys().eq(files.iter()) && self.directories == *directories
    }

    /// Something that can be done to it.
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> Option<Op> {
        let files: Vec<_> = self.names.keys().collect();
        let directories: Vec<_> = self.directories.iter().collect();
        let place = |random: &mut fastrand::Rng| match random.usize(..=directories.len()) {
            0 => PathBuf::new(),
            number => directories[number - 1].clone(),
        };
        let new = |random: &mut fastrand::Rng| place(random).join(format!("new-{}", random.u16(..)));
        let is_new = |path: &PathBuf| !self.names.contains_key(path) && !self.directories.contains(path);
        let kind = random.u8(..12);
        if kind < 2 || files.is_empty() {
            let path = new(random);
            return if is_new(&path) { Some(Op::Create(path, bytes(random, 100_000))) } else { None };
        }
        let file = files[random.usize(..files.len())].clone();
        let size = self.files[&self.names[&file]].bytes.len();
        Some(match kind {
            2..6 => {
                let at = random.usize(..=size + 20_000);
                Op::Write(file, at, bytes(random, 50_000))
            }
            6 => Op::Resize(file, random.usize(..=size + 20_000)),
            7 | 8 => {
                let over = files[random.usize(..files.len())];
                let to =
                    if random.bool() && self.names[over] != self.names[&file] { over.clone() } else { new(random) };
                if self.directories.contains(&to) || self.names.get(&to) == Some(&self.names[&file]) {
                    return None;
                }
                Op::Rename(file, to)
            }
            9 => {
                let to = new(random);
                return is_new(&to).then_some(Op::Link(file, to));
            }
            10 if files.len() > 8 => Op::Remove(file),
            10 => return None,
            _ if directories.len() < 5 || random.bool() => {
                let path = new(random);
                return (directories.len() < 8 && is_new(&path)).then_some(Op::MakeDirectory(path));
            }
            _ => {
                let (from, to) = (directories[random.usize(..directories.len())].clone(), new(random));
                return (is_new(&to) && !to.starts_with(&from)).then_some(Op::MoveDirectory(from, to));
            }
        })
    }
}

fn bytes(random: &mut fastrand::Rng, most: usize) -> Vec<u8> {
    let (length, byte) = (random.usize(1..most), random.u8(..));
    (0..length).map(|place| byte.wrapping_add((place / 100) as u8)).collect()
}

impl Op {
    /// Does it, and makes it durable where that is asked for.
    pub(crate) fn perform(&self, root: &Path, durably: bool) -> io::Result<()> {
        let at = |path: &Path| root.join(path);
        let sync_parent = |path: &Path| {
            let parent = at(path);
            if durably { File::open(parent.parent().expect("it lies in the root"))?.sync_all() } else { Ok(()) }
        };
        let sync = |file: &File| if durably { file.sync_all() } else { Ok(()) };
        match self {
            Self::Create(path, bytes) => {
                let file = File::create_new(at(path))?;
                file.write_all_at(bytes, 0)?;
                sync(&file)?;
                sync_parent(path)
            }
            Self::Write(path, offset, bytes) => {
                let file = OpenOptions::new().write(true).open(at(path))?;
                file.write_all_at(bytes, *offset as u64)?;
                sync(&file)
            }
            Self::Resize(path, size) => {
                let file = OpenOptions::new().write(true).open(at(path))?;
                file.set_len(*size as u64)?;
                sync(&file)
            }
            Self::Rename(from, to) | Self::MoveDirectory(from, to) => {
                fs::rename(at(from), at(to))?;
                sync_parent(to)?;
                sync_parent(from)
            }
            Self::Link(from, to) => {
                fs::hard_link(at(from), at(to))?;
                sync_parent(to)
            }
            Self::Remove(path) => {
                fs::remove_file(at(path))?;
                sync_parent(path)
            }
            Self::MakeDirectory(path) => {
                fs::create_dir(at(path))?;
                sync_parent(path)
            }
        }
    }
}
