//! The file system of a disk: a folder with a file that is the disk, and with two more if it is an emulated one.

use std::ffi::CStr;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fuse_backend_rs::abi::fuse_abi::stat64;
use fuse_backend_rs::api::filesystem::{
    Context, DirEntry, Entry, FileSystem, FsOptions, OpenOptions, SetattrValid, ZeroCopyReader, ZeroCopyWriter,
};
use ishigaki_device::{AlignedBuffer, Device, Drive, Error, SECTOR};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use crate::control::{self, POWER, STATUS, Switch};

/// The name of the file that is the disk.
pub(crate) const DISK: &str = "disk";

/// For how long the kernel may believe what it was told: nothing of it changes.
const BELIEF: Duration = Duration::from_hours(1);

const ROOT_NUMBER: u64 = 1;
const DISK_NUMBER: u64 = 2;
const POWER_NUMBER: u64 = 3;
const STATUS_NUMBER: u64 = 4;

/// Names, numbers and modes.
const FILES: [(&str, u64, u32); 3] =
    [(DISK, DISK_NUMBER, 0o100_600), (POWER, POWER_NUMBER, 0o100_600), (STATUS, STATUS_NUMBER, 0o100_400)];

const DIRECTORY: u32 = 0o040_700;

/// Kinds of files in a listing.
const KIND_FILE: u32 = 8;
const KIND_DIRECTORY: u32 = 4;

/// In what `st_blocks` counts.
const UNIT: u64 = 512;

/// The longest that is written to a file that is not the disk.
const LONGEST_WORD: u32 = 256;

/// One device as a file, and of a drive two small ones beside it.
pub(crate) struct DiskFs {
    device: Arc<dyn Device>,
    drive: Option<Arc<Drive>>,
}

impl DiskFs {
    /// Of a drive.
    pub(crate) fn of_drive(drive: Arc<Drive>) -> Self {
        Self { device: drive.clone(), drive: Some(drive) }
    }

    /// Of any device.
    pub(crate) fn of_device(device: Arc<dyn Device>) -> Self {
        Self { device, drive: None }
    }

    /// Bytes of a block of the disk.
    pub(crate) fn block_size(&self) -> usize {
        self.device.promise().block_size
    }

    fn drive(&self) -> io::Result<&Drive> {
        self.drive.as_deref().ok_or_else(|| Errno::BADF.into())
    }

    /// The files that there are.
    fn files(&self) -> &'static [(&'static str, u64, u32)] {
        if self.drive.is_some() { &FILES } else { &FILES[..1] }
    }

    fn attributes(&self, number: u64) -> io::Result<stat64> {
        let mode = match self.files().iter().find(|(_, known, _)| *known == number) {
            Some((_, _, mode)) => *mode,
            None if number == ROOT_NUMBER => DIRECTORY,
            None => return Err(Errno::NOENT.into()),
        };
        // All zero.
        let mut stat = Entry::default().attr;
        stat.st_ino = number;
        stat.st_mode = mode;
        stat.st_nlink = if number == ROOT_NUMBER { 2 } else { 1 };
        stat.st_blksize = SECTOR as i64;
        (stat.st_uid, stat.st_gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        if number == DISK_NUMBER {
            stat.st_size = self.device.len() as i64;
            stat.st_blocks = self.device.len().div_ceil(UNIT) as i64;
        }
        Ok(stat)
    }

    fn read_disk(&self, writer: &mut dyn ZeroCopyWriter, size: u32, offset: u64) -> io::Result<usize> {
        let there = self.device.len().saturating_sub(offset).min(size.into());
        let mut bytes = AlignedBuffer::zeroed(there as usize);
        self.device.read_at(offset, &mut bytes).map_err(answer)?;
        writer.write_all(&bytes)?;
        Ok(bytes.len())
    }

    fn write_disk(&self, reader: &mut dyn ZeroCopyReader, size: u32, offset: u64, flags: u32) -> io::Result<usize> {
        if offset.checked_add(size.into()).is_none_or(|end| end > self.device.len()) {
            return Err(Errno::NOSPC.into());
        }
        let mut bytes = AlignedBuffer::zeroed(size as usize);
        reader.read_exact(&mut bytes)?;
        // `O_SYNC` has the bit of `O_DSYNC` in it.
        let written = if flags & OFlags::DSYNC.bits() != 0 {
            self.device.write_durable(offset, &bytes)
        } else {
            self.device.write_at(offset, &bytes)
        };
        written.map_err(answer)?;
        Ok(bytes.len())
    }

    fn switch(&self, reader: &mut dyn ZeroCopyReader, size: u32) -> io::Result<usize> {
        let drive = self.drive()?;
        let mut text = vec![0; size.min(LONGEST_WORD) as usize];
        reader.read_exact(&mut text)?;
        Switch::read(&text).filter(|_| size <= LONGEST_WORD).ok_or(Errno::INVAL)?.apply(drive);
        Ok(text.len())
    }
}

/// What an error of the drive is for a program.
#[expect(clippy::needless_pass_by_value, reason = "as errors are mapped")]
fn answer(error: Error) -> io::Error {
    match error {
        Error::Invalid { .. } => Errno::INVAL,
        Error::NoSpace { .. } => {
            tracing::error!("there is no more room for what is written to the disk");
            Errno::NOSPC
        }
        _ => Errno::IO,
    }
    .into()
}

