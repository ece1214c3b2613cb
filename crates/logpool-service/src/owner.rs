//! Whose a member's files are, as people say it: a user of this host, and perhaps another group than the user's own.

use std::fmt;
use std::str::FromStr;

use ishigaki_logpool_fs::Access;
use nix::unistd::{Gid, Group, Uid, User};
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::{Error, Result};

/// `USER` or `USER:GROUP`, each a name or a number.
///
/// ```
/// use ishigaki_logpool_service::Owner;
///
/// assert_eq!("0:0".parse::<Owner>().unwrap().access("orders").unwrap().user, 0);
/// assert!("".parse::<Owner>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    user: Identity,
    group: Option<Identity>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    Name(String),
    Number(u32),
}

impl Owner {
    /// The numbers of the user and the group on this host.
    ///
    /// # Errors
    ///
    /// Where there is no such user or group. A user that is only a number needs a group.
    pub fn access(&self, member: &str) -> Result<Access> {
        let unknown = |what: String| Error::Member(format!("member `{member}`: {what}"));
        let (user, own_group) = match &self.user {
            Identity::Name(name) => {
                let found = User::from_name(name).map_err(|errno| unknown(format!("user `{name}`: {errno}")))?;
                let found = found.ok_or_else(|| unknown(format!("there is no user `{name}` on this host")))?;
                (found.uid.as_raw(), Some(found.gid.as_raw()))
            }
            &Identity::Number(number) => {
                let found = User::from_uid(Uid::from_raw(number)).ok().flatten();
                (number, found.map(|user| user.gid.as_raw()))
            }
        };
        let group = match &self.group {
            Some(Identity::Name(name)) => {
                let found = Group::from_name(name).map_err(|errno| unknown(format!("group `{name}`: {errno}")))?;
                found.ok_or_else(|| unknown(format!("there is no group `{name}` on this host")))?.gid.as_raw()
            }
            Some(Identity::Number(number)) => *number,
            None => own_group.ok_or_else(|| {
                unknown(format!("user {user} is not known to this host; give a group as well, as in {user}:{user}"))
            })?,
        };
        let access = Access { user, group };
        if !may_give(Access::own().user, access.user) {
            return Err(Error::NotRoot { member: member.to_owned(), owner: self.to_string() });
        }
        Ok(access)
    }

    /// The numbers of the user and the group in a virtual machine, whose names this host does not know.
    ///
    /// # Errors
    ///
    /// Where they are not both numbers.
    pub fn access_in_machine(&self, member: &str) -> Result<Access> {
        match (&self.user, &self.group) {
            (Identity::Number(user), Some(Identity::Number(group))) => Ok(Access { user: *user, group: *group }),
            _ => Err(Error::Member(format!(
                "member `{member}` is to belong to {self} in a virtual machine, which has users of its own: give the numbers that they have there, as in 105:106"
            ))),
        }
    }

    /// Of those numbers, as they are.
    pub fn in_machine(access: Access) -> Self {
        Self { user: Identity::Number(access.user), group: Some(Identity::Number(access.group)) }
    }

    /// Of those numbers, by name where this host has one.
    pub fn of(access: Access) -> Self {
        let user = User::from_uid(Uid::from_raw(access.user)).ok().flatten();
        let group = Group::from_gid(Gid::from_raw(access.group)).ok().flatten();
        Self {
            user: user.map_or(Identity::Number(access.user), |user| Identity::Name(user.name)),
            group: Some(group.map_or(Identity::Number(access.group), |group| Identity::Name(group.name))),
        }
    }
}

/// Whether that user can serve files that belong to the other one: nobody but the user itself sees a mount that is not
/// root's.
fn may_give(user: u32, owner: u32) -> bool {
    user == 0 || user == owner
}

impl FromStr for Identity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            // What the kernel takes for nobody at all.
            Ok(u32::MAX) => Err("4294967295 is no user or group".to_owned()),
            Ok(number) => Ok(Self::Number(number)),
            Err(_) if text.is_empty() || text.contains('\0') || text.bytes().all(|byte| byte.is_ascii_digit()) => {
                Err(format!("`{}` is no name or number of a user or group", text.escape_default()))
            }
            Err(_) => Ok(Self::Name(text.to_owned())),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        Ok(Self { user: user.parse()?, group: group.map(str::parse).transpose()? })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.user.fmt(f)?;
        self.group.as_ref().map_or(Ok(()), |group| write!(f, ":{group}"))
    }
}

impl Serialize for Owner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Owner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OwnerVisitor)
    }
}

/// Takes a text, or a user's bare number.
struct OwnerVisitor;

impl Visitor<'_> for OwnerVisitor {
    type Value = Owner;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a user's name or number, as in \"postgres\", \"postgres:postgres\" or 105")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Owner, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Owner, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Owner, E> {
        number.to_string().parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_read_as_they_are_written() {
        for text in ["postgres", "postgres:postgres", "105", "105:106", "mysql:106"] {
            assert_eq!(text.parse::<Owner>().unwrap().to_string(), text);
        }
        for text in ["", ":", "a:", ":a", "4294967295", "4294967296", "a\0"] {
            assert!(text.parse::<Owner>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_root_gives_files_to_others() {
        assert!(may_give(0, 105) && may_give(105, 105) && may_give(0, 0));
        assert!(!may_give(105, 106) && !may_give(105, 0));
        let error = Error::NotRoot { member: "m".to_owned(), owner: "postgres".to_owned() }.to_string();
        assert!(error.contains("takes root: run the service as root or as that user"), "{error}");
    }

    #[test]
    fn the_users_of_a_machine_are_numbers() {
        let access = |text: &str| text.parse::<Owner>().unwrap().access_in_machine("m");
        // Whoever runs the service gives nobody of this host anything.
        let given = access("105:106").unwrap();
        assert_eq!(given, Access { user: 105, group: 106 });
        assert_eq!(Owner::in_machine(given).to_string(), "105:106");
        for text in ["root", "root:root", "105", "105:root", "root:0"] {
            let error = access(text).unwrap_err().to_string();
            assert!(error.contains("give the numbers that they have there"), "{error}");
        }
    }

    #[test]
    fn users_of_this_host_are_found_by_name_and_by_number() {
        let own = Access::own();
        let access = |text: &str| text.parse::<Owner>().unwrap().access("m");
        assert_eq!(access(&format!("{}:{}", own.user, own.group)).unwrap(), own);
        assert_eq!(Owner::of(own).access("m").unwrap(), own);
        let error = access("no-such-user-here").unwrap_err().to_string();
        assert!(error.contains("`m`") && error.contains("no user `no-such-user-here`"), "{error}");
        let error = access("root:no-such-group").unwrap_err().to_string();
        assert!(error.contains("no group `no-such-group`"), "{error}");
        let error = access("4000000000").unwrap_err().to_string();
        assert!(error.contains("give a group as well"), "{error}");
    }
}
