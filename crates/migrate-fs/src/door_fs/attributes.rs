//! What objects say of themselves, and how that is changed.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use fuse_backend_rs::abi::fuse_abi::{SetattrValid, stat64};
use fuse_backend_rs::api::filesystem::{Context, Entry};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Statx, Timespec, Timestamps, Uid, chmodat, chownat, ftruncate, makedev, utimensat,
};
use rustix::fs::{UTIME_NOW, UTIME_OMIT};

use super::{DoorFs, Place};
use crate::arrivals::Change;
use crate::caller;
use crate::volume::{self, descriptor};

/// All that is set, but for the size.
const OTHERS: SetattrValid = SetattrValid::from_bits_truncate(
    SetattrValid::UID.bits()
        | SetattrValid::GID.bits()
        | SetattrValid::MODE.bits()
        | SetattrValid::ATIME.bits()
        | SetattrValid::MTIME.bits(),
);

/// As the library has them.
pub(super) fn stat(found: &Statx) -> stat64 {
    // All zero.
    let mut stat = Entry::default().attr;
    stat.st_ino = found.stx_ino;
    stat.st_mode = found.stx_mode.into();
    stat.st_nlink = found.stx_nlink.into();
    (stat.st_uid, stat.st_gid) = (found.stx_uid, found.stx_gid);
    stat.st_rdev = makedev(found.stx_rdev_major, found.stx_rdev_minor);
    stat.st_size = found.stx_size as i64;
    stat.st_blksize = found.stx_blksize.into();
    stat.st_blocks = found.stx_blocks as i64;
    (stat.st_atime, stat.st_atime_nsec) = (found.stx_atime.tv_sec, found.stx_atime.tv_nsec.into());
    (stat.st_mtime, stat.st_mtime_nsec) = (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec.into());
    (stat.st_ctime, stat.st_ctime_nsec) = (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec.into());
    stat
}

impl DoorFs {
    pub(super) fn tell_attributes(&self, node: u64) -> io::Result<(Statx, Duration)> {
        caller::any()?;
        let place = self.asked(node)?;
        let found = volume::attributes(&place)?;
        let seen = self.steady(node, self.seen(&place, found)?);
        Ok((seen, self.belief(node, &seen)))
    }

    pub(super) fn change_attributes(
        &self,
        ctx: &Context,
        node: u64,
        new: &stat64,
        valid: SetattrValid,
    ) -> io::Result<(stat64, Duration)> {
        caller::root()?;
        let place = self.place(node)?;
        if valid.contains(SetattrValid::SIZE) {
            self.resize(ctx, &place, new.st_size as u64, valid.contains(SetattrValid::KILL_SUIDGID))?;
        }
        if valid.intersects(OTHERS) {
            caller::root()?;
            self.change_extras(&place, || self.set_attributes(ctx, &place, new, valid))?;
        }
        drop(self.nodes.changes(node));
        let found = volume::attributes(&place)?;
        let seen = self.steady(node, self.seen(&place, found)?);
        Ok((stat(&seen), self.belief(node, &seen)))
    }

    /// Sets all but the size.
    fn set_attributes(&self, ctx: &Context, place: &Place<'_>, new: &stat64, valid: SetattrValid) -> io::Result<()> {
        if valid.intersects(SetattrValid::UID | SetattrValid::GID) {
            let user = valid.contains(SetattrValid::UID).then(|| Uid::from_raw(new.st_uid));
            let group = valid.contains(SetattrValid::GID).then(|| Gid::from_raw(new.st_gid));
            caller::giver(ctx, volume::attributes(place)?.stx_gid)?;
            chownat(place, c"", user, group, AtFlags::EMPTY_PATH)?;
            caller::root()?;
        }
        if valid.contains(SetattrValid::MODE) {
            let path = descriptor(place.as_fd());
            chmodat(self.volume.descriptors(), path, Mode::from_raw_mode(new.st_mode), AtFlags::empty())?;
        }
        if valid.intersects(SetattrValid::ATIME | SetattrValid::MTIME) {
            let time = |set, now, seconds, nanos| Timespec {
                tv_sec: seconds,
                tv_nsec: match (valid.contains(set), valid.contains(now)) {
                    (false, _) => UTIME_OMIT,
                    (true, true) => UTIME_NOW,
                    (true, false) => nanos,
                },
            };
            let times = Timestamps {
                last_access: time(SetattrValid::ATIME, SetattrValid::ATIME_NOW, new.st_atime, new.st_atime_nsec),
                last_modification: time(SetattrValid::MTIME, SetattrValid::MTIME_NOW, new.st_mtime, new.st_mtime_nsec),
            };
            utimensat(place, c"", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }

    pub(super) fn resize(&self, ctx: &Context, place: &Place<'_>, size: u64, clears: bool) -> io::Result<()> {
        let file = self.volume.reopen(place.as_fd(), OFlags::WRONLY)?;
        self.change(place, &Change::Resize(size), || {
            caller::writer(ctx, clears)?;
            let done = ftruncate(&file, size);
            self.back()?;
            Ok(done?)
        })
    }
}