/// The part of a small file that is asked for.
fn tell(text: &str, writer: &mut dyn ZeroCopyWriter, size: u32, offset: u64) -> io::Result<usize> {
    let begin = text.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
    let part = &text.as_bytes()[begin..text.len().min(begin.saturating_add(size as usize))];
    writer.write_all(part)?;
    Ok(part.len())
}

impl FileSystem for DiskFs {
    type Inode = u64;
    type Handle = u64;

    fn init(&self, capable: FsOptions) -> io::Result<FsOptions> {
        // Several direct requests at a time, each up to a megabyte.
        Ok(capable & (FsOptions::BIG_WRITES | FsOptions::MAX_PAGES | FsOptions::ASYNC_DIO))
    }

    fn lookup(&self, _: &Context, parent: u64, name: &CStr) -> io::Result<Entry> {
        let file = self.files().iter().find(|(known, ..)| parent == ROOT_NUMBER && name.to_bytes() == known.as_bytes());
        let (_, number, _) = *file.ok_or(Errno::NOENT)?;
        let attr = self.attributes(number)?;
        Ok(Entry { inode: number, attr, attr_timeout: BELIEF, entry_timeout: BELIEF, ..Entry::default() })
    }

    fn getattr(&self, _: &Context, inode: u64, _: Option<u64>) -> io::Result<(stat64, Duration)> {
        Ok((self.attributes(inode)?, BELIEF))
    }

    fn setattr(
        &self,
        _: &Context,
        inode: u64,
        _: stat64,
        _: Option<u64>,
        valid: SetattrValid,
    ) -> io::Result<(stat64, Duration)> {
        let is_fixed = SetattrValid::MODE | SetattrValid::UID | SetattrValid::GID;
        // A shell truncates what it writes to; a disk keeps its size.
        if valid.intersects(is_fixed) || inode != POWER_NUMBER && valid.contains(SetattrValid::SIZE) {
            return Err(Errno::PERM.into());
        }
        Ok((self.attributes(inode)?, BELIEF))
    }

    fn open(&self, _: &Context, inode: u64, _: u32, _: u32) -> io::Result<(Option<u64>, OpenOptions, Option<u32>)> {
        Ok((Some(inode), OpenOptions::DIRECT_IO, None))
    }

    fn read(
        &self,
        _: &Context,
        inode: u64,
        _: u64,
        w: &mut dyn ZeroCopyWriter,
        size: u32,
        offset: u64,
        _: Option<u64>,
        _: u32,
    ) -> io::Result<usize> {
        match inode {
            DISK_NUMBER => self.read_disk(w, size, offset),
            POWER_NUMBER => tell(&control::power_text(self.drive()?), w, size, offset),
            STATUS_NUMBER => tell(&control::status_text(self.drive()?), w, size, offset),
            _ => Err(Errno::BADF.into()),
        }
    }

    fn write(
        &self,
        _: &Context,
        inode: u64,
        _: u64,
        r: &mut dyn ZeroCopyReader,
        size: u32,
        offset: u64,
        _: Option<u64>,
        _: bool,
        flags: u32,
        _: u32,
    ) -> io::Result<usize> {
        match inode {
            DISK_NUMBER => self.write_disk(r, size, offset, flags),
            POWER_NUMBER => self.switch(r, size),
            _ => Err(Errno::BADF.into()),
        }
    }

    fn fsync(&self, _: &Context, inode: u64, _: bool, _: u64) -> io::Result<()> {
        if inode == DISK_NUMBER { self.device.sync().map_err(answer) } else { Ok(()) }
    }

    fn fallocate(&self, _: &Context, inode: u64, _: u64, mode: u32, offset: u64, length: u64) -> io::Result<()> {
        let mode = FallocateFlags::from_bits_retain(mode);
        let makes_zeros =
            [FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE].map(|way| way | FallocateFlags::KEEP_SIZE);
        if inode != DISK_NUMBER || !makes_zeros.contains(&mode) {
            return Err(Errno::OPNOTSUPP.into());
        }
        // The kernel asks for both in this way, and there must be zeros then.
        self.device.zero(offset, length).map_err(answer)
    }

    fn opendir(&self, _: &Context, inode: u64, _: u32) -> io::Result<(Option<u64>, OpenOptions)> {
        if inode == ROOT_NUMBER { Ok((None, OpenOptions::empty())) } else { Err(Errno::NOTDIR.into()) }
    }

    fn readdir(
        &self,
        _: &Context,
        _: u64,
        _: u64,
        _: u32,
        offset: u64,
        add_entry: &mut dyn FnMut(DirEntry<'_>) -> io::Result<usize>,
    ) -> io::Result<()> {
        let folders = [(".", ROOT_NUMBER, KIND_DIRECTORY), ("..", ROOT_NUMBER, KIND_DIRECTORY)];
        let files = self.files().iter().map(|(name, number, _)| (*name, *number, KIND_FILE));
        for ((name, ino, type_), next) in folders.into_iter().chain(files).zip(1..).skip(offset as usize) {
            if add_entry(DirEntry { ino, offset: next, type_, name: name.as_bytes() })? == 0 {
                break;
            }
        }
        Ok(())
    }
}
