//! A pool with a mount for each of its members, and the order in which they begin and end.

use std::path::PathBuf;

use ishigaki_logpool::{MemberSettings, Pool};

use crate::{Error, Mount, MountSettings, Result};

/// A member, and where it is served.
#[derive(Clone, Debug)]
pub struct Served {
    /// Its name in the pool.
    pub name: String,
    /// What it is given when the pool does not have it yet.
    pub member: MemberSettings,
    /// The empty folder on which it is mounted.
    pub folder: PathBuf,
    /// And how.
    pub mount: MountSettings,
}

/// A pool that is served.
///
/// *Drop* does as [`stop`](Self::stop) does. *A crash* leaves the folders unusable until the service is started again, and
/// loses nothing that a program was told is durable.
#[derive(Debug)]
pub struct Service {
    // In the order in which they go.
    mounts: Vec<Mount>,
    pool: Pool,
}

impl Service {
    /// Serves these members of a pool. It has rebuilt them when it was opened; those that it does not have are taken in.
    ///
    /// # Errors
    ///
    /// Of any of them; the others are not served then.
    pub fn start(pool: Pool, members: &[Served]) -> Result<Self> {
        let mut service = Self { mounts: Vec::new(), pool };
        for served in members {
            let mount = service.mount(served)?;
            service.mounts.push(mount);
        }
        for name in service.pool.members() {
            if members.iter().all(|served| served.name != name) {
                tracing::warn!(member = name, "is in the pool, and mounted nowhere");
            }
        }
        Ok(service)
    }

    fn mount(&self, served: &Served) -> Result<Mount> {
        let Served { name, member, folder, mount } = served;
        let resident = if self.pool.members().contains(name) {
            self.pool.member(name)?
        } else {
            self.pool.add(name, member.clone())?
        };
        let (found, wanted) = (resident.profile(), &member.profile);
        if found != *wanted {
            let (name, found, wanted) = (name.clone(), found.name, wanted.name);
            return Err(Error::Profile { name, found, wanted });
        }
        Mount::new(resident, folder, mount)
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Whether every mount answers. Somebody else may have unmounted one.
    pub fn is_alive(&self) -> bool {
        self.mounts.iter().all(Mount::is_alive)
    }

    /// Unmounts everything, and closes the pool.
    ///
    /// # Errors
    ///
    /// When not all that was accepted could be made durable.
    pub fn stop(mut self) -> Result<()> {
        self.mounts.clear();
        Ok(self.pool.close()?)
    }
}
