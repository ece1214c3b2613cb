//! The members that were added to a running service, where the next start finds them: `members.toml` in the data directory.
//!
//! It is written as a configuration writes members, by the service alone, and replaced as a whole by one rename. What the
//! pool itself must know of a member (name, profile, limits) is in the pool's roster as well; where it is mounted and whose
//! its files are concerns this host, and is here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ishigaki_service::stored;
use serde::{Deserialize, Serialize};

use crate::config::read;
use crate::{Error, MemberConfig, Result};

const NAME: &str = "members.toml";

const HEAD: &str = "\
# Members that `ishigaki log add` has taken in. The service replaces this file; change it only while none runs.
";

/// Where it is.
pub(crate) fn path(data: &Path) -> PathBuf {
    data.join(NAME)
}

/// What is in it.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    member: Vec<MemberConfig>,
}

/// Makes the file's name durable, which a process that was killed may have left to the page cache.
pub(crate) fn settle(data: &Path) -> Result<()> {
    let path = path(data);
    stored::settle(&path).map_err(|cause| Error::File { path, cause })
}

/// The members; none where there is no file.
pub(crate) fn load(data: &Path) -> Result<Vec<MemberConfig>> {
    let path = path(data);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(Error::File { path, cause }),
    };
    Ok(read::<Written>(&text, &path)?.member)
}

/// Makes these the members, durably.
pub(crate) fn store(data: &Path, members: &[MemberConfig]) -> Result<()> {
    let failed = |cause| Error::File { path: path(data), cause };
    let text = toml::to_string(&Written { member: members.to_vec() })
        .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    stored::replace(&path(data), [HEAD, &text].concat().as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_again_and_damage_is_told_with_its_line() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(load(data.path()).unwrap(), []);
        let mut one: MemberConfig = "a:mariadb:/srv/a log:105:106".parse().unwrap();
        one.home = Some("3GiB".parse().unwrap());
        let members = [one, "b:generic:/srv/\"b\"".parse().unwrap()];
        store(data.path(), &members).unwrap();
        assert_eq!(load(data.path()).unwrap(), members);
        store(data.path(), &members[1..]).unwrap();
        assert_eq!(load(data.path()).unwrap(), members[1..]);
        fs::write(path(data.path()), "# x\n[[member]]\nname = 1\n").unwrap();
        let error = load(data.path()).unwrap_err().to_string();
        assert!(error.contains("members.toml:3: "), "{error}");
    }
}
