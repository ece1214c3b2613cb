//! Lists directories. A place in a listing is the destination's own, so that a listing goes on in another process.

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use fuse_backend_rs::api::filesystem::{DirEntry, Entry, OpenOptions};
use rustix::fs::{RawDir, SeekFrom, seek};
use rustix::io::Errno;

use super::{DoorFs, Held, Place, is_directory};
use crate::caller;
use crate::nodes::ROOT;
use crate::opens::{Handle, Open};

/// Bytes of names that are read at a time.
const BUFFER: usize = 64 << 10;

thread_local! {
    static NAMES: RefCell<Vec<MaybeUninit<u8>>> = const { RefCell::new(Vec::new()) };
}

impl DoorFs {
    pub(super) fn open_directory(&self, node: u64) -> io::Result<(Handle, OpenOptions)> {
        caller::any()?;
        let place = self.directory(node)?;
        self.names_needed(&place)?;
        let handle = self.opens.open_directory();
        self.opens.file(handle, || Ok(self.volume.reopen(place.as_fd(), handle.flags())?))?;
        // All changes of names come through the kernel.
        Ok((handle, OpenOptions::CACHE_DIR | OpenOptions::KEEP_CACHE))
    }

    /// Gives names from a place on, until `take` has room for no more.
    pub(super) fn list_names(
        &self,
        (node, handle): (u64, Handle),
        (size, offset): (u32, u64),
        take: &mut dyn FnMut(DirEntry<'_>) -> io::Result<usize>,
    ) -> io::Result<()> {
        let open = self.file_of(node, handle)?;
        names_from(&open, size, offset, &mut |listed| {
            if self.is_hidden_name(node, listed.name) { Ok(listed.name.len()) } else { take(listed) }
        })
    }

    /// The same with attributes, as far as they are here.
    pub(super) fn list_entries(
        &self,
        (node, handle): (u64, Handle),
        (size, offset): (u32, u64),
        take: &mut dyn FnMut(DirEntry<'_>, Entry) -> io::Result<usize>,
    ) -> io::Result<()> {
        caller::any()?;
        let open = self.file_of(node, handle)?;
        names_from(&open, size, offset, &mut |listed| {
            if self.is_hidden_name(node, listed.name) {
                return Ok(listed.name.len());
            }
            if matches!(listed.name, b"." | b"..") {
                return take(listed, Entry::default());
            }
            let mut name = listed.name.to_vec();
            name.push(0);
            let name = std::ffi::CStr::from_bytes_with_nul(&name).map_err(|_| Errno::INVAL)?;
            let Ok(found) = self.volume.find(&open.file, name) else {
                // It is gone meanwhile, or the root of another file system: the kernel asks for it if a program does.
                return take(listed, Entry::default());
            };
            let seen = if self.is_seen(found.0.number, Some(found.0.generation), &found.1) {
                found.1
            } else if is_directory(&found.1) {
                // Its names would be needed for that.
                return take(listed, Entry::default());
            } else {
                let held = Held::Opened(self.volume.place(found.0)?);
                self.seen(&Place { number: found.0.number, held }, found.1)?
            };
            // One that the kernel does not know yet is told its own time, which is kept from then on.
            let node = self.node_of(found.0);
            let seen = self.steady(node, seen);
            let room = take(listed, self.entry(found.0, &seen))?;
            if room > 0 {
                self.nodes.give(found.0);
                self.steady(node, seen);
            }
            Ok(room)
        })
    }

    fn is_hidden_name(&self, node: u64, name: &[u8]) -> bool {
        node == ROOT && self.arrivals.hides_name(name)
    }

    pub(super) fn make_names_durable(&self, node: u64, handle: Handle) -> io::Result<()> {
        self.file_of(node, handle)?.file.sync_all()
    }
}

/// Gives names from a place on, until `take` has room for no more.
fn names_from(
    open: &Open,
    size: u32,
    offset: u64,
    take: &mut dyn FnMut(DirEntry<'_>) -> io::Result<usize>,
) -> io::Result<()> {
    let _alone = open.listing.lock();
    seek(&open.file, SeekFrom::Start(offset))?;
    NAMES.with_borrow_mut(|buffer| {
        buffer.resize(BUFFER, MaybeUninit::uninit());
        let room = BUFFER.min((size as usize).max(4096));
        let mut names = RawDir::new(&open.file, &mut buffer[..room]);
        while let Some(name) = names.next() {
            let name = name?;
            let entry = DirEntry {
                ino: name.ino(),
                offset: name.next_entry_cookie(),
                // As listings have kinds.
                type_: name.file_type().as_raw_mode() >> 12,
                name: name.file_name().to_bytes(),
            };
            if take(entry)? == 0 {
                break;
            }
        }
        Ok(())
    })
}
