//! A server that speaks NFS version 3, asked directly: no kernel client and no mount stands between.
//!
//! ```text
//!  NfsSource ─ listing, reading: what to ask, how many at a time
//!      │
//!  Flight    ─ one caller's calls: asked again after a lost connection, a restart or a jukebox answer
//!      │
//!  Pool      ─ connections, made when they are worth it, made again when lost
//!      │
//!  Connection ─ many calls on one TCP stream, answers in any order
//! ```
//!
//! *Handles.* An object is asked by its handle. If the server calls that stale, the object is looked up by its path once more; only if that fails
//! it is [`Gone`](super::ErrorKind::Gone). Handles outlive a restart of the server.
//!
//! *A server that is away* is waited for as long as the address's `timeout` says, then the call is [`Unavailable`](super::ErrorKind::Unavailable).
//!
//! *What the server sends* is not trusted: lengths are checked before there is room for them, names and handles are checked, and an answer that breaks the
//! protocol is [`Broken`](super::ErrorKind::Broken). A connection on which bytes make no sense any more is closed, and its calls are asked again.
//!
//! *Not carried by NFS version 3*: extended attributes, holes, and when an object was made. POSIX access lists are, where the server has the side protocol for
//! them (`acl`).
//!
//! Parts: `address` is what people write; `mount` finds the root; `listing`, `extras` and `reading` are what the engine asks; `protocol` is NFS and `rpc` what carries it,
//! both written in `xdr`; `flight`, `pool` and `connection` are the way to the server.

mod acl;
mod address;
mod connection;
mod extras;
mod flight;
#[cfg(fuzzing)]
pub mod fuzz;
mod listing;
mod mount;
mod pool;
mod protocol;
mod reading;
mod rpc;
mod xdr;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{PoisonError, RwLock};

use super::multiplex;
use super::{
    Attributes, Cancel, Capabilities, Entry, Error, ErrorKind, Extras, FileType, Location, Result, Source, ToldExtras,
};
pub use address::Address;
use flight::Flight;
use pool::Pool;
use protocol::Trouble;
use rpc::Call;
use xdr::Reader;

/// The most bytes that one request reads.
const LARGEST: usize = 1 << 20;
/// The least that a server must give at once.
const SMALLEST: usize = 1 << 10;

/// An export of an NFS server.
///
/// *Threads*: any number; calls of all share the connections. *Drop* closes them.
///
/// ```no_run
/// use ishigaki_migrate::source::nfs::NfsSource;
/// use ishigaki_migrate::source::{Cancel, Source};
///
/// let cancel = Cancel::new();
/// let source = NfsSource::open(&"nfs://old/home".parse()?, &cancel)?;
/// let (root, _) = source.root(&cancel)?;
/// source.list(&root, &cancel, &mut |page| {
///     page.iter().for_each(|entry| println!("{}", entry.name.display()));
///     Ok(())
/// })?;
/// # Ok::<(), ishigaki_migrate::source::Error>(())
/// ```
pub struct NfsSource {
    address: Address,
    name: String,
    mount: Pool,
    nfs: Pool,
    root: RwLock<Box<[u8]>>,
    read_size: usize,
    /// The server does not list with attributes.
    lists_plainly: AtomicBool,
    has_lists: bool,
}

impl NfsSource {
    /// Finds the server and mounts the export there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if there is no such export, [`ErrorKind::Denied`] if it is not for this host, [`ErrorKind::Unavailable`] if
    /// the server does not answer; others.
    pub fn open(address: &Address, cancel: &Cancel) -> Result<Self> {
        let host = mount::Host::resolve(address, cancel)?;
        let (port, mount_port) = host.ports(address, cancel)?;
        let (mount, nfs) = (host.pool(mount_port, 1), host.pool(port, address.connections));
        let root = mount::root(address, &mount, &nfs, cancel)?;
        let mut source = Self {
            address: address.clone(),
            name: address.to_string(),
            mount,
            nfs,
            root: RwLock::new(root),
            read_size: LARGEST,
            lists_plainly: AtomicBool::new(false),
            has_lists: false,
        };
        let (location, attributes) = source.root(cancel)?;
        if attributes.file_type != FileType::Directory {
            return Err(Error::new(ErrorKind::Invalid, format!("{address} is no directory")));
        }
        let largest = source.ask(protocol::fsinfo(&location.handle), cancel, protocol::largest_read);
        let largest =
            largest.map_err(|trouble| trouble.into_error(&source.name, "ask for the limits of", Path::new("")))?;
        source.read_size = largest.clamp(SMALLEST, LARGEST);
        // Asked once: without them nothing is asked of any object.
        source.has_lists = acl::are_there(&source.nfs, &location.handle, cancel)?;
        Ok(source)
    }

