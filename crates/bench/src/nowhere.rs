//! A medium that keeps nothing: for what an engine does beside waiting for one.
//!
//! Names and lengths are kept, writes are forgotten at once, and everything reads as zeros. So a log on it does all that it
//! does on any medium, encoding, checksums and calls included, and nothing of what it wrote can be opened again.

use std::collections::BTreeMap;
use std::sync::Arc;

use ishigaki_device::{Device, Directory, DirectoryLock, Error, Promise, Result, SECTOR};
use parking_lot::Mutex;

/// A directory of devices that forget.
#[derive(Debug, Default)]
pub(crate) struct Nowhere {
    lengths: Mutex<BTreeMap<String, u64>>,
}

impl Nowhere {
    fn missing(name: &str) -> Error {
        Error::NotFound { name: name.to_owned() }
    }
}

impl Directory for Nowhere {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        let length = length.next_multiple_of(SECTOR as u64);
        match self.lengths.lock().entry(name.to_owned()) {
            std::collections::btree_map::Entry::Occupied(_) => Err(Error::AlreadyExists { name: name.to_owned() }),
            std::collections::btree_map::Entry::Vacant(entry) => {
                Ok(Arc::new(Forgetting { length: *entry.insert(length) }))
            }
        }
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        let length = *self.lengths.lock().get(name).ok_or_else(|| Self::missing(name))?;
        Ok(Arc::new(Forgetting { length }))
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.lengths.lock().keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut lengths = self.lengths.lock();
        let length = lengths.remove(from).ok_or_else(|| Self::missing(from))?;
        lengths.insert(to.to_owned(), length);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.lengths.lock().remove(name).map(drop).ok_or_else(|| Self::missing(name))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self) -> Result<DirectoryLock> {
        Ok(DirectoryLock::new(()))
    }
}

#[derive(Debug)]
struct Forgetting {
    length: u64,
}

impl Device for Forgetting {
    fn promise(&self) -> Promise {
        Promise { block_size: SECTOR, atomic_write: SECTOR, direct: true, trim: false }
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, _offset: u64, buffer: &mut [u8]) -> Result<()> {
        buffer.fill(0);
        Ok(())
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn trim(&self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_device::AlignedBuffer;

    #[test]
    fn names_are_kept_and_bytes_are_not() {
        let directory = Nowhere::default();
        let device = directory.create("a", 1000).unwrap();
        assert_eq!(device.len(), 1024);
        let mut block = AlignedBuffer::zeroed(SECTOR);
        block.fill(7);
        device.write_durable(0, &block).unwrap();
        directory.open("a").unwrap().read_at(0, &mut block).unwrap();
        assert!(block.iter().all(|byte| *byte == 0));
        assert!(matches!(directory.create("a", 1), Err(Error::AlreadyExists { .. })));
        directory.rename("a", "b").unwrap();
        assert_eq!(directory.list().unwrap(), ["b"]);
        directory.remove("b").unwrap();
        assert!(matches!(directory.open("b"), Err(Error::NotFound { .. })));
    }
}
