//! A file that is to become a volume: what it must be, and whether it is one already.

use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;

use ishigaki_device::check_name;
use ishigaki_tier::BLOCK;

use crate::answering::{PATIENCE, answered};
use crate::files::{Files, identity_of};
use crate::{Error, Result};

/// Refuses what can not become a volume of that name.
///
/// # Errors
///
/// Why not; [`Error::Path`] where the file's file system does not answer.
pub(crate) fn check(files: &Files, name: &str) -> Result<()> {
    if check_name(name).is_err() {
        // The pool refuses it.
        return Ok(());
    }
    let path = files.folder().join(name);
    let asked = path.clone();
    let file = answered(PATIENCE, move || fs::metadata(asked)).flatten().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::NoImage(path.clone()),
        _ => Error::path(&path)(error),
    })?;
    if let Some(what) = kind(file.file_type()) {
        return Err(Error::NoFile { path, what });
    }
    if file.len() % BLOCK != 0 {
        return Err(Error::NotWhole { path, length: file.len() });
    }
    match files.volume_of(identity_of(&file)) {
        // The two would destroy each other.
        Some(other) if other != name => {
            Err(Error::Taken { path, reason: format!("it is the file of volume `{other}`, by another name") })
        }
        _ => Ok(()),
    }
}

/// What it is, if it is no plain file.
fn kind(of: FileType) -> Option<&'static str> {
    let kinds = [
        (of.is_dir(), "a directory"),
        (of.is_fifo(), "a named pipe"),
        (of.is_socket(), "a socket"),
        (of.is_block_device(), "a block device"),
        (of.is_char_device(), "a character device"),
    ];
    let what = || kinds.into_iter().find(|(is_it, _)| *is_it).map_or("no file", |(_, what)| what);
    (!of.is_file()).then(what)
}
