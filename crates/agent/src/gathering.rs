//! All files below directories, with where they lie on the disk.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ishigaki_prefetch::{Extent, File as Laid, MOST_EXTENTS, MOST_FILES};

use crate::fiemap::extents;
use crate::{Error, Result};

/// Smaller files are not worth their place in a layout.
const SMALLEST: u64 = 64 << 10;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Files with their extents, in bytes of the whole disk.
    pub files: Vec<Laid>,
    /// Files that could not be asked, or had no place in the layout.
    pub left_out: u64,
    /// How their disk is called, if it is a virtio disk: by its volume.
    pub disk: Option<String>,
}

/// Bytes of a volume's name that are its disk's.
const NAME: usize = 20;

impl Gathered {
    /// Refuses files that lie on the disk of another volume than the one that is to be told of.
    ///
    /// # Errors
    ///
    /// [`Error::OtherDisk`] then.
    pub fn check_volume(&self, directory: &Path, volume: &str) -> Result<()> {
        let expected = &volume.as_bytes()[..volume.len().min(NAME)];
        match &self.disk {
            Some(disk) if disk.as_bytes() != expected => Err(Error::OtherDisk {
                path: directory.to_owned(),
                disk: disk.escape_debug().to_string(),
                volume: volume.to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// Looks at all files of 64 KiB or more below directories of one file system, without those of others that are mounted there. `names` gives a path below the
/// first directory another name: a table's.
///
/// # Errors
///
/// [`Error::Path`] for a directory that can not be read; [`Error::NoDisk`] for a file system that lies on no block device.
pub fn gather(directories: &[PathBuf], names: &BTreeMap<PathBuf, String>) -> Result<Gathered> {
    let Some(first) = directories.first() else { return Ok(Gathered::default()) };
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |cause| Error::Path { path, cause }
    };
    let device = fs::metadata(first).map_err(failed(first))?.dev();
    let start = start_of(device).map_err(|reason| Error::NoDisk { path: first.clone(), reason })?;
    let mut gathered = Gathered { disk: disk_of(device), ..Gathered::default() };
    let mut told = 0;
    let mut waiting: Vec<PathBuf> = Vec::new();
    for directory in directories {
        // A directory that is asked for by name must be there; what is below may go at any moment.
        fs::read_dir(directory).map_err(failed(directory))?;
        if fs::metadata(directory).map_err(failed(directory))?.dev() != device {
            let reason = format!("it is another one than that of {}", first.display());
            return Err(Error::NoDisk { path: directory.clone(), reason });
        }
        waiting.push(directory.clone());
    }
    while let Some(directory) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            gathered.left_out += 1;
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(status) = fs::symlink_metadata(&path) else { continue };
            if status.dev() != device {
                continue;
            }
            if status.is_dir() {
                waiting.push(path);
            } else if status.is_file() && status.len() >= SMALLEST {
                let found = File::open(&path).and_then(|file| extents(&file));
                let room = MOST_EXTENTS - told;
                match found {
                    Ok(found) if gathered.files.len() < MOST_FILES && found.len() <= room => {
                        told += found.len();
                        let moved = |extent: Extent| Extent { physical: extent.physical + start, ..extent };
                        let name = path.strip_prefix(first).ok().and_then(|below| names.get(below)).cloned();
                        let name = name.unwrap_or_else(|| path.display().to_string().escape_debug().to_string());
                        gathered.files.push(Laid { name, extents: found.into_iter().map(moved).collect() });
                    }
                    _ => gathered.left_out += 1,
                }
            }
        }
    }
    gathered.files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(gathered)
}

/// Where the kernel tells of a block device.
fn told_of(device: u64) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device)))
}

/// Where a block device begins on its disk: a partition does not at 0.
fn start_of(device: u64) -> Result<u64, String> {
    let told = told_of(device);
    if !told.exists() {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        return Err(format!("device {major}:{minor} is no block device"));
    }
    match fs::read_to_string(told.join("start")) {
        Ok(text) => text.trim().parse::<u64>().map(|sectors| sectors * 512).map_err(|error| error.to_string()),
        // The whole disk.
        Err(_) => Ok(0),
    }
}

/// How the virtio disk is called on which a device lies, if it lies on one.
fn disk_of(device: u64) -> Option<String> {
    let told = told_of(device);
    // A partition is below its disk.
    let named = |place: &str| fs::read(told.join(place)).ok();
    let name = named("serial").or_else(|| named("../serial"))?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_another_disk_are_refused() {
        let on = |disk: Option<&str>| Gathered { disk: disk.map(str::to_owned), ..Gathered::default() };
        let check = |disk, volume| on(disk).check_volume("/srv".as_ref(), volume);
        // A loop device, or any disk that is no virtio disk, may be anything.
        check(None, "orders").unwrap();
        check(Some("orders"), "orders").unwrap();
        check(Some("a-name-of-20-letters"), "a-name-of-20-letters-and-more").unwrap();
        for disk in ["", "other", "others", "orders2"] {
            let error = check(Some(disk), "orders").unwrap_err().to_string();
            assert!(error.contains(&format!("on the disk `{disk}` and not on that of volume `orders`")), "{error}");
        }
    }

    #[test]
    fn a_file_lies_where_its_bytes_are() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        let file = folder.path().join("below/file");
        fs::write(&file, vec![7; 3 << 20]).unwrap();
        File::open(&file).unwrap().sync_all().unwrap();
        fs::write(folder.path().join("small"), b"x").unwrap();
        let names = BTreeMap::from([(PathBuf::from("below/file"), "table".to_owned())]);
        let gathered = match gather(&[folder.path().to_owned()], &names) {
            Err(Error::NoDisk { reason, .. }) => return eprintln!("SKIPPED: {reason}"),
            gathered => gathered.unwrap(),
        };
        let [laid] = &gathered.files[..] else { return eprintln!("SKIPPED: this file system tells no places") };
        assert_eq!((laid.name.as_str(), gathered.left_out), ("table", 0));
        assert_eq!(laid.extents.iter().map(|extent| extent.length).sum::<u64>(), 3 << 20);
        assert!(laid.extents.is_sorted_by_key(|extent| extent.logical));
    }

    #[test]
    fn what_lies_on_no_disk_or_is_not_there_is_told() {
        let none = BTreeMap::new();
        assert!(matches!(gather(&["/proc".into()], &none), Err(Error::NoDisk { .. })));
        assert!(matches!(gather(&["/nowhere".into()], &none), Err(Error::Path { .. })));
        assert_eq!(gather(&[], &none).unwrap(), Gathered::default());
    }
}
