//! A directory that nobody gets out of: for names that come from strangers.
//!
//! Names are plain anyway (see [`Directory`](crate::Directory)), so what is left are links that lie in the directory, and
//! what is no file. Neither is opened. Directories below are reached by paths that the kernel resolves itself without
//! links and without leaving (`openat2`).

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::access::{Access, Caching};
use super::{Calls, FileDirectory, failed, refused};
use crate::request::check_name;
use crate::{Error, Result};

/// How many directories may be one below the other.
const DEEPEST: usize = 32;

impl FileDirectory {
    /// Opens a directory that is there already, for names that come from strangers: only plain files directly in it are
    /// opened, no links.
    pub fn confined(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        let path = path.as_ref();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| refused(path, "open", 0, errno))?;
        Ok(Self::of(path, handle, Caching::Avoided, (access, true), Arc::new(Calls)))
    }

    /// A directory below this one, confined as well: names separated by `/`, each a plain name. The empty path is this
    /// directory. Made, durably, if it is missing and this one may be written to.
    pub fn below(&self, relative: &str) -> Result<Self> {
        let path = self.shared.path.join(relative);
        let names: Vec<&str> = if relative.is_empty() { Vec::new() } else { relative.split('/').collect() };
        names.iter().try_for_each(|name| check_name(name))?;
        if names.len() > DEEPEST {
            let reason = format!("more than {DEEPEST} directories one below the other");
            return Err(Error::Invalid { name: path.display().to_string(), reason });
        }
        let mut handle = self.shared.handle.try_clone().map_err(|source| failed(&path, "open", source))?;
        for name in names {
            handle = self.enter(&handle, name).map_err(|errno| match errno {
                Errno::LOOP | Errno::XDEV | Errno::NOTDIR => Error::Invalid {
                    name: path.display().to_string(),
                    reason: "is not a directory, or a link to one; links are not followed".to_owned(),
                },
                errno => refused(&path, "open", 0, errno),
            })?;
        }
        let (access, transfer) = (self.shared.access, Arc::clone(&self.shared.transfer));
        Ok(Self::of(&path, handle, self.shared.caching, (access, true), transfer))
    }

    fn enter(&self, above: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open = || rustix::fs::openat2(above, name, flags, Mode::empty(), resolve);
        match open() {
            Err(Errno::NOENT) if self.shared.access == Access::ReadWrite => {
                match rustix::fs::mkdirat(above, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
                rustix::fs::fsync(above)?;
                open()
            }
            opened => opened,
        }
    }

    /// Refuses what is no plain file, where that matters.
    pub(super) fn check_confined(&self, name: &str) -> Result<()> {
        if !self.shared.confined {
            return Ok(());
        }
        let path = self.path_of(name);
        let status = rustix::fs::statat(&self.shared.handle, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| refused(&path, "open", 0, errno))?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Ok(()),
            _ => Err(Error::Invalid {
                name: path.display().to_string(),
                reason: "is not a plain file; links and devices are not served".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::{Device, Directory};

    #[test]
    fn no_name_leads_out_of_a_confined_directory() {
        let place = tempfile::tempdir().expect("a place");
        let (inside, outside) = (place.path().join("inside"), place.path().join("outside"));
        FileDirectory::open(&outside).and_then(|directory| directory.create("secret", 4096)).expect("created");
        FileDirectory::open(&inside).and_then(|directory| directory.create("plain", 4096)).expect("created");
        symlink(outside.join("secret"), inside.join("link")).expect("linked");
        symlink(&outside, inside.join("way")).expect("linked");
        symlink(outside.join("victim"), inside.join("LOCK")).expect("linked");
        std::fs::create_dir(inside.join("folder")).expect("made");
        let directory = FileDirectory::confined(&inside, Access::ReadWrite).expect("opened");
        directory.open("plain").expect("a plain file");
        for name in ["link", "way", "folder", "../outside/secret", "..", "/etc/passwd", "folder/../../outside/secret"] {
            assert!(matches!(directory.open(name), Err(Error::Invalid { .. })), "{name}");
        }
        for path in ["way", "..", "folder/..", "/", "/etc", "a//b", "folder/", ".", "link", "plain"] {
            assert!(matches!(directory.below(path), Err(Error::Invalid { .. })), "{path}");
        }
        assert!(directory.lock().is_err(), "the lock is a link");
        assert!(!outside.join("victim").exists());
        FileDirectory::open(&inside).and_then(|directory| directory.open("link")).expect("others follow links");
    }

    #[test]
    fn directories_below_are_made_and_hold_devices_of_their_own() {
        let place = tempfile::tempdir().expect("a place");
        let directory = FileDirectory::confined(place.path(), Access::ReadWrite).expect("opened");
        directory.below("a/b").and_then(|below| below.create("deep", 4096)).expect("created");
        assert_eq!(directory.below("a/b").and_then(|below| below.list()).expect("listed"), ["deep"]);
        assert!(directory.below("").and_then(|below| below.list()).expect("listed").is_empty());
        assert!(directory.below(&["x"; 33].join("/")).is_err());
    }

    #[test]
    fn where_only_reading_is_allowed_nothing_is_written_or_made() {
        let place = tempfile::tempdir().expect("a place");
        FileDirectory::open(place.path()).and_then(|directory| directory.create("pages", 8192)).expect("created");
        let directory = FileDirectory::confined(place.path(), Access::ReadOnly).expect("opened");
        let device = directory.open_device("pages").expect("opened");
        let mut page = crate::AlignedBuffer::zeroed(4096);
        device.read_at(0, &mut page).expect("read");
        assert!(device.write_at(0, &page).is_err() && !device.promise().trim);
        assert!(matches!(directory.below("new"), Err(Error::NotFound { .. })));
    }
}
