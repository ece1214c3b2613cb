//! What a node serves: directories below a folder, and their files, each opened once for all who want it.
//!
//! That all share one opening is how a write by one connection finds those who keep copies by others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ishigaki_base::random::Seed;
use ishigaki_device::{Access, Device, Directory, DirectoryLock, Error, FileDevice, FileDirectory, Result};
use parking_lot::Mutex;

use super::watch::Keepers;
use crate::node::Export;

/// The served directory, and what is open of it.
#[derive(Debug)]
pub(super) struct Exported {
    source: Source,
    pub(super) access: Access,
    open: Mutex<HashMap<Identity, Weak<OpenFile>>>,
    next: AtomicU64,
}

#[derive(Debug)]
enum Source {
    Folder(FileDirectory),
    Any(Arc<dyn Directory>),
}

impl OpenFile {
    /// Takes the file for one user alone: of other processes, and of the others here, who share the opening and so are all
    /// one to the operating system.
    pub(super) fn lock(self: &Arc<Self>) -> Result<DirectoryLock> {
        if self.locked.swap(true, Ordering::SeqCst) {
            return Err(Error::Locked { directory: String::new(), holder: None });
        }
        let taken = Taken(Arc::clone(self));
        let lock = self.device.lock()?;
        // In this order: first the system's, then ours.
        Ok(DirectoryLock::new((lock, taken)))
    }
}

/// One user has the file, until dropped.
#[derive(Debug)]
struct Taken(Arc<OpenFile>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.locked.store(false, Ordering::SeqCst);
    }
}

/// What tells files apart while they are open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    /// Of the file system and of the file there.
    File(u64, u64),
    /// Where there is nothing else.
    Name(String),
}

/// A file that somebody has opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// Never used again for another opening.
    pub(super) id: u64,
    /// See [`Opened`](crate::protocol::Opened).
    pub(super) identity: u64,
    /// Below the folder, as it was called when it was opened first.
    pub(super) name: String,
    pub(super) device: Arc<dyn Device>,
    /// The same, if it is a file of this host.
    pub(super) file: Option<Arc<FileDevice>>,
    pub(super) keepers: Keepers,
    /// Somebody has it for himself.
    locked: AtomicBool,
}

impl Exported {
    pub(super) fn open(export: &Export, access: Access) -> Result<Self> {
        let source = match export {
            Export::Folder(path) => Source::Folder(FileDirectory::confined(path, access)?),
            Export::Directory(directory) => Source::Any(Arc::clone(directory)),
        };
        Ok(Self { source, access, open: Mutex::default(), next: AtomicU64::new(1) })
    }

    /// A directory below, empty for the folder itself.
    pub(super) fn directory(&self, path: &str) -> Result<Arc<dyn Directory>> {
        match &self.source {
            Source::Folder(folder) => Ok(Arc::new(folder.below(path)?)),
            Source::Any(directory) if path.is_empty() => Ok(Arc::clone(directory)),
            Source::Any(_) => Err(Error::NotFound { name: path.to_owned() }),
        }
    }

    /// Opens a file, or finds it open.
    pub(super) fn file(&self, directory: &str, name: &str) -> Result<Arc<OpenFile>> {
        let (identity, device, file) = match &self.source {
            Source::Folder(folder) => {
                let file = Arc::new(folder.below(directory)?.open_device(name)?);
                let (system, number) = file.identity()?;
                (Identity::File(system, number), Arc::clone(&file) as Arc<dyn Device>, Some(file))
            }
            Source::Any(_) => (Identity::Name(name.to_owned()), self.directory(directory)?.open(name)?, None),
        };
        let mut open = self.open.lock();
        if let Some(known) = open.get(&identity).and_then(Weak::upgrade)
            && known.device.len() == device.len()
        {
            return Ok(known);
        }
        open.retain(|_, file| file.strong_count() > 0);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mixed = match identity {
            // Any number but 0, and the same for the same file.
            Identity::File(system, number) => Seed(system).derive(number).0.max(1),
            Identity::Name(_) => 0,
        };
        let opened = Arc::new(OpenFile {
            id,
            identity: mixed,
            name: if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") },
            device,
            file,
            keepers: Keepers::default(),
            locked: AtomicBool::new(false),
        });
        open.insert(identity, Arc::downgrade(&opened));
        Ok(opened)
    }

    /// The name leads elsewhere now; only where names are all there is to tell files apart.
    pub(super) fn forget(&self, name: &str) {
        self.open.lock().remove(&Identity::Name(name.to_owned()));
    }
}
