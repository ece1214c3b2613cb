//! A pool with a mount for each of its members, and the order in which they begin and end.

use std::path::{Path, PathBuf};

use ishigaki_logpool::{Member, MemberSettings, Pool};

use crate::{Access, Error, Mount, MountSettings, Result};

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
    mounted: Vec<Mounted>,
    pool: Pool,
}

/// A member that is served.
#[derive(Debug)]
pub struct Mounted {
    mount: Mount,
    member: Member,
    access: Access,
}

impl Mounted {
    /// The member.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.mount.path()
    }

    /// Whose its files are.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether its mount answers. Somebody else may have unmounted it.
    pub fn is_alive(&self) -> bool {
        self.mount.is_alive()
    }
}

impl Service {
    /// Serves these members of a pool. It has rebuilt them when it was opened; those that it does not have are taken in.
    ///
    /// # Errors
    ///
    /// Of any of them; the others are not served then. Nobody is taken in when one of the folders can not be mounted on.
    pub fn start(pool: Pool, members: &[Served]) -> Result<Self> {
        let mut service = Self { mounted: Vec::new(), pool };
        // Before anybody is taken in.
        members.iter().try_for_each(|served| Mount::prepare(&served.folder))?;
        for served in members {
            service.add(served)?;
        }
        for name in service.pool.members() {
            if members.iter().all(|served| served.name != name) {
                tracing::warn!(member = name, "is in the pool, and mounted nowhere");
            }
        }
        Ok(service)
    }

    /// Serves one more member, which is taken in if the pool does not have it.
    ///
    /// # Errors
    ///
    /// The others are served as before, and one that was taken in for this is out again.
    pub fn add(&mut self, served: &Served) -> Result<()> {
        let Served { name, member, folder, mount } = served;
        if let Some(other) = self.mounted.iter().find(|other| other.member.name() == name) {
            return Err(Error::Served { name: name.clone(), path: other.folder().to_owned() });
        }
        // Before it is taken in, since a pool gives out a number to each, and never again.
        Mount::prepare(folder)?;
        let is_new = !self.pool.members().contains(name);
        let resident = if is_new { self.pool.add(name, member.clone())? } else { self.pool.member(name)? };
        let (found, wanted) = (resident.profile(), &member.profile);
        if found != *wanted {
            let (name, found, wanted) = (name.clone(), found.name, wanted.name);
            return Err(Error::Profile { name, found, wanted });
        }
        match Mount::new(resident.clone(), folder, mount) {
            Ok(made) => self.mounted.push(Mounted { mount: made, member: resident, access: mount.access }),
            Err(error) => {
                if is_new && let Err(stays) = self.pool.remove(name) {
                    tracing::warn!("member `{name}` is in the pool, and mounted nowhere: {stays}");
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Ends the mount of a member, which stays in the pool.
    pub fn unmount(&mut self, name: &str) {
        self.mounted.retain(|mounted| mounted.member.name() != name);
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The members that are served.
    pub fn mounted(&self) -> &[Mounted] {
        &self.mounted
    }

    /// Whether every mount answers. Somebody else may have unmounted one.
    pub fn is_alive(&self) -> bool {
        self.mounted.iter().all(Mounted::is_alive)
    }

    /// Unmounts everything, and closes the pool.
    ///
    /// # Errors
    ///
    /// When not all that was accepted could be made durable.
    pub fn stop(mut self) -> Result<()> {
        self.mounted.clear();
        Ok(self.pool.close()?)
    }
}
