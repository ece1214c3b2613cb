//! Trees like those of a file server, drawn from a seed.
//!
//! A [`Shape`] has the numbers of a data set of paper 5 (table 2.2); [`Shrink`] says how much smaller ours is. Of one seed comes always the same tree:
//!
//! - A directory wishes for a depth, evenly from 1 to twice the mean, and lies in a directory drawn from those that are one less deep.
//! - A file lies in a directory drawn evenly. Its size is lognormal about the mean, wide where the paper tells of sources beside archives, narrow where it
//!   tells of documents.
//! - Bytes are random, so that nothing shrinks on the way.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

use ishigaki_base::random::Seed;

use crate::{Error, Result};

/// The largest file, over the mean.
const LARGEST: f64 = 64.0;
/// Files of a directory of [`Shape::Flat`], and directories of one above.
const FAN: usize = 100;
/// When the first of a tree's files was written, in seconds since 1970.
const OLDEST: u64 = 1_500_000_000;

/// What a tree is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// (a): many files, deep, sources beside archives.
    Small,
    /// (b): documents of an office.
    Office,
    /// (c): a few large files, pictures and films.
    Media,
    /// A hundred tiny files a directory, a hundred directories in one above.
    Flat,
}

/// The numbers of a data set.
struct Numbers {
    directories: f64,
    files: f64,
    mean: f64,
    depth: f64,
    /// Of the logarithm of a size.
    spread: f64,
}

impl Shape {
    /// The paper's three.
    pub const OF_PAPER: [Self; 3] = [Self::Small, Self::Office, Self::Media];

    fn numbers(self) -> Numbers {
        let of = |directories, files, kib: f64, depth, spread| Numbers {
            directories,
            files,
            mean: kib * 1024.0,
            depth,
            spread,
        };
        match self {
            Self::Small => of(109e3, 802e3, 844.0, 13.1, 2.0),
            Self::Office => of(47e3, 353e3, 1097.0, 8.1, 0.8),
            Self::Media => of(743.0, 8e3, 26_324.0, 6.1, 1.2),
            Self::Flat => of(1e3, 100e3, 0.015_625, 2.0, 0.0),
        }
    }
}

/// As cases call it.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Small => "small",
            Self::Office => "office",
            Self::Media => "media",
            Self::Flat => "flat",
        })
    }
}

impl FromStr for Shape {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::OF_PAPER
            .into_iter()
            .find(|shape| shape.to_string() == text)
            .ok_or_else(|| Error::invalid("tree", format!("there are small, office and media, not `{text}`")))
    }
}

/// How many times fewer files and directories a tree has than the data set, and how many times smaller its files are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shrink {
    /// Fewer files and directories.
    pub files: f64,
    /// Smaller files.
    pub bytes: f64,
}

/// What a copy must have of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// The bytes of files.
    Bytes,
    /// And the times of files and directories.
    Times,
    /// And owners and modes.
    Owners,
}

/// A tree, before it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Below its root, each after its parent.
    pub directories: Vec<PathBuf>,
    /// Below its root, with their bytes.
    pub files: Vec<(PathBuf, u64)>,
    seed: Seed,
}

impl Tree {
    /// Draws one.
    pub fn new(shape: Shape, shrink: Shrink, seed: Seed) -> Self {
        let numbers = shape.numbers();
        let count = |of: f64| ((of / shrink.files).round() as usize).max(1);
        let (directories, files) = (count(numbers.directories), count(numbers.files));
        let mut tree = Self { directories: Vec::new(), files: Vec::new(), seed };
        if shape == Shape::Flat {
            tree.lay_flat(files);
            return tree;
        }
        let mut random = seed.generator();
        // Directories by depth; the root alone has depth 0.
        let mut levels = vec![vec![PathBuf::new()]];
        for number in 0..directories {
            let wished = random.usize(1..=(2.0 * numbers.depth - 1.0).round() as usize);
            let depth = wished.min(levels.len());
            let parent = &levels[depth - 1][random.usize(..levels[depth - 1].len())];
            let path = parent.join(format!("directory {number}"));
            if depth == levels.len() {
                levels.push(Vec::new());
            }
            levels[depth].push(path.clone());
            tree.directories.push(path);
        }
        for number in 0..files {
            let directory = &tree.directories[random.usize(..tree.directories.len())];
            // Nearly normal: the sum of twelve even numbers.
            let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            let times = (numbers.spread * normal - numbers.spread.powi(2) / 2.0).exp().min(LARGEST);
            let bytes = (numbers.mean / shrink.bytes * times) as u64;
            tree.files.push((directory.join(format!("file {number}")), bytes));
        }
        tree
    }

