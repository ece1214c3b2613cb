//! A server that speaks SMB 2.1 to 3.1.1, asked directly: Windows, or Samba.
//!
//! ```text
//!  SmbSource ─ listing, reading: what to ask, how many at a time
//!      │
//!  Flight    ─ one caller's chains: asked again after a lost connection, a restart or a refusal for now
//!      │
//!  Pool      ─ connections, made when they are worth it, made again when lost; session is how one begins
//!      │
//!  Connection ─ many chains on one TCP stream: credits, signatures, encryption
//! ```
//!
//! *Chains.* Open, read, ask for attributes and close are one message and one answer. Nothing stays open at the server between two calls, but for a
//! directory while it is listed. Files are opened for reading alone, and let others read, write and delete.
//!
//! *A server that is away* is waited for as long as the address's `timeout` says, then the call is [`Unavailable`](super::ErrorKind::Unavailable).
//!
//! *What the server sends* is not trusted: sizes are checked before there is room for them, names are checked, and an answer that breaks the
//! protocol is [`Broken`](super::ErrorKind::Broken). With an account, each message is signed or encrypted, and one that is not closes the connection.
//!
//! *What arrives*: the owner, the group and the access list as Samba's `security.NTACL`, Windows' attributes and the time of making as
//! Samba's `user.DOSATTRIB` ([`marks`]). Owners by number and modes are not told; the address says what files get. Holes, audit lists, other streams of
//! a file and extended attributes of SMB do not arrive.
//!
//! *Why no library.* `libsmbclient` tells neither the number of a file's names nor whether its access list is protected; the crates that speak SMB change
//! the features of what DataFusion is built on (`tokio`, `lz4_flex`), so that it would be built twice, or have one request under way.
//!
//! Parts: `address` is what people write, `credentials` the file of an account; `listing`, `reading` and `extras` are what the engine asks; `request` and `answer` are
//! the protocol, `status` its errors, `bytes`, `name` and `time` its fields; `marks` and `reparse` are what Windows knows more; `session` begins, by `ntlm` and
//! `keys`; `flight`, `pool` and `connection` are the way to the server.

mod address;
mod answer;
mod bytes;
mod connection;
mod credentials;
mod extras;
mod flight;
mod keys;
mod listing;
mod marks;
mod name;
mod ntlm;
mod pool;
mod reading;
mod reparse;
mod request;
mod session;
mod status;
mod time;

use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};

use super::multiplex;
use super::{
    Attributes, Cancel, Capabilities, Entry, Error, ErrorKind, FileType, Location, Owner, Result, Source, ToldExtras,
};
pub use address::Address;
use answer::{About, Trouble};
pub use credentials::Credentials;
use flight::Flight;
use pool::{Dialer, Pool};
use request::{Aim, OPENED};

/// The most bytes that one request reads.
const LARGEST: usize = 1 << 20;
/// Bits of a mode that let write.
const WRITE: u32 = 0o222;

/// A share of an SMB server.
///
/// *Threads*: any number; calls of all share the connections. *Drop* closes them.
///
/// ```no_run
/// use std::path::Path;
///
/// use ishigaki_migrate::source::smb::{Credentials, SmbSource};
/// use ishigaki_migrate::source::{Cancel, Source};
///
/// let cancel = Cancel::new();
/// let credentials = Credentials::read(Path::new("/etc/ishigaki/old.credentials"))?;
/// let source = SmbSource::open(&"smb://old/home".parse()?, &credentials, &cancel)?;
/// let (root, _) = source.root(&cancel)?;
/// source.list(&root, &cancel, &mut |page| {
///     page.iter().for_each(|entry| println!("{}", entry.name.display()));
///     Ok(())
/// })?;
/// # Ok::<(), ishigaki_migrate::source::Error>(())
/// ```
pub struct SmbSource {
    address: Address,
    name: String,
    pool: Pool,
    read_size: usize,
}

