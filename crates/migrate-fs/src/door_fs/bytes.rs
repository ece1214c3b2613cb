//! Opens files, reads and writes those that are served, and makes durable.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fuse_backend_rs::abi::fuse_abi::FOPEN_IN_KILL_SUIDGID;
use fuse_backend_rs::api::filesystem::{Context, Entry, ZeroCopyReader, ZeroCopyWriter};
use ishigaki_fuse::{Copy, Opened};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, Statx, copy_file_range, fallocate, seek};
use rustix::io::Errno;

use super::{AT_ONCE, DoorFs, Held, Place};
use crate::arrivals::Change;
use crate::caller;
use crate::opens::{Handle, Open, options};
use crate::volume::{self, Identity};

/// Where data and holes are, for `lseek`.
const DATA: u32 = 3;
const HOLE: u32 = 4;

thread_local! {
    /// What is read or written.
    static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl DoorFs {
    pub(super) fn open_file(&self, ctx: &Context, node: u64, flags: u32, fuse_flags: u32) -> io::Result<Opened> {
        caller::any()?;
        let truncates = OFlags::from_bits_retain(flags).contains(OFlags::TRUNC);
        let is_normal = if self.is_whole(node) && !truncates {
            true
        } else {
            let place = self.place(node)?;
            if truncates {
                let clears = fuse_flags & FOPEN_IN_KILL_SUIDGID != 0;
                let bits = Bits::of(&place, clears)?;
                self.resize(ctx, &place, 0, clears)?;
                self.cleared(node, bits);
            }
            self.is_normal(&place)?
        };
        if is_normal && writes(flags) {
            // The kernel writes by itself what is passed through.
            drop(self.nodes.changes(node));
        }
        let asks = is_normal && writes(flags) && has_set_ids(&volume::attributes(&self.place(node)?)?);
        if !is_normal {
            // A file of which something is missing after all is not passed through because it was.
            self.opens.forget(node, self.connection.get());
        }
        let opened = self.opened(node, flags, asks, || {
            if !is_normal {
                return Ok(None);
            }
            let file = self.open_node(node, OFlags::RDONLY);
            self.pass(file.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?)
        })?;
        if opened.backing.is_none()
            && let Err(error) = self.file_of(node, Handle(opened.handle))
        {
            self.close(node, Handle(opened.handle));
            return Err(error);
        }
        Ok(opened)
    }

    fn opened(
        &self,
        node: u64,
        flags: u32,
        asks: bool,
        pass: impl FnOnce() -> rustix::io::Result<Option<u32>>,
    ) -> io::Result<Opened> {
        let (handle, backing) = self.opens.open(node, flags, pass)?;
        let caches = !self.passes.load(Ordering::Acquire);
        Ok(Opened { handle: handle.0, options: options(backing, asks, caches), backing })
    }

    /// Gives a file to the kernel, which reads and writes it from now on.
    fn pass(&self, file: impl AsFd) -> rustix::io::Result<Option<u32>> {
        let Some(connection) = self.connection.get() else { return Ok(None) };
        if !self.passes.load(Ordering::Acquire) {
            return Ok(None);
        }
        caller::passer()?;
        match connection.pass_through(file) {
            Ok(backing) => Ok(Some(backing)),
            Err(errno) => {
                tracing::warn!(%errno, "a file can not be passed through and is served, which is slower");
                Ok(None)
            }
        }
    }

    /// A file that was just made is opened: nothing of it is missing.
    pub(super) fn open_made(
        &self,
        (identity, found, made): (Identity, Statx, OwnedFd),
        flags: u32,
    ) -> io::Result<(Entry, Opened)> {
        let asks = writes(flags) && has_set_ids(&found);
        let opened = self.opened(identity.number, flags, asks, || self.pass(&made))?;
        let mut entry = self.entry(identity, &found);
        if Handle(opened.handle).may_map() {
            entry.attr_timeout = AT_ONCE;
        }
        if !self.nodes.is_orphan(identity.number) {
            self.hold(Place { number: identity.number, held: Held::Opened(made) }, &self.files);
        }
        Ok((entry, opened))
    }

    pub(super) fn close(&self, node: u64, handle: Handle) {
        // What has no name any more is to be freed when it is closed.
        self.opens.close(node, handle, self.connection.get(), || !self.nodes.is_orphan(node));
    }

    /// The destination's file of a handle.
    pub(super) fn file_of(&self, node: u64, handle: Handle) -> io::Result<Arc<Open>> {
        self.opens.file(handle, || {
            caller::any()?;
            self.open_node(node, handle.flags())
        })
    }

    pub(super) fn read_bytes(
        &self,
        (node, handle): (u64, Handle),
        to: &mut dyn ZeroCopyWriter,
        size: u32,
        offset: u64,
    ) -> io::Result<usize> {
        let open = self.file_of(node, handle)?;
        if !self.is_whole(node) {
            let place = self.place(node)?;
            self.bytes_needed(&place, offset, size.into())?;
        }
        BYTES.with_borrow_mut(|bytes| {
            bytes.clear();
            bytes.resize(size as usize, 0);
            let mut length = 0;
            while length < bytes.len() {
                match open.file.read_at(&mut bytes[length..], offset + length as u64) {
                    Ok(0) => break,
                    Ok(more) => length += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            to.write_all(&bytes[..length])?;
            Ok(length)
        })
    }

    fn bytes_needed(&self, file: &Place<'_>, offset: u64, length: u64) -> io::Result<()> {
        if self.is_normal(file)? {
            return Ok(());
        }
        caller::root()?;
        let range = offset..offset.saturating_add(length);
        Self::wait(|cancel| self.arrivals.bytes_needed(file.object(), range, cancel))
    }

    /// Changes a file's bytes, with what is missing of it taken into account.
    pub(super) fn change(
        &self,
        file: &Place<'_>,
        change: &Change,
        mut act: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let _changes = self.nodes.changes(file.number);
        if self.is_normal(file)? {
            return act();
        }
        caller::root()?;
        Self::wait(|cancel| self.arrivals.change(file.object(), change, cancel, &mut act))
    }

    /// Writes a range of a file's bytes, with what is missing of it taken into account. How many bytes the program is told of.
    fn write_range(
        &self,
        file: &Place<'_>,
        range: Range<u64>,
        mut act: impl FnMut() -> io::Result<u64>,
    ) -> io::Result<u64> {
        let _changes = self.nodes.changes(file.number);
        if self.is_normal(file)? {
            return act();
        }
        caller::root()?;
        let mut written = 0;
        let mut act = || {
            written = act()?;
            Ok(written)
        };
        let told = Self::wait(|cancel| self.arrivals.write(file.object(), range.clone(), cancel, &mut act))?;
        // A part of a block that is not here is not kept.
        if told == 0 && written > 0 { Err(Errno::NOSPC.into()) } else { Ok(told) }
    }

    pub(super) fn write_bytes(
        &self,
        ctx: &Context,
        (node, handle): (u64, Handle),
        from: &mut dyn ZeroCopyReader,
        (size, offset): (u32, u64),
        clears: bool,
    ) -> io::Result<usize> {
        let open = self.file_of(node, handle)?;
        BYTES.with_borrow_mut(|bytes| {
            bytes.clear();
            bytes.resize(size as usize, 0);
            from.read_exact(bytes)?;
            let range = offset..offset.saturating_add(size.into());
            let bits = Bits::of(&open.file, clears)?;
            let _changes = self.nodes.changes(node);
            let act = || {
                caller::writer(ctx, clears)?;
                let written = write_at(&open.file, bytes, offset);
                self.back()?;
                written
            };
            let told = if self.is_whole(node) { act() } else { self.write_range(&self.place(node)?, range, act) }?;
            self.cleared(node, bits);
            Ok(told as usize)
        })
    }

    pub(super) fn make_durable(&self, node: u64, handle: Handle, only_data: bool) -> io::Result<()> {
        let open = self.file_of(node, handle)?;
        if only_data { open.file.sync_data() } else { open.file.sync_all() }
    }

    pub(super) fn allocate(
        &self,
        ctx: &Context,
        (node, handle): (u64, Handle),
        mode: u32,
        (offset, length): (u64, u64),
    ) -> io::Result<()> {
        let open = self.file_of(node, handle)?;
        let mode = FallocateFlags::from_bits_retain(mode);
        let range = offset..offset.checked_add(length).ok_or(Errno::FBIG)?;
        let change = if mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            Change::Zero(range)
        } else if mode.intersects(FallocateFlags::COLLAPSE_RANGE | FallocateFlags::INSERT_RANGE) {
            // All that follows moves.
            return Err(Errno::OPNOTSUPP.into());
        } else {
            Change::Reserve(range)
        };
        let bits = Bits::of(&open.file, ctx.uid != 0)?;
        self.change(&self.place(node)?, &change, || {
            caller::writer(ctx, ctx.uid != 0)?;
            let done = fallocate(&open.file, mode, offset, length);
            self.back()?;
            Ok(done?)
        })?;
        self.cleared(node, bits);
        Ok(())
    }

    /// The kernel is told that the bits went, of which it does not think by itself.
    fn cleared(&self, node: u64, bits: Bits) {
        if let (Bits::Go, Some(connection)) = (bits, self.connection.get()) {
            // It may not know the file any more.
            let _ = connection.forget_attributes(node);
        }
    }

    /// The next data or hole. What has not come yet counts as data.
    pub(super) fn seek(&self, (node, handle): (u64, Handle), offset: u64, whence: u32) -> io::Result<u64> {
        let open = self.file_of(node, handle)?;
        let place = self.place(node)?;
        if self.is_normal(&place)? {
            let to = match whence {
                DATA => SeekFrom::Data(offset),
                HOLE => SeekFrom::Hole(offset),
                _ => return Err(Errno::INVAL.into()),
            };
            return Ok(seek(&open.file, to)?);
        }
        let size = volume::attributes(&place)?.stx_size;
        if offset >= size {
            return Err(Errno::NXIO.into());
        }
        let mut hole = offset;
        loop {
            let data = self.arrivals.next_data(place.object(), hole)?.filter(|data| data.start < size);
            match (whence, data) {
                (DATA, Some(data)) => return Ok(data.start.max(offset)),
                (DATA, None) => return Err(Errno::NXIO.into()),
                (HOLE, Some(data)) if data.start <= hole && data.end > hole => {
                    hole = data.end;
                    if hole >= size {
                        return Ok(size);
                    }
                }
                (HOLE, _) => return Ok(hole),
                _ => return Err(Errno::INVAL.into()),
            }
        }
    }

    pub(super) fn copy_bytes(&self, ctx: &Context, copy: &Copy) -> io::Result<u64> {
        let from = self.file_of(copy.from.0, Handle(copy.from.1))?;
        let to = self.file_of(copy.to.0, Handle(copy.to.1))?;
        let source = self.place(copy.from.0)?;
        let size = volume::attributes(&source)?.stx_size;
        let length = copy.length.min(size.saturating_sub(copy.from_offset));
        if length == 0 {
            return Ok(0);
        }
        self.bytes_needed(&source, copy.from_offset, length)?;
        let end = copy.to_offset.checked_add(length).ok_or(Errno::FBIG)?;
        let bits = Bits::of(&to.file, ctx.uid != 0)?;
        let target = self.place(copy.to.0)?;
        // A hole in a file that is not yet whole says that its bytes are still to come.
        let keeps_holes = self.is_normal(&target)?;
        let copied = self.write_range(&target, copy.to_offset..end, || {
            caller::writer(ctx, ctx.uid != 0)?;
            let copied = if keeps_holes {
                copy_all(&from.file, &to.file, copy, length)
            } else {
                write_all(&from.file, &to.file, copy, length)
            };
            self.back()?;
            copied
        })?;
        self.cleared(copy.to.0, bits);
        Ok(copied)
    }
}

/// Whether a program opens a file to write it.
fn writes(flags: u32) -> bool {
    flags & OFlags::ACCMODE.bits() != OFlags::RDONLY.bits()
}

/// Whether a file has bits that a write by some programs takes, and by others does not. What is passed through the kernel writes by one set of rights
/// for all programs, so those that write such a file do it by requests, each of which says by whose rights.
fn has_set_ids(found: &Statx) -> bool {
    found.stx_mode & 0o6000 != 0
}

/// What becomes of a file's set-user-ID and set-group-ID bits when it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bits {
    /// It has none, or they stay.
    Stay,
    Go,
}

impl Bits {
    fn of(file: impl AsFd, clears: bool) -> io::Result<Self> {
        let goes = clears && has_set_ids(&volume::attributes(file)?);
        Ok(if goes { Self::Go } else { Self::Stay })
    }
}

/// Writes all of it, or what there is room for: a failure behind the first bytes is told with the next write.
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<u64> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], offset + written as u64) {
            Ok(0) => break,
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if written == 0 => return Err(error),
            Err(_) => break,
        }
    }
    if written == 0 && !bytes.is_empty() { Err(Errno::NOSPC.into()) } else { Ok(written as u64) }
}

