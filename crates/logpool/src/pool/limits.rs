//! Limits that change while the pool is open.
//!
//! ```text
//!  raise   space for the larger home ─▶ roster, durable ─▶ requests may use it
//!  lower   requests may not go beyond ─▶ all of that is durable, and home ─▶ roster, durable
//! ```
//!
//! Recovery refuses a member that has more than the roster allows. So the roster on the medium never allows less than what a
//! power cut may bring back, and a change that was cut off leaves the old limits or the new ones.

use ishigaki_base::ErrorKind;

use super::{Pool, roster};
use crate::format::Roster;
use crate::{Error, Quota, Result};

impl Pool {
    /// Gives a member other limits, durably and at once: a server that was refused goes on with its next request. Returns the
    /// limits before.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the member has more files, or longer ones, than it is to have, or the shares of all were more
    /// than a quarter of the log. [`Error::Full`] when the medium of its home has no room for a larger one. The limits are as
    /// before then. After any other failure the smaller ones count until the pool is opened again.
    pub fn set_quota(&self, name: &str, wanted: Quota) -> Result<Quota> {
        wanted.validate()?;
        let mut roster = self.roster.lock();
        self.core.check()?;
        let resident = self.keeper.resident(name)?;
        let before = resident.quota();
        if wanted == before {
            return Ok(before);
        }
        self.check_shares(&roster, name, wanted)?;
        resident.prepare_home(&wanted).map_err(|error| no_room(name, error))?;
        resident.limit(before.least(wanted))?;
        if wanted.share < before.share || wanted.home < before.home || wanted.files < before.files {
            let settled = resident.sync().and_then(|()| resident.go_home());
            if let Err(error) = settled {
                resident.limit(before)?;
                return Err(error);
            }
        }
        let mut changed = roster.clone();
        for member in changed.members.iter_mut().filter(|member| member.name == name) {
            member.settings.quota = wanted;
        }
        roster::write(self.directory.as_ref(), &mut changed)?;
        *roster = changed;
        resident.limit(wanted)?;
        tracing::info!(member = name, share = %wanted.share, home = %wanted.home, files = wanted.files, "limits changed");
        Ok(before)
    }

    /// Refuses a share with which those of all members were more than a quarter of the log.
    pub(super) fn check_shares(&self, roster: &Roster, name: &str, quota: Quota) -> Result<()> {
        let others = roster.members.iter().filter(|member| member.name != name);
        let shares: u64 = others.map(|member| member.settings.quota.share.0).sum();
        let limit = self.core.log.space().bound.0 / 4;
        if shares.saturating_add(quota.share.0) <= limit {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the shares of all members would be more than a quarter of the log; give `{name}` less, or the log more"
        )))
    }
}

/// A full medium is that member's trouble alone, and no failure.
pub(super) fn no_room(name: &str, error: Error) -> Error {
    match error {
        Error::Device(cause) if cause.kind() == ErrorKind::Exhausted => {
            let what = format!(
                "the medium of its home has not so much room ({cause}); give it a smaller home, or the medium more room"
            );
            Error::Full { member: name.to_owned(), what, passes: false }
        }
        error => error,
    }
}
