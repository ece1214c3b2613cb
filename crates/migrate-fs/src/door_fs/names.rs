//! Finds names, makes, renames and removes them.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use fuse_backend_rs::api::filesystem::{Context, Entry};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Statx, linkat, mkdirat, mknodat, openat, readlinkat_raw,
    renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::{DoorFs, Held, NAMES, Place, is_directory};
use crate::caller;
use crate::nodes::{Changes, Known, ROOT};
use crate::volume::{Identity, PLACE};

/// An object whose last name is about to go.
pub(super) struct Leaving {
    identity: Identity,
    held: Arc<OwnedFd>,
}

impl DoorFs {
    pub(super) fn find_name(&self, parent: u64, name: &CStr) -> io::Result<Entry> {
        caller::any()?;
        match name.to_bytes() {
            b"." => return self.find_itself(parent),
            b".." => return self.find_above(parent),
            _ => {}
        }
        let directory = self.directory(parent)?;
        self.names_needed(&directory)?;
        if self.is_hidden(parent, name) {
            return Err(Errno::NOENT.into());
        }
        match self.volume.find(&directory, name) {
            Ok(found) => self.give(found),
            // That there is no such name is believed, too.
            Err(Errno::NOENT) => Ok(Entry { entry_timeout: NAMES, ..Entry::default() }),
            Err(errno) => Err(errno.into()),
        }
    }

