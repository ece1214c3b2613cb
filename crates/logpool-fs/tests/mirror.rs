//! Random requests, to a mount and to a folder of the host: both must answer the same and hold the same, and so must what is
//! rebuilt offline.

mod stage;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use ishigaki_device::{Directory, MemoryDirectory};
use ishigaki_logpool::{Folder, Homes, rebuild, verify};
use ishigaki_testkit::seeded_runs;
use rustix::fs::{FallocateFlags, OFlags};

use stage::{Stage, can_mount};

const NAMES: [&str; 7] = ["one", "two", "three", "d", "d/four", "d/five", "e"];

/// What a folder holds: bytes by path, none for a folder.
type Contents = BTreeMap<PathBuf, Option<Vec<u8>>>;

fn contents(root: &Path) -> Contents {
    let mut contents = Contents::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if path.is_dir() {
                contents.insert(name, None);
                folders.push(path);
            } else {
                contents.insert(name, Some(fs::read(path).unwrap()));
            }
        }
    }
    contents
}

/// A request, drawn once and made twice.
#[derive(Clone, Debug)]
enum Request {
    Write { name: &'static str, flags: OFlags, at: u64, bytes: Vec<u8> },
    Append { name: &'static str, bytes: Vec<u8> },
    SetLength { name: &'static str, length: u64 },
    Allocate { name: &'static str, punch: bool, at: u64, length: u64 },
    Rename { from: &'static str, to: &'static str },
    LinkAndUnlink { from: &'static str, to: &'static str },
    Remove { name: &'static str },
    MakeFolder { name: &'static str },
    RemoveFolder { name: &'static str },
    Read { name: &'static str, at: u64, length: usize },
}

impl Request {
    fn draw(random: &mut Rng) -> Self {
        let name = *random.choice(&NAMES).expect("there are some");
        let (at, length) = (random.u64(..40_000), random.u64(1..20_000));
        let bytes = vec![random.u8(..); length as usize];
        let to = *random.choice(&NAMES).expect("there are some");
        match random.u8(..24) {
            0..8 => {
                let kinds = [OFlags::empty(), OFlags::DSYNC, OFlags::SYNC, OFlags::TRUNC];
                Self::Write { name, flags: *random.choice(&kinds).expect("there are some"), at, bytes }
            }
            8..10 => Self::Append { name, bytes },
            10..12 => Self::SetLength { name, length },
            12..14 => Self::Allocate { name, punch: random.bool(), at, length },
            14..16 => Self::Rename { from: name, to },
            16 => Self::LinkAndUnlink { from: name, to },
            17 => Self::Remove { name },
            18..20 => Self::MakeFolder { name },
            20 => Self::RemoveFolder { name },
            _ => Self::Read { name, at, length: length as usize },
        }
    }

    /// Makes it in a folder; gives what was read.
    fn make(&self, root: &Path) -> io::Result<Vec<u8>> {
        match self {
            Self::Write { name, flags, at, bytes } => {
                let mut options = OpenOptions::new();
                options.write(true).create(true).custom_flags(flags.bits().cast_signed());
                options.open(root.join(name))?.write_all_at(bytes, *at)?;
            }
            Self::Append { name, bytes } => {
                io::Write::write_all(&mut OpenOptions::new().append(true).open(root.join(name))?, bytes)?;
            }
            Self::SetLength { name, length } => {
                OpenOptions::new().write(true).open(root.join(name))?.set_len(*length)?;
            }
            Self::Allocate { name, punch, at, length } => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let mode = if *punch { mode } else { FallocateFlags::empty() };
                let file = OpenOptions::new().write(true).open(root.join(name))?;
                rustix::fs::fallocate(file, mode, *at, *length)?;
            }
            Self::Rename { from, to } => fs::rename(root.join(from), root.join(to))?,
            Self::LinkAndUnlink { from, to } => {
                fs::hard_link(root.join(from), root.join(to))?;
                fs::remove_file(root.join(from))?;
            }
            Self::Remove { name } => fs::remove_file(root.join(name))?,
            Self::MakeFolder { name } => fs::create_dir(root.join(name))?,
            Self::RemoveFolder { name } => fs::remove_dir(root.join(name))?,
            Self::Read { name, at, length } => {
                let mut bytes = vec![0; *length];
                let read = File::open(root.join(name))?.read_at(&mut bytes, *at)?;
                bytes.truncate(read);
                return Ok(bytes);
            }
        }
        Ok(Vec::new())
    }
}

/// Everything in one directory.
#[derive(Debug)]
struct Here(Arc<dyn Directory>);

impl Homes for Here {
    fn directory(&self, _: &str) -> ishigaki_device::Result<Arc<dyn Directory>> {
        Ok(self.0.clone())
    }
}

#[test]
fn a_mount_answers_and_holds_what_a_folder_of_the_host_does() {
    if !can_mount("a_mount_answers_and_holds_what_a_folder_of_the_host_does") {
        return;
    }
    seeded_runs("a_mount_answers_and_holds_what_a_folder_of_the_host_does", 4, |seed| {
        let mut random = seed.generator();
        let (medium, mirror) = (Arc::new(MemoryDirectory::new()), tempfile::tempdir().unwrap());
        let mut stage = Stage::new(medium.clone());
        for turn in 0..400 {
            let request = Request::draw(&mut random);
            let outcome = |root: &Path| request.make(root).map_err(|error| error.raw_os_error());
            assert_eq!(outcome(stage.root()), outcome(mirror.path()), "{request:?}");
            match turn % 100 {
                30 => stage.pool.bring_home().unwrap(),
                60 => assert_eq!(contents(stage.root()), contents(mirror.path())),
                90 => stage.mount_again(),
                _ => {}
            }
        }
        File::open(stage.root()).unwrap().sync_all().unwrap();
        assert_eq!(contents(stage.root()), contents(mirror.path()));
        drop(stage);
        let homes = Here(medium.clone());
        assert_eq!(verify(medium.as_ref(), &homes).unwrap().problems, [""; 0]);
        let rebuilt = tempfile::tempdir().unwrap();
        rebuild(medium.as_ref(), &homes, "a", &mut Folder::new(rebuilt.path().join("a")).unwrap()).unwrap();
        assert_eq!(contents(&rebuilt.path().join("a")), contents(mirror.path()));
    });
}
