//! What is asked of the loop driver, as `linux/loop.h` has it.

#![allow(unsafe_code, reason = "the kernel is asked in its own form")]

use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Result;
use rustix::ioctl::{Getter, Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl};

const CLEAR: Opcode = 0x4C01;
const GET_STATUS: Opcode = 0x4C05;
const CONFIGURE: Opcode = 0x4C0A;
const GET_FREE: Opcode = 0x4C82;

/// Reads and writes go past the page cache of the file.
const DIRECT: u32 = 16;

/// What a device is told of its file, and tells again.
pub(super) type Name = [[u8; 32]; 2];

/// `struct loop_info64`.
#[repr(C)]
#[derive(Default)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: Name,
    crypt_name: [[u8; 32]; 2],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    file: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Info>() == 232 && size_of::<Config>() == 304, "the sizes of the kernel's own");

/// Asks for the number of a free device.
struct GetFree;

// SAFETY: the driver takes no argument and answers by the value that it returns.
unsafe impl Ioctl for GetFree {
    type Output = IoctlOutput;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        GET_FREE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> Result<Self::Output> {
        Ok(out)
    }
}

/// The number of a device that nobody has.
pub(super) fn free_device(control: BorrowedFd<'_>) -> Result<i32> {
    // SAFETY: nothing is given to the kernel, and nothing taken but a number.
    unsafe { ioctl(control, GetFree) }
}

/// Attaches a file that was opened for direct I/O, in blocks of that many bytes. The driver keeps the name, whose last byte is zero.
pub(super) fn configure(device: BorrowedFd<'_>, file: BorrowedFd<'_>, block_size: u32, name: Name) -> Result<()> {
    let config = Config {
        file: file.as_raw_fd().cast_unsigned(),
        block_size,
        info: Info { flags: DIRECT, file_name: name, ..Info::default() },
        reserved: [0; 8],
    };
    // SAFETY: the driver reads a `struct loop_config`, which this is, and keeps no pointer to it.
    unsafe { ioctl(device, Setter::<CONFIGURE, Config>::new(config)) }
}

/// The name that was given with the file.
pub(super) fn name(device: BorrowedFd<'_>) -> Result<Name> {
    // SAFETY: the driver writes a `struct loop_info64`, which this is; all its bytes may have any value.
    unsafe { ioctl(device, Getter::<GET_STATUS, Info>::new()) }.map(|info: Info| info.file_name)
}

/// Detaches the file, or lets the device's last user do it.
pub(super) fn clear(device: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: there is no argument.
    unsafe { ioctl(device, NoArg::<CLEAR>::new()) }
}
