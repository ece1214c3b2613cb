//! A member, as a configuration, a command line or a control request has it.

use std::path::PathBuf;
use std::str::FromStr;

use ishigaki_base::ByteSize;
use ishigaki_logpool::{MemberSettings, Profile, Quota};
use ishigaki_logpool_fs::Place;
use serde::ser::Serializer;
use serde::{Deserialize, Deserializer, Serialize};

use super::parsed;
use crate::Owner;

/// A member, and where it is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct MemberConfig {
    /// Its name in the pool.
    pub name: String,
    /// What kind of server it is for.
    pub profile: Profile,
    /// Where it is served.
    pub place: Place,
    /// Whose its files are; by default of whoever runs the service.
    pub owner: Option<Owner>,
    /// Its share of the log, when it is taken in.
    pub share: Option<ByteSize>,
    /// What its files may take together, when it is taken in.
    pub home: Option<ByteSize>,
    /// How many files and directories it may have, when it is taken in.
    pub files: Option<u32>,
}

/// The same as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(serialize_with = "profile_text", deserialize_with = "profile_of")]
    profile: Profile,
    /// One of the three is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mount: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    socket: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ring: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<Owner>,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "exact", deserialize_with = "parsed")]
    share: Option<ByteSize>,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "exact", deserialize_with = "parsed")]
    home: Option<ByteSize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<u32>,
}

impl TryFrom<Written> for MemberConfig {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { name, profile, mount, socket, ring, owner, share, home, files } = written;
        let places = [
            ("mount", mount.map(Place::Mount)),
            ("socket", socket.map(Place::Socket)),
            ("ring", ring.map(Place::Ring)),
        ];
        let mut places = places.into_iter().filter_map(|(key, place)| Some((key, place?)));
        let place = match (places.next(), places.next()) {
            (Some((_, place)), None) => place,
            (found, other) => {
                let has = match found.zip(other) {
                    Some(((one, _), (other, _))) => format!("both `{one}` and `{other}`"),
                    None => "neither `mount` nor `socket` nor `ring`".to_owned(),
                };
                return Err(format!(
                    "member `{name}` has {has}; give it `mount`, a folder for a server of this host, `socket`, for a virtual machine, or `ring`, for a database of ours"
                ));
            }
        };
        Ok(Self { name, profile, place, owner, share, home, files })
    }
}

impl From<MemberConfig> for Written {
    fn from(member: MemberConfig) -> Self {
        let MemberConfig { name, profile, place, owner, share, home, files } = member;
        let (mut mount, mut socket, mut ring) = (None, None, None);
        match place {
            Place::Mount(folder) => mount = Some(folder),
            Place::Socket(path) => socket = Some(path),
            Place::Ring(path) => ring = Some(path),
        }
        Self { name, profile, mount, socket, ring, owner, share, home, files }
    }
}

impl MemberConfig {
    /// What it is given when the pool takes it in.
    pub fn settings(&self) -> MemberSettings {
        let default = Quota::default();
        let quota = Quota {
            share: self.share.unwrap_or(default.share),
            home: self.home.unwrap_or(default.home),
            files: self.files.unwrap_or(default.files),
        };
        MemberSettings { profile: self.profile.clone(), quota }
    }
}

/// `NAME:PROFILE:FOLDER[:USER[:GROUP]]`, as on a command line.
impl FromStr for MemberConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(4, ':');
        let (Some(name), Some(profile), Some(folder)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("a member is NAME:PROFILE:FOLDER[:USER[:GROUP]]".to_owned());
        };
        if name.is_empty() || folder.is_empty() {
            return Err("a member has a name and a folder: NAME:PROFILE:FOLDER[:USER[:GROUP]]".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            profile: profile.parse::<Profile>().map_err(|error| error.to_string())?,
            place: Place::Mount(folder.into()),
            owner: parts.next().map(str::parse).transpose()?,
            share: None,
            home: None,
            files: None,
        })
    }
}

fn profile_text<S: Serializer>(profile: &Profile, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(profile)
}

fn profile_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Profile, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// A size in the largest unit that says it exactly.
#[expect(clippy::ref_option, reason = "as serde calls it")]
pub(super) fn exact<S: Serializer>(size: &Option<ByteSize>, serializer: S) -> Result<S::Ok, S::Error> {
    let bytes = size.unwrap_or_default().0;
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")];
    let (shift, unit) =
        units.into_iter().find(|(shift, _)| bytes.trailing_zeros() >= *shift && bytes != 0).unwrap_or((0, "B"));
    serializer.serialize_str(&format!("{}{unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_read_from_one_word() {
        let member: MemberConfig = "orders:postgresql:/srv/log:postgres:dba".parse().unwrap();
        assert_eq!((member.name.as_str(), member.profile.name), ("orders", "postgresql"));
        assert_eq!(member.owner.unwrap().to_string(), "postgres:dba");
        assert_eq!("a:generic:log".parse::<MemberConfig>().unwrap().owner, None);
        for text in ["", "a", "a:generic", "a:generic:", ":generic:/m", "a:oracle:/m", "a:generic:/m:"] {
            assert!(text.parse::<MemberConfig>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_member_has_a_folder_or_a_socket_or_a_ring_and_only_one_of_them() {
        let read =
            |places: &str| toml::from_str::<MemberConfig>(&format!("name = \"a\"\nprofile = \"mariadb\"\n{places}"));
        let (mount, socket, ring) = ("mount = \"/m\"\n", "socket = \"/s\"\n", "ring = \"/r\"\n");
        assert_eq!(read(mount).unwrap().place, Place::Mount("/m".into()));
        for (written, place) in [(socket, Place::Socket("/s".into())), (ring, Place::Ring("/r".into()))] {
            let member = read(written).unwrap();
            assert_eq!(member.place, place);
            assert_eq!(toml::from_str::<MemberConfig>(&toml::to_string(&member).unwrap()).unwrap(), member);
        }
        for (places, words) in [
            (String::new(), "neither `mount` nor `socket` nor `ring`"),
            (format!("{mount}{socket}"), "both `mount` and `socket`"),
            (format!("{socket}{ring}"), "both `socket` and `ring`"),
        ] {
            let error = read(&places).unwrap_err().to_string();
            assert!(error.contains("member `a` has ") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn sizes_are_written_so_that_they_are_read_back_exactly() {
        for bytes in [0, 1, 1000, 4096, (1 << 20) + 1, 5 << 30, 1 << 40, 3 << 41] {
            let mut member: MemberConfig = "a:generic:/m".parse().unwrap();
            member.share = Some(ByteSize(bytes));
            let text = toml::to_string(&member).unwrap();
            assert_eq!(toml::from_str::<MemberConfig>(&text).unwrap(), member, "{text}");
        }
    }
}
