//! Bytes: reading, writing, allocating, and what must be durable before it is answered.

use std::io;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fuse_backend_rs::abi::fuse_abi::stat64;
use fuse_backend_rs::api::filesystem::{SetattrValid, ZeroCopyReader, ZeroCopyWriter};
use ishigaki_logpool::Durability;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use super::PoolFs;
use super::tree::FileNode;
use crate::attributes::PERMISSIONS;
use crate::errno::answer;

/// A file that a program has open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) node: Arc<FileNode>,
    /// As it was opened.
    flags: u32,
}

impl Open {
    pub(super) fn new(node: Arc<FileNode>, flags: u32) -> Self {
        Self { node, flags }
    }

    pub(super) fn flags(&self) -> u32 {
        self.flags
    }

    /// When a change is to be answered. `O_SYNC` has the bit of `O_DSYNC` in it.
    fn durability(&self, flags: u32) -> Durability {
        let durable = (self.flags | flags) & OFlags::DSYNC.bits() != 0;
        if durable { Durability::Now } else { Durability::Later }
    }
}

/// The most files that are open at a time.
const MOST_FILES: usize = 1 << 16;

/// The most bytes that one request reads or writes. The kernel asks for no more; a machine that is not trusted may.
const MOST_BYTES: u32 = 1 << 20;

fn buffer(size: u32) -> io::Result<Vec<u8>> {
    if size <= MOST_BYTES { Ok(vec![0; size as usize]) } else { Err(Errno::INVAL.into()) }
}

impl PoolFs {
    pub(super) fn take_handle(&self, node: Arc<FileNode>, flags: u32) -> u64 {
        let handle = self.handle();
        self.files.write().insert(handle, Arc::new(Open { node, flags }));
        handle
    }

    /// Whether one more file may be open. Some more are no harm, if several ask at once.
    pub(super) fn check_room(&self) -> io::Result<()> {
        if self.files.read().len() < MOST_FILES { Ok(()) } else { Err(Errno::NFILE.into()) }
    }

    pub(super) fn read_bytes(
        &self,
        handle: u64,
        writer: &mut dyn ZeroCopyWriter,
        size: u32,
        offset: u64,
    ) -> io::Result<usize> {
        let mut bytes = buffer(size)?;
        let open = self.open_file(handle)?;
        let read = open.node.file.read(offset, &mut bytes).map_err(answer)?;
        writer.write_all(&bytes[..read])?;
        Ok(read)
    }

    pub(super) fn write_bytes(
        &self,
        handle: u64,
        reader: &mut dyn ZeroCopyReader,
        size: u32,
        offset: u64,
        flags: u32,
    ) -> io::Result<usize> {
        let open = self.open_file(handle)?;
        let mut bytes = buffer(size)?;
        reader.read_exact(&mut bytes)?;
        open.node.file.write(offset, &bytes, open.durability(flags)).map_err(answer)?;
        *open.node.modified.lock() = self.calendar.now();
        Ok(bytes.len())
    }

    /// As `fallocate` does it. The kernel lets nobody else change the file meanwhile.
    pub(super) fn allocate(&self, handle: u64, mode: u32, offset: u64, length: u64) -> io::Result<()> {
        let open = self.open_file(handle)?;
        let (file, durability) = (&open.node.file, open.durability(0));
        let mode = FallocateFlags::from_bits_retain(mode);
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        if mode.is_empty() {
            // Space for what the file has is there already.
            if file.length().map_err(answer)? < end {
                file.truncate(end, durability).map_err(answer)?;
            }
        } else if mode == FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE
            || mode == FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE
        {
            file.zero(offset, length, true, durability).map_err(answer)?;
        } else if mode == FallocateFlags::ZERO_RANGE {
            file.zero(offset, length, false, durability).map_err(answer)?;
        } else {
            // Space behind the end of a file can not be set aside.
            return Err(Errno::OPNOTSUPP.into());
        }
        *open.node.modified.lock() = self.calendar.now();
        Ok(())
    }

    pub(super) fn change_attributes(
        &self,
        number: u64,
        wanted: &stat64,
        handle: Option<u64>,
        valid: SetattrValid,
    ) -> io::Result<()> {
        let now = self.attributes(number)?;
        let is_other_mode = valid.contains(SetattrValid::MODE) && (wanted.st_mode ^ now.mode()) & PERMISSIONS != 0;
        let is_other_user = valid.contains(SetattrValid::UID) && wanted.st_uid != self.access.user;
        let is_other_group = valid.contains(SetattrValid::GID) && wanted.st_gid != self.access.group;
        if is_other_mode || is_other_user || is_other_group {
            return Err(Errno::PERM.into());
        }
        let node = self.tree.lock().file(number)?;
        let Some(node) = node else {
            return if valid.contains(SetattrValid::SIZE) { Err(Errno::ISDIR.into()) } else { Ok(()) };
        };
        if valid.contains(SetattrValid::SIZE) {
            let open = handle.map(|handle| self.open_file(handle)).transpose()?;
            let durability = open.map_or(Durability::Later, |open| open.durability(0));
            let length = u64::try_from(wanted.st_size).map_err(|_| Errno::INVAL)?;
            node.file.truncate(length, durability).map_err(answer)?;
            *node.modified.lock() = self.calendar.now();
        }
        if valid.contains(SetattrValid::MTIME_NOW) {
            *node.modified.lock() = self.calendar.now();
        } else if valid.contains(SetattrValid::MTIME) {
            let seconds = u64::try_from(wanted.st_mtime).unwrap_or_default();
            let nanoseconds = u32::try_from(wanted.st_mtime_nsec).unwrap_or_default().min(999_999_999);
            *node.modified.lock() = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        }
        Ok(())
    }
}
