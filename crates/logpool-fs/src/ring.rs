//! A member on a ring in shared memory, for a database of ours in another process of this host.
//!
//! The paper's front-end puts a server's log writes into a ring that the log process has mapped, too (section 4.1.1); here it is
//! the log of an engine of ours that does so, by itself, and what it puts there are requests to devices. The ring knows nothing
//! of pools, and the pool nothing of rings.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ishigaki_logpool::{Member, MemberDirectory};
use ishigaki_shm::{Server, ServerSettings};
use ishigaki_virtio::{bind, clear, is_socket};

use crate::{Access, Error, Result};

/// A member that one process after the other can use as a directory of devices.
///
/// *Drop* ends the session of a process that is in, and removes the socket. *A crash* of this process ends the session, too, and
/// leaves the socket; the next one on its path takes its place.
pub struct Ring {
    path: PathBuf,
    server: Option<Server>,
}

impl Ring {
    /// Serves a member on a socket of that path, which only that user may connect to. So many requests are worked on at a time.
    ///
    /// # Errors
    ///
    /// When there is something else at the path, or the socket can not be made.
    pub fn new(member: Member, path: impl AsRef<Path>, access: Access, threads: usize) -> Result<Self> {
        let path = path.as_ref();
        let refuse = |cause: io::Error| Error::Ring { path: path.to_owned(), cause };
        let listener = bind(path).map_err(refuse)?;
        if access != Access::own() {
            // Nobody but us could connect before.
            let given = std::os::unix::fs::lchown(path, Some(access.user), Some(access.group));
            given.map_err(|cause| {
                let _ = fs::remove_file(path);
                refuse(cause)
            })?;
        }
        let directory = Arc::new(MemberDirectory::new(member));
        let server = Server::new(listener, directory, &ServerSettings { threads }).map_err(refuse)?;
        tracing::info!(path = %path.display(), "waiting for a database");
        Ok(Self { path: path.to_owned(), server: Some(server) })
    }

    /// Sees whether a socket can be made there, and takes away one that nobody listens on.
    pub(crate) fn prepare(path: &Path) -> Result<()> {
        clear(path).map_err(|cause| Error::Ring { path: path.to_owned(), cause })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a database that comes is served. Somebody else may have removed the socket.
    pub fn is_alive(&self) -> bool {
        self.server.as_ref().is_some_and(Server::is_alive) && is_socket(&self.path)
    }

    /// Whether a database is connected.
    pub fn is_connected(&self) -> bool {
        self.server.as_ref().is_some_and(Server::is_connected)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        drop(self.server.take());
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the socket could not be removed");
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("path", &self.path).finish_non_exhaustive()
    }
}
