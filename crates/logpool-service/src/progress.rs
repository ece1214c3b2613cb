//! What is heard of a service while it opens a pool, which takes as long as it takes: that it is at work. A directory counts what is
//! asked of its devices, and a voice tells of it as long as the count goes up. So a process that waits for ever is told from one that
//! has much to rebuild.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ishigaki_device::{Device, Directory, DirectoryLock, Promise, Result};

/// How often a voice is raised at most.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// How much was done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn done(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The same directory, whose devices note what is asked of them.
    pub(crate) fn over(&self, inner: impl Directory + 'static) -> Arc<dyn Directory> {
        Arc::new(WatchedDirectory { inner: Box::new(inner), progress: self.clone() })
    }
}

/// Says that a process is at work. *Drop* has it fall silent.
#[derive(Debug)]
pub(crate) struct Voice {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Voice {
    /// Has `say` called once in a period in which something was done, until that fails.
    pub(crate) fn raise(
        progress: &Progress,
        period: Duration,
        mut say: impl FnMut() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (end, ends) = mpsc::channel();
        let progress = progress.clone();
        let work = move || {
            let mut before = progress.done();
            while ends.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                let now = progress.done();
                if std::mem::replace(&mut before, now) != now
                    && let Err(error) = say()
                {
                    tracing::debug!(%error, "no process hears that this one is at work");
                    return;
                }
            }
        };
        let thread = Builder::new().name("pool-voice".to_owned()).spawn(work)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        drop(self.end.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a voice of the service panicked");
        }
    }
}

#[derive(Debug)]
struct WatchedDirectory {
    progress: Progress,
    inner: Box<dyn Directory>,
}

#[derive(Debug)]
struct WatchedDevice {
    progress: Progress,
    inner: Arc<dyn Device>,
}

impl WatchedDirectory {
    fn watch(&self, inner: Arc<dyn Device>) -> Arc<dyn Device> {
        self.progress.note();
        Arc::new(WatchedDevice { inner, progress: self.progress.clone() })
    }
}

impl Directory for WatchedDirectory {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        Ok(self.watch(self.inner.create(name, length)?))
    }

    fn reserve(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        Ok(self.watch(self.inner.reserve(name, length)?))
    }

    fn room(&self) -> Result<Option<u64>> {
        self.inner.room()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        Ok(self.watch(self.inner.open(name)?))
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
        self.progress.note();
        self.inner.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.inner.lock()
    }
}

impl Device for WatchedDevice {
    fn promise(&self) -> Promise {
        self.inner.promise()
    }

    fn writes_through(&self) -> Option<bool> {
        self.inner.writes_through()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.progress.note();
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.progress.note();
        self.inner.write_at(offset, bytes)
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.progress.note();
        self.inner.write_durable(offset, bytes)
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.progress.note();
        self.inner.write_all_durable(writes)
    }

    fn sync(&self) -> Result<()> {
        self.progress.note();
        self.inner.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.inner.lock()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.inner.trim(offset, length)
    }
}

#[cfg(test)]
mod tests {
    use ishigaki_device::{AlignedBuffer, FileDirectory};

    use super::*;

    #[test]
    fn a_voice_is_heard_while_devices_are_used_and_only_then() {
        let place = tempfile::tempdir().unwrap();
        let progress = Progress::default();
        let directory = progress.over(FileDirectory::open(place.path()).unwrap());
        let (heard, words) = mpsc::channel();
        let say = move || heard.send(()).map_err(|_| io::ErrorKind::BrokenPipe.into());
        let voice = Voice::raise(&progress, Duration::from_millis(20), say).unwrap();
        assert!(words.recv_timeout(Duration::from_millis(300)).is_err(), "nothing was done");
        let device = directory.create("a", 4096).unwrap();
        words.recv_timeout(Duration::from_secs(20)).unwrap();
        for _ in 0..3 {
            while words.try_recv().is_ok() {}
            device.read_at(0, &mut AlignedBuffer::zeroed(4096)).unwrap();
            words.recv_timeout(Duration::from_secs(20)).unwrap();
        }
        drop(voice);
        while words.try_recv().is_ok() {}
        device.sync().unwrap();
        assert!(words.recv_timeout(Duration::from_secs(20)).is_err(), "it is silent");
    }

    #[test]
    fn a_watched_directory_says_what_room_its_medium_has() {
        let place = tempfile::tempdir().unwrap();
        let directory = Progress::default().over(FileDirectory::open(place.path()).unwrap());
        assert!(directory.room().unwrap().is_some_and(|room| room > 0));
        assert!(directory.check_room("all", u64::MAX).is_err());
    }
}
