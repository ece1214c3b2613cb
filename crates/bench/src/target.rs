//! A medium to be measured.

use std::path::PathBuf;
use std::sync::Arc;

use ishigaki_device::Directory;

use crate::{Error, Result};

/// A medium, by an empty directory on it. Workloads leave it as empty as they found it, unless what they found there was
/// wrong.
#[derive(Clone, Debug)]
pub struct Target {
    /// What figures call it: `ssd`, `file:/srv/bench`.
    pub name: String,
    /// Everything that is measured goes through this.
    pub directory: Arc<dyn Directory>,
}

impl Target {
    /// A directory under a name.
    pub fn new(name: impl Into<String>, directory: Arc<dyn Directory>) -> Self {
        Self { name: name.into(), directory }
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

    /// The error of a workload that found something wrong there.
    pub(crate) fn wrong(&self, workload: &'static str, reason: String) -> Error {
        Error::Wrong { workload, reason, path: PathBuf::from(&self.name) }
    }
}
