//! Where the kernel says that a file lies, as `linux/fiemap.h` has it.

#![allow(unsafe_code, reason = "the kernel is asked in its own form")]

use std::ffi::c_void;
use std::fs::File;
use std::io;

use ishigaki_prefetch::Extent;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

/// Extents that are asked for at a time.
const AT_A_TIME: usize = 128;

/// The last extent of its file.
const LAST: u32 = 0x1;
/// Extents whose place is not known, or has not these bytes on the disk: unknown, delayed, encoded, encrypted, inline, tail.
const NOWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x200 | 0x400;
/// Space that was never written.
const UNWRITTEN: u32 = 0x800;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Found {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more: [u32; 3],
}

/// `struct fiemap`, with room for extents.
#[repr(C)]
struct Question {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [Found; AT_A_TIME],
}

/// The head alone, whose size is in the request's number.
#[repr(C)]
struct Head([u64; 4]);

const _: () = assert!(size_of::<Found>() == 56 && size_of::<Head>() == 32, "the sizes of the kernel's own");

/// `FS_IOC_FIEMAP`.
struct Map<'a>(&'a mut Question);

// SAFETY: the kernel reads the head, and writes the head and as many extents as `room` says, which there are.
unsafe impl Ioctl for Map<'_> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<Head>(b'f', 11)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// The extents of a file that are on its disk, in the order of the file; neighbours are one.
pub(crate) fn extents(file: &File) -> io::Result<Vec<Extent>> {
    let mut all: Vec<Extent> = Vec::new();
    let mut start = 0;
    loop {
        let mut question = Question {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped: 0,
            room: AT_A_TIME as u32,
            reserved: 0,
            extents: [Found::default(); AT_A_TIME],
        };
        // SAFETY: as above.
        unsafe { ioctl(file, Map(&mut question)) }?;
        let found = &question.extents[..(question.mapped as usize).min(AT_A_TIME)];
        let Some(last) = found.last() else { return Ok(all) };
        for one in found.iter().filter(|one| one.flags & (NOWHERE | UNWRITTEN) == 0) {
            let next = Extent { logical: one.logical, physical: one.physical, length: one.length };
            match all.last_mut() {
                Some(before)
                    if before.logical + before.length == next.logical
                        && before.physical + before.length == next.physical =>
                {
                    before.length += next.length;
                }
                _ => all.push(next),
            }
        }
        let end = last.logical.saturating_add(last.length);
        if last.flags & LAST != 0 || end <= start {
            return Ok(all);
        }
        start = end;
    }
}
