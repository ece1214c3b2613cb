//! The door of a volume: a socket for a virtual machine, or a block device of the host.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ishigaki_emulate::BlockDevice;
use ishigaki_service::socket::gone;
use ishigaki_tier::Volume;
use ishigaki_virtio::{Block, Requests, Socket};

use crate::config::{Config, Kind};
use crate::status::DoorStatus;
use crate::{Error, Result};

/// How one volume is used while this lives.
#[derive(Debug)]
pub(crate) enum Door {
    /// By a virtual machine.
    Socket(Socket),
    /// By the host's programs: the block device, which is there until the door is dropped, and the link that names it.
    Block(Option<BlockDevice>, PathBuf),
}

impl Door {
    /// Opens that of a volume, if it is to have one. In a session, what a machine has written outlives this process.
    pub(crate) fn open(config: &Config, volume: &Volume, session: Option<u64>) -> Result<Option<Self>> {
        let name = volume.name();
        match config.kind(name) {
            Kind::None => Ok(None),
            Kind::Socket => {
                make(&config.sockets)?;
                let (device, name, queues) = (volume.clone(), name.to_owned(), config.queues);
                let requests = move || -> Arc<dyn Requests> {
                    Arc::new(Block::new(Arc::new(device.clone()), &name, queues, session))
                };
                let path = config.sockets.join(format!("{}.sock", volume.name()));
                Ok(Some(Self::Socket(Socket::new(path, config.threads, requests)?)))
            }
            Kind::Block => {
                // The folder under which the kernel finds the device's file, and a name for people.
                let folder = config.blocks.join(format!(".{name}"));
                make(&folder)?;
                let link = config.blocks.join(name);
                take_away(&link).map_err(Error::path(&link))?;
                let device = BlockDevice::new(Arc::new(volume.clone()), &folder)?;
                std::os::unix::fs::symlink(device.path(), &link).map_err(Error::path(&link))?;
                Ok(Some(Self::Block(Some(device), link)))
            }
        }
    }

    /// Whether requests are answered. Another process may have taken the socket or the block device away.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.is_alive(),
            Self::Block(device, link) => device.as_ref().is_some_and(BlockDevice::is_alive) && link.is_symlink(),
        }
    }

    /// By what the volume is used at the moment.
    pub(crate) fn user(&self) -> Option<String> {
        match self {
            Self::Socket(socket) => {
                socket.is_connected().then(|| format!("a virtual machine is connected to {}", socket.path().display()))
            }
            Self::Block(device, _) => {
                let device = device.as_ref().filter(|device| device.is_in_use())?;
                Some(format!("{} is mounted, or open for one user alone", device.path().display()))
            }
        }
    }

    pub(crate) fn status(&self) -> DoorStatus {
        let (kind, path, device) = match self {
            Self::Socket(socket) => (Kind::Socket, socket.path().to_owned(), None),
            Self::Block(device, link) => {
                (Kind::Block, link.clone(), device.as_ref().map(|device| device.path().to_owned()))
            }
        };
        DoorStatus { kind, path, device, in_use: self.user().is_some() }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Self::Block(device, link) = self {
            if let Err(error) = take_away(link) {
                tracing::warn!(path = %link.display(), %error, "the name of a block device could not be removed");
            }
            drop(device.take());
            if let (Some(folder), Some(name)) = (link.parent(), link.file_name()) {
                // One that stays is used by the next one.
                let _ = fs::remove_dir(folder.join(format!(".{}", name.display())));
            }
        }
    }
}

/// Makes a folder that only the user of the service may enter.
pub(crate) fn make(folder: &Path) -> Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        // A process that died has left a mount on it, which does not answer, and is taken away by the next one.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && fs::metadata(folder).is_err() => Ok(()),
        made => made.map_err(Error::path(folder)),
    }
}

/// Removes the name of a block device, which a process that died may have left. What else is there is not ours.
fn take_away(link: &Path) -> io::Result<()> {
    match fs::read_link(link) {
        Ok(to) if to.to_string_lossy().starts_with("/dev/loop") => gone(fs::remove_file(link)),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a link to something else")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something else, which is no link")),
    }
}
