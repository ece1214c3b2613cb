//! Questions about one member's health, and orders to mend it. The others are served meanwhile.

use std::path::PathBuf;

use ishigaki_base::ByteSize;
use ishigaki_logpool::{Error as PoolError, Folder, Pool};
use ishigaki_logpool_fs::Service;

use super::Core;
use crate::mending::{Changed, RebuiltFiles, ScrubRate, Verified, damage};
use crate::{Error, Result};

/// Why a member is quarantined that was taken out by command.
const BY_ORDER: &str = "it was taken out by `ishigaki log quarantine`";

impl Core {
    /// Compares homes with their checksums, at once. The service is held for one member at a time, so that a question or an order
    /// waits for one home, and not for all.
    pub(super) fn verify(&self, name: Option<&str>) -> Result<Verified> {
        let names = match name {
            Some(name) => vec![name.to_owned()],
            None => self.with_pool(|pool| Ok(pool.members()))?,
        };
        let mut found = Verified::of(name.map(str::to_owned));
        for member in names {
            let outcome = self.with_pool(|pool| {
                let one = pool.member(&member)?;
                Ok((pool.scrub(Some(&member))?, damage(&one)))
            });
            match outcome {
                Ok((scrubbed, damage)) => found.add(scrubbed, damage),
                // It was removed meanwhile.
                Err(Error::Pool(PoolError::NotFound { .. })) if name.is_none() => {}
                Err(Error::Pool(why @ (PoolError::Quarantined { .. } | PoolError::HomeFailed { .. })))
                    if name.is_none() =>
                {
                    found.problems.push(why.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    pub(super) fn repair(&self, name: String) -> Result<Verified> {
        let mut service = self.service.lock();
        let service = service.as_mut().ok_or_else(|| self.ended())?;
        let scrubbed = service.repair(&name)?;
        let damaged = damage(&service.pool().member(&name)?);
        let mut found = Verified::of(Some(name));
        found.add(scrubbed, damaged);
        Ok(found)
    }

    pub(super) fn quarantine(&self, name: String) -> Result<Changed> {
        let mut service = self.service.lock();
        service.as_mut().ok_or_else(|| self.ended())?.quarantine(&name, BY_ORDER)?;
        Ok(Changed { name, place: None })
    }

    pub(super) fn remount(&self, name: String) -> Result<Changed> {
        let mut service = self.service.lock();
        let service = service.as_mut().ok_or_else(|| self.ended())?;
        service.remount(&name)?;
        let place = place(service, &name);
        Ok(Changed { name, place })
    }

    /// Writes the files of a quarantined member as plain ones.
    pub(super) fn rebuild(&self, name: String, to: PathBuf) -> Result<RebuiltFiles> {
        if !to.is_absolute() {
            let to = to.display();
            return Err(Error::Member(format!("`{to}` is no absolute path; the service has a place of its own")));
        }
        let (files, bytes) = self.with_pool(|pool| Ok(pool.rebuild(&name, &mut || Folder::new(&to))?))?;
        Ok(RebuiltFiles { member: name, to, files, bytes })
    }

    pub(super) fn set_scrub_rate(&self, rate: ScrubRate) -> Result<ScrubRate> {
        self.with_pool(|pool| {
            pool.set_scrub_rate(ByteSize(rate.rate_bytes));
            Ok(rate)
        })
    }

    fn with_pool<R>(&self, ask: impl FnOnce(&Pool) -> Result<R>) -> Result<R> {
        let service = self.service.lock();
        ask(service.as_ref().ok_or_else(|| self.ended())?.pool())
    }
}

fn place(service: &Service, name: &str) -> Option<String> {
    let attached = service.attached().iter().find(|attached| attached.member().name() == name)?;
    Some(attached.place().to_string())
}
