//! A directory that is only read, and that keeps what could not be read of it.
//!
//! Who reads around damages takes a failed read for bytes that are not there, in many places. Whether they are damaged, whether the
//! medium failed to read them, or whether this process may not read them at all, is noted here, where every read passes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Device, Directory, DirectoryLock, Error, MAX_BLOCK_SIZE, Promise, ReadFault, ReadLock, Result};

/// A [`Directory`] in which nothing can be made, changed or removed. Failures to read that are no damage are noted.
///
/// ```
/// use ishigaki_device::{Directory, MemoryDirectory, ReadingDirectory};
///
/// let memory = MemoryDirectory::new();
/// memory.create("log", 4096)?;
/// let reading = ReadingDirectory::new(&memory);
/// assert!(reading.open("log").is_ok() && reading.create("other", 4096).is_err());
/// assert!(reading.refusal().is_none() && reading.unread().is_empty());
/// # Ok::<(), ishigaki_device::Error>(())
/// ```
#[derive(Debug)]
pub struct ReadingDirectory<'a> {
    inner: &'a dyn Directory,
    noted: Arc<Mutex<Noted>>,
}

/// A part of a device that the medium failed to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The device.
    pub device: String,
    /// The first and the last byte; `None` where the device could not be opened.
    pub bytes: Option<(u64, u64)>,
    /// The medium's words.
    pub what: String,
}

#[derive(Debug, Default)]
struct Noted {
    refusal: Option<Error>,
    /// Of the medium, whichever was the first.
    failure: Option<Error>,
    /// Devices that could not be opened, and why.
    closed: BTreeMap<String, String>,
    /// Blocks of [`MAX_BLOCK_SIZE`] that could not be read, and why one of them could not.
    blocks: BTreeMap<String, (BTreeSet<u64>, String)>,
}

impl Noted {
    /// Notes a failure. True if the medium is to blame.
    fn is_of_medium(&mut self, error: &Error) -> bool {
        match error.read_fault() {
            ReadFault::Damage => false,
            ReadFault::Medium => {
                self.failure.get_or_insert_with(|| error.again());
                true
            }
            ReadFault::Refusal => {
                self.refusal.get_or_insert_with(|| error.again());
                false
            }
        }
    }
}

impl<'a> ReadingDirectory<'a> {
    /// Reads in a directory.
    pub fn new(inner: &'a dyn Directory) -> Self {
        Self { inner, noted: Arc::default() }
    }

    /// The first failure by which the operating system refused an opening or a read.
    pub fn refusal(&self) -> Option<Error> {
        self.noted.lock().refusal.as_ref().map(Error::again)
    }

    /// The first failure of the medium, or a refusal.
    pub fn failure(&self) -> Option<Error> {
        let noted = self.noted.lock();
        noted.refusal.as_ref().or(noted.failure.as_ref()).map(Error::again)
    }

    /// What the medium failed to read, and no later read has read after all.
    pub fn unread(&self) -> Vec<Unread> {
        let noted = self.noted.lock();
        let mut unread = Vec::new();
        for (device, what) in &noted.closed {
            unread.push(Unread { device: device.clone(), bytes: None, what: what.clone() });
        }
        for (device, (blocks, what)) in &noted.blocks {
            let mut runs: Vec<(u64, u64)> = Vec::new();
            for &block in blocks {
                match runs.last_mut() {
                    Some((_, last)) if *last + 1 == block => *last = block,
                    _ => runs.push((block, block)),
                }
            }
            let size = MAX_BLOCK_SIZE as u64;
            unread.extend(runs.into_iter().map(|(first, last)| Unread {
                device: device.clone(),
                bytes: Some((first * size, (last + 1) * size - 1)),
                what: what.clone(),
            }));
        }
        unread
    }

    fn opened(&self, name: &str, opened: Result<Arc<dyn Device>>) -> Result<Arc<dyn Device>> {
        let mut noted = self.noted.lock();
        match opened {
            Ok(inner) => {
                noted.closed.remove(name);
                drop(noted);
                Ok(Arc::new(ReadingDevice { inner, name: name.to_owned(), noted: Arc::clone(&self.noted) }))
            }
            Err(error) => {
                if noted.is_of_medium(&error) {
                    noted.closed.insert(name.to_owned(), words(&error));
                }
                Err(error)
            }
        }
    }
}

/// What failed, without the name.
fn words(error: &Error) -> String {
    match error {
        Error::Io { operation, source, .. } => format!("{operation} failed: {source}"),
        other => other.to_string(),
    }
}

