//! Where a member is served, and what serves it there.

use std::fmt;
use std::path::{Path, PathBuf};

use ishigaki_logpool::Member;
use serde::{Deserialize, Serialize};

use crate::{Mount, MountSettings, Result, Ring, Socket, SocketSettings};

/// Where a member is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On an empty folder, for servers of this host.
    Mount(PathBuf),
    /// On a socket, for one virtual machine after the other.
    Socket(PathBuf),
    /// On a ring in shared memory, which one database of ours after the other gets on this socket.
    Ring(PathBuf),
}

impl Place {
    /// The folder or the socket.
    pub fn path(&self) -> &Path {
        match self {
            Self::Mount(path) | Self::Socket(path) | Self::Ring(path) => path,
        }
    }

    /// The same kind of place, elsewhere.
    #[must_use]
    pub fn at(&self, path: PathBuf) -> Self {
        match self {
            Self::Mount(_) => Self::Mount(path),
            Self::Socket(_) => Self::Socket(path),
            Self::Ring(_) => Self::Ring(path),
        }
    }

    /// Sees whether a member can be served there, and takes away what a process that died has left.
    pub(crate) fn prepare(&self) -> Result<()> {
        match self {
            Self::Mount(folder) => Mount::prepare(folder),
            Self::Socket(path) => Socket::prepare(path),
            Self::Ring(path) => Ring::prepare(path),
        }
    }

    /// Serves a member there.
    pub(crate) fn serve(&self, member: Member, settings: &MountSettings) -> Result<Door> {
        match self {
            Self::Mount(folder) => Mount::new(member, folder, settings).map(Door::Mount),
            Self::Socket(path) => {
                let MountSettings { access, threads, calendar } = settings.clone();
                Socket::new(member, path, &SocketSettings { access, threads, calendar }).map(Door::Socket)
            }
            Self::Ring(path) => Ring::new(member, path, settings.access, settings.threads).map(Door::Ring),
        }
    }
}

/// `/srv/orders-log`, `socket /srv/orders.socket`, or `ring /srv/orders.ring`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount(folder) => folder.display().fmt(f),
            Self::Socket(path) => write!(f, "socket {}", path.display()),
            Self::Ring(path) => write!(f, "ring {}", path.display()),
        }
    }
}

/// What serves a member.
#[derive(Debug)]
pub(crate) enum Door {
    Mount(Mount),
    Socket(Socket),
    Ring(Ring),
}

impl Door {
    /// Whether somebody who comes is answered.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::Mount(mount) => mount.is_alive(),
            Self::Socket(socket) => socket.is_alive(),
            Self::Ring(ring) => ring.is_alive(),
        }
    }

    /// Of a socket, whether a virtual machine is connected; of a ring, whether a database is.
    pub(crate) fn is_connected(&self) -> Option<bool> {
        match self {
            Self::Mount(_) => None,
            Self::Socket(socket) => Some(socket.is_connected()),
            Self::Ring(ring) => Some(ring.is_connected()),
        }
    }
}
