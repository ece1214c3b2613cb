//! The generation of an inode of xfs, which gives no object without it. As `linux/xfs_fs.h` has it.

#![allow(unsafe_code, reason = "the kernel is asked in its own form")]

use std::os::fd::BorrowedFd;

use rustix::io::{Errno, Result};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// `struct xfs_bulkstat_req` with one record.
#[repr(C)]
struct Request {
    first: u64,
    flags: u32,
    room: u32,
    found: u32,
    group: u32,
    reserved: [u64; 5],
    record: Record,
}

/// `struct xfs_bulkstat`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Record {
    number: u64,
    sizes: [u64; 3],
    times: [u64; 4],
    generation: u32,
    others: [u32; 31],
}

const _: () = assert!(size_of::<Record>() == 192 && size_of::<Request>() == 64 + 192, "the sizes of the kernel's own");

/// The kernel counts the request without its records.
const BULKSTAT: Opcode = opcode::read::<[u8; 64]>(b'X', 127);

/// The generation of the object that has a number now.
pub(super) fn generation(root: BorrowedFd<'_>, number: u64) -> Result<u64> {
    let record = Record { number: 0, sizes: [0; 3], times: [0; 4], generation: 0, others: [0; 31] };
    let mut request = Request { first: number, flags: 0, room: 1, found: 0, group: 0, reserved: [0; 5], record };
    // SAFETY: the kernel reads and writes a request, and no more records behind it than `room` says.
    unsafe { ioctl(root, Updater::<BULKSTAT, Request>::new(&mut request)) }?;
    // It gives the first that is there from that number on.
    if request.found == 1 && request.record.number == number {
        Ok(request.record.generation.into())
    } else {
        Err(Errno::STALE)
    }
}
