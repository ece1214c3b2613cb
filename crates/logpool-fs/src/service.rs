//! A pool with a mount or a socket for each of its members, and the order in which they begin and end.

use std::os::fd::OwnedFd;

use ishigaki_logpool::{Member, MemberSettings, Pool};

mod quarantine;

use crate::inheritance::HandedMount;
use crate::place::Door;
use crate::{Access, Error, Inheritance, Mount, MountSettings, Place, PoolFs, Result};

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
    /// Of any of them; the others are not served then. None is taken in when one of the new ones' places can not be served at. A
    /// member that is quarantined is no error, nor is one of the pool's whose place can not be served at: the others are served.
    pub fn start(pool: Pool, members: &[Served]) -> Result<Self> {
        Self::go_on(pool, members, Inheritance::default(), || Ok(()))
    }

    /// The same, going on with the mounts that another service has handed over: their programs have waited, and notice nothing
    /// else. Mounts of members that are not to be served there are ended. `before_answers` is called when nothing of what was
    /// handed over has been answered for, and all else is done; after it no other process can go on with the mounts.
    ///
    /// # Errors
    ///
    /// As of [`start`](Self::start), and that of `before_answers`. No mount that was handed over is touched then. A member that is
    /// quarantined is no error: its mount is ended, and the others go on.
    pub fn go_on<E: From<Error>>(
        pool: Pool,
        members: &[Served],
        mut inheritance: Inheritance,
        before_answers: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        let mut service = Self { attached: Vec::new(), known: members.to_vec(), pool };
        let quarantined = service.pool.quarantined();
        // The mount of a quarantined member stays in the inheritance, which ends it below; the others are served all the same.
        let (refused, open): (Vec<_>, Vec<_>) =
            members.iter().partition(|served| quarantined.iter().any(|(name, _)| *name == served.name));
        let mut handed = Vec::new();
        for served in &open {
            if matches!(served.place, Place::Mount(_))
                && let Some(mount) = inheritance.take(&served.name, served.place.path())
            {
                handed.push((*served, service.open_handed(served, mount)?));
            }
        }
        let is_handed = |served: &Served| handed.iter().any(|(other, _)| other.name == served.name);
        let others = || open.iter().filter(|served| !is_handed(served));
        // No process answers for what is mounted there yet, so nothing may be asked of it.
        let taken = others().find_map(|served| Some((served, inheritance.at(served.place.path())?)));
        if let Some((Served { name, place, .. }, other)) = taken {
            let (name, place, other) = (name.clone(), place.clone(), other.to_owned());
            return Err(Error::Occupied { name, place, other }.into());
        }
        let before = service.pool.members();
        let (had, new): (Vec<&Served>, Vec<&Served>) =
            others().copied().partition(|served| before.contains(&served.name));
        // Before any is taken in.
        new.iter().try_for_each(|served| served.place.prepare())?;
        for served in new {
            service.add(served)?;
        }
        for served in had {
            let Served { name, place, .. } = served;
            match service.add(served) {
                // That folder or socket is this member's alone.
                Err(error) if error.is_of_place() => tracing::error!(
                    member = name,
                    "is not served at {place}: {error}; `ishigaki log remount {name}` serves it when that is put right"
                ),
                outcome => outcome?,
            }
        }
        for Served { name, place, .. } in refused {
            if let Some((_, why)) = quarantined.iter().find(|(other, _)| other == name) {
                tracing::error!(member = name, "is not served at {place}: {why}");
            }
        }
        before_answers()?;
        for (served, (member, fs, device)) in handed {
            let mount = Mount::go_on(fs, device, served.place.path(), &served.mount)?;
            let (place, access) = (served.place.clone(), served.mount.access);
            service.attached.push(Attached { door: Door::Mount(mount), place, member, access });
        }
        service.attached.sort_by_key(|attached| members.iter().position(|one| one.name == attached.member.name()));
        inheritance.give_up();
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

    /// A member with what the kernel knows of it.
    fn open_handed(&self, served: &Served, mount: HandedMount) -> Result<(Member, PoolFs, OwnedFd)> {
        let member = self.pool.member(&served.name)?;
        check_profile(&member, &served.member)?;
        let HandedMount { member: name, device, handed, bytes, .. } = mount;
        let MountSettings { access, calendar, .. } = served.mount.clone();
        let fs = PoolFs::from_handed(member.clone(), access, calendar, handed, &bytes);
        Ok((member, fs.map_err(|cause| Error::TakenOver { name, cause })?, device))
    }

    /// Refuses to hand over what can not be: a virtual machine or a database that is connected.
    pub fn check_hand_over(&self) -> Result<()> {
        match self.attached.iter().find(|attached| attached.is_connected() == Some(true)) {
            Some(Attached { place, member, .. }) => {
                Err(Error::Connected { name: member.name().to_owned(), place: place.clone() })
            }
            None => Ok(()),
        }
    }

    /// Ends without unmounting: requests that were taken are answered, the others wait in the kernel, and the pool is closed. A
    /// member whose server gets errors is not handed over, and its mount ended.
    ///
    /// # Errors
    ///
    /// When not all that was accepted could be made durable. Every mount is ended then, so that no server believes what is not
    /// there.
    pub fn hand_over(self) -> Result<Inheritance> {
        let Self { attached, pool, .. } = self;
        // The next one has less to rebuild, and no server waits yet.
        if let Err(error) = pool.bring_home() {
            tracing::warn!(%error, "not all is home; the next service has more to rebuild");
        }
        let (sound, others): (Vec<_>, Vec<_>) =
            attached.into_iter().partition(|one| one.is_alive() && one.member.failure().is_none());
        drop(others);
        for attached in &sound {
            if let Door::Mount(mount) = &attached.door {
                mount.rest();
            }
        }
        let mut inheritance = Inheritance::default();
        for Attached { door, member, .. } in sound {
            let Door::Mount(mount) = door else { continue };
            match mount.hand_over(member.name()) {
                Ok(handed) => inheritance.mounts.push(handed),
                Err(error) => {
                    tracing::error!(%error, member = member.name(), "could not be handed over; its mount is ended");
                }
            }
        }
        if let Err(error) = pool.close() {
            inheritance.give_up();
            return Err(error.into());
        }
        Ok(inheritance)
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

/// Refuses to serve a member to another kind of server than it was made for.
fn check_profile(member: &Member, wanted: &MemberSettings) -> Result<()> {
    let (found, wanted) = (member.profile(), &wanted.profile);
    if found == *wanted {
        return Ok(());
    }
    Err(Error::Profile { name: member.name().to_owned(), found: found.name, wanted: wanted.name })
}
