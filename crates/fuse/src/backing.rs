//! Files by which the kernel reads and writes itself, as `linux/fuse.h` has them.

#![allow(unsafe_code, reason = "the kernel is asked in its own form")]

use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};

use fuse_backend_rs::api::filesystem::OpenOptions;
use rustix::io::Result;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl, opcode};

/// `FOPEN_PASSTHROUGH`.
const OPTION: u32 = 1 << 7;

/// `struct fuse_backing_map`.
#[repr(C)]
struct Map {
    file: i32,
    flags: u32,
    padding: u64,
}

const _: () = assert!(size_of::<Map>() == 16, "the size of the kernel's own");

const OPEN: Opcode = opcode::write::<Map>(229, 1);
const CLOSE: Opcode = opcode::write::<u32>(229, 2);

struct Open(Map);

// SAFETY: the kernel reads a `Map` at the address, which is this one's for as long as the call takes, and answers by the value that it
// returns.
unsafe impl Ioctl for Open {
    type Output = IoctlOutput;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        OPEN
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> Result<Self::Output> {
        Ok(out)
    }
}

/// Gives a file to the kernel; by which number it is known there.
pub(crate) fn open(device: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Result<u32> {
    let map = Map { file: file.as_raw_fd(), flags: 0, padding: 0 };
    // SAFETY: the kernel reads a `Map`, as `OPEN` says, and both files are open.
    let number = unsafe { ioctl(device, Open(map)) }?;
    Ok(number.cast_unsigned())
}

/// Takes it back.
pub(crate) fn close(device: BorrowedFd<'_>, number: u32) -> Result<()> {
    // SAFETY: the kernel reads a `u32`, as `CLOSE` says.
    unsafe { ioctl(device, Setter::<CLOSE, u32>::new(number)) }
}

/// That a file is passed through. The library's set of options does not know it.
pub(crate) fn option() -> OpenOptions {
    // SAFETY: a set of options is a number, and every number is one; the library gives it to the kernel as it is.
    unsafe { OpenOptions::from_bits_unchecked(OPTION) }
}
