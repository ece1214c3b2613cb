//! What a service hands over to the next one, so that programs notice nothing but the time: each mount's device, and what the
//! kernel knows of it.
//!
//! ```text
//!  the one                                     the next one
//!  brings members home, then reads no more
//!  answers what it has read, closes the pool
//!  Inheritance ── /dev/fuse of each, table ──▶ opens the pool, goes on with the mounts
//!                                              and answers what the kernel has kept meanwhile
//! ```

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::pool_fs::Handed;

/// All mounts that are handed over. No process answers for them at this moment.
///
/// *Drop* lets go of their devices: programs get `ENOTCONN` unless another process has these as well.
#[derive(Debug, Default)]
pub struct Inheritance {
    pub(crate) mounts: Vec<HandedMount>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct HandedMount {
    pub(crate) member: String,
    pub(crate) path: PathBuf,
    pub(crate) device: OwnedFd,
    pub(crate) handed: Handed,
    /// Of files that have no name.
    pub(crate) bytes: Vec<u8>,
}

fn torn() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what was handed over is not whole")
}

/// What is written of an inheritance: all but devices and bytes, which go beside it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Table(Vec<WrittenMount>);

impl Table {
    /// The member and the folder of each mount.
    pub fn mounts(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.0.iter().map(|mount| (mount.member.as_str(), mount.path.as_path()))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct WrittenMount {
    member: String,
    path: PathBuf,
    handed: Handed,
    /// How many of the bytes are its.
    bytes: usize,
}

impl Inheritance {
    /// Takes it apart, for a way between two processes: what is written, bytes, and the devices in order.
    pub fn take_apart(self) -> (Table, Vec<u8>, Vec<OwnedFd>) {
        let (mut table, mut all, mut devices) = (Vec::new(), Vec::new(), Vec::new());
        for HandedMount { member, path, device, handed, bytes } in self.mounts {
            table.push(WrittenMount { member, path, handed, bytes: bytes.len() });
            all.extend(bytes);
            devices.push(device);
        }
        (Table(table), all, devices)
    }

    /// Puts it together again.
    ///
    /// # Errors
    ///
    /// When there are too few bytes, or another number of devices.
    pub fn put_together(table: Table, bytes: &[u8], devices: Vec<OwnedFd>) -> io::Result<Self> {
        Self::assemble(table, bytes, devices.into_iter().map(Some).collect()).map(|(all, _)| all)
    }

    /// The same where devices may have been lost on the way, in whose places there is `None`, and mounts may have been ended. Tells
    /// the member and the folder of each mount that is gone.
    ///
    /// # Errors
    ///
    /// When there are too few bytes, or another number of places.
    pub fn put_together_without(
        table: Table,
        bytes: &[u8],
        devices: Vec<Option<OwnedFd>>,
    ) -> io::Result<(Self, Vec<(String, PathBuf)>)> {
        let is_there = |device: Option<OwnedFd>| device.filter(ishigaki_fuse::is_mounted);
        Self::assemble(table, bytes, devices.into_iter().map(is_there).collect())
    }

    fn assemble(
        table: Table,
        bytes: &[u8],
        devices: Vec<Option<OwnedFd>>,
    ) -> io::Result<(Self, Vec<(String, PathBuf)>)> {
        if table.0.len() != devices.len() {
            return Err(torn());
        }
        let (mut mounts, mut lost, mut rest) = (Vec::new(), Vec::new(), bytes);
        for (WrittenMount { member, path, handed, bytes }, device) in table.0.into_iter().zip(devices) {
            let (mine, others) = rest.split_at_checked(bytes).ok_or_else(torn)?;
            rest = others;
            match device {
                Some(device) => mounts.push(HandedMount { member, path, device, handed, bytes: mine.to_vec() }),
                None => lost.push((member, path)),
            }
        }
        Ok((Self { mounts }, lost))
    }

    /// The mount of that member on that folder.
    pub(crate) fn take(&mut self, member: &str, path: &Path) -> Option<HandedMount> {
        let place = self.mounts.iter().position(|mount| mount.member == member && mount.path == path)?;
        Some(self.mounts.swap_remove(place))
    }

    /// The member whose mount is on that folder.
    pub(crate) fn at(&self, path: &Path) -> Option<&str> {
        self.mounts.iter().find(|mount| mount.path == path).map(|mount| mount.member.as_str())
    }

    /// Ends what is left of it: programs get `ENOTCONN`, and the folders are free.
    pub fn give_up(self) {
        for HandedMount { member, path, device, .. } in self.mounts {
            tracing::warn!(member, path = %path.display(), "the mount is ended");
            if let Err(error) = ishigaki_fuse::give_up(&path, device) {
                tracing::warn!(path = %path.display(), %error, "it could not be unmounted");
            }
        }
    }
}
