//! A medium to be measured.

use std::path::PathBuf;
use std::sync::Arc;

use ishigaki_device::{Directory, Place};

use crate::site::Site;
use crate::{Error, Result};

/// A medium, by an empty directory on it. Workloads leave it as empty as they found it, unless what they found there was
/// wrong. Clones are handles to the same directory.
#[derive(Clone, Debug)]
pub struct Target {
    name: String,
    directory: Arc<dyn Directory>,
    /// A fresh folder in the file system, which lasts as long as the target.
    site: Option<Arc<Site>>,
}

impl Target {
    /// A directory under a name, which is what figures call it.
    pub fn new(name: impl Into<String>, directory: Arc<dyn Directory>) -> Self {
        Self { name: name.into(), directory, site: None }
    }

    /// A place, for a workload of that name. Where it is a directory of a file system, a fresh folder in it is used.
    pub fn open(place: &Place, workload: &str) -> Result<Self> {
        let name = place.to_string();
        let (Place::File(path) | Place::Ring(path)) = place else { return Ok(Self::new(name, place.open()?)) };
        let site = Site::new(path, workload)?;
        let fresh = site.path().to_owned();
        let fresh = if matches!(place, Place::Ring(_)) { Place::Ring(fresh) } else { Place::File(fresh) };
        Ok(Self { name, directory: fresh.open()?, site: Some(Arc::new(site)) })
    }

    /// What figures call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Everything that is measured goes through this.
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    /// Refuses a directory that holds something.
    pub(crate) fn check_empty(&self) -> Result<()> {
        match self.directory.list()?.first() {
            None => Ok(()),
            Some(found) => {
                let reason =
                    format!("{} holds {found}, and only an empty place is measured; give another one", self.name);
                Err(Error::Invalid { setting: "device", reason })
            }
        }
    }

    /// Removes what a round left.
    pub(crate) fn clear(&self) -> Result<()> {
        for name in self.directory.list()? {
            self.directory.remove(&name)?;
        }
        Ok(self.directory.sync()?)
    }

    /// The error of a workload that found something wrong there, which then stays.
    pub(crate) fn wrong(&self, workload: &'static str, reason: String) -> Error {
        let path = self.site.as_ref().map_or_else(|| PathBuf::from(&self.name), |site| site.path().to_owned());
        self.site.iter().for_each(|site| site.keep());
        Error::Wrong { workload, reason, path }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_its_own_is_gone_with_the_target() {
        let directory = tempfile::tempdir().unwrap();
        let left = || std::fs::read_dir(directory.path()).unwrap().count();
        for place in [Place::File(directory.path().to_owned()), Place::Ring(directory.path().to_owned())] {
            let Ok(target) = Target::open(&place, "test") else {
                println!("SKIPPED: {place} can not be opened here");
                continue;
            };
            target.directory().create("something", 512).unwrap();
            assert!(target.check_empty().is_err());
            target.clear().unwrap();
            target.check_empty().unwrap();
            assert_eq!((target.name(), left()), (place.to_string().as_str(), 1));
            drop(target);
            assert_eq!(left(), 0);
        }
    }

    #[test]
    fn what_was_found_wrong_stays() {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::open(&Place::File(directory.path().to_owned()), "test").unwrap();
        let Error::Wrong { path, .. } = target.wrong("test", "on purpose".to_owned()) else { panic!("another error") };
        drop(target);
        assert!(path.is_dir());
    }
}
