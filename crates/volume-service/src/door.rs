//! The door of a volume: a socket for a virtual machine, or a block device of the host.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ishigaki_emulate::BlockDevice;
use ishigaki_service::socket::gone;
use ishigaki_tier::Volume;
use ishigaki_virtio::{Access, Block, Requests, Socket};

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
                    let (block, of) = (Block::new(Arc::new(device.clone()), &name, queues, session), device.clone());
                    Arc::new(
                        block.quick_where(move |offset, length, access| {
                            of.is_near(offset, length, access == Access::Write)
                        }),
                    )
                };
                let path = config.sockets.join(format!("{}.sock", volume.name()));
                Ok(Some(Self::Socket(Socket::new(path, config.threads, requests)?)))
            }
            Kind::Block => {
                // The folder under which the kernel finds the device's file, and a name for people.
                let folder = config.blocks.join(format!(".{name}"));
                make(&folder)?;
                let link = config.blocks.join(name);
                is_left(&link).map_err(Error::path(&link))?;
                // A name that is there may be another service's, which has the folder then, too: so it stays until this one has that.
                let device = BlockDevice::new(Arc::new(volume.clone()), &folder)?;
                take_away(&link).and_then(|()| symlink(device.path(), &link)).map_err(Error::path(&link))?;
                Ok(Some(Self::Block(Some(device), link)))
            }
        }
    }

    /// Whether requests are answered. Another process may have taken the socket or the block device away.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.is_alive(),
            Self::Block(device, _) => device.as_ref().is_some_and(BlockDevice::is_alive),
        }
    }

    /// Gives a block device its name again, if another process has removed that.
    pub(crate) fn keep_name(&self) {
        if let Self::Block(Some(device), link) = self
            && fs::symlink_metadata(link).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        {
            match symlink(device.path(), link) {
                Ok(()) => {
                    tracing::warn!(path = %link.display(), "the name of a block device was taken away; it is there again");
                }
                Err(error) => tracing::debug!(path = %link.display(), %error, "the name of a block device is missing"),
            }
        }
    }

    /// Has what programs have written, and the kernel still keeps, reach the volume.
    pub(crate) fn sync(&self) -> Result<()> {
        match self {
            Self::Block(Some(device), _) => Ok(device.sync()?),
            Self::Block(None, _) | Self::Socket(_) => Ok(()),
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
        if let Err(error) = self.sync() {
            tracing::error!(%error, "a block device goes with less than was written to it");
        }
        if let Self::Block(device, link) = self {
            let is_own =
                device.as_ref().is_some_and(|device| fs::read_link(&*link).is_ok_and(|to| to == device.path()));
            if is_own && let Err(error) = take_away(link) {
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

/// Takes away block devices that a process that died has left, of the volumes that are meant.
pub(crate) fn take_away_dead(blocks: &Path, is_meant: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(blocks) else { return };
    for entry in entries.flatten() {
        let hidden = entry.file_name();
        let Some(name) = hidden.to_str().and_then(|name| name.strip_prefix('.')).filter(|name| is_meant(name)) else {
            continue;
        };
        let folder = entry.path();
        let taken = BlockDevice::take_away_dead(&folder).map_err(|error| error.to_string()).and_then(|was_dead| {
            if was_dead {
                take_away(&blocks.join(name))
                    .and_then(|()| fs::remove_dir(&folder))
                    .map_err(|error| error.to_string())?;
            }
            Ok(())
        });
        if let Err(error) = taken {
            tracing::warn!(path = %folder.display(), error, "a block device that a process that died has left stays");
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
    if is_left(link)? { gone(fs::remove_file(link)) } else { Ok(()) }
}

/// Whether a process has left the name of a block device.
fn is_left(link: &Path) -> io::Result<bool> {
    match fs::read_link(link) {
        Ok(to) if to.to_string_lossy().starts_with("/dev/loop") => Ok(true),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a link to something else")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something else, which is no link")),
    }
}