    fn ask<T>(
        &self,
        call: Call,
        cancel: &Cancel,
        read: impl FnOnce(Reader<'_>) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        read(Flight::call(&self.nfs, cancel, call)?.results())
    }

    /// Does something with the object's handle; once more if that is stale, with the one that its path leads to.
    fn with_handle<T>(
        &self,
        object: &Location,
        action: &str,
        cancel: &Cancel,
        mut run: impl FnMut(&[u8]) -> Result<T, Trouble>,
    ) -> Result<T> {
        let outcome = if object.handle.is_empty() {
            self.find(&object.path, cancel).and_then(|handle| run(&handle))
        } else {
            run(&object.handle)
        };
        let outcome = match outcome {
            Err(trouble) if trouble.is_stale() => self.find_anew(&object.path, cancel).and_then(|handle| run(&handle)),
            outcome => outcome,
        };
        outcome.map_err(|trouble| trouble.into_error(&self.name, action, &object.path))
    }

    /// The handle that a path leads to.
    fn find(&self, path: &Path, cancel: &Cancel) -> Result<Box<[u8]>, Trouble> {
        let mut handle = self.root.read().unwrap_or_else(PoisonError::into_inner).clone();
        for component in path.components() {
            let Component::Normal(name) = component else {
                let message = format!("{} is no path below a source", path.display());
                return Err(Error::new(ErrorKind::Invalid, message).into());
            };
            let call = protocol::lookup(&handle, name.as_bytes());
            (handle, _) = self.ask(call, cancel, protocol::looked_up)?;
        }
        Ok(handle)
    }

    /// Has the server say anew what the handle of its export is.
    fn find_root(&self, cancel: &Cancel) -> Result<(), Trouble> {
        let root = mount::root(&self.address, &self.mount, &self.nfs, cancel)?;
        *self.root.write().unwrap_or_else(PoisonError::into_inner) = root;
        Ok(())
    }

    /// As [`find`](Self::find), with a new handle of the root if the old one is stale.
    fn find_anew(&self, path: &Path, cancel: &Cancel) -> Result<Box<[u8]>, Trouble> {
        let root = self.root.read().unwrap_or_else(PoisonError::into_inner).clone();
        match self.ask(protocol::getattr(&root), cancel, protocol::got_attributes) {
            Err(trouble) if trouble.is_stale() => {
                self.find_root(cancel)?;
            }
            outcome => drop(outcome?),
        }
        self.find(path, cancel)
    }
}

impl Source for NfsSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn capabilities(&self) -> Capabilities {
        let parallel = self.address.connections * multiplex::CAPACITY;
        Capabilities { owners: true, extras: self.has_lists, holes: false, read_size: self.read_size, parallel }
    }

    fn root(&self, cancel: &Cancel) -> Result<(Location, Attributes)> {
        let path = PathBuf::new();
        let found = |handle: &[u8]| {
            let attributes = self.ask(protocol::getattr(handle), cancel, protocol::got_attributes)?;
            Ok((Box::from(handle), attributes))
        };
        let location = Location { path: path.clone(), handle: Box::default() };
        let (handle, attributes) = self.with_handle(&location, "read the attributes of", cancel, found)?;
        Ok((Location { path, handle }, attributes))
    }

    fn reopen(&self, cancel: &Cancel) -> Result<()> {
        self.find_root(cancel).map_err(|trouble| trouble.into_error(&self.name, "find", Path::new("")))
    }

    fn list(
        &self,
        directory: &Location,
        cancel: &Cancel,
        take: &mut dyn FnMut(Vec<Entry>) -> Result<()>,
    ) -> Result<()> {
        listing::list(self, directory, cancel, take)
    }

    fn attributes(&self, object: &Location, cancel: &Cancel) -> Result<Attributes> {
        self.with_handle(object, "read the attributes of", cancel, |handle| {
            self.ask(protocol::getattr(handle), cancel, protocol::got_attributes)
        })
    }

    fn extras_told(&self, object: &Location, cancel: &Cancel) -> Result<ToldExtras> {
        // Both at a time, whatever the object is: to ask for that first takes longer.
        self.with_handle(object, "read the target or the access lists of", cancel, |handle| {
            let mut flight = Flight::new(&self.nfs, cancel);
            let link = flight.send(protocol::readlink(handle));
            if self.has_lists {
                flight.send(acl::getacl(handle));
            }
            let (mut target, mut lists) = (Ok(None), Ok((Vec::new(), None)));
            while flight.len() > 0 {
                let (ticket, answer) = flight.next()?;
                let answer = answer.map_err(Trouble::from);
                if ticket == link {
                    target = answer.and_then(|answer| protocol::link_read(answer.results()));
                } else {
                    lists = answer.and_then(|answer| acl::lists(answer.results()));
                }
            }
            if let Some(target) = target? {
                let target = Some(OsString::from_vec(target).into());
                return Ok((Extras { target, attributes: Vec::new() }, None));
            }
            let (attributes, now) = lists?;
            Ok((Extras { target: None, attributes }, now))
        })
    }

    fn extras_of_told(&self, objects: &[(&Location, FileType)], cancel: &Cancel) -> Vec<Result<ToldExtras>> {
        extras::many(self, objects, cancel)
    }

    fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<usize> {
        Ok(self.read_told(file, offset, buffer, cancel)?.0)
    }

    fn read_files(&self, files: &mut [(&Location, &mut [u8])], cancel: &Cancel) -> Vec<Result<usize>> {
        self.read_files_told(files, cancel).into_iter().map(|read| Ok(read?.0)).collect()
    }

    fn read_told(
        &self,
        file: &Location,
        offset: u64,
        buffer: &mut [u8],
        cancel: &Cancel,
    ) -> Result<(usize, Option<Attributes>)> {
        self.with_handle(file, "read", cancel, |handle| reading::read(self, handle, offset, buffer, cancel))
    }

    fn read_files_told(
        &self,
        files: &mut [(&Location, &mut [u8])],
        cancel: &Cancel,
    ) -> Vec<Result<(usize, Option<Attributes>)>> {
        reading::read_files(self, files, cancel)
    }
}
