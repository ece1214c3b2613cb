//! What a service is to do, as its configuration says it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_logpool::{Settings, Waiting};
use ishigaki_logpool_fs::Place;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::{Error, Result};

mod limits;
mod member;

pub use limits::Limits;
pub use member::MemberConfig;

/// What is served, and how.
///
/// ```
/// use std::path::Path;
/// use ishigaki_logpool_service::Config;
///
/// let text = r#"
///     data = "pool"
///     log = "2GiB"
///     waiting = "auto"
///
///     [[member]]
///     name = "orders"
///     profile = "postgresql"
///     mount = "/srv/orders-log"
///     owner = "postgres"
/// "#;
/// let config = Config::parse(text, Path::new("/etc/pool.toml"))?;
/// assert_eq!(config.data, Path::new("/etc/pool"));
/// assert_eq!(config.members[0].name, "orders");
/// # Ok::<(), ishigaki_logpool_service::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The data directory: log, homes, control socket.
    pub data: PathBuf,
    /// The most that the log may take; the pool's default if it is not given.
    pub log: Option<ByteSize>,
    /// How the log process waits; the pool's default if it is not given.
    pub waiting: Option<Waiting>,
    /// Bytes of homes that are compared with their checksums each second; the pool's default if it is not given.
    pub scrub: Option<ByteSize>,
    /// `HOST:PORT` where Prometheus finds the numbers.
    pub metrics: Option<String>,
    /// How long a process that takes over may take until it serves; two minutes if it is not given. No file says it.
    pub takeover: Option<Duration>,
    /// The members, besides those that were added to a running service.
    pub members: Vec<MemberConfig>,
}

/// The same as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    data: PathBuf,
    #[serde(default, deserialize_with = "parsed")]
    log: Option<ByteSize>,
    #[serde(default, deserialize_with = "parsed")]
    waiting: Option<Waiting>,
    #[serde(default, deserialize_with = "parsed")]
    scrub: Option<ByteSize>,
    metrics: Option<String>,
    #[serde(default)]
    member: Vec<toml::Spanned<MemberConfig>>,
}

/// A value that is written as text.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(|error| serde::de::Error::custom(format!("`{text}`: {error}")))
}

impl Config {
    /// A directory and its members, everything else as it is by default.
    pub fn new(data: PathBuf, members: Vec<MemberConfig>) -> Self {
        Self { data, log: None, waiting: None, scrub: None, metrics: None, takeover: None, members }
    }

    /// Reads a configuration. Relative paths begin where its file is.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with the line, for what is no TOML, a key that there is not, a value that can not be, a member with
    /// no place or two, and a member or place that is there twice.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let Written { data, log, waiting, scrub, metrics, member } = read(text, path)?;
        let base = path.parent().unwrap_or(Path::new(""));
        let lines: Vec<usize> = member.iter().map(|member| line_of(text, member.span().start)).collect();
        let mut members: Vec<MemberConfig> = member.into_iter().map(toml::Spanned::into_inner).collect();
        for member in &mut members {
            member.place = member.place.at(base.join(member.place.path()));
        }
        if let Err((number, reason)) = check(&members) {
            return Err(Error::Config { path: path.to_owned(), line: Some(lines[number]), reason });
        }
        Ok(Self { data: base.join(data), log, waiting, scrub, metrics, takeover: None, members })
    }

    /// Refuses members and places that are there twice.
    pub(crate) fn check(&self) -> Result<()> {
        check(&self.members).map_err(|(_, reason)| Error::Member(reason))
    }

    /// The pool's settings.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.log = self.log.unwrap_or(settings.log);
        settings.waiting = self.waiting.unwrap_or(settings.waiting);
        settings.scrub = self.scrub.unwrap_or(settings.scrub);
        settings.reserve = true;
        settings
    }
}

/// Reads TOML, and says where it is not what was expected.
pub(crate) fn read<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T> {
    toml::from_str(text).map_err(|error: toml::de::Error| Error::Config {
        path: path.to_owned(),
        line: error.span().map(|span| line_of(text, span.start)),
        reason: error.message().replace('\n', ", "),
    })
}

/// The line of a place in a text, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
}

/// The first member that can not stand beside those before it, and why.
fn check(members: &[MemberConfig]) -> Result<(), (usize, String)> {
    let (mut names, mut places) = (BTreeSet::new(), BTreeMap::new());
    for (number, member) in members.iter().enumerate() {
        if !names.insert(&member.name) {
            return Err((number, format!("member `{}` is there twice; a name is one server's alone", member.name)));
        }
        let path = member.place.path();
        if let Some(other) = places.insert(tidy(path), &member.name) {
            let (path, name) = (path.display(), &member.name);
            let reason = format!("`{other}` and `{name}` are both at {path}; each needs a folder or socket of its own");
            return Err((number, reason));
        }
    }
    within(members).map_or(Ok(()), Err)
}

/// Why a member's place can not be, which is in the folder of another one: it would be one of that member's files.
pub(crate) fn inside(members: &[MemberConfig]) -> Option<String> {
    within(members).map(|(_, reason)| reason)
}

