//! Questions about one member's health, and orders to mend it. The others are served meanwhile.

use std::path::PathBuf;

use ishigaki_base::ByteSize;
use ishigaki_logpool::{Folder, Pool};
use ishigaki_logpool_fs::Service;

use super::Core;
use crate::mending::{Changed, RebuiltFiles, ScrubRate, Verified};
use crate::{Error, Result};

/// Why a member is quarantined that somebody has taken out.
const BY_ORDER: &str = "it was taken out by `ishigaki log quarantine`";

impl Core {
    /// Compares homes with their checksums, at once.
    pub(super) fn verify(&self, name: Option<&str>) -> Result<Verified> {
        let service = self.service.lock();
        let pool = service.as_ref().ok_or(Error::Ending)?.pool();
        if let Some(name) = name {
            pool.member(name)?;
        }
        let found = pool.scrub(name)?;
        Ok(Verified::of(name.map(str::to_owned), found, problems(pool, name)))
    }

    pub(super) fn repair(&self, name: String) -> Result<Verified> {
        let mut service = self.service.lock();
        let service = service.as_mut().ok_or(Error::Ending)?;
        let found = service.repair(&name)?;
        let problems = problems(service.pool(), Some(&name));
        Ok(Verified::of(Some(name), found, problems))
    }

    pub(super) fn quarantine(&self, name: String) -> Result<Changed> {
        let mut service = self.service.lock();
        service.as_mut().ok_or(Error::Ending)?.quarantine(&name, BY_ORDER)?;
        Ok(Changed { name, place: None })
    }

    pub(super) fn remount(&self, name: String) -> Result<Changed> {
        let mut service = self.service.lock();
        let service = service.as_mut().ok_or(Error::Ending)?;
        service.remount(&name)?;
        let place = place(service, &name);
        Ok(Changed { name, place })
    }

    /// Writes a member's files as plain ones; nobody has it open.
    pub(super) fn rebuild(&self, name: String, to: PathBuf) -> Result<RebuiltFiles> {
        if !to.is_absolute() {
            let to = to.display();
            return Err(Error::Member(format!("`{to}` is no absolute path; the service has a place of its own")));
        }
        let service = self.service.lock();
        let pool = service.as_ref().ok_or(Error::Ending)?.pool();
        let files = pool.rebuild(&name, &mut || Folder::new(&to))?;
        Ok(RebuiltFiles { name, to, files })
    }

    pub(super) fn set_scrub_rate(&self, rate: ScrubRate) -> Result<ScrubRate> {
        let service = self.service.lock();
        service.as_ref().ok_or(Error::Ending)?.pool().set_scrub_rate(ByteSize(rate.rate_bytes));
        Ok(rate)
    }
}

fn place(service: &Service, name: &str) -> Option<String> {
    let attached = service.attached().iter().find(|attached| attached.member().name() == name)?;
    Some(attached.place().to_string())
}

/// What can not be served, of a member or of all.
fn problems(pool: &Pool, name: Option<&str>) -> Vec<String> {
    let mut problems = Vec::new();
    for (member, why) in pool.quarantined() {
        if name.is_none_or(|name| name == member) {
            problems.push(why.to_string());
        }
    }
    for member in pool.members().iter().filter(|member| name.is_none_or(|name| name == *member)) {
        let Ok(member) = pool.member(member) else { continue };
        for file in member.statistics().damaged {
            let (path, name) = (file.path, member.name());
            let more = if file.blocks == 1 { String::new() } else { format!(" and {} more", file.blocks - 1) };
            problems.push(format!(
                "member `{name}`: `{path}` is damaged at {}{more}; the log does not have it any more",
                file.first
            ));
        }
    }
    problems
}
