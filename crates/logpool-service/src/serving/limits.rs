//! Limits of members: the pool has those that count, and `log set` changes them.
//!
//! A configuration, and `members.toml`, say with what a member is taken in. Afterwards the pool's own count, so that what was
//! raised for a server in need is not taken back by the next start. Where they differ, the service says so.

use std::path::PathBuf;

use ishigaki_logpool::Quota;
use serde::{Deserialize, Serialize};

use super::Core;
use crate::status::QuotaStatus;
use crate::{Error, Limits, MemberConfig, Result, added};

/// A member's limits after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsSet {
    /// The member.
    pub name: String,
    /// Its limits before.
    pub before: QuotaStatus,
    /// And now.
    pub now: QuotaStatus,
    /// The service's own file that says so as well, of a member that `log add` has taken in.
    pub noted_in: Option<PathBuf>,
    /// What the configuration says otherwise.
    pub remark: Option<String>,
}

impl Core {
    /// Gives a member other limits, in the pool and in the service's own file.
    pub(super) fn set(&self, limits: &Limits) -> Result<LimitsSet> {
        let guard = self.service.lock();
        let service = guard.as_ref().ok_or_else(|| self.ended())?;
        let name = &limits.name;
        let wanted = limits.over(service.pool().member(name)?.quota());
        let before = service.pool().set_quota(name, wanted)?;
        let configured = self.config.members.iter().find(|member| member.name == *name);
        let mut members = added::load(&self.data)?;
        let mut noted_in = None;
        if let Some(member) = members.iter_mut().find(|member| member.name == *name) {
            let said = MemberConfig {
                share: limits.share.or(member.share),
                home: limits.home.or(member.home),
                files: limits.files.or(member.files),
                ..member.clone()
            };
            *member = said;
            added::store(&self.data, &members)?;
            noted_in = configured.is_none().then(|| added::path(&self.data));
        }
        let (before, now) = (QuotaStatus::of(before), QuotaStatus::of(wanted));
        let remark = configured.and_then(|member| differs(member, wanted));
        Ok(LimitsSet { name: name.clone(), before, now, noted_in, remark })
    }
}

/// The first limit of which other is said than the member has: its name, and both.
fn difference(member: &MemberConfig, has: Quota) -> Option<(&'static str, String, String)> {
    let share = member.share.filter(|share| *share != has.share);
    let home = member.home.filter(|home| *home != has.home);
    let files = member.files.filter(|files| *files != has.files);
    share
        .map(|said| ("share", said.to_string(), has.share.to_string()))
        .or_else(|| home.map(|said| ("home", said.to_string(), has.home.to_string())))
        .or_else(|| files.map(|said| ("files", said.to_string(), has.files.to_string())))
}

/// What the configuration says otherwise than the pool, whose limits count.
pub(super) fn differs(member: &MemberConfig, has: Quota) -> Option<String> {
    let (limit, said, has) = difference(member, has)?;
    let name = &member.name;
    Some(format!(
        "the configuration says `{limit}` of member `{name}` is {said}, and the pool has {has}, which counts; `ishigaki log set` changes it, and the configuration should say the same"
    ))
}

/// Refuses to serve a member that is there with other limits, when these are said by the one who asks for it.
pub(super) fn check(member: &MemberConfig, has: Quota) -> Result<()> {
    let Some((limit, said, has)) = difference(member, has) else { return Ok(()) };
    let name = &member.name;
    Err(Error::Member(format!(
        "member `{name}` is there already, and its `{limit}` is {has}, not {said}; leave it out, and change it with `ishigaki log set` when the member is served"
    )))
}
