//! The destination: a directory of ext4, xfs or btrfs, and its objects by their inode numbers.
//!
//! The door keeps no file open for an object that the kernel knows, nor its path: it finds it by a *file handle*, which is made of the inode number
//! and the generation (a number that tells apart the files which had that inode one after the other). Renames do not matter then, and a
//! process that knows only the number, because it was started anew, finds the object by [`Volume::generation`].
//!
//! What is mounted below the directory is not part of it: such a name answers `EXDEV`.

mod handle;
mod xfs;

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, fstatfs, openat, readlinkat, statx};
use rustix::io::{Errno, Result};

use crate::Error;
use handle::Scheme;

/// By which objects are opened: their attributes, their place, nothing else.
pub(crate) const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What is asked of an object.
pub(crate) const ASKED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Which object has an inode number at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) number: u64,
    pub(crate) generation: u64,
}

/// The destination.
#[derive(Debug)]
pub(crate) struct Volume {
    path: PathBuf,
    root: OwnedFd,
    root_identity: Identity,
    device: (u32, u32),
    scheme: Scheme,
    /// The root of a file system: everything that has a number is inside.
    is_whole: bool,
    /// Any file of it by its descriptor.
    descriptors: OwnedFd,
}

impl Volume {
    /// Opens that directory.
    pub(crate) fn open(path: &Path) -> std::result::Result<Self, Error> {
        let refused = |cause: Errno| Error::Destination { path: path.to_owned(), cause: cause.into() };
        let root = openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(refused)?;
        let kind = fstatfs(&root).map_err(refused)?.f_type;
        let scheme = Scheme::of(kind as u64, root.as_fd())
            .map_err(refused)?
            .ok_or_else(|| Error::FileSystem { path: path.to_owned(), kind: kind as u64 })?;
        let found = statx(&root, c"", AtFlags::EMPTY_PATH, ASKED).map_err(refused)?;
        let root_identity = handle::identity(&root, c"", scheme, found.stx_ino).map_err(refused)?;
        let above = statx(CWD, path.join("..").as_path(), AtFlags::empty(), ASKED).map_err(refused)?;
        let is_whole = (above.stx_dev_major, above.stx_dev_minor) != (found.stx_dev_major, found.stx_dev_minor);
        let descriptors = openat(CWD, c"/proc/self/fd", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let descriptors = descriptors.map_err(refused)?;
        let device = (found.stx_dev_major, found.stx_dev_minor);
        let volume = Self { path: path.to_owned(), root, root_identity, device, scheme, is_whole, descriptors };
        // Now, and not with the first request: it takes a right that not every root has.
        volume.place(root_identity).map_err(|cause| Error::Handles { path: path.to_owned(), cause: cause.into() })?;
        Ok(volume)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    pub(crate) fn root_identity(&self) -> Identity {
        self.root_identity
    }

    /// What is said of the object that a name in a directory leads to.
    pub(crate) fn look(&self, directory: impl AsFd, name: &CStr) -> Result<Statx> {
        let found = statx(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, ASKED)?;
        if (found.stx_dev_major, found.stx_dev_minor) == self.device { Ok(found) } else { Err(Errno::XDEV) }
    }

    /// What a name in a directory leads to.
    pub(crate) fn find(&self, directory: impl AsFd, name: &CStr) -> Result<(Identity, Statx)> {
        // Another object may get the name between the two questions.
        for _ in 0..100 {
            let found = self.look(&directory, name)?;
            match handle::identity(&directory, name, self.scheme, found.stx_ino) {
                Ok(identity) => return Ok((identity, found)),
                Err(Errno::STALE) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::BUSY)
    }

    /// Which object is open.
    pub(crate) fn identify(&self, object: impl AsFd) -> Result<(Identity, Statx)> {
        let found = attributes(&object)?;
        Ok((handle::identity(&object, c"", self.scheme, found.stx_ino)?, found))
    }

    /// Opens an object as a place.
    pub(crate) fn place(&self, identity: Identity) -> Result<OwnedFd> {
        handle::open(self.root(), self.scheme, identity, PLACE)
    }

    /// Opens an object.
    pub(crate) fn open_object(&self, identity: Identity, flags: OFlags) -> Result<File> {
        handle::open(self.root(), self.scheme, identity, flags | OFlags::CLOEXEC).map(File::from)
    }

    /// Opens what is open as a place.
    pub(crate) fn reopen(&self, place: BorrowedFd<'_>, flags: OFlags) -> Result<File> {
        let flags = (flags - OFlags::NOFOLLOW) | OFlags::CLOEXEC;
        openat(&self.descriptors, descriptor(place), flags, Mode::empty()).map(File::from)
    }

    /// The file system's own directory of open files: a path to an object that is open, whatever its kind.
    pub(crate) fn descriptors(&self) -> BorrowedFd<'_> {
        self.descriptors.as_fd()
    }

    /// The generation of the object that has a number now.
    pub(crate) fn generation(&self, number: u64) -> Result<u64> {
        match self.scheme {
            Scheme::Xfs => xfs::generation(self.root(), number),
            // They take none for any.
            Scheme::Ext | Scheme::Btrfs { .. } => {
                let place = self.place(Identity { number, generation: 0 })?;
                Ok(handle::identity(place, c"", self.scheme, number)?.generation)
            }
        }
    }

    /// Whether an object that a client names by its number may be in this directory.
    ///
    /// A directory is looked for upwards. Of another object the kernel tells the directory only while it knows the object by a name; a name outside
    /// refuses it. An object that the kernel knows by no name passes, as with other servers of NFS that export a part of a file system: its
    /// generation, which is random on ext4 and xfs, has been compared by then.
    pub(crate) fn is_inside(&self, place: impl AsFd) -> Result<bool> {
        if self.is_whole {
            return Ok(true);
        }
        let mut at = place.as_fd().try_clone_to_owned().map_err(|_| Errno::MFILE)?;
        loop {
            let found = attributes(&at)?;
            if found.stx_ino == self.root_identity.number {
                return Ok(true);
            }
            let above = match openat(&at, c"..", PLACE | OFlags::DIRECTORY, Mode::empty()) {
                Ok(above) => above,
                Err(Errno::NOTDIR) => return Ok(!self.is_known_outside(&at, &found)?),
                Err(errno) => return Err(errno),
            };
            if attributes(&above)?.stx_ino == found.stx_ino {
                return Ok(false);
            }
            at = above;
        }
    }

    /// Whether the kernel knows an object, which has no other name, by a name outside of this directory.
    fn is_known_outside(&self, object: &OwnedFd, found: &Statx) -> Result<bool> {
        let named = |place: BorrowedFd<'_>| readlinkat(&self.descriptors, descriptor(place), Vec::new());
        let (path, root) = (named(object.as_fd())?, named(self.root())?);
        let below = path.to_bytes().strip_prefix(root.to_bytes());
        if found.stx_nlink != 1 || below.is_some_and(|rest| rest.starts_with(b"/")) {
            return Ok(false);
        }
        // The path of an object without a known name leads to another one, or nowhere.
        let Ok(led) = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, ASKED) else { return Ok(false) };
        let of = |it: &Statx| (it.stx_dev_major, it.stx_dev_minor, it.stx_ino);
        Ok(of(&led) == of(found))
    }
}

/// What an open object says of itself.
pub(crate) fn attributes(object: impl AsFd) -> Result<Statx> {
    statx(object, c"", AtFlags::EMPTY_PATH, ASKED)
}

/// The name of an open file among [`Volume::descriptors`], for as long as it is open.
pub(crate) fn descriptor(file: BorrowedFd<'_>) -> String {
    file.as_raw_fd().to_string()
}
