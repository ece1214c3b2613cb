//! What the medium fails to read is told as that, and everything else is read.

use std::io;
use std::sync::Arc;

use ishigaki_device::{
    Device, Directory, DirectoryLock, Error as DeviceError, MAX_BLOCK_SIZE, MemoryDirectory, Promise, Result,
};
use ishigaki_txn::{Progress, Salvage, verify};

use super::kit::{Image, Sample, contents, open, settings};

/// A directory of which one block can not be read, or one device not be opened.
#[derive(Debug)]
struct Failing {
    inner: Arc<dyn Directory>,
    device: String,
    /// The block; `None` refuses the opening.
    block: Option<u64>,
    /// What the operating system says.
    errno: i32,
}

#[derive(Debug)]
struct FailingDevice {
    inner: Arc<dyn Device>,
    block: u64,
    errno: i32,
}

fn failed<T>(name: &str, operation: &'static str, errno: i32) -> Result<T> {
    Err(DeviceError::Io { name: name.to_owned(), operation, source: io::Error::from_raw_os_error(errno) })
}

impl Directory for Failing {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.inner.create(name, length)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        let inner = self.inner.open(name)?;
        match self.block {
            _ if name != self.device => Ok(inner),
            Some(block) => Ok(Arc::new(FailingDevice { inner, block, errno: self.errno })),
            None => failed(name, "open", self.errno),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.inner.lock()
    }
}

impl Device for FailingDevice {
    fn promise(&self) -> Promise {
        self.inner.promise()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let size = MAX_BLOCK_SIZE as u64;
        let (first, end) = (self.block * size, (self.block + 1) * size);
        if offset < end && offset + buffer.len() as u64 > first {
            return failed("device", "read", self.errno);
        }
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.inner.trim(offset, length)
    }
}

const EIO: i32 = 5;
const EACCES: i32 = 13;

/// The devices that count, each with the number of its blocks.
fn devices(image: &Image) -> Vec<(String, u64)> {
    let directory = image.directory();
    let names = directory.list().unwrap().into_iter().filter(|name| name != "LOCK");
    let blocks = |name: &str| directory.open(name).unwrap().len() / MAX_BLOCK_SIZE as u64;
    names.map(|name| (name.clone(), blocks(&name))).collect()
}

#[test]
fn what_the_medium_fails_to_read_is_told_as_unread_and_never_as_damage() {
    let sample = Sample::closed();
    let mut losses = 0;
    for (device, blocks) in devices(sample.image()) {
        for block in [None, Some(0), Some(blocks / 2), Some(blocks.saturating_sub(1))] {
            let failing = Failing { inner: sample.image().directory(), device: device.clone(), block, errno: EIO };
            let found = verify(&failing, &failing, &Progress::default()).unwrap();
            let place = format!("{device}, block {block:?}: {found:?}");
            assert!(found.damages.is_empty(), "{place}");
            assert!(found.unread.iter().all(|unread| unread.file == device), "{place}");
            assert!(found.unread.iter().all(|unread| unread.what.contains("Input/output error")), "{place}");
            let salvage = Salvage::read(&failing, &failing, &Progress::default()).unwrap();
            let report = salvage.report().clone();
            assert!(report.damages.is_empty(), "{place}: {report:?}");
            assert!(report.is_complete() || !report.unread.is_empty(), "{place}: {report:?}");
            let to: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
            salvage.write_to(to.clone(), &settings(1), |_| ()).unwrap();
            let saved = contents(&open(&to).unwrap());
            if report.is_complete() {
                assert!(saved == sample.contents(), "{place}");
            }
            losses += usize::from(!report.is_complete());
        }
    }
    assert!(losses > 0, "some of these blocks hold rows that are nowhere else");
}

#[test]
fn what_may_not_be_read_is_an_error_with_its_name() {
    let sample = Sample::closed();
    let mut refused = 0;
    for (device, _) in devices(sample.image()) {
        let failing = Failing { inner: sample.image().directory(), device: device.clone(), block: None, errno: EACCES };
        let found = verify(&failing, &failing, &Progress::default());
        let saved = Salvage::read(&failing, &failing, &Progress::default()).map(drop);
        for outcome in [found.map(drop), saved] {
            if let Err(error) = outcome {
                assert!(!error.is_damage() && error.to_string().contains("Permission denied"), "{device}: {error}");
                assert!(error.to_string().contains(&device), "{device}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused >= 6, "{refused}");
}
