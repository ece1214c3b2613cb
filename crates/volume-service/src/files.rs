//! The files of volumes: another program may remove one under the service, put another in its place, or cut it short. What is written then goes where nothing finds
//! it. So such a volume stops, and says why.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ishigaki_device::Device;
use ishigaki_tier::{Pool, Volume};
use parking_lot::Mutex;

use crate::answering::{PATIENCE, Questions};
use crate::{Error, Result};

/// A file, whatever it is called.
pub(crate) type Identity = (u64, u64);

/// What the files of a folder were when their volumes were opened.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    /// The folder, when it was opened.
    is: Option<Identity>,
    known: Mutex<BTreeMap<String, Identity>>,
    questions: Questions,
}

impl Files {
    pub(crate) fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            is: identity_at(folder),
            known: Mutex::default(),
            questions: Questions::default(),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Refuses a folder that another program has moved away: what is made in it by its handle is not found by its path.
    pub(crate) fn check_folder(&self) -> Result<()> {
        let is_there = self.is.is_some() && identity_at(&self.folder) == self.is;
        if is_there { Ok(()) } else { Err(Error::Moved(self.folder.clone())) }
    }

    /// Looks at all but those whose file system does not answer. One that is new is known from here on.
    pub(crate) fn look(&self, pool: &Pool) {
        // One looks at a time: what is known is compared with what was found since.
        let mut known = self.known.lock();
        let volumes = pool.handles();
        known.retain(|name, _| volumes.iter().any(|volume| volume.name() == name));
        let lives: Vec<_> = volumes.into_iter().filter(|volume| volume.failure().is_none()).collect();
        let names = lives.iter().map(|volume| volume.name().to_owned());
        let folder = self.folder.clone();
        let answers = self.questions.ask(names, PATIENCE, move |name| fs::metadata(folder.join(name)));
        for (name, file) in answers {
            let Some(volume) = lives.iter().find(|volume| volume.name() == name) else { continue };
            if let Some(what) = wrong(volume, file, &mut known) {
                volume.fail(format!("{}: another program has {what}", self.folder.join(name).display()));
            }
        }
    }

    /// The volume whose file that is, as far as has been looked.
    pub(crate) fn volume_of(&self, file: Identity) -> Option<String> {
        self.known.lock().iter().find(|(_, known)| **known == file).map(|(name, _)| name.clone())
    }

    /// Forgets the file of a volume that is no more: one of its name that comes later has another.
    pub(crate) fn forget(&self, name: &str) {
        self.known.lock().remove(name);
    }
}

fn identity_at(path: &Path) -> Option<Identity> {
    fs::metadata(path).as_ref().map(identity_of).ok()
}

pub(crate) fn identity_of(file: &fs::Metadata) -> Identity {
    (file.dev(), file.ino())
}

/// What another program has done to the file of a volume.
fn wrong(
    volume: &Volume,
    file: io::Result<fs::Metadata>,
    known: &mut BTreeMap<String, Identity>,
) -> Option<&'static str> {
    match file {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("removed it"),
        // Requests meet the same.
        Err(_) => None,
        Ok(file) if file.len() < volume.len() => Some("cut it short"),
        Ok(file) => {
            let is = identity_of(&file);
            let was = *known.entry(volume.name().to_owned()).or_insert(is);
            (was != is).then_some("put another file in its place")
        }
    }
}