fn refused<T>(name: &str, operation: &'static str) -> Result<T> {
    let source = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
    Err(Error::ReadOnly { name: name.to_owned(), operation, source })
}

impl Directory for ReadingDirectory<'_> {
    fn create(&self, name: &str, _length: u64) -> Result<Arc<dyn Device>> {
        refused(name, "create")
    }

    fn room(&self) -> Result<Option<u64>> {
        self.inner.room()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        self.opened(name, self.inner.open(name))
    }

    fn open_remains(&self, name: &str) -> Result<Arc<dyn Device>> {
        self.opened(name, self.inner.open_remains(name))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, _to: &str) -> Result<()> {
        refused(from, "rename")
    }

    fn remove(&self, name: &str) -> Result<()> {
        refused(name, "remove")
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self) -> Result<DirectoryLock> {
        refused("directory", "lock")
    }

    fn lock_to_read(&self) -> Result<ReadLock> {
        self.inner.lock_to_read()
    }
}

#[derive(Debug)]
struct ReadingDevice {
    inner: Arc<dyn Device>,
    name: String,
    noted: Arc<Mutex<Noted>>,
}

impl Device for ReadingDevice {
    fn promise(&self) -> Promise {
        Promise { trim: false, ..self.inner.promise() }
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.inner.read_at(offset, buffer);
        let mut noted = self.noted.lock();
        let size = MAX_BLOCK_SIZE as u64;
        let end = offset + buffer.len() as u64;
        match &read {
            // What was read block by block after all is no loss.
            Ok(()) => {
                if let Some((blocks, _)) = noted.blocks.get_mut(&self.name) {
                    blocks.retain(|block| *block < offset.div_ceil(size) || *block >= end / size);
                }
            }
            Err(error) => {
                if noted.is_of_medium(error) {
                    let known = noted.blocks.entry(self.name.clone());
                    let (blocks, _) = known.or_insert_with(|| (BTreeSet::new(), words(error)));
                    blocks.extend(offset / size..end.div_ceil(size));
                }
            }
        }
        read
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> Result<()> {
        refused(&self.name, "write")
    }

    fn write_durable(&self, _offset: u64, _bytes: &[u8]) -> Result<()> {
        refused(&self.name, "write")
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
    use ishigaki_base::random::Seed;

    use super::*;
    use crate::{AlignedBuffer, Fault, SimDirectory};

    #[test]
    fn what_the_medium_fails_to_read_is_noted_up_to_the_block_until_it_is_read_after_all() {
        let sim = SimDirectory::with_seed(Seed(1));
        let reading = ReadingDirectory::new(&sim);
        sim.create("log", 4 * MAX_BLOCK_SIZE as u64).expect("room");
        let device = reading.open("log").expect("it is there");
        sim.inject(Fault::ReadError { nth: sim.reads() });
        let mut buffer = AlignedBuffer::zeroed(4 * MAX_BLOCK_SIZE);
        assert!(device.read_at(0, &mut buffer).is_err());
        let bytes = |(first, last): (u64, u64)| Some((first * 4096, last * 4096 + 4095));
        assert_eq!(reading.unread()[0].bytes, bytes((0, 3)));
        for block in [0, 1, 3] {
            device.read_at(block * 4096, &mut buffer[..4096]).expect("readable");
        }
        let unread = reading.unread();
        assert_eq!((unread.len(), unread[0].bytes, unread[0].device.as_str()), (1, bytes((2, 2)), "log"), "{unread:?}");
        assert!(reading.refusal().is_none() && reading.failure().is_some());
        assert!(matches!(reading.open("none"), Err(Error::NotFound { .. })));
        device.read_at(0, &mut buffer).expect("readable");
        assert!(reading.unread().is_empty(), "what is not there is damage");
    }

    #[test]
    fn nothing_can_be_changed() {
        let sim = SimDirectory::with_seed(Seed(1));
        sim.create("log", 4096).expect("room");
        let reading = ReadingDirectory::new(&sim);
        let before = sim.operations();
        let device = reading.open("log").expect("it is there");
        let zeros = AlignedBuffer::zeroed(4096);
        let changes = [
            reading.create("new", 4096).map(drop),
            reading.rename("log", "new"),
            reading.remove("log"),
            reading.lock().map(drop),
            device.write_at(0, &zeros),
            device.write_durable(0, &zeros),
            device.write_all_durable(&[(0, &zeros)]),
        ];
        for change in changes {
            assert!(matches!(change, Err(Error::ReadOnly { .. })), "{change:?}");
        }
        assert_eq!(sim.operations(), before);
    }
}
