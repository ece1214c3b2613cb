//! The files of volumes: another program may remove one under the service, put another in its place, or cut it short. What is written then goes where nothing finds
//! it. So such a volume stops, and says why.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ishigaki_device::Device;
use ishigaki_tier::{Pool, Volume};
use parking_lot::Mutex;

/// A file, whatever it is called.
type Identity = (u64, u64);

/// What the files of a folder were when their volumes were opened.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    known: Mutex<BTreeMap<String, Identity>>,
}

impl Files {
    pub(crate) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), known: Mutex::default() }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Looks at all. One that is new is known from here on.
    pub(crate) fn look(&self, pool: &Pool) {
        let volumes = pool.handles();
        let mut known = self.known.lock();
        known.retain(|name, _| volumes.iter().any(|volume| volume.name() == name));
        for volume in volumes.iter().filter(|volume| volume.failure().is_none()) {
            if let Some(reason) = wrong(&self.folder, volume, &mut known) {
                volume.fail(reason);
            }
        }
    }
}

/// The file of that name.
pub(crate) fn identity(folder: &Path, name: &str) -> Option<Identity> {
    fs::metadata(folder.join(name)).as_ref().map(identity_of).ok()
}

fn identity_of(file: &fs::Metadata) -> Identity {
    (file.dev(), file.ino())
}

fn wrong(folder: &Path, volume: &Volume, known: &mut BTreeMap<String, Identity>) -> Option<String> {
    let path = folder.join(volume.name());
    let what = match fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "removed it",
        // Requests meet the same.
        Err(_) => return None,
        Ok(file) if file.len() < volume.len() => "cut it short",
        Ok(file) => {
            let is = identity_of(&file);
            if *known.entry(volume.name().to_owned()).or_insert(is) == is {
                return None;
            }
            "put another file in its place"
        }
    };
    Some(format!("{}: another program has {what}", path.display()))
}
