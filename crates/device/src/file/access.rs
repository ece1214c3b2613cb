//! Opening a path, past the page cache if it can be, and finding out what it promises.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::queue::Queue;
use crate::request::is_block_size;
use crate::{AlignedBuffer, MAX_BLOCK_SIZE, Promise, SECTOR};

/// Whether the operating system keeps what was read and written in its page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caching {
    /// Transfers go to the medium itself.
    Avoided,
    /// Transfers go through the page cache.
    Used,
}

/// What may be done with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only reading.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

impl Access {
    fn flags(self) -> OFlags {
        match self {
            Self::ReadOnly => OFlags::RDONLY,
            Self::ReadWrite => OFlags::RDWR,
        }
    }
}

/// Opens a path. Falls back to the page cache where the file system refuses to go without.
pub(super) fn open(
    directory: impl AsFd,
    path: &Path,
    flags: OFlags,
    access: Access,
    wanted: Caching,
) -> rustix::io::Result<(OwnedFd, Caching)> {
    let open = |flags| rustix::fs::openat(directory.as_fd(), path, flags, Mode::RUSR | Mode::WUSR);
    let flags = flags | access.flags() | OFlags::CLOEXEC;
    let mut again = flags;
    if wanted == Caching::Avoided {
        match open(flags | OFlags::DIRECT) {
            Ok(file) if can_be_direct(&file) => return Ok((file, Caching::Avoided)),
            // Closed before it is opened again, or an exclusive opening would find itself in the way.
            Ok(file) => drop(file),
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
        if flags.contains(OFlags::CREATE) {
            // A file system may make the file before it finds out that it can not open it so: then it is there already.
            again.remove(OFlags::EXCL);
        }
    }
    Ok((open(again)?, Caching::Used))
}

/// Whether an operating system says by it that nothing can be written there.
pub(super) fn is_read_only(errno: Errno) -> bool {
    matches!(errno, Errno::ROFS | Errno::ACCESS | Errno::PERM)
}

/// Whether a file was opened for reading alone.
pub(super) fn only_reads(file: &OwnedFd) -> bool {
    rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDONLY)
}

/// Says that the page cache is in the way.
pub(super) fn warn_about_cache(path: &Path) {
    tracing::warn!(
        path = %path.display(),
        "the file system refuses direct I/O; reads and writes go through the page cache, which costs memory and speed, \
         not durability"
    );
}

/// False where the kernel says that direct transfers are impossible or need larger blocks than we know.
fn can_be_direct(file: &OwnedFd) -> bool {
    match told_alignment(file) {
        Some(alignment) => is_block_size(alignment),
        None => true,
    }
}

/// The alignment of direct transfers, where the kernel tells it (Linux 6.1 and later, most file systems). 0: impossible.
fn told_alignment(file: &OwnedFd) -> Option<usize> {
    let status = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    if !StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::DIOALIGN) {
        return None;
    }
    match status.stx_dio_offset_align {
        0 => Some(0),
        offset => Some((offset.max(status.stx_dio_mem_align) as usize).max(SECTOR)),
    }
}

/// What a new, still empty file promises. Leaves it with any length and any content.
pub(super) fn promise_of_new(file: &OwnedFd, caching: Caching) -> rustix::io::Result<Promise> {
    let block_size = match (caching, told_alignment(file)) {
        (Caching::Used, _) => SECTOR,
        (Caching::Avoided, Some(alignment)) => alignment,
        (Caching::Avoided, None) => {
            rustix::fs::ftruncate(file, MAX_BLOCK_SIZE as u64)?;
            let sector = &AlignedBuffer::zeroed(SECTOR)[..];
            tried_alignment(|| rustix::io::pwrite(file, sector, SECTOR as u64))?
        }
    };
    Ok(promise(file, block_size, caching, can_punch(file, MAX_BLOCK_SIZE as u64)))
}

