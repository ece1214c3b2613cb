//! The client: a directory that another process serves.
//!
//! A thread that asks takes a slot, puts its request there and waits for that slot's state to change: it polls while that pays,
//! and then sleeps on the word itself. One more thread watches the socket. When the server goes, it changes the states of all
//! slots and wakes whoever sleeps; every request from then on fails at once.

mod device;
mod link;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ishigaki_device::{Device, Directory, DirectoryLock, Error, Result, check_name};

use crate::message::{Opened, Operation, Request};
use device::ShmDevice;
use link::Claim;
pub(crate) use link::Link;
#[cfg(test)]
pub(crate) use link::hear;

/// A directory that a [`Server`](crate::Server) of another process of this host serves. Clones are handles to the same one.
///
/// *Threads*: any number; as many requests are under way as there are slots. *Drop* of the last handle, devices included, lets
/// go of the server, which lets the next client in. *A crash* of this process does the same, once the server is through with
/// what was under way. *When the server goes*, every request fails, for good: connect again.
///
/// Nobody else uses the directory meanwhile: to connect is to lock it, for this process.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::os::unix::net::UnixListener;
/// use std::sync::Arc;
/// use ishigaki_device::{AlignedBuffer, Directory, MemoryDirectory};
/// use ishigaki_shm::{Server, ServerSettings, ShmDirectory};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ring");
/// // In one process …
/// let directory = Arc::new(MemoryDirectory::new());
/// let server = Server::new(UnixListener::bind(&path)?, directory, &ServerSettings::default())?;
/// // … and in another.
/// let directory = ShmDirectory::connect(&path)?;
/// let device = directory.create("log", 4096)?;
/// device.write_durable(512, &AlignedBuffer::zeroed(512))?;
/// directory.sync()?;
/// assert_eq!(directory.list()?, ["log"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ShmDirectory {
    link: Arc<Link>,
}

impl ShmDirectory {
    /// Connects to a server's socket.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] while another client is in, [`Error::Io`] if nobody serves there, and [`Error::Invalid`] if that is
    /// something else.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { link: Arc::new(Link::connect(path.as_ref())?) })
    }

    fn opened(&self, name: &str, request: &Request) -> Result<Arc<dyn Device>> {
        check_name(name)?;
        let request = Request { length: name.len(), ..*request };
        let claim = self.link.claim(name, request.operation)?;
        claim.put(0, name.as_bytes());
        let answer = claim.ask(&request)?;
        let mut bytes = [0; Opened::BYTES];
        claim.get(0, &mut bytes);
        let handle = u32::try_from(answer.number).ok();
        let (Some(opened), Some(handle), Opened::BYTES) = (Opened::decode(&bytes), handle, answer.length) else {
            return Err(claim.nonsense());
        };
        drop(claim);
        Ok(Arc::new(ShmDevice::new(self.link.clone(), name, handle, answer.size, opened)))
    }

    fn change(&self, name: &str, names: &str, operation: Operation) -> Result<()> {
        let claim = self.link.claim(name, operation)?;
        claim.put(0, names.as_bytes());
        claim.ask(&Request { length: names.len(), ..Request::new(operation) })?;
        Ok(())
    }
}

impl Directory for ShmDirectory {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.opened(name, &Request { number: length, ..Request::new(Operation::Create) })
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        self.opened(name, &Request::new(Operation::Open))
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut all: Vec<String> = Vec::new();
        loop {
            let after = all.last().cloned().unwrap_or_default();
            let claim = self.link.claim(self.link.name(), Operation::List)?;
            claim.put(0, after.as_bytes());
            let answer = claim.ask(&Request { length: after.len(), ..Request::new(Operation::List) })?;
            let text = claim.text(answer.length);
            drop(claim);
            let before = all.len();
            all.extend(text.lines().map(str::to_owned));
            // Or a server that gives no names could keep us here.
            if answer.number == 0 || all.len() == before {
                return Ok(all);
            }
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.change(from, &format!("{from}\n{to}"), Operation::Rename)
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.change(name, name, Operation::Remove)
    }

    fn sync(&self) -> Result<()> {
        self.change(self.link.name(), "", Operation::SyncNames)
    }

    fn lock(&self) -> Result<DirectoryLock> {
        if self.link.is_locked.swap(true, Ordering::Acquire) {
            let holder = Some(format!("pid {}", std::process::id()));
            return Err(Error::Locked { directory: self.link.name().to_owned(), holder });
        }
        Ok(DirectoryLock::new(Held(self.link.clone())))
    }
}

/// Gives the directory free for others of this process.
#[derive(Debug)]
struct Held(Arc<Link>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.is_locked.store(false, Ordering::Release);
    }
}
