//! Members that are taken out of service, and come back, while the others are served.

use ishigaki_logpool::{Error as PoolError, Scrubbed};

use super::{Attached, Served, Service, check_profile};
use crate::{Error, Result};

impl Service {
    /// Ends the mount, socket or ring of a member, and takes it out of the pool's service. It stays a member, and can be
    /// [served again](Self::remount).
    ///
    /// # Errors
    ///
    /// Of a member that is not there, or is quarantined already.
    pub fn quarantine(&mut self, name: &str, why: &str) -> Result<()> {
        self.pool.quarantine(name, why)?;
        self.attached.retain(|attached| attached.member.name() != name);
        Ok(())
    }

    /// Opens a member again, from its home and the log, and serves it where it was served before, or was to be. Handles that a
    /// server has from before are of no use.
    ///
    /// # Errors
    ///
    /// [`Error::Served`] of a member that is in order: its server would be cut off. When it can not be opened; then it is
    /// quarantined. When its place can not be served at; then it is as it was, and its mount, socket or ring is ended.
    pub fn remount(&mut self, name: &str) -> Result<()> {
        if !self.pool.members().iter().any(|member| member == name) {
            return Err(PoolError::NotFound { name: name.to_owned() }.into());
        }
        if let Some(attached) = self.in_order(name) {
            return Err(Error::Served { name: name.to_owned(), place: attached.place.clone() });
        }
        let served = self.known.iter().find(|served| served.name == name).cloned();
        let served = served.ok_or_else(|| Error::NowhereServed { name: name.to_owned() })?;
        self.attached.retain(|attached| attached.member.name() != name);
        served.place.prepare()?;
        self.pool.reopen(name)?;
        self.attach(&served)
    }

    /// Mends what can be mended of a member: one that is not served, or whose server gets errors, is opened and served again, and
    /// all of its home is compared, with blocks made anew where the log has them.
    ///
    /// # Errors
    ///
    /// As of [`remount`](Self::remount), of a member that is not in order.
    pub fn repair(&mut self, name: &str) -> Result<Scrubbed> {
        if self.in_order(name).is_none() && self.known.iter().any(|served| served.name == name) {
            self.remount(name)?;
        }
        Ok(self.pool.repair(name)?)
    }

    /// The member, if it is served and its server gets no errors.
    fn in_order(&self, name: &str) -> Option<&Attached> {
        let is_in_order = |attached: &&Attached| {
            attached.member.name() == name && attached.member.failure().is_none() && attached.is_alive()
        };
        self.attached.iter().find(is_in_order)
    }

    /// Serves a member that the pool has.
    pub(super) fn attach(&mut self, served: &Served) -> Result<()> {
        let Served { name, member, place, mount } = served;
        let resident = self.pool.member(name)?;
        check_profile(&resident, member)?;
        let door = place.serve(resident.clone(), mount)?;
        self.attached.push(Attached { door, place: place.clone(), member: resident, access: mount.access });
        Ok(())
    }
}
