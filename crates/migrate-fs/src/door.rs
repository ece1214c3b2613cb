//! The mounted destination, and how it goes from one process to the next.

use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ishigaki_fuse::{Mount, MountSettings};

use crate::arrivals::Arrivals;
use crate::door_fs::DoorFs;
use crate::handed::Table;
use crate::nodes::Nodes;
use crate::volume::Volume;
use crate::{Error, Result};

/// How a destination is mounted.
const MOUNT: MountSettings = MountSettings { name: "ishigaki-migrate", threads: 4, below_block_device: false };

/// A destination that programs use through a folder.
///
/// *Threads*: any number of requests wait for what is missing, and do not hold up others. *Drop* unmounts. *A crash* of the process leaves a folder
/// that answers `ENOTCONN`; the next door on it puts that right. Nothing is lost: all that was acknowledged is the destination's.
///
/// What is open survives when the mount is [handed over](Self::hand_over) and another process [goes on](Self::go_on).
#[derive(Debug)]
pub struct Door {
    mount: Option<Mount>,
    fs: Arc<DoorFs>,
}

/// How often what was done by a door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that were opened and passed through: the kernel reads and writes them itself.
    pub passed: u64,
    /// Files that were opened and are read and written by the door.
    pub served: u64,
    /// Objects that the kernel knows at this moment.
    pub known: usize,
}

/// A door between two processes.
///
/// *Drop* lets go of it: programs get `ENOTCONN` unless another process has the device as well.
#[derive(Debug)]
pub struct Handed {
    /// `/dev/fuse`, as it was mounted.
    pub device: OwnedFd,
    /// What the kernel knows and has open.
    pub table: Vec<u8>,
    /// Files without names that the kernel knows, in the table's order.
    pub orphans: Vec<OwnedFd>,
}

impl Door {
    /// Mounts a destination on an empty folder. Takes root.
    ///
    /// # Errors
    ///
    /// Where the destination is no directory of ext4, xfs or btrfs, or nothing can be mounted.
    pub fn open(destination: &Path, folder: &Path, arrivals: Arc<dyn Arrivals>) -> Result<Self> {
        let fs = Arc::new(DoorFs::new(Volume::open(destination)?, arrivals, 1));
        let mount = Mount::new_beside(fs.clone(), fs.clone(), folder, &MOUNT)?;
        Ok(Self { mount: Some(mount), fs })
    }

    /// Set-user-ID programs, file capabilities and devices of the destination work through the folder from now on, also when another process goes
    /// on. They came from another host, whose root is not to be root here without being asked: before, the kernel ignores the first two and opens
    /// none of the third.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    #[expect(clippy::missing_panics_doc, reason = "a door has its mount until it is handed over")]
    pub fn allow_set_ids_and_devices(&self) -> Result<()> {
        Ok(self.mount.as_ref().expect("it is there until now").allow_set_ids_and_devices()?)
    }

    /// Goes on with a mount that another process has handed over.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and where what was handed over is not whole.
    pub fn go_on(destination: &Path, folder: &Path, arrivals: Arc<dyn Arrivals>, handed: Handed) -> Result<Self> {
        let torn = || Error::Inheritance { path: folder.to_owned() };
        let table = Table::read(&handed.table).ok_or_else(torn)?;
        if table.orphans.len() != handed.orphans.len() {
            return Err(torn());
        }
        let fs = Arc::new(DoorFs::new(Volume::open(destination)?, arrivals, table.next_handle));
        fs.agree(table.agreed);
        fs.opens().take_over(table.records);
        table.told.into_iter().for_each(|told| fs.nodes().take_told(told));
        for (identity, held) in table.orphans.into_iter().zip(handed.orphans) {
            fs.nodes().adopt(identity, held);
        }
        // A process that was to go on before this one may have taken some, and died.
        if let Err(error) = ishigaki_fuse::send_again(&handed.device) {
            tracing::debug!(%error, "what another process has taken and not answered is not sent again");
        }
        let mount = Mount::go_on_beside(fs.clone(), fs.clone(), handed.device, folder, &MOUNT)?;
        Ok(Self { mount: Some(mount), fs })
    }

    /// Lets go of the mount, which stays. Requests that wait for something are answered by the process that goes on with it.
    ///
    /// # Errors
    ///
    /// When a file without a name can not be handed over, because this process has too many files open. The mount is ended then.
    #[expect(clippy::missing_panics_doc, reason = "a door is handed over once")]
    pub fn hand_over(mut self) -> std::io::Result<Handed> {
        let device = self.mount.take().expect("it is there until now").hand_over();
        self.fs.hand_over();
        let (next_handle, records) = self.fs.opens().hand_over();
        let (identities, held): (Vec<_>, Vec<_>) = Nodes::orphans(self.fs.nodes()).into_iter().unzip();
        let orphans = held.iter().map(|held| held.try_clone()).collect::<std::io::Result<Vec<_>>>()?;
        let table =
            Table { next_handle, agreed: self.fs.agreed(), records, orphans: identities, told: self.fs.nodes().told() };
        Ok(Handed { device, table: table.write(), orphans })
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        let (passed, served) = self.fs.opens().counts();
        Counts { passed, served, known: self.fs.nodes().count() }
    }

    /// Whether requests are answered. Another process may have unmounted it.
    pub fn is_alive(&self) -> bool {
        self.mount.as_ref().is_some_and(Mount::is_alive)
    }

    /// Has the kernel forget what it was told of an object, which another one than it has changed.
    pub fn has_changed(&self, number: u64) {
        if let Some(connection) = self.fs.connection() {
            // It may not know it.
            let _ = connection.forget_node(number);
        }
    }

    /// Has the kernel forget that there is no such name in a directory: another one than it has made it.
    pub fn has_appeared(&self, directory: u64, name: &OsStr) {
        let directory = self.fs.node_of_directory(directory);
        if let (Some(connection), Ok(name)) = (self.fs.connection(), CString::new(name.as_bytes())) {
            // It may know neither.
            let _ = connection.forget_name(directory, &name);
            let _ = connection.forget_node(directory);
        }
    }
}