impl SmbSource {
    /// Logs in at the server and connects the share.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if there is no such share, account or dialect, [`ErrorKind::Denied`] if the account may not use the share,
    /// [`ErrorKind::Unavailable`] if the server does not answer; others.
    pub fn open(address: &Address, credentials: &Credentials, cancel: &Cancel) -> Result<Self> {
        let name = address.to_string();
        let found = (address.host.as_str(), address.port).to_socket_addrs().map_err(|error| {
            Error::new(ErrorKind::Unavailable, format!("can not find {}: {error}; correct the host", address.host))
        })?;
        let pool = Pool::new(found.collect(), address.connections, Dialer::new(address.clone(), credentials.clone()));
        let connection = pool.wait(true, cancel)?;
        let read_size = connection.session().read as usize;
        let source = Self { address: address.clone(), name, pool, read_size };
        let (_, attributes) = source.root(cancel).map_err(|error| match error.kind {
            ErrorKind::Gone => Error::new(ErrorKind::Invalid, error.message),
            _ => error,
        })?;
        if attributes.file_type != FileType::Directory {
            return Err(Error::new(ErrorKind::Invalid, format!("{address} is no directory")));
        }
        Ok(source)
    }

    /// A path of the server. One that it can not be asked for is not gone: it may have listed it.
    fn path(&self, below: &Path) -> Result<Vec<u8>, Trouble> {
        const WHY: &str = "SMB can not ask for a name with a colon or a backslash, nor for one that is no text";
        name::path(&self.address.path, below).ok_or_else(|| Error::new(ErrorKind::Invalid, WHY).into())
    }

    fn attributes_of(&self, about: &About) -> Attributes {
        let file_type = reparse::file_type(about.attributes, about.tag);
        let mode = match file_type {
            FileType::Directory => self.address.dir_mode,
            FileType::Symlink => 0o777,
            _ if about.attributes & reparse::READ_ONLY != 0 => self.address.file_mode & !WRITE,
            _ => self.address.file_mode,
        };
        Attributes {
            file_type,
            mode,
            owner: self.address.owner.unwrap_or(Owner { user: 0, group: 0 }),
            links: about.links,
            size: if file_type == FileType::Regular { about.size } else { 0 },
            device: (0, 0),
            id: (0, about.id),
            accessed: time::here(about.accessed),
            modified: time::here(about.modified),
            changed: time::here(about.changed),
            created: (about.created != 0).then(|| time::here(about.created)),
        }
    }

    fn look(&self, path: &Path, cancel: &Cancel) -> Result<Attributes, Trouble> {
        let look = request::create(&self.path(path)?, Aim::Look);
        let chain = vec![look, request::query_all(&OPENED), request::query_tag(&OPENED), request::close(&OPENED)];
        let answers = Flight::ask(&self.pool, cancel, chain)?;
        answer::opened(&answers[0])?;
        let mut about = answer::all(&answers[1])?;
        if about.attributes & reparse::REPARSE_POINT != 0 {
            about.tag = answer::tag(&answers[2])?;
        }
        Ok(self.attributes_of(&about))
    }

    fn read_one(
        &self,
        file: &Location,
        offset: u64,
        buffer: &mut [u8],
        cancel: &Cancel,
    ) -> Result<(usize, Option<Attributes>)> {
        let outcome = self.path(&file.path).and_then(|path| reading::read(self, &path, offset, buffer, cancel));
        outcome.map_err(|trouble| trouble.into_error(&self.name, "read", &file.path))
    }
}

impl Source for SmbSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn capabilities(&self) -> Capabilities {
        let parallel = self.address.connections * multiplex::CAPACITY;
        let owners = self.address.owner.is_some();
        Capabilities { owners, extras: true, holes: false, read_size: self.read_size, parallel }
    }

    fn root(&self, cancel: &Cancel) -> Result<(Location, Attributes)> {
        let location = Location { path: PathBuf::new(), handle: Box::default() };
        let attributes = self.attributes(&location, cancel)?;
        Ok((location, attributes))
    }

    fn reopen(&self, _cancel: &Cancel) -> Result<()> {
        self.pool.reopen();
        Ok(())
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
        let outcome = self.look(&object.path, cancel);
        outcome.map_err(|trouble| trouble.into_error(&self.name, "read the attributes of", &object.path))
    }

    fn extras_told(&self, object: &Location, cancel: &Cancel) -> Result<ToldExtras> {
        extras::one(self, object, cancel)
    }

    fn extras_of_told(&self, objects: &[(&Location, FileType)], cancel: &Cancel) -> Vec<Result<ToldExtras>> {
        extras::many(self, objects, cancel)
    }

    fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<usize> {
        Ok(self.read_one(file, offset, buffer, cancel)?.0)
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
        self.read_one(file, offset, buffer, cancel)
    }

    fn read_files_told(
        &self,
        files: &mut [(&Location, &mut [u8])],
        cancel: &Cancel,
    ) -> Vec<Result<(usize, Option<Attributes>)>> {
        reading::read_files(self, files, cancel)
    }
}
