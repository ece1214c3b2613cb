//! A medium to be measured.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use ishigaki_device::{Directory, Place};
use ishigaki_remote::Anywhere;

use crate::nowhere::Nowhere;
use crate::site::Site;
use crate::{Error, Result};

/// Where a workload's engine writes, in one word: `none`, or [`Anywhere`].
#[derive(Clone, Debug, PartialEq)]
pub enum Medium {
    /// Nowhere: the engine does all its work, and what it writes is forgotten at once. So figures are those of the engine
    /// alone, without any medium, and nothing can be opened again.
    Nowhere,
    /// A place of this host's, or a storage node's directory.
    At(Anywhere),
}

impl Medium {
    /// Opens it for a workload of that name.
    pub fn open(&self, workload: &str) -> Result<Target> {
        match self {
            Self::Nowhere => Ok(Target { forgets: true, ..Target::new("none", Arc::new(Nowhere::default())) }),
            Self::At(place) => Target::open(place, workload),
        }
    }
}

impl FromStr for Medium {
    type Err = ishigaki_remote::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self::Nowhere) } else { text.parse().map(Self::At) }
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("none"),
            Self::At(place) => place.fmt(f),
        }
    }
}

/// A medium, by an empty directory on it. Workloads leave it as empty as they found it, unless what they found there was
/// wrong. Clones are handles to the same directory.
#[derive(Clone, Debug)]
pub struct Target {
    name: String,
    directory: Arc<dyn Directory>,
    /// A fresh folder in the file system, which lasts as long as the target.
    site: Option<Arc<Site>>,
    /// What is written there can not be read again.
    forgets: bool,
}

impl Target {
    /// A directory under a name, which is what figures call it.
    pub fn new(name: impl Into<String>, directory: Arc<dyn Directory>) -> Self {
        Self { name: name.into(), directory, site: None, forgets: false }
    }

    /// A place, for a workload of that name. Where it is a directory of a file system of this host, a fresh folder in it is
    /// used.
    pub fn open(place: &Anywhere, workload: &str) -> Result<Self> {
        let name = place.to_string();
        let Anywhere::Here(place @ (Place::File(path) | Place::Ring(path))) = place else {
            return Ok(Self::new(name, place.open()?));
        };
        let site = Site::new(path, workload)?;
        let fresh = site.path().to_owned();
        let fresh = if matches!(place, Place::Ring(_)) { Place::Ring(fresh) } else { Place::File(fresh) };
        Ok(Self { name, directory: fresh.open()?, site: Some(Arc::new(site)), forgets: false })
    }

    /// What figures call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Everything that is measured goes through this.
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    /// Whether what is written there can not be read again.
    pub(crate) fn forgets(&self) -> bool {
        self.forgets
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
            let place = Anywhere::Here(place);
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
    fn a_medium_is_none_or_a_place() {
        for text in ["none", "mem", "nvm:500ns", "file:/srv/data", "node://localhost:7117/logs"] {
            assert_eq!(text.parse::<Medium>().unwrap().to_string(), text);
        }
        let nowhere = Medium::Nowhere.open("test").unwrap();
        assert!(nowhere.forgets() && !"mem".parse::<Medium>().unwrap().open("test").unwrap().forgets());
        assert_eq!(nowhere.name(), "none");
    }

    #[test]
    fn what_was_found_wrong_stays() {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::open(&Place::File(directory.path().to_owned()).into(), "test").unwrap();
        let Error::Wrong { path, .. } = target.wrong("test", "on purpose".to_owned()) else { panic!("another error") };
        drop(target);
        assert!(path.is_dir());
    }
}