    fn lay_flat(&mut self, files: usize) {
        let directories = files.div_ceil(FAN);
        for above in 0..directories.div_ceil(FAN) {
            self.directories.push(PathBuf::from(format!("{above}")));
        }
        for number in 0..directories {
            let path = self.directories[number / FAN].join(format!("{number}"));
            self.files
                .extend((number * FAN..files.min((number + 1) * FAN)).map(|file| (path.join(format!("{file}")), 16)));
            self.directories.push(path);
        }
    }

    /// A directory in the other, `depth` of them with the root; each holds `width` names, and the first file of each, which has `bytes`, is called `file 0`.
    pub fn nested(depth: usize, width: usize, bytes: u64, seed: Seed) -> Self {
        let mut tree = Self { directories: Vec::new(), files: Vec::new(), seed };
        let mut directory = PathBuf::new();
        for level in 1..=depth {
            let files = if level < depth { width.saturating_sub(1).max(1) } else { width };
            let size = |number| if number == 0 { bytes } else { 16 };
            tree.files.extend((0..files).map(|number| (directory.join(format!("file {number}")), size(number))));
            if level < depth {
                directory = directory.join("directory");
                tree.directories.push(directory.clone());
            }
        }
        tree
    }

    /// The same with so many files more in its root, `large 0` and so on.
    #[must_use]
    pub fn with_large(mut self, count: usize, bytes: u64) -> Self {
        self.files.extend((0..count).map(|number| (PathBuf::from(format!("large {number}")), bytes)));
        self
    }

    /// Of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }

    /// How many directories lie above a file, in the middle of all.
    pub fn mean_depth(&self) -> f64 {
        let depths = self.files.iter().map(|(path, _)| path.components().count() - 1);
        depths.sum::<usize>() as f64 / self.files.len().max(1) as f64
    }