    /// As a server of NFS asks that knows an object by its number alone.
    fn find_itself(&self, node: u64) -> io::Result<Entry> {
        let known = node == ROOT || !matches!(self.nodes.known(node), Known::Nothing);
        let place = self.place(node).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::INVAL) => Errno::STALE.into(),
            _ => error,
        })?;
        if !known && !self.volume.is_inside(&place)? {
            return Err(Errno::STALE.into());
        }
        self.give(self.volume.identify(&place)?)
    }

    fn find_above(&self, node: u64) -> io::Result<Entry> {
        if node == ROOT {
            return self.find_itself(node);
        }
        let above = openat(self.place(node)?, c"..", PLACE | OFlags::DIRECTORY, Mode::empty())?;
        self.give(self.volume.identify(above)?)
    }

    /// Whether programs do not see that name, nor may make it.
    pub(super) fn is_hidden(&self, parent: u64, name: &CStr) -> bool {
        parent == ROOT && self.arrivals.hides_name(name.to_bytes())
    }

    /// A directory in which a name is about to change.
    fn changing(&self, parent: u64, name: &CStr) -> io::Result<(Place<'_>, Changes<'_>)> {
        if self.is_hidden(parent, name) {
            return Err(Errno::PERM.into());
        }
        let directory = self.directory(parent)?;
        self.names_change(&directory)?;
        Ok((directory, self.nodes.changes(parent)))
    }

    /// The directory in which a program makes something, with the thread acting in its name.
    fn workshop(
        &self,
        ctx: &Context,
        parent: u64,
        name: &CStr,
        (mode, mask): (u32, u32),
    ) -> io::Result<(Place<'_>, Changes<'_>)> {
        caller::any()?;
        let directory = self.changing(parent, name)?;
        caller::maker(ctx, mode, mask)?;
        Ok(directory)
    }

    /// What was just made: it has all its attributes.
    fn give_new(&self, directory: impl AsFd, name: &CStr) -> io::Result<Entry> {
        let (identity, found) = self.volume.find(directory, name)?;
        self.nodes.give(identity);
        Ok(self.entry(identity, &found))
    }

    pub(super) fn make_node(
        &self,
        ctx: &Context,
        parent: u64,
        name: &CStr,
        (mode, rdev, mask): (u32, u32, u32),
    ) -> io::Result<Entry> {
        let (directory, _changes) = self.workshop(ctx, parent, name, (mode, mask))?;
        let file_type = FileType::from_raw_mode(mode);
        mknodat(&directory, name, file_type, Mode::from_raw_mode(mode), rdev.into())?;
        self.give_new(&directory, name)
    }

    pub(super) fn make_directory(
        &self,
        ctx: &Context,
        parent: u64,
        name: &CStr,
        (mode, mask): (u32, u32),
    ) -> io::Result<Entry> {
        let (directory, _changes) = self.workshop(ctx, parent, name, (mode, mask))?;
        mkdirat(&directory, name, Mode::from_raw_mode(mode))?;
        self.give_new(&directory, name)
    }

    pub(super) fn make_symlink(&self, ctx: &Context, parent: u64, name: &CStr, target: &CStr) -> io::Result<Entry> {
        let (directory, _changes) = self.workshop(ctx, parent, name, (0, 0))?;
        symlinkat(target, &directory, name)?;
        self.give_new(&directory, name)
    }

    /// Makes a file and opens it. The kernel has found no such name.
    pub(super) fn make_file(
        &self,
        ctx: &Context,
        parent: u64,
        name: &CStr,
        (flags, mode, umask): (u32, u32, u32),
    ) -> io::Result<(Identity, Statx, OwnedFd)> {
        let (directory, _changes) = self.workshop(ctx, parent, name, (mode, umask))?;
        let own = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let new = openat(&directory, name, own, Mode::from_raw_mode(mode)).map_err(|errno| {
            // The kernel looks again, and asks whether the program may open what is there.
            let is_wanted_new = OFlags::from_bits_retain(flags).contains(OFlags::EXCL);
            if errno == Errno::EXIST && !is_wanted_new { Errno::STALE } else { errno }
        })?;
        let (identity, found) = self.volume.identify(&new)?;
        self.nodes.give(identity);
        Ok((identity, found, new))
    }

    pub(super) fn add_name(&self, ctx: &Context, node: u64, parent: u64, name: &CStr) -> io::Result<Entry> {
        caller::any()?;
        let (object, (directory, _changes)) = (self.place(node)?, self.changing(parent, name)?);
        caller::mover(ctx)?;
        self.arrivals.moving(&mut || Ok(linkat(&object, c"", &directory, name, AtFlags::EMPTY_PATH)?))?;
        drop(self.nodes.changes(node));
        self.give(self.volume.identify(&object)?)
    }

    pub(super) fn remove_name(&self, parent: u64, name: &CStr, flags: AtFlags) -> io::Result<()> {
        caller::any()?;
        let (directory, _changes) = self.changing(parent, name)?;
        let _loses = self.loses_name(&directory, name);
        let leaving = self.leaving(&directory, name)?;
        unlinkat(&directory, name, flags)?;
        self.left(leaving);
        Ok(())
    }

    /// What a name leads to is about to change, since it loses that name or gets another one. Nothing if there is no such name.
    fn loses_name(&self, directory: &Place<'_>, name: &CStr) -> Option<Changes<'_>> {
        let found = self.volume.look(directory, name).ok()?;
        Some(self.nodes.changes(found.stx_ino))
    }

    /// Holds what a name leads to, if that is its last one.
    fn leaving(&self, directory: &Place<'_>, name: &CStr) -> io::Result<Option<Leaving>> {
        let found = self.volume.look(directory, name)?;
        let is_directory = is_directory(&found);
        if found.stx_nlink > 1 && !is_directory {
            return Ok(None);
        }
        if !is_directory
            && let Some(held) = self.files.get(found.stx_ino)
            && let Known::Generation(generation) = self.nodes.known(found.stx_ino)
        {
            // It is held, so that no other object has its number.
            return Ok(Some(Leaving { identity: Identity { number: found.stx_ino, generation }, held }));
        }
        let (identity, _) = self.volume.find(directory, name)?;
        let held = Arc::new(self.volume.place(identity)?);
        if is_directory {
            // What is missing of a directory are names, so that it is not as empty as it looks.
            self.names_needed(&Place { number: identity.number, held: Held::Root(held.as_fd()) })?;
        }
        Ok(Some(Leaving { identity, held }))
    }

    fn left(&self, leaving: Option<Leaving>) {
        if let Some(Leaving { identity, held }) = leaving {
            self.nodes.orphan(identity, held);
            self.let_go(identity.number);
        }
    }

    pub(super) fn move_name(&self, ctx: &Context, from: (u64, &CStr), to: (u64, &CStr), flags: u32) -> io::Result<()> {
        caller::any()?;
        let (old, _of_old) = self.changing(from.0, from.1)?;
        let (new, _of_new) = self.changing(to.0, to.1)?;
        let flags = RenameFlags::from_bits_retain(flags);
        let replaces = !flags.intersects(RenameFlags::EXCHANGE | RenameFlags::NOREPLACE);
        let leaving = match if replaces { self.leaving(&new, to.1) } else { Ok(None) } {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            leaving => leaving?,
        };
        let is_itself = match &leaving {
            // What leaves is held.
            Some(leaving) => self.volume.look(&old, from.1)?.stx_ino == leaving.identity.number,
            None => false,
        };
        let (_moves, _gives_way) = (self.loses_name(&old, from.1), self.loses_name(&new, to.1));
        caller::mover(ctx)?;
        self.arrivals.moving(&mut || Ok(renameat_with(&old, from.1, &new, to.1, flags)?))?;
        if !is_itself {
            self.left(leaving);
        }
        Ok(())
    }

    pub(super) fn target(&self, node: u64) -> io::Result<Vec<u8>> {
        caller::any()?;
        let place = self.place(node)?;
        let mut target = Vec::with_capacity(4096);
        readlinkat_raw(&place, c"", rustix::buffer::spare_capacity(&mut target))?;
        Ok(target)
    }
}
