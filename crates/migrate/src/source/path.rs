//! A source that is mounted on this host: another disk, a snapshot, or a server through the kernel's or a FUSE client.
//!
//! Every object is reached from one descriptor of the root (a new one where what is mounted there has gone, or comes), by `openat2` that follows no symbolic link and stays below the root
//! (`beneath`), so a symbolic link that is put in the way while a migration runs leads nowhere. Paths may be longer than `PATH_MAX`.
//!
//! *Access times* stay as they are: files and directories are opened with `O_NOATIME`. The kernel refuses that for files of other
//! users unless the process may act for every owner (`CAP_FOWNER`, which root has); then the source reads without it, says so in the log
//! once, and [`PathSource::kept_access_times`] is false. To read the target of a symbolic link has no such flag: its access time
//! moves unless the file system is mounted with `noatime` or read-only.
//!
//! *File systems mounted below the root* are part of the source. They are told apart by the first number of [`Attributes::id`].
//!
//! *Numbers of objects* are not told where the file system is FUSE's, but for files with several names: most of its servers, as sshfs, give an object another number
//! when the kernel has forgotten it.
//!
//! *Cancelling* ends a call between two system calls. A system call that hangs in the mounted file system ends when the kernel ends it; where that
//! [may be](Source::may_hang), the source is to be [`detached`](super::detached).
//!
//! Parts: `beneath` opens objects, `stat` turns what the kernel says into attributes and errors.

mod beneath;
pub(crate) mod stat;

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use super::names::Names;
use super::spread::spread;
use super::{
    Attributes, Cancel, Capabilities, Entry, Error, ErrorKind, Extras, FileType, Location, Result, Source, ToldExtras,
};
use beneath::Root;
use stat::failed;

/// Entries that are given at a time.
const PAGE: usize = 1000;
/// Bytes of names that one system call reads.
const NAMES: usize = 64 << 10;
/// The most bytes that one system call reads.
const READ_SIZE: usize = 1 << 20;
/// The number that every root of FUSE has.
const FUSE_ROOT: u64 = 1;
/// The most bytes of an extended attribute, and of the list of their names (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const XATTR_SIZE: usize = 64 << 10;

/// A directory of this host.
///
/// *Threads*: any number. *Drop* closes the root.
///
/// ```
/// use ishigaki_migrate::source::path::PathSource;
/// use ishigaki_migrate::source::{Cancel, Source};
///
/// let directory = tempfile::tempdir()?;
/// std::fs::write(directory.path().join("hello"), "world")?;
///
/// let source = PathSource::open(directory.path())?;
/// let (root, _) = source.root(&Cancel::new())?;
/// source.list(&root, &Cancel::new(), &mut |page| {
///     assert_eq!(page[0].name, "hello");
///     assert_eq!(page[0].attributes.expect("a local listing tells them").size, 5);
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PathSource {
    name: PathBuf,
    root: Root,
}

impl PathSource {
    /// The directory as a source.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if it is no directory that can be read, or the kernel lacks `openat2` (it came with Linux 5.6).
    pub fn open(directory: &Path) -> Result<Self> {
        Ok(Self { name: directory.to_owned(), root: Root::open(directory)? })
    }

    /// Whether every file and directory so far was opened without touching its access time.
    pub fn kept_access_times(&self) -> bool {
        self.root.kept_access_times()
    }

    /// What an open object says of itself.
    fn told(&self, opened: &OwnedFd) -> Result<Attributes, Errno> {
        let attributes = stat::of(opened)?;
        let keeps = self.root.keeps_numbers(attributes.id.0, opened);
        Ok(if keeps { attributes } else { without_number(attributes) })
    }

    fn open_file(&self, file: &Location) -> Result<OwnedFd> {
        let opened = self.root.open_to_read(&file.path, OFlags::NONBLOCK)?;
        match stat::of(&opened).map_err(|errno| failed("read the attributes of", &file.path, errno))?.file_type {
            FileType::Regular => Ok(opened),
            other => Err(Error::new(
                ErrorKind::Gone,
                format!("{} is no regular file any more, but a {other:?}", file.path.display()),
            )),
        }
    }

    /// Opens a file and fills the buffer.
    fn read_open(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<(usize, OwnedFd)> {
        let opened = self.open_file(file)?;
        let mut filled = 0;
        while filled < buffer.len() {
            check(cancel)?;
            let end = buffer.len().min(filled + READ_SIZE);
            match rustix::io::pread(&opened, &mut buffer[filled..end], offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("read", &file.path, errno)),
            }
        }
        Ok((filled, opened))
    }
}

impl Source for PathSource {
    fn name(&self) -> String {
        self.name.display().to_string()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { owners: true, extras: true, holes: true, read_size: READ_SIZE, parallel: 32 }
    }

    fn may_hang(&self) -> bool {
        self.root.is_served()
    }

    fn root(&self, cancel: &Cancel) -> Result<(Location, Attributes)> {
        let location = Location { path: PathBuf::new(), handle: Box::default() };
        let attributes = match self.attributes(&location, cancel) {
            Err(error) if error.kind != ErrorKind::Cancelled => {
                self.reopen(cancel)?;
                self.attributes(&location, cancel)?
            }
            attributes => attributes?,
        };
        Ok((location, attributes))
    }

    fn reopen(&self, _cancel: &Cancel) -> Result<()> {
        self.root.reopen(&self.name)
    }

