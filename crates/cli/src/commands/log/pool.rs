//! `ishigaki log serve` and what goes with it: one log for many database servers.
//!
//! The service itself is `ishigaki-logpool-service`, which [`status`], [`add`], [`set`] and [`remove`] ask by its control socket. [`rebuild`],
//! [`verify`] and [`entries`] read a pool that nobody serves.

pub(super) mod add;
pub(super) mod entries;
pub(super) mod mend;
pub(super) mod rebuild;
pub(super) mod remove;
pub(super) mod serve;
pub(super) mod set;
pub(super) mod status;
pub(super) mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ishigaki_device::{Directory, DirectoryLock, FileDirectory};
use ishigaki_logpool::{Together, is_pool};
use ishigaki_logpool_service as service;

use crate::failure::Failure;

/// A pool that nobody serves, and that nobody can serve meanwhile.
struct Offline {
    directory: Arc<dyn Directory>,
    homes: Together,
    _lock: DirectoryLock,
}

impl Offline {
    /// The pool of a data directory. Nothing is made there.
    fn open(data: &Path) -> Result<Self, Failure> {
        let name = data.display();
        if !data.is_dir() {
            return Err(Failure::invalid(format!("{name}: there is no such directory")));
        }
        let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(data).map_err(device)?);
        if !is_pool(directory.as_ref()).map_err(|error| failed(&error))? {
            return Err(Failure::invalid(format!("{name}: there is no pool in this directory")));
        }
        let lock = directory.lock().map_err(device)?;
        Ok(Self { homes: Together(directory.clone()), directory, _lock: lock })
    }
}

fn device(error: ishigaki_device::Error) -> Failure {
    Failure::of(error.kind(), error).without_hint()
}

/// Of the engine; its messages say what helps.
pub(super) fn failed(error: &ishigaki_logpool::Error) -> Failure {
    Failure::of(error.kind(), error).without_hint()
}

/// Of the service, which has this data directory.
fn refused(error: &service::Error, data: &Path) -> Failure {
    let failure = Failure::of(error.kind(), error);
    match error.kind() {
        ishigaki_base::ErrorKind::Corrupt => {
            failure.with_hint(format!("`ishigaki log verify --data {}` says what is damaged", data.display()))
        }
        _ => failure.without_hint(),
    }
}

/// A path that the service, which has a place of its own, understands as well.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::file(path.display(), &error))
}
