//! Extended attributes, and access control lists, which are some of them.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use fuse_backend_rs::api::filesystem::{Context, GetxattrReply, ListxattrReply};
use ishigaki_fuse::NewAttribute;
use rustix::buffer::spare_capacity;
use rustix::fs::{XattrFlags, fgetxattr, fgetxattr_query, getxattr, getxattr_query, listxattr, removexattr, setxattr};
use rustix::io::Errno;

use super::{DoorFs, Place, is_directory};
use crate::caller;
use crate::offline;
use crate::volume::{self, descriptor};

/// Those that only root sees.
const TRUSTED: &[u8] = b"trusted.";

/// Bytes of the longest value, and of the longest list.
const LONGEST: usize = 1 << 16;

/// A path to what is open: the calls for extended attributes take no place.
fn path(place: &Place<'_>) -> String {
    format!("/proc/self/fd/{}", descriptor(place.as_fd()))
}

impl DoorFs {
    fn extras(&self, node: u64) -> io::Result<Place<'_>> {
        caller::any()?;
        let place = self.asked(node)?;
        if !self.is_here(&place)? {
            let arrivals = self.ask()?;
            Self::wait(|cancel| arrivals.extras_needed(place.object(), cancel))?;
        }
        Ok(place)
    }

    /// Whether no attribute is missing.
    fn is_here(&self, place: &Place<'_>) -> io::Result<bool> {
        if self.arrivals.is_over() {
            return Ok(true);
        }
        if is_directory(&volume::attributes(place)?) {
            self.names_needed(place)?;
            return Ok(true);
        }
        self.is_normal(place)
    }

    /// Changes attributes of any kind, with what is missing of them taken into account.
    pub(super) fn change_extras(&self, place: &Place<'_>, mut act: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        let _changes = self.nodes.changes(place.number);
        if self.is_here(place)? {
            return act();
        }
        let arrivals = self.ask()?;
        Self::wait(|cancel| arrivals.attributes_change(place.object(), cancel, &mut act))
    }

    fn refuse_hidden(&self, name: &CStr) -> io::Result<()> {
        if self.arrivals.hides_extra(name.to_bytes()) { Err(Errno::NODATA.into()) } else { Ok(()) }
    }

    pub(super) fn read_extra(&self, node: u64, name: &CStr, size: u32) -> io::Result<GetxattrReply> {
        self.refuse_hidden(name)?;
        let place = self.extras(node)?;
        if name.to_bytes() == offline::NAME && self.is_offline(&place)? {
            return Self::read_marked(&place, name, size);
        }
        if size == 0 {
            let length = match fgetxattr_query(&place, name) {
                // It is a place only.
                Err(Errno::BADF) => getxattr_query(path(&place), name),
                asked => asked,
            };
            return Ok(GetxattrReply::Count(length? as u32));
        }
        let mut value = Vec::with_capacity((size as usize).min(LONGEST));
        match fgetxattr(&place, name, spare_capacity(&mut value)) {
            Err(Errno::BADF) => getxattr(path(&place), name, spare_capacity(&mut value))?,
            asked => asked?,
        };
        Ok(GetxattrReply::Value(value))
    }

    /// Whether an object is a file whose data is not all here.
    fn is_offline(&self, place: &Place<'_>) -> io::Result<bool> {
        if self.is_whole(place.number) || is_directory(&volume::attributes(place)?) {
            return Ok(false);
        }
        Ok(!self.is_normal(place)?)
    }

    /// What Samba keeps of a file, with the mark that its data is not here.
    fn read_marked(place: &Place<'_>, name: &CStr, size: u32) -> io::Result<GetxattrReply> {
        let mut stored = Vec::with_capacity(LONGEST);
        let stored = match getxattr(path(place), name, spare_capacity(&mut stored)) {
            Ok(_) => Some(stored),
            Err(Errno::NODATA) => None,
            Err(errno) => return Err(errno.into()),
        };
        let value = offline::mark(stored);
        match size as usize {
            0 => Ok(GetxattrReply::Count(value.len() as u32)),
            room if room < value.len() => Err(Errno::RANGE.into()),
            _ => Ok(GetxattrReply::Value(value)),
        }
    }

    pub(super) fn list_extras(&self, ctx: &Context, node: u64, size: u32) -> io::Result<ListxattrReply> {
        let place = self.extras(node)?;
        let mut names = Vec::with_capacity(LONGEST);
        listxattr(path(&place), spare_capacity(&mut names))?;
        let shown = |name: &&[u8]| {
            let bare = name.strip_suffix(b"\0").unwrap_or(name);
            !self.arrivals.hides_extra(bare) && (ctx.uid == 0 || !bare.starts_with(TRUSTED))
        };
        let names: Vec<u8> = names.split_inclusive(|&byte| byte == 0).filter(shown).flatten().copied().collect();
        if size == 0 {
            Ok(ListxattrReply::Count(names.len() as u32))
        } else if names.len() > size as usize {
            Err(Errno::RANGE.into())
        } else {
            Ok(ListxattrReply::Names(names))
        }
    }

    pub(super) fn set_extra(&self, ctx: &Context, node: u64, new: &NewAttribute<'_>) -> io::Result<()> {
        if self.arrivals.hides_extra(new.name.to_bytes()) {
            return Err(Errno::PERM.into());
        }
        let is_dosattrib = new.name.to_bytes() == offline::NAME;
        let unmarked = if is_dosattrib { offline::without_mark(new.value) } else { None };
        let value = unmarked.as_deref().unwrap_or(new.value);
        caller::root()?;
        let place = self.place(node)?;
        self.change_extras(&place, || {
            if new.clears_set_group_id {
                caller::writer(ctx, true)?;
            }
            let done = setxattr(path(&place), new.name, value, XattrFlags::from_bits_retain(new.flags));
            caller::root()?;
            Ok(done?)
        })
    }

    pub(super) fn remove_extra(&self, node: u64, name: &CStr) -> io::Result<()> {
        self.refuse_hidden(name)?;
        caller::root()?;
        let place = self.place(node)?;
        self.change_extras(&place, || Ok(removexattr(path(&place), name)?))
    }
}
