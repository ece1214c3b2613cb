//! Two directories on one medium, so that one power cut hits both.

use std::sync::Arc;

use ishigaki_device::{Device, Directory, DirectoryLock, Result, SimDirectory};

/// The names of a medium that begin so.
#[derive(Clone, Debug)]
pub(crate) struct Below {
    medium: SimDirectory,
    prefix: &'static str,
}

impl Below {
    pub(crate) fn of(medium: &SimDirectory, prefix: &'static str) -> Arc<dyn Directory> {
        Arc::new(Self { medium: medium.clone(), prefix })
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl Directory for Below {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.medium.create(&self.name(name), length)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        self.medium.open(&self.name(name))
    }

    fn list(&self) -> Result<Vec<String>> {
        let names = self.medium.list()?;
        Ok(names.iter().filter_map(|name| name.strip_prefix(self.prefix)).map(str::to_owned).collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.medium.rename(&self.name(from), &self.name(to))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.medium.remove(&self.name(name))
    }

    fn sync(&self) -> Result<()> {
        self.medium.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        Ok(DirectoryLock::new(()))
    }
}