/// Copies all of it, and writes the zeros of holes. As much as could be copied, if anything could.
fn write_all(from: &File, to: &File, copy: &Copy, length: u64) -> io::Result<u64> {
    let mut bytes = vec![0; length.min(1 << 20) as usize];
    let mut copied = 0;
    while copied < length {
        let most = (length - copied).min(bytes.len() as u64) as usize;
        match from.read_at(&mut bytes[..most], copy.from_offset + copied) {
            Ok(0) => break,
            Ok(more) => match write_at(to, &bytes[..more], copy.to_offset + copied) {
                Ok(written) => {
                    copied += written;
                    if written < more as u64 {
                        break;
                    }
                }
                Err(error) if copied == 0 => return Err(error),
                Err(_) => break,
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if copied == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(copied)
}

/// Copies all of it, or as much as could be copied. File systems may share blocks, and holes.
fn copy_all(from: &File, to: &File, copy: &Copy, length: u64) -> io::Result<u64> {
    let (mut from_offset, mut to_offset) = (copy.from_offset, copy.to_offset);
    let mut copied = 0;
    while copied < length {
        let most = usize::try_from(length - copied).unwrap_or(usize::MAX).min(1 << 30);
        match copy_file_range(from, Some(&mut from_offset), to, Some(&mut to_offset), most) {
            Ok(0) => break,
            Ok(more) => copied += more as u64,
            Err(Errno::INTR) => {}
            Err(errno) if copied == 0 => return Err(errno.into()),
            Err(_) => break,
        }
    }
    Ok(copied)
}
