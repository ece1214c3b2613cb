//! A source by a word, and where its files go.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ishigaki_migrate::engine::HIDDEN;
use ishigaki_migrate::source::deferred::Deferred;
use ishigaki_migrate::source::detached::Detached;
use ishigaki_migrate::source::nfs::{Address, NfsSource};
use ishigaki_migrate::source::path::PathSource;
use ishigaki_migrate::source::smb::{self, Credentials, SmbSource};
use ishigaki_migrate::source::{Cancel, Source};

use crate::shown::shown;
use crate::{Error, Result};

/// Bytes that a name may have in every directory of a destination.
const LONGEST_NAME: usize = 255;

/// A source, and the directory of the destination that takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceConfig {
    /// What is replaced.
    pub from: From,
    /// Below the destination; empty for the destination itself.
    pub into: PathBuf,
}

/// Where files come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// A server of NFS version 3.
    Nfs(Address),
    /// A server of SMB 2.1 to 3.1.1.
    Smb {
        /// The share.
        address: smb::Address,
        /// A file that names the account, as `mount.cifs` takes it; without one, a guest.
        credentials: Option<PathBuf>,
    },
    /// A directory of this host.
    Path(PathBuf),
}

impl From {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// [`Error::Source`], [`Error::Cancelled`].
    pub fn open(&self, cancel: &Cancel) -> Result<Arc<dyn Source>> {
        self.try_open(cancel).map_err(|error| self.failed(error))
    }

    /// A source that is opened when it is needed, and waited for until it can be.
    pub(crate) fn deferred(&self) -> Arc<dyn Source> {
        let from = self.clone();
        Arc::new(Deferred::new(self.to_string(), move |cancel| from.try_open(cancel)))
    }

    fn try_open(&self, cancel: &Cancel) -> ishigaki_migrate::source::Result<Arc<dyn Source>> {
        match self {
            Self::Nfs(address) => NfsSource::open(address, cancel).map(|source| Arc::new(source) as Arc<dyn Source>),
            Self::Smb { address, credentials } => {
                let credentials = match credentials {
                    Some(file) => Credentials::read(file)?,
                    None => Credentials::guest(),
                };
                SmbSource::open(address, &credentials, cancel).map(|source| Arc::new(source) as Arc<dyn Source>)
            }
            Self::Path(path) => {
                let path = path.clone();
                let source = Detached::open(move || PathSource::open(&path), cancel)?;
                Ok(Arc::new(source))
            }
        }
    }

    /// What a source's error means here.
    pub(crate) fn failed(&self, error: ishigaki_migrate::source::Error) -> Error {
        match error.kind {
            ishigaki_migrate::source::ErrorKind::Cancelled => Error::Cancelled,
            _ => Error::Source { name: self.to_string(), error },
        }
    }

    /// The same, beginning in a directory where it is a relative path.
    pub(super) fn below(self, base: &Path) -> Self {
        match self {
            Self::Path(path) => Self::Path(base.join(path)),
            server @ (Self::Nfs(_) | Self::Smb { .. }) => server,
        }
    }

    /// The same, in the name of the account that a file has.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for a source that takes no account.
    pub fn with_credentials(self, file: PathBuf) -> Result<Self> {
        match self {
            Self::Smb { address, .. } => Ok(Self::Smb { address, credentials: Some(file) }),
            other => {
                let reason = format!("`{other}` takes no account");
                Err(Error::setting("credentials", reason, "give it to an smb:// source, or leave it out"))
            }
        }
    }
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nfs(address) => address.fmt(f),
            Self::Smb { address, .. } => address.fmt(f),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for From {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        const FORMS: &str = "write nfs://HOST/EXPORT, smb://HOST/SHARE or the path of a directory";
        if text.starts_with("nfs://") {
            return match text.parse() {
                Ok(address) => Ok(Self::Nfs(address)),
                Err(error) => Err(Error::setting("from", error.to_string(), FORMS)),
            };
        }
        if text.starts_with("smb://") {
            return match text.parse() {
                Ok(address) => Ok(Self::Smb { address, credentials: None }),
                Err(error) => Err(Error::setting("from", error.to_string(), FORMS)),
            };
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(Error::setting("from", format!("`{text}`: there are no sources by {scheme}"), FORMS));
        }
        if text.is_empty() {
            return Err(Error::setting("from", "it is empty", FORMS));
        }
        Ok(Self::Path(text.into()))
    }
}

impl SourceConfig {
    pub(super) fn validate(&self) -> Result<()> {
        if let From::Path(path) = &self.from
            && !path.is_absolute()
        {
            let reason = format!("`{}` is no absolute path", path.display());
            return Err(Error::setting("from", reason, "write it from the root on"));
        }
        let into = &self.into;
        if into.components().any(|part| !matches!(part, Component::Normal(_))) {
            let reason = format!("`{}` does not simply lead to a directory below the destination", into.display());
            return Err(Error::setting("into", reason, "write it as a/b, without `.`, `..` and a slash before it"));
        }
        if let Some(long) = into.iter().find(|name| name.len() > LONGEST_NAME || name.as_bytes().contains(&0)) {
            let reason = format!("`{}` is no name that a directory can have", shown(Path::new(long)));
            return Err(Error::setting("into", reason, "choose one of at most 255 bytes, without a NUL"));
        }
        if into.starts_with(HIDDEN) {
            let reason = format!("`{HIDDEN}` is the migration's own directory");
            return Err(Error::setting("into", reason, "choose another name"));
        }
        Ok(())
    }
}
