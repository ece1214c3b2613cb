//! File handles: how each file system makes them of an inode number and a generation.
//!
//! | file system | type | bytes |
//! |---|---|---|
//! | ext4 | 1 | number (4), generation (4) |
//! | xfs | 0x81 | number (8), generation (4); or as ext4 |
//! | btrfs | 0x4d | number (8), subvolume (8), generation (8) |

#![allow(unsafe_code, reason = "rustix has no file handles")]

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::{Errno, Result};

use super::Identity;

/// How a file system makes handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Ext,
    Xfs,
    Btrfs {
        /// The subvolume: inode numbers are its own.
        subvolume: u64,
    },
}

const EXT: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683E;

const SHORT: i32 = 1;
const LONG: i32 = 0x81;
const OF_SUBVOLUME: i32 = 0x4d;

/// The largest that any of them makes.
const LARGEST: usize = 40;

/// `struct file_handle`.
#[repr(C)]
struct Handle {
    size: u32,
    kind: i32,
    bytes: [u8; LARGEST],
}

/// Of an object by its name in a directory, or of the open one itself if the name is empty.
fn name_to_handle(directory: BorrowedFd<'_>, name: &CStr) -> Result<Handle> {
    let mut handle = Handle { size: LARGEST as u32, kind: 0, bytes: [0; LARGEST] };
    let mut mount = 0;
    // SAFETY: `handle` has room for as many bytes as `size` says, the name ends with a zero, and both are there during the call.
    let done = unsafe {
        libc::name_to_handle_at(
            directory.as_raw_fd(),
            name.as_ptr(),
            (&raw mut handle).cast(),
            &raw mut mount,
            if name.is_empty() { libc::AT_EMPTY_PATH } else { 0 },
        )
    };
    if done < 0 { Err(last_error()) } else { Ok(handle) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl Scheme {
    /// Of the file system in which a directory lies, whose kind `statfs` gives.
    pub(super) fn of(kind: u64, directory: BorrowedFd<'_>) -> Result<Option<Self>> {
        Ok(match kind {
            EXT => Some(Self::Ext),
            XFS => Some(Self::Xfs),
            BTRFS => {
                let handle = name_to_handle(directory, c"")?;
                if handle.kind != OF_SUBVOLUME {
                    return Err(Errno::OPNOTSUPP);
                }
                Some(Self::Btrfs { subvolume: long(&handle.bytes, 8) })
            }
            _ => None,
        })
    }

    fn make(self, identity: Identity) -> Handle {
        let Identity { number, generation } = identity;
        let (kind, parts): (_, &[&[u8]]) = match self {
            Self::Ext => (SHORT, &[&(number as u32).to_ne_bytes(), &(generation as u32).to_ne_bytes()]),
            Self::Xfs => (LONG, &[&number.to_ne_bytes(), &(generation as u32).to_ne_bytes()]),
            Self::Btrfs { subvolume } => {
                (OF_SUBVOLUME, &[&number.to_ne_bytes(), &subvolume.to_ne_bytes(), &generation.to_ne_bytes()])
            }
        };
        let mut handle = Handle { size: 0, kind, bytes: [0; LARGEST] };
        let whole = parts.concat();
        handle.bytes[..whole.len()].copy_from_slice(&whole);
        handle.size = whole.len() as u32;
        handle
    }

    fn read(self, handle: &Handle) -> Option<Identity> {
        let bytes = &handle.bytes;
        let (number, generation) = match (self, handle.kind & 0xff) {
            (Self::Ext | Self::Xfs, SHORT) => (word(bytes, 0).into(), word(bytes, 4).into()),
            (Self::Xfs, LONG) => (long(bytes, 0), word(bytes, 8).into()),
            (Self::Btrfs { .. }, OF_SUBVOLUME) => (long(bytes, 0), long(bytes, 16)),
            _ => return None,
        };
        Some(Identity { number, generation })
    }
}

fn word(bytes: &[u8; LARGEST], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|place| bytes[at + place]))
}

fn long(bytes: &[u8; LARGEST], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|place| bytes[at + place]))
}

/// The object that has a name in a directory, or the open object itself if the name is empty. `ESTALE` if it does not have that number.
pub(super) fn identity(directory: impl AsFd, name: &CStr, scheme: Scheme, number: u64) -> Result<Identity> {
    let handle = name_to_handle(directory.as_fd(), name)?;
    let identity = scheme.read(&handle).ok_or(Errno::OPNOTSUPP)?;
    if identity.number == number { Ok(identity) } else { Err(Errno::STALE) }
}

/// Opens an object. `ESTALE` if it is gone.
pub(super) fn open(mount: BorrowedFd<'_>, scheme: Scheme, identity: Identity, flags: OFlags) -> Result<OwnedFd> {
    let mut handle = scheme.make(identity);
    let flags = flags | OFlags::LARGEFILE;
    // SAFETY: `handle` has as many bytes as its `size` says, and is there during the call.
    let file =
        unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut handle).cast(), flags.bits().cast_signed()) };
    if file < 0 {
        return Err(last_error());
    }
    // SAFETY: the call has just opened it, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_of_an_identity_reads_back_as_it() {
        let identity = Identity { number: 0x1234_5678, generation: 0x9abc_def0 };
        for scheme in [Scheme::Ext, Scheme::Xfs, Scheme::Btrfs { subvolume: 5 }] {
            assert_eq!(scheme.read(&scheme.make(identity)), Some(identity), "{scheme:?}");
        }
        let large = Identity { number: 1 << 40, generation: 7 };
        assert_eq!(Scheme::Xfs.read(&Scheme::Xfs.make(large)), Some(large));
        assert_ne!(Scheme::Ext.read(&Scheme::Ext.make(large)), Some(large));
    }
}
