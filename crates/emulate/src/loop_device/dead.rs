//! Loop devices that a process which died has left. One is found by the path of its file, as the kernel tells it; or, where another program has unmounted the folder while the
//! device held the file, so that the kernel tells no path any more, by the name that the device was given with its file.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;

use ishigaki_device::AlignedBuffer;
use rustix::fs::OFlags;

use super::ioctl::{self, Name};
use super::{DEVICES, detach, flags, open};
use crate::disk_fs::DISK;

/// Bytes of a name, beside the zero at its end.
const LONGEST: usize = size_of::<Name>() - 1;

/// How long a device may take to refuse a read: at once, if no process answers for its file.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of a read that any device takes.
const BLOCK: usize = 4096;

/// What a device is told of its file: the end of its path, as far as there is room.
pub(super) fn name(file: &Path) -> io::Result<Name> {
    let path = match (file.parent(), file.file_name()) {
        (Some(folder), Some(name)) => full_path(folder)?.join(name),
        _ => file.to_owned(),
    };
    let bytes = path.as_os_str().as_encoded_bytes();
    let mut name = Name::default();
    name.as_flattened_mut()
        .iter_mut()
        .zip(&bytes[bytes.len().saturating_sub(LONGEST)..])
        .for_each(|(to, &from)| *to = from);
    Ok(name)
}

/// Detaches what a process that died has left of that folder. `is_mounted`: its mount is there still, and no process answers for it. How many there were.
pub(crate) fn detach_dead(at: &Path, is_mounted: bool) -> usize {
    let Ok(file) = full_path(at).map(|folder| folder.join(DISK)) else { return 0 };
    let Ok(devices) = fs::read_dir(DEVICES) else { return 0 };
    let unmounted = Path::new("/").join(DISK);
    let mut found = 0;
    for entry in devices.flatten() {
        let path = Path::new("/dev").join(entry.file_name());
        let (of, file, unmounted) = (path.clone(), file.clone(), unmounted.clone());
        let is_dead = move || {
            let told = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
            let told = Path::new(told.trim_end());
            if told == unmounted { is_named(&of, &file) && is_silent(&of) } else { is_mounted && told == file }
        };
        if is_dead() {
            found += 1;
            detach(&path, is_dead);
        }
    }
    found
}

/// Whether a device was given that file.
fn is_named(path: &Path, file: &Path) -> bool {
    let told = open(path).and_then(|device| Ok(ioctl::name(device.as_fd())?));
    told.is_ok_and(|told| name(file).is_ok_and(|name| name == told))
}

/// Whether a device refuses to read. One that is slow is not meant.
fn is_silent(path: &Path) -> bool {
    let (told, heard) = channel();
    let path = path.to_owned();
    let read = move || {
        let opened = OpenOptions::new().read(true).custom_flags(flags(OFlags::DIRECT)).open(path);
        // It may not be waited for any more.
        let _ = told.send(opened.and_then(|device| device.read_at(&mut AlignedBuffer::zeroed(BLOCK), 0)).is_err());
    };
    let started = Builder::new().name("loop-device".to_owned()).spawn(read);
    started.is_ok() && heard.recv_timeout(PATIENCE).unwrap_or(false)
}

/// The path from the root of a folder that itself can not be asked.
fn full_path(folder: &Path) -> io::Result<PathBuf> {
    let folder = std::path::absolute(folder)?;
    Ok(match (folder.parent(), folder.file_name()) {
        (Some(parent), Some(name)) => parent.canonicalize()?.join(name),
        _ => folder,
    })
}
