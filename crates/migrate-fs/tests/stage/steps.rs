//! Random operations on a directory, and what came of each of them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ishigaki_base::random::Seed;
use rustix::fs::{
    CWD, FallocateFlags, RenameFlags, XattrFlags, copy_file_range, fallocate, getxattr, removexattr, renameat_with,
    setxattr,
};

use super::Stage;

const LARGEST: u64 = 300_000;

#[derive(Clone, Debug)]
enum Step {
    Open(usize, PathBuf, bool, bool),
    Close(usize),
    Write(usize, u64, u64, u8),
    Read(usize, u64, u64),
    Resize(usize, u64),
    Punch(usize, u64, u64),
    Zero(usize, u64, u64),
    Reserve(usize, u64, u64),
    Copy(usize, u64, usize, u64, u64),
    Sync(usize),
    Rename(PathBuf, PathBuf, u8),
    Link(PathBuf, PathBuf),
    Symlink(PathBuf, PathBuf),
    Remove(PathBuf),
    MakeDirectory(PathBuf),
    RemoveDirectory(PathBuf),
    Mode(PathBuf, u32),
    SetExtra(PathBuf, u8),
    RemoveExtra(PathBuf),
    Look(PathBuf),
    List(PathBuf),
}

const HANDLES: usize = 6;

fn draw(random: &mut fastrand::Rng) -> Step {
    let path = |random: &mut fastrand::Rng| {
        let mut path = PathBuf::new();
        for _ in 0..random.usize(0..3) {
            path.push(["d", "e"][random.usize(..2)]);
        }
        path.join(["a", "b", "c", "d", "e", "f"][random.usize(..6)])
    };
    let range = |random: &mut fastrand::Rng| {
        let begin = if random.bool() { random.u64(..LARGEST) } else { random.u64(..LARGEST / 4096) * 4096 };
        (begin, if random.bool() { random.u64(1..9000) } else { random.u64(1..80_000) })
    };
    let (handle, (begin, length)) = (random.usize(..HANDLES), range(random));
    match random.u8(..29) {
        0..4 => Step::Open(handle, path(random), random.bool(), random.u8(..4) == 0),
        4 => Step::Close(handle),
        5..8 => Step::Write(handle, begin, length, random.u8(..)),
        8..11 => Step::Read(handle, begin, length),
        11 => Step::Resize(handle, random.u64(..LARGEST)),
        12 => Step::Punch(handle, begin, length),
        13 => Step::Zero(handle, begin, length),
        14 => Step::Reserve(handle, begin, length),
        15 => Step::Copy(handle, begin, random.usize(..HANDLES), random.u64(..LARGEST), length),
        16 => Step::Sync(handle),
        17 | 18 => Step::Rename(path(random), path(random), random.u8(..4)),
        19 => Step::Link(path(random), path(random)),
        20 => Step::Symlink(path(random), path(random)),
        21 => Step::Remove(path(random)),
        22 => Step::MakeDirectory(path(random)),
        23 => Step::RemoveDirectory(path(random)),
        // Without set-user-ID and set-group-ID: these root's own writes take away, too, where files are passed through.
        24 => Step::Mode(path(random), random.u32(..0o2000)),
        25 => Step::SetExtra(path(random), random.u8(..)),
        26 => Step::RemoveExtra(path(random)),
        27 => Step::Look(path(random)),
        _ => Step::List(path(random)),
    }
}

/// One of the two sides.
struct Side {
    root: PathBuf,
    handles: [Option<File>; HANDLES],
}

/// What came of a step: an error's number, or something that tells what was seen.
type Outcome = Result<String, i32>;

fn seen(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

impl Side {
    fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), handles: Default::default() }
    }

    fn file(&self, handle: usize) -> io::Result<&File> {
        self.handles[handle].as_ref().ok_or_else(|| io::Error::from_raw_os_error(9))
    }

    fn take(&mut self, step: &Step) -> Outcome {
        self.act(step).map_err(|error| error.raw_os_error().unwrap_or(-1))
    }

    fn act(&mut self, step: &Step) -> io::Result<String> {
        let at = |path: &Path| self.root.join(path);
        match step {
            Step::Open(handle, path, creates, truncates) => {
                let opened =
                    OpenOptions::new().read(true).write(true).create(*creates).truncate(*truncates).open(at(path))?;
                self.handles[*handle] = Some(opened);
            }
            Step::Close(handle) => self.handles[*handle] = None,
            Step::Write(handle, begin, length, byte) => {
                let bytes: Vec<u8> = (0..*length).map(|place| byte.wrapping_add(place as u8)).collect();
                self.file(*handle)?.write_all_at(&bytes, *begin)?;
            }
            Step::Read(handle, begin, length) => {
                let mut bytes = vec![0; *length as usize];
                let count = self.file(*handle)?.read_at(&mut bytes, *begin)?;
                return Ok(format!("{count} {}", seen(&bytes[..count])));
            }
            Step::Resize(handle, size) => self.file(*handle)?.set_len(*size)?,
            Step::Punch(handle, begin, length) => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(self.file(*handle)?, mode, *begin, *length)?;
            }
            Step::Zero(handle, begin, length) => {
                fallocate(self.file(*handle)?, FallocateFlags::ZERO_RANGE, *begin, *length)?;
            }
            Step::Reserve(handle, begin, length) => {
                fallocate(self.file(*handle)?, FallocateFlags::empty(), *begin, *length)?;
            }
            Step::Copy(from, begin, to, to_begin, length) => {
                let (from, to) = (self.file(*from)?, self.file(*to)?);
                let (mut begin, mut to_begin, mut left) = (*begin, *to_begin, *length as usize);
                // A call may copy less.
                while left > 0 {
                    match copy_file_range(from, Some(&mut begin), to, Some(&mut to_begin), left)? {
                        0 => break,
                        copied => left -= copied,
                    }
                }
                return Ok(format!("{left}"));
            }
            Step::Sync(handle) => self.file(*handle)?.sync_all()?,
            Step::Rename(from, to, flags) => {
                let flags = match flags {
                    0 => RenameFlags::NOREPLACE,
                    1 => RenameFlags::EXCHANGE,
                    _ => RenameFlags::empty(),
                };
                renameat_with(CWD, at(from), CWD, at(to), flags)?;
            }
            Step::Link(from, to) => fs::hard_link(at(from), at(to))?,
            Step::Symlink(target, path) => symlink(target, at(path))?,
            Step::Remove(path) => fs::remove_file(at(path))?,
            Step::MakeDirectory(path) => fs::create_dir(at(path))?,
            Step::RemoveDirectory(path) => fs::remove_dir(at(path))?,
            Step::Mode(path, mode) => fs::set_permissions(at(path), PermissionsExt::from_mode(*mode))?,
            Step::SetExtra(path, byte) => setxattr(at(path), "user.extra", &[*byte], XattrFlags::empty())?,
            Step::RemoveExtra(path) => removexattr(at(path), "user.extra")?,
            Step::Look(path) => return describe(&at(path)),
            Step::List(path) => {
                let mut names = Vec::new();
                for entry in fs::read_dir(at(path))? {
                    names.push(entry?.file_name());
                }
                names.sort();
                return Ok(format!("{names:?}"));
            }
        }
        Ok(String::new())
    }
}

