//! The roster: who the members of a pool are.

use ishigaki_base::{ByteSize, LogId};

use super::VERSION;
use super::numbers::{Reader, put, put_all, put_text};
use super::sealed::{self, Unfit};
use crate::{MemberId, MemberSettings, Quota, paths};

/// What it begins with.
pub(crate) const MAGIC: [u8; 4] = *b"ISPR";

/// The version that is written. In version 1 there are neither a sequence nor members that leave.
const NEWEST: u8 = 2;

/// All members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roster {
    pub(crate) log: LogId,
    /// No member ever had this number or a larger one.
    pub(crate) next: u16,
    /// Counts the rosters. Of two that are valid the larger one counts.
    pub(crate) sequence: u64,
    /// Names whose files are to be removed: they are not members any more, or not yet.
    pub(crate) leaving: Vec<String>,
    pub(crate) members: Vec<RosterMember>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RosterMember {
    pub(crate) id: MemberId,
    pub(crate) name: String,
    pub(crate) settings: MemberSettings,
}

impl Roster {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = self.log.0.to_le_bytes().to_vec();
        put_all(&mut body, &[self.next.into(), self.sequence, self.leaving.len() as u64]);
        self.leaving.iter().for_each(|name| put_text(&mut body, name));
        for RosterMember { id, name, settings: MemberSettings { profile, quota } } in &self.members {
            put(&mut body, id.0.into());
            put_text(&mut body, name);
            put_text(&mut body, profile.name);
            put_all(&mut body, &[quota.share.0, quota.home.0, quota.files.into()]);
        }
        sealed::wrap_as(MAGIC, NEWEST, &body)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        sealed::decode(NEWEST, MAGIC, bytes, |reader, version| Self::read(reader, version == VERSION))
    }

    fn read(reader: &mut Reader<'_>, is_old: bool) -> Option<Self> {
        let log = reader.log()?;
        let next: u16 = reader.number()?.try_into().ok()?;
        let (mut sequence, mut leaving) = (0, Vec::new());
        if !is_old {
            sequence = reader.number()?;
            for _ in 0..reader.number()? {
                leaving.push(reader.text().filter(|name| paths::check_member(name).is_ok())?);
            }
        }
        let mut members: Vec<RosterMember> = Vec::new();
        while !reader.is_empty() {
            let id = MemberId(reader.below(next.into())? as u16);
            let name = reader.text().filter(|name| paths::check_member(name).is_ok())?;
            let profile = reader.text()?.parse().ok()?;
            let (share, home, files) = (ByteSize(reader.number()?), ByteSize(reader.number()?), reader.short()?);
            let quota = Quota { share, home, files };
            quota.validate().ok()?;
            if members.iter().any(|other| other.id == id || other.name == name) {
                return None;
            }
            members.push(RosterMember { id, name, settings: MemberSettings { profile, quota } });
        }
        Some(Self { log, next, sequence, leaving, members })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    fn roster() -> Roster {
        let member = |id, name: &str, profile| RosterMember {
            id: MemberId(id),
            name: name.to_owned(),
            settings: MemberSettings { profile, quota: Quota::default() },
        };
        let members = vec![member(0, "a", Profile::MARIADB), member(2, "b", Profile::GENERIC)];
        Roster { log: LogId(5), next: 3, sequence: 9, leaving: vec!["c".to_owned()], members }
    }

    #[test]
    fn a_roster_reads_back() {
        assert_eq!(Roster::decode(&roster().encode()).unwrap(), roster());
    }

    #[test]
    fn a_member_twice_or_with_a_number_to_come_is_refused() {
        for change in
            [|roster: &mut Roster| roster.members[1].name = "a".to_owned(), |roster: &mut Roster| roster.next = 2]
        {
            let mut roster = roster();
            change(&mut roster);
            assert!(Roster::decode(&roster.encode()).is_err());
        }
    }
}
