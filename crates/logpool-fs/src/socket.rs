//! A member's file system on a socket, for a virtual machine: virtio-fs.
//!
//! The guest is not trusted: a request that makes no sense is answered with `EIO`. One without room for that can not be answered: an answer of no bytes is a success
//! for the guest's kernel.

#[cfg(test)]
mod tests;

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fuse_backend_rs::api::server::Server;
use fuse_backend_rs::transport::{Reader, VirtioFsWriter};
use ishigaki_logpool::Member;
use ishigaki_virtio::{Chain, Requests, When};
use rustix::io::Errno;

use crate::{Access, Calendar, Error, PoolFs, Result};

/// Queues of a device: one for what the guest forgets, and one for everything else.
const QUEUES: u16 = 2;

/// For how long a guest that stops the device waits for what it has left: a write may wait for room in the log.
const LEFT_BEHIND: Duration = Duration::from_secs(30);

/// What an answer begins with: length, error, and the number of the request.
const ANSWER: usize = 16;

/// What a request begins with: length, what is asked for, and its number.
const REQUEST: usize = 16;

/// Requests that get no answer: `FUSE_FORGET` and `FUSE_BATCH_FORGET`.
const UNANSWERED: [u32; 2] = [2, 42];

/// How a member is served on a socket.
#[derive(Clone, Debug)]
pub struct SocketSettings {
    /// Whose the files are, in the guest.
    pub access: Access,
    /// Requests that are worked on at a time; each takes a thread.
    pub threads: usize,
    /// For the times of files.
    pub calendar: Calendar,
}

/// A member that one virtual machine after the other can mount.
///
/// *Drop* removes the socket. A machine that is connected then gets `EIO` for whatever it asks; so end it first. *A crash* of the
/// process leaves the socket, and the next one on its path takes its place.
#[derive(Debug)]
pub struct Socket(ishigaki_virtio::Socket);

impl Socket {
    /// Serves a member on a socket of that path, which only this process' user may connect to.
    ///
    /// # Errors
    ///
    /// When there is something else at the path, or the socket can not be made.
    pub fn new(member: Member, path: impl AsRef<Path>, settings: &SocketSettings) -> Result<Self> {
        let SocketSettings { access, threads, calendar } = settings.clone();
        let files = move || -> Arc<dyn Requests> {
            Arc::new(Files(Server::new(PoolFs::new(member.clone(), access, calendar.clone()))))
        };
        Ok(Self(ishigaki_virtio::Socket::new(path, threads, files)?))
    }

    /// Sees whether a socket can be made there, and takes away one that nobody listens on.
    pub(crate) fn prepare(path: &Path) -> Result<()> {
        ishigaki_virtio::clear(path).map_err(|cause| Error::Socket { path: path.to_owned(), cause })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Whether a virtual machine that comes is served. Somebody else may have removed the socket.
    pub fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    /// Whether a virtual machine is connected.
    pub fn is_connected(&self) -> bool {
        self.0.is_connected()
    }
}

/// What a virtual machine sees.
struct Files(Server<PoolFs>);

impl Requests for Files {
    fn queues(&self) -> u16 {
        QUEUES
    }

    fn features(&self) -> u64 {
        0
    }

    fn answer(&self, chain: &Chain, when: When) -> Option<u32> {
        let memory = chain.memory();
        let mut head = [0; REQUEST];
        Reader::from_descriptor_chain(memory, chain.clone()).ok()?.read_exact(&mut head).ok()?;
        let asks = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let needs_answer = !UNANSWERED.contains(&asks);
        if when == When::Serving {
            let reader = Reader::from_descriptor_chain(memory, chain.clone()).ok()?;
            let writer = VirtioFsWriter::new(memory, chain.clone()).ok()?;
            match self.0.handle_message(reader, writer.into(), None, None) {
                Ok(bytes) if bytes >= ANSWER || !needs_answer => return u32::try_from(bytes).ok(),
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "a request was not understood"),
            }
        }
        if !needs_answer {
            return Some(0);
        }
        // The length, the error, and the number of the request.
        let mut refusal = [0; ANSWER];
        refusal[..4].copy_from_slice(&(ANSWER as u32).to_le_bytes());
        refusal[4..8].copy_from_slice(&(-Errno::IO.raw_os_error()).to_le_bytes());
        refusal[8..].copy_from_slice(&head[8..]);
        VirtioFsWriter::new(memory, chain.clone()).ok()?.write_all(&refusal).ok()?;
        Some(ANSWER as u32)
    }

    fn patience(&self) -> Option<Duration> {
        Some(LEFT_BEHIND)
    }

    fn is_asked_again(&self) -> bool {
        // A hypervisor that has lost its file system never gets it back.
        false
    }
}