/// The first member whose place is in the folder of another one, and why that can not be.
fn within(members: &[MemberConfig]) -> Option<(usize, String)> {
    let folders = || members.iter().filter(|member| matches!(member.place, Place::Mount(_)));
    members.iter().enumerate().find_map(|(number, member)| {
        let place = tidy(member.place.path());
        let is_around = |other: &&MemberConfig| {
            let folder = tidy(other.place.path());
            // At the same place they are in each other's way, which is told elsewhere.
            other.name != member.name && place != folder && place.starts_with(folder)
        };
        let other = folders().find(is_around)?;
        let (name, other, folder) = (&member.name, &other.name, other.place.path().display());
        Some((
            number,
            format!(
                "`{name}` is at {}, in the folder of `{other}` ({folder}), where that member's files are; give it a place elsewhere",
                member.place.path().display()
            ),
        ))
    })
}

/// A path without `.` and `..`, as far as that can be told from its words.
fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if tidy.file_name().is_some() => {
                tidy.pop();
            }
            part => tidy.push(part),
        }
    }
    tidy
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
data = "pool"
log = "2GiB"
waiting = "delay:50us"
metrics = "127.0.0.1:9117"
scrub = "4MiB"

[[member]]
name = "orders"
profile = "postgresql"
mount = "/srv/orders-log"
owner = "postgres"
share = "32MiB"
home = "4GiB"
files = 64

[[member]]
name = "billing"
profile = "mariadb"
mount = "billing-log"
owner = 105

[[member]]
name = "machine"
profile = "mariadb"
socket = "machine.socket"

[[member]]
name = "ours"
profile = "generic"
ring = "ours.ring"
"#;

    fn refused(text: &str) -> (Option<usize>, String) {
        match Config::parse(text, Path::new("/etc/pool.toml")) {
            Err(Error::Config { line, reason, .. }) => (line, reason),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn everything_that_can_be_said_is_read() {
        let config = Config::parse(WHOLE, Path::new("/etc/pool.toml")).unwrap();
        assert_eq!(config.data, Path::new("/etc/pool"));
        assert_eq!(config.settings().log, ByteSize::gib(2));
        assert_eq!(config.settings().waiting, "delay:50us".parse().unwrap());
        assert_eq!(config.settings().scrub, ByteSize::mib(4));
        assert_eq!(config.metrics.as_deref(), Some("127.0.0.1:9117"));
        let [orders, billing, machine, ours] = &config.members[..] else { panic!() };
        assert_eq!((orders.profile.name, &orders.place), ("postgresql", &Place::Mount("/srv/orders-log".into())));
        let quota = orders.settings().quota;
        assert_eq!((quota.share, quota.home, quota.files), (ByteSize::mib(32), ByteSize::gib(4), 64));
        assert_eq!((&billing.place, billing.share), (&Place::Mount("/etc/billing-log".into()), None));
        assert_eq!(machine.place, Place::Socket("/etc/machine.socket".into()));
        assert_eq!(ours.place, Place::Ring("/etc/ours.ring".into()));
        assert_eq!(billing.owner.as_ref().unwrap().to_string(), "105");
        assert_eq!(billing.settings().quota, ishigaki_logpool::Quota::default());
    }

    #[test]
    fn what_can_not_be_is_told_with_its_line() {
        let member = "[[member]]\nname = \"a\"\nprofile = \"generic\"\nmount = \"/m\"\n";
        let of_member = |more: &str| format!("data = \"p\"\n{member}{more}\n");
        for (text, line, words) in [
            ("data = \"p\"\nsize = \"1GiB\"\n".to_owned(), 2, "unknown field `size`"),
            ("log = \"1GiB\"\n".to_owned(), 1, "missing field `data`"),
            ("data = \"p\"\nlog = \"large\"\n".to_owned(), 2, "`large`"),
            ("data = \"p\"\n\nwaiting = \"soon\"\n".to_owned(), 3, "no way to wait"),
            ("data = \"p\"\nscrub = \"fast\"\n".to_owned(), 2, "`fast`"),
            ("data = \"p\n".to_owned(), 1, "string"),
            (of_member("quota = 1"), 6, "unknown field `quota`"),
            (of_member("share = 5"), 6, "invalid type"),
            (of_member("owner = true"), 6, "a user's name or number"),
            (of_member("owner = \"\""), 6, "no name or number"),
            (of_member("files = -1"), 6, "invalid value"),
            (of_member("profile = \"oracle\""), 6, "duplicate key"),
            (of_member("").replace("generic", "oracle"), 4, "there is no profile `oracle`"),
            (of_member("").replace("name = \"a\"\n", ""), 2, "missing field `name`"),
            (of_member(member), 6, "`a` is there twice"),
            (of_member(&member.replace("\"a\"", "\"b\"")), 6, "`a` and `b` are both at /m"),
            (of_member(&member.replace("\"a\"", "\"b\"").replace("mount", "socket")), 6, "both at /m"),
            (of_member(&member.replace("\"a\"", "\"b\"").replace("/m", "/n/../m/./in")), 6, "in the folder of `a`"),
            (of_member("").replace("/m\"", "/m/in\"") + &member.replace("\"a\"", "\"b\""), 2, "in the folder of `b`"),
            (of_member("socket = \"/s\""), 2, "member `a` has both `mount` and `socket`"),
            (of_member("ring = \"/s\""), 2, "member `a` has both `mount` and `ring`"),
            (of_member("").replace("mount = \"/m\"\n", ""), 2, "member `a` has neither `mount` nor `socket`"),
        ] {
            let (found, reason) = refused(&text);
            assert_eq!((found, reason.contains(words)), (Some(line), true), "{text}: {found:?}: {reason}");
        }
    }
}