    fn list(
        &self,
        directory: &Location,
        cancel: &Cancel,
        take: &mut dyn FnMut(Vec<Entry>) -> Result<()>,
    ) -> Result<()> {
        let path = &directory.path;
        let opened = self.root.open_to_read(path, OFlags::DIRECTORY)?;
        let mut buffer = vec![MaybeUninit::uninit(); NAMES];
        // `Dir` takes the error of a directory that is removed for the end of its names.
        let mut entries = RawDir::new(&opened, &mut buffer);
        let (here, _) = stat::of(&opened).map_err(|errno| failed("list", path, errno))?.id;
        let keeps = self.root.keeps_numbers(here, &opened);
        let mut names = Names::new();
        let mut page = Vec::with_capacity(PAGE);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|errno| failed("list", path, errno))?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || !names.insert(name) {
                continue;
            }
            let name = OsStr::from_bytes(name);
            let attributes = match stat::of_entry(&opened, name) {
                Ok(attributes) if !keeps && attributes.id.0 == here => Some(without_number(attributes)),
                Ok(attributes) => Some(attributes),
                // It went between the two calls.
                Err(Errno::NOENT) => continue,
                // The directory may be read and not searched, or the object is damaged: that is told when the object is asked for.
                Err(_) => None,
            };
            page.push(Entry { name: name.to_owned(), handle: Box::default(), attributes });
            if page.len() == PAGE {
                check(cancel)?;
                take(std::mem::replace(&mut page, Vec::with_capacity(PAGE)))?;
            }
        }
        check(cancel)?;
        if page.is_empty() { Ok(()) } else { take(page) }
    }

    fn attributes(&self, object: &Location, cancel: &Cancel) -> Result<Attributes> {
        check(cancel)?;
        let found = self.root.find(&object.path)?;
        self.told(&found).map_err(|errno| failed("read the attributes of", &object.path, errno))
    }

    fn extras_told(&self, object: &Location, cancel: &Cancel) -> Result<ToldExtras> {
        check(cancel)?;
        let path = &object.path;
        let found = self.root.find(path)?;
        let attributes = stat::of(&found).map_err(|errno| failed("read the attributes of", path, errno))?;
        let target = if attributes.file_type == FileType::Symlink {
            let target = rustix::fs::readlinkat(&found, "", Vec::new())
                .map_err(|errno| failed("read the target of", path, errno))?;
            Some(OsString::from_vec(target.into_bytes()).into())
        } else {
            None
        };
        let extras =
            Extras { target, attributes: extended(&found).map_err(|errno| failed("read attributes of", path, errno))? };
        let now = self.told(&found).map_err(|errno| failed("read the attributes of", path, errno))?;
        Ok((extras, Some(now)))
    }

    fn extras_of_told(&self, objects: &[(&Location, FileType)], cancel: &Cancel) -> Vec<Result<ToldExtras>> {
        spread(&mut objects.to_vec(), |(object, _)| self.extras_told(object, cancel))
    }

    fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<usize> {
        Ok(self.read_open(file, offset, buffer, cancel)?.0)
    }

    fn read_told(
        &self,
        file: &Location,
        offset: u64,
        buffer: &mut [u8],
        cancel: &Cancel,
    ) -> Result<(usize, Option<Attributes>)> {
        let (filled, opened) = self.read_open(file, offset, buffer, cancel)?;
        let attributes = self.told(&opened).map_err(|errno| failed("read the attributes of", &file.path, errno))?;
        Ok((filled, Some(attributes)))
    }

    fn read_files_told(
        &self,
        files: &mut [(&Location, &mut [u8])],
        cancel: &Cancel,
    ) -> Vec<Result<(usize, Option<Attributes>)>> {
        spread(files, |(file, buffer)| self.read_told(file, 0, buffer, cancel))
    }

    fn next_data(&self, file: &Location, offset: u64, cancel: &Cancel) -> Result<Option<Range<u64>>> {
        check(cancel)?;
        let opened = self.open_file(file)?;
        let data = match rustix::fs::seek(&opened, SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(None),
            // The file system knows no holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(offset..u64::MAX)),
            Err(errno) => return Err(failed("find data in", &file.path, errno)),
        };
        match rustix::fs::seek(&opened, SeekFrom::Hole(data)) {
            Ok(hole) => Ok(Some(data..hole)),
            // It was cut off between the two calls.
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(failed("find holes in", &file.path, errno)),
        }
    }
}

/// The attributes of an object whose number is not its own for long. That of a root is, and that by which the names of a file are known as such.
fn without_number(attributes: Attributes) -> Attributes {
    let has_names = attributes.links > 1 && attributes.file_type != FileType::Directory;
    let number = if attributes.id.1 == FUSE_ROOT || has_names { attributes.id.1 } else { 0 };
    Attributes { id: (attributes.id.0, number), ..attributes }
}

fn check(cancel: &Cancel) -> Result<()> {
    if cancel.is_cancelled() { Err(Error::cancelled()) } else { Ok(()) }
}

/// By these names xfs shows access lists once more.
const LISTS_OF_XFS: [&[u8]; 2] = [b"trusted.SGI_ACL_FILE", b"trusted.SGI_ACL_DEFAULT"];

/// All extended attributes that this process sees.
///
/// The kernel gives none of a descriptor that was opened without reading, but it does by the name that the descriptor has in `/proc`,
/// which leads to that very object, whatever its path leads to by now.
fn extended(object: &OwnedFd) -> Result<Vec<(OsString, Vec<u8>)>, Errno> {
    let path = format!("/proc/self/fd/{}", object.as_raw_fd());
    let mut buffer = vec![0; XATTR_SIZE];
    let size = match rustix::fs::listxattr(&path, &mut buffer[..]) {
        Ok(size) => size,
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno),
    };
    let names = buffer[..size].to_vec();
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty() && !LISTS_OF_XFS.contains(name)) {
        match rustix::fs::getxattr(&path, name, &mut buffer[..]) {
            Ok(size) => found.push((OsString::from_vec(name.to_vec()), buffer[..size].to_vec())),
            // It was removed meanwhile, or is listed for others only.
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(found)
}