impl Side {
    /// The number of what a step changes, and its time of change, in seconds and nanoseconds; nothing if it is not there.
    fn changed(&self, step: &Step) -> Option<(u64, (i64, i64))> {
        let metadata = match step {
            Step::Write(handle, ..)
            | Step::Resize(handle, ..)
            | Step::Punch(handle, ..)
            | Step::Zero(handle, ..)
            | Step::Reserve(handle, ..)
            | Step::Copy(_, _, handle, ..) => self.file(*handle).ok()?.metadata(),
            Step::Mode(path, _) | Step::SetExtra(path, _) | Step::RemoveExtra(path) | Step::Link(path, _) => {
                fs::metadata(self.root.join(path))
            }
            Step::Symlink(_, path)
            | Step::Remove(path)
            | Step::MakeDirectory(path)
            | Step::RemoveDirectory(path)
            | Step::Rename(path, ..) => fs::metadata(self.root.join(path).parent()?),
            _ => return None,
        };
        metadata.ok().map(|metadata| (metadata.ino(), (metadata.ctime(), metadata.ctime_nsec())))
    }

    /// Takes a step; what came of it, and whether what it changes tells of a change. Nothing is said of another object in that place.
    fn take_and_look(&mut self, step: &Step) -> (Outcome, bool) {
        let before = self.changed(step);
        let outcome = self.take(step);
        let has_changed = match (before, self.changed(step)) {
            (Some((number, before)), Some((same, after))) => number == same && after > before,
            _ => false,
        };
        (outcome, has_changed)
    }
}

/// Everything of an object that a program sees, but for numbers and times.
fn describe(path: &Path) -> io::Result<String> {
    let metadata = fs::symlink_metadata(path)?;
    let mut extra = Vec::with_capacity(16);
    let has = if metadata.is_symlink() {
        Ok(0)
    } else {
        getxattr(path, "user.extra", rustix::buffer::spare_capacity(&mut extra))
    };
    let content = if metadata.is_file() {
        seen(&fs::read(path)?)
    } else if metadata.is_symlink() {
        seen(fs::read_link(path)?.as_os_str().as_encoded_bytes())
    } else {
        0
    };
    let size = if metadata.is_dir() { 0 } else { metadata.len() };
    Ok(format!("{:o} {} {size} {content} {has:?} {extra:?}", metadata.mode(), metadata.nlink()))
}

fn tree(root: &Path, below: &Path, into: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let path = below.join(entry.unwrap().file_name());
        let is_directory = fs::symlink_metadata(root.join(&path)).unwrap().is_dir();
        into.insert(path.clone(), describe(&root.join(&path)).unwrap());
        if is_directory {
            tree(root, &path, into);
        }
    }
}

fn whole(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    tree(root, Path::new(""), &mut all);
    all
}

/// Takes random steps through a door and on a bare directory: every outcome, and all that is there at the end, must be the same.
/// `successions` times another service goes on with the mount.
pub(crate) fn play(stage: &mut Stage, seed: Seed, successions: usize) {
    let mut random = seed.generator();
    let (mut door, mut bare) = (Side::new(&stage.folder), Side::new(&stage.bare));
    let mut taken = Vec::new();
    let steps = 600;
    for number in 0..steps {
        let step = draw(&mut random);
        let outcomes = (door.take_and_look(&step), bare.take_and_look(&step));
        taken.push(step);
        let from = taken.len().saturating_sub(12);
        assert_eq!(outcomes.0, outcomes.1, "step {number}, the last of {:?}", &taken[from..]);
        if successions > 0 && number % (steps / (successions + 1)) == 1 {
            stage.succeed();
        }
    }
    assert_eq!(whole(&stage.folder), whole(&stage.bare));
    assert_eq!(whole(&stage.destination), whole(&stage.bare));
}
