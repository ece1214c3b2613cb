//! Objects below a root, without following a symbolic link and without a limit on the path.

use std::borrow::Cow;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use rustix::fs::{FsWord, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::stat::failed;
use crate::source::{Error, ErrorKind, Result};

/// The most bytes of a path that go to the kernel at once: `PATH_MAX` less the zero at its end.
const PIECE: usize = 4095;

/// What the kernel calls a file system of FUSE (`FUSE_SUPER_MAGIC`).
const FUSE: FsWord = 0x6573_5546;
/// File systems that a server, or a program, has: FUSE (virtiofs, too), NFS, CIFS, SMB, Ceph, AFS, 9P.
const SERVED: [FsWord; 7] = [FUSE, 0x6969, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x5346_414f, 0x0102_1997];

/// The directory that everything is reached from.
pub(super) struct Root {
    directory: RwLock<Arc<OwnedFd>>,
    is_served: AtomicBool,
    kept_access_times: AtomicBool,
    /// Whether objects of a file system, by its number, keep theirs.
    keeping: RwLock<HashMap<u64, bool>>,
}

impl Root {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let root = Self {
            directory: RwLock::new(open(directory)?),
            is_served: AtomicBool::new(true),
            kept_access_times: AtomicBool::new(true),
            keeping: RwLock::default(),
        };
        root.look_at_file_system();
        match root.open_to_read(Path::new(""), OFlags::DIRECTORY) {
            Ok(_) => Ok(root),
            Err(error) => Err(Error::new(ErrorKind::Invalid, format!("{}: {error}", directory.display()))),
        }
    }

    /// Reaches everything from what `directory` is by now.
    pub(super) fn reopen(&self, directory: &Path) -> Result<()> {
        let opened = open(directory)?;
        *self.directory.write() = opened;
        // What is mounted there by now may have a number that another file system had.
        self.keeping.write().clear();
        self.look_at_file_system();
        Ok(())
    }

    /// Whether a call may hang because a server does not answer.
    pub(super) fn is_served(&self) -> bool {
        self.is_served.load(Ordering::Relaxed)
    }

    fn look_at_file_system(&self) {
        // One that says nothing may be such a mount.
        let is_local = rustix::fs::fstatfs(&*self.directory()).is_ok_and(|told| !SERVED.contains(&told.f_type));
        self.is_served.store(!is_local, Ordering::Relaxed);
    }

    /// Whether objects of a file system keep their numbers, of which one is open.
    pub(super) fn keeps_numbers(&self, file_system: u64, opened: &OwnedFd) -> bool {
        if let Some(keeps) = self.keeping.read().get(&file_system) {
            return *keeps;
        }
        // One that does not answer is asked again.
        let Ok(told) = rustix::fs::fstatfs(opened) else { return true };
        let keeps = told.f_type != FUSE;
        self.keeping.write().insert(file_system, keeps);
        keeps
    }

    fn directory(&self) -> Arc<OwnedFd> {
        self.directory.read().clone()
    }

    pub(super) fn kept_access_times(&self) -> bool {
        self.kept_access_times.load(Ordering::Relaxed)
    }

    /// The object itself, a symbolic link too, neither read nor written.
    pub(super) fn find(&self, path: &Path) -> Result<OwnedFd> {
        self.open_at(path, OFlags::PATH | OFlags::NOFOLLOW).map_err(|errno| failed("find", path, errno))?
    }

    /// Opens a file or directory for reading, without touching its access time where that is allowed.
    pub(super) fn open_to_read(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | flags;
        let opened = match self.open_at(path, flags | OFlags::NOATIME) {
            Err(Errno::PERM) => self.open_at(path, flags).inspect(|_| self.tell_of_access_times(path)),
            opened => opened,
        };
        opened.map_err(|errno| failed("open", path, errno))?
    }

    fn tell_of_access_times(&self, path: &Path) {
        if self.kept_access_times.swap(false, Ordering::Relaxed) {
            tracing::warn!(
                path = %path.display(),
                "the kernel does not let this user read files of others without touching their access times; run as root to keep them"
            );
        }
    }

    /// The inner error is the kernel's; the outer result is for a path that is none.
    fn open_at(&self, path: &Path, flags: OFlags) -> Result<Result<OwnedFd>, Errno> {
        let mut pieces = match pieces(path) {
            Ok(pieces) => pieces,
            Err(error) => return Ok(Err(error)),
        };
        let last = pieces.pop().unwrap_or(Cow::Borrowed(b"."));
        let root = self.directory();
        let mut directory: Option<OwnedFd> = None;
        for piece in pieces {
            let from = directory.as_ref().map_or(root.as_fd(), AsFd::as_fd);
            directory = Some(open_piece(from, &piece, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW)?);
        }
        let from = directory.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        open_piece(from, &last, flags).map(Ok)
    }
}

fn open(directory: &Path) -> Result<Arc<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty()).map_err(|errno| {
        let path = directory.display();
        Error::new(ErrorKind::Invalid, format!("cannot open the directory {path} to migrate from: {errno}"))
    })?;
    Ok(Arc::new(opened))
}

fn open_piece(from: BorrowedFd<'_>, piece: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    loop {
        match rustix::fs::openat2(from, piece, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // With EAGAIN the kernel says that a rename went on meanwhile.
            Err(Errno::INTR | Errno::AGAIN) => {}
            opened => return opened,
        }
    }
}

/// The path in pieces that the kernel takes, cut between components.
fn pieces(path: &Path) -> Result<Vec<Cow<'_, [u8]>>> {
    let bytes = path.as_os_str().as_bytes();
    let plain = path.components().all(|component| matches!(component, Component::Normal(_)));
    if !plain || bytes.contains(&0) {
        return Err(Error::new(ErrorKind::Invalid, format!("{} is no path below a source", path.display())));
    }
    if bytes.len() <= PIECE {
        return Ok(if bytes.is_empty() { Vec::new() } else { vec![Cow::Borrowed(bytes)] });
    }
    let mut pieces = Vec::new();
    let mut piece: Vec<u8> = Vec::with_capacity(PIECE);
    for component in path.components() {
        let name = component.as_os_str().as_bytes();
        if !piece.is_empty() && piece.len() + 1 + name.len() > PIECE {
            pieces.push(Cow::Owned(std::mem::take(&mut piece)));
        }
        if !piece.is_empty() {
            piece.push(b'/');
        }
        piece.extend_from_slice(name);
    }
    pieces.push(Cow::Owned(piece));
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_between_components_and_make_the_path_again() {
        let path = vec!["n".repeat(200); 100].join("/");
        let pieces = pieces(Path::new(&path)).expect("a path");
        assert!(pieces.len() > 4 && pieces.iter().all(|piece| piece.len() <= PIECE));
        assert_eq!(pieces.join(&b'/'), path.as_bytes());
    }

    #[test]
    fn a_path_that_leaves_the_source_is_refused() {
        for path in ["/etc", "..", "a/../../b", "a\0b"] {
            assert_eq!(pieces(Path::new(path)).expect_err(path).kind, ErrorKind::Invalid);
        }
    }
}