/// What a file of that length promises.
pub(super) fn promise_of_file(file: &OwnedFd, length: u64, caching: Caching) -> rustix::io::Result<Promise> {
    let block_size = match (caching, told_alignment(file)) {
        (Caching::Used, _) => SECTOR,
        (Caching::Avoided, Some(alignment)) => alignment,
        (Caching::Avoided, None) => {
            let mut sector = AlignedBuffer::zeroed(SECTOR);
            let offset = if length >= 2 * SECTOR as u64 { SECTOR as u64 } else { 0 };
            tried_alignment(|| rustix::io::pread(file, &mut sector[..], offset))?
        }
    };
    // The trial would change when the file was written last.
    Ok(promise(file, block_size, caching, !only_reads(file) && can_punch(file, length)))
}

/// What a raw block device promises.
pub(super) fn promise_of_raw(file: &OwnedFd, caching: Caching) -> rustix::io::Result<Promise> {
    let block_size = match caching {
        Caching::Used => SECTOR,
        Caching::Avoided => rustix::fs::ioctl_blksszget(file)? as usize,
    };
    if !is_block_size(block_size) {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(promise(file, block_size, caching, Queue::of(file)?.discards()))
}

fn promise(file: &OwnedFd, block_size: usize, caching: Caching, trim: bool) -> Promise {
    let direct = caching == Caching::Avoided;
    Promise { block_size, atomic_write: if direct { told_atomic_write(file) } else { SECTOR }, direct, trim }
}

/// How much the kernel would write whole or not at all when it is told to (`RWF_ATOMIC`; Linux 6.11 and later, on drives
/// that promise it). A medium with larger sectors may write more at once, but without this nobody says so in a way to
/// rely on.
fn told_atomic_write(file: &OwnedFd) -> usize {
    let Ok(status) = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, STATX_WRITE_ATOMIC) else { return SECTOR };
    if !StatxFlags::from_bits_retain(status.stx_mask).contains(STATX_WRITE_ATOMIC) {
        return SECTOR;
    }
    atomic_write(status.stx_atomic_write_unit_min as usize, status.stx_atomic_write_unit_max as usize)
}

/// What can be promised when the kernel takes powers of two from `least` to `most`.
fn atomic_write(least: usize, most: usize) -> usize {
    if (1..=MAX_BLOCK_SIZE).contains(&least) && most >= MAX_BLOCK_SIZE && most.is_power_of_two() {
        most
    } else {
        SECTOR
    }
}

/// `STATX_WRITE_ATOMIC` of `linux/stat.h`.
const STATX_WRITE_ATOMIC: StatxFlags = StatxFlags::from_bits_retain(0x0001_0000);

/// The block size of a kernel that does not tell it: a sector if a transfer that is aligned to sectors only is taken.
fn tried_alignment(transfer: impl FnOnce() -> rustix::io::Result<usize>) -> rustix::io::Result<usize> {
    match transfer() {
        Ok(_) => Ok(SECTOR),
        Err(Errno::INVAL) => Ok(MAX_BLOCK_SIZE),
        Err(errno) => Err(errno),
    }
}

/// Whether holes can be punched: tried behind the end of the file, where there is nothing to lose.
fn can_punch(file: &OwnedFd, length: u64) -> bool {
    let end = length.next_multiple_of(MAX_BLOCK_SIZE as u64);
    rustix::fs::fallocate(file, PUNCH, end, MAX_BLOCK_SIZE as u64).is_ok()
}

/// How space is given back: the range reads as zeros, the length stays.
pub(super) const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_atomic_writes_that_reach_from_a_block_upwards_are_promised() {
        assert_eq!(atomic_write(512, 65536), 65536);
        assert_eq!(atomic_write(4096, 4096), 4096);
        for (least, most) in [(0, 0), (512, 512), (512, 2048), (8192, 65536), (4096, 5000)] {
            assert_eq!(atomic_write(least, most), SECTOR, "{least} to {most}");
        }
    }
}