    /// What is in a file, by its number.
    pub fn content(&self, number: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.files[number].1 as usize];
        self.seed.derive(number as u64).generator().fill(&mut bytes);
        bytes
    }

    /// Writes it into an empty directory.
    pub fn write(&self, root: &Path) -> Result<()> {
        let failed = |path: &Path, source| Error::Io { path: path.to_owned(), operation: "writing a tree", source };
        for directory in &self.directories {
            let path = root.join(directory);
            fs::create_dir(&path).map_err(|source| failed(&path, source))?;
        }
        for (number, (file, _)) in self.files.iter().enumerate() {
            let path = root.join(file);
            fs::write(&path, self.content(number)).map_err(|source| failed(&path, source))?;
        }
        // Long ago: rsync leaves a directory's nanoseconds as they are where the seconds fit, as they may when all is made within one.
        let files = self.files.iter().map(|(file, _)| file);
        for (number, path) in files.chain(self.directories.iter().rev()).enumerate() {
            let path = root.join(path);
            // Hundreds of nanoseconds, as SMB has them.
            let time = UNIX_EPOCH + Duration::new(OLDEST + number as u64, number as u32 % 10_000_000 * 100);
            File::open(&path).and_then(|file| file.set_modified(time)).map_err(|source| failed(&path, source))?;
        }
        Ok(())
    }

    /// Whether all of it is there with the bytes that were written, and as much of the rest as its way has.
    pub fn check(&self, source: &Path, copy: &Path, fidelity: Fidelity) -> std::result::Result<(), String> {
        for (number, (file, _)) in self.files.iter().enumerate() {
            let found = fs::read(copy.join(file)).map_err(|error| format!("{}: {error}", file.display()))?;
            if found != self.content(number) {
                return Err(format!("{}: has other bytes", file.display()));
            }
        }
        let files = self.files.iter().map(|(file, _)| file);
        for path in self.directories.iter().chain(files) {
            let attributes = |root: &Path| {
                let found = fs::symlink_metadata(root.join(path));
                let found = found.map_err(|error| format!("{}: {error}", root.join(path).display()))?;
                let owner = (found.mode(), found.uid(), found.gid());
                let time = (found.mtime(), found.mtime_nsec());
                Ok::<_, String>((
                    (fidelity == Fidelity::Owners).then_some(owner),
                    (fidelity != Fidelity::Bytes).then_some(time),
                ))
            };
            let (theirs, ours) = (attributes(source)?, attributes(copy)?);
            if theirs != ours {
                return Err(format!("{}: has attributes {ours:?}, and at the source {theirs:?}", path.display()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(shape: Shape, seed: u64) -> Tree {
        Tree::new(shape, Shrink { files: 100.0, bytes: 100.0 }, Seed(seed))
    }

    #[test]
    fn of_one_seed_comes_one_tree_and_of_another_another() {
        assert_eq!(tree(Shape::Small, 7), tree(Shape::Small, 7));
        assert_ne!(tree(Shape::Small, 7), tree(Shape::Small, 8));
        assert_eq!(tree(Shape::Small, 7).content(3), tree(Shape::Small, 7).content(3));
        assert_ne!(tree(Shape::Small, 7).content(3), tree(Shape::Small, 8).content(3));
    }

    #[test]
    fn a_tree_has_the_numbers_of_its_data_set() {
        for (shape, directories, files, depth) in [(Shape::Small, 1090, 8020, 13.1), (Shape::Office, 470, 3530, 8.1)] {
            for seed in 0..5 {
                let tree = tree(shape, seed);
                assert_eq!((tree.directories.len(), tree.files.len()), (directories, files), "{shape}");
                let found = tree.mean_depth();
                assert!((depth * 0.75..depth * 1.25).contains(&found), "{shape}, seed {seed}: depth {found}");
                let mean = tree.bytes() as f64 / files as f64 / (shape.numbers().mean / 100.0);
                assert!((0.6..1.6).contains(&mean), "{shape}, seed {seed}: {mean} of the mean size");
            }
        }
    }

    #[test]
    fn a_flat_tree_has_a_hundred_files_a_directory() {
        let tree = Tree::new(Shape::Flat, Shrink { files: 1.0, bytes: 1.0 }, Seed(1));
        assert_eq!((tree.directories.len(), tree.files.len(), tree.bytes()), (10 + 1000, 100_000, 1_600_000));
        assert!((tree.mean_depth() - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_nested_tree_has_as_many_names_in_each_directory() {
        let tree = Tree::nested(4, 10, 4096, Seed(1));
        assert_eq!((tree.directories.len(), tree.files.len()), (3, 3 * 9 + 10));
        let targets = tree.files.iter().filter(|(path, bytes)| path.ends_with("file 0") && *bytes == 4096);
        let depths: Vec<usize> = targets.map(|(path, _)| path.components().count()).collect();
        assert_eq!(depths, [1, 2, 3, 4]);
    }

    #[test]
    fn a_copy_with_a_wrong_byte_or_a_wrong_time_is_told() {
        let held = tempfile::tempdir().expect("a directory");
        let tree = Tree::new(Shape::Office, Shrink { files: 20_000.0, bytes: 1000.0 }, Seed(2));
        tree.write(held.path()).expect("writes");
        tree.check(held.path(), held.path(), Fidelity::Owners).expect("it is its own copy");
        let path = held.path().join(&tree.files[5].0);
        let mut bytes = fs::read(&path).expect("reads");
        bytes[0] ^= 1;
        fs::write(&path, bytes).expect("writes");
        assert!(
            tree.check(held.path(), held.path(), Fidelity::Owners)
                .expect_err("a byte is wrong")
                .contains("other bytes")
        );

        let copy = tempfile::tempdir().expect("a directory");
        tree.write(copy.path()).expect("writes");
        let again = tempfile::tempdir().expect("a directory");
        tree.write(again.path()).expect("writes");
        tree.check(again.path(), copy.path(), Fidelity::Owners).expect("of one seed comes one tree");
        let touched = File::open(copy.path().join(&tree.directories[0])).expect("opens");
        touched.set_modified(UNIX_EPOCH + Duration::from_secs(OLDEST - 1)).expect("sets a time");
        assert!(tree.check(again.path(), copy.path(), Fidelity::Times).is_err(), "a time is another");
        tree.check(again.path(), copy.path(), Fidelity::Bytes).expect("the bytes are the same");
    }
}
