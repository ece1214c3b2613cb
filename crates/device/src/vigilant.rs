//! A directory that several engines share: after the first failed sync nobody trusts it any more.
//!
//! A failed sync may have lost names that somebody else has just made, and the next sync would report success without
//! making them durable. Whoever made them must hear of it; so every later change and sync fails, too, until the directory
//! is opened again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Device, Directory, DirectoryLock, Error, ReadLock, Result};

/// A [`Directory`] that fails for good with its first failed sync.
#[derive(Debug)]
pub struct VigilantDirectory {
    inner: Arc<dyn Directory>,
    failed: AtomicBool,
}

impl VigilantDirectory {
    /// Watches over a directory.
    pub fn new(inner: Arc<dyn Directory>) -> Self {
        Self { inner, failed: AtomicBool::new(false) }
    }

    fn check(&self, operation: &'static str) -> Result<()> {
        if self.failed.load(Ordering::SeqCst) {
            let source = io::Error::other("a sync of the directory has failed before");
            return Err(Error::Io { name: "directory".to_owned(), operation, source });
        }
        Ok(())
    }
}

impl Directory for VigilantDirectory {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.check("create")?;
        self.inner.create(name, length)
    }

    fn reserve(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.check("create")?;
        self.inner.reserve(name, length)
    }

    fn room(&self) -> Result<Option<u64>> {
        self.inner.room()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        self.inner.open(name)
    }

    fn open_remains(&self, name: &str) -> Result<Arc<dyn Device>> {
        self.inner.open_remains(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.check("rename")?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.check("remove")?;
        self.inner.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.check("sync")?;
        let synced = self.inner.sync();
        if synced.is_err() {
            self.failed.store(true, Ordering::SeqCst);
        }
        synced?;
        // Somebody else's sync, which began later, may have failed and taken our names with it.
        self.check("sync")
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.inner.lock()
    }

    fn lock_to_read(&self) -> Result<ReadLock> {
        self.inner.lock_to_read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, SimDirectory};

    #[test]
    fn after_a_failed_sync_nothing_is_changed_any_more_and_everybody_hears_of_it() {
        let sim = SimDirectory::with_seed(ishigaki_base::random::Seed(1));
        let shared = VigilantDirectory::new(Arc::new(sim.clone()));
        shared.create("mine", 4096).unwrap();
        sim.inject(Fault::SyncError { nth: sim.syncs() });
        assert!(shared.sync().is_err());
        assert!(sim.sync().is_ok(), "the directory itself has forgotten");
        assert!(shared.sync().is_err() && shared.create("yours", 4096).is_err());
        assert!(shared.rename("mine", "yours").is_err() && shared.remove("mine").is_err());
        assert!(shared.open("mine").is_ok());
    }
}
