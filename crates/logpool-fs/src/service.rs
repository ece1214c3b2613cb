//! A pool with a mount or a socket for each of its members, and the order in which they begin and end.

use ishigaki_logpool::{Member, MemberSettings, Pool};

mod quarantine;

use crate::place::Door;
use crate::{Access, Error, MountSettings, Place, Result};

/// A member, and where it is served.
#[derive(Clone, Debug)]
pub struct Served {
    /// Its name in the pool.
    pub name: String,
    /// What it is given when the pool does not have it yet.
    pub member: MemberSettings,
    /// Where it is served.
    pub place: Place,
    /// And how, whether it is mounted or on a socket.
    pub mount: MountSettings,
}

/// A pool that is served.
///
/// *Drop* does as [`stop`](Self::stop) does. *A crash* leaves folders and sockets unusable until the service is started again,
/// and loses nothing that a program was told is durable.
#[derive(Debug)]
pub struct Service {
    // In the order in which they go.
    attached: Vec<Attached>,
    /// Where each member is served, or was to be.
    known: Vec<Served>,
    pool: Pool,
}

/// A member that is served, on a mount, a socket or a ring.
#[derive(Debug)]
pub struct Attached {
    door: Door,
    place: Place,
    member: Member,
    access: Access,
}

impl Attached {
    /// The member.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// Where it is served.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whose its files are.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether its mount answers, or a virtual machine can connect to its socket. Somebody else may have unmounted the one, or
    /// removed the other.
    pub fn is_alive(&self) -> bool {
        self.door.is_alive()
    }

    /// Whether a virtual machine or a database is connected; `None` of a mount.
    pub fn is_connected(&self) -> Option<bool> {
        self.door.is_connected()
    }
}

impl Service {
    /// Serves these members of a pool. It has rebuilt them when it was opened; those that it does not have are taken in.
    ///
    /// # Errors
    ///
    /// Of any of them; the others are not served then. Nobody is taken in when one of the places can not be served at. A member
    /// that is quarantined is no error: the others are served.
    pub fn start(pool: Pool, members: &[Served]) -> Result<Self> {
        let mut service = Self { attached: Vec::new(), known: Vec::new(), pool };
        // Before anybody is taken in.
        members.iter().try_for_each(|served| served.place.prepare())?;
        let quarantined = service.pool.quarantined();
        for served in members {
            if let Some((_, why)) = quarantined.iter().find(|(name, _)| *name == served.name) {
                tracing::error!(member = served.name, "is not served: {why}");
                service.known.push(served.clone());
            } else {
                service.add(served)?;
            }
        }
        for name in service.pool.members() {
            if members.iter().all(|served| served.name != name) {
                tracing::warn!(
                    member = name,
                    "is in the pool, and served nowhere: `ishigaki log add` serves it again, with the files that it has, and `ishigaki log remove` removes it"
                );
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
        let Served { name, member, place, .. } = served;
        if let Some(other) = self.attached.iter().find(|other| other.member.name() == name) {
            return Err(Error::Served { name: name.clone(), place: other.place.clone() });
        }
        // Before it is taken in, since a pool gives out a number to each, and never again.
        place.prepare()?;
        let is_new = !self.pool.members().contains(name);
        if is_new {
            self.pool.add(name, member.clone())?;
        }
        if let Err(error) = self.attach(served) {
            if is_new && let Err(stays) = self.pool.remove(name) {
                tracing::warn!("member `{name}` is in the pool, and served nowhere: {stays}");
            }
            return Err(error);
        }
        self.known.retain(|known| known.name != *name);
        self.known.push(served.clone());
        Ok(())
    }

    /// Ends the mount or the socket of a member, which stays in the pool.
    pub fn detach(&mut self, name: &str) {
        self.attached.retain(|attached| attached.member.name() != name);
        self.known.retain(|known| known.name != name);
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The members that are served.
    pub fn attached(&self) -> &[Attached] {
        &self.attached
    }

    /// Whether every mount answers and every socket is there.
    pub fn is_alive(&self) -> bool {
        self.attached.iter().all(Attached::is_alive)
    }

    /// Ends every mount and socket, and closes the pool.
    ///
    /// # Errors
    ///
    /// When not all that was accepted could be made durable.
    pub fn stop(mut self) -> Result<()> {
        self.attached.clear();
        Ok(self.pool.close()?)
    }
}
