//! Owners that have other numbers at the destination: the id map.
//!
//! A line is `uid OLD NEW` or `gid OLD NEW`; what follows `#` is a remark. Numbers without a line stay.

use std::collections::BTreeMap;
use std::path::Path;

use ishigaki_migrate::source::Owner;

use crate::{Error, Result};

/// The kernel takes this number for "leave it as it is".
const NO_ID: u32 = u32::MAX;

/// Numbers of users and groups, old to new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMap {
    users: BTreeMap<u32, u32>,
    groups: BTreeMap<u32, u32>,
}

impl IdMap {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] if it can not be read, or with the line that is none.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let reason = format!("{}: {error}", path.display());
            Error::setting("ids", reason, "name a file that can be read, or leave it out")
        })?;
        Self::parse(&text, path)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] with the line that is none.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut map = Self::default();
        for (number, line) in text.lines().enumerate() {
            let wrong = |reason: String| {
                Error::setting("ids", reason, "write `uid OLD NEW` or `gid OLD NEW`, each number once")
                    .written(path, number + 1)
            };
            let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let [kind, old, new] = words[..] else {
                return Err(wrong(format!("`{}` has not three words", line.trim())));
            };
            let ids = match kind {
                "uid" => &mut map.users,
                "gid" => &mut map.groups,
                _ => return Err(wrong(format!("`{kind}` is neither uid nor gid"))),
            };
            let id = |word: &str| {
                let id = word.parse().ok().filter(|id| *id != NO_ID);
                id.ok_or_else(|| wrong(format!("`{word}` is no number of a user or group")))
            };
            if ids.insert(id(old)?, id(new)?).is_some() {
                return Err(wrong(format!("{kind} {old} is there twice")));
            }
        }
        Ok(map)
    }

    /// The destination's owner.
    pub fn map(&self, owner: Owner) -> Owner {
        Owner {
            user: self.users.get(&owner.user).copied().unwrap_or(owner.user),
            group: self.groups.get(&owner.group).copied().unwrap_or(owner.group),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_line_is_mapped_and_all_else_stays() {
        let map = IdMap::parse("# old new\nuid 1000 2000 # anna\n\n  gid 100 200\n", Path::new("ids")).unwrap();
        assert_eq!(map.map(Owner { user: 1000, group: 100 }), Owner { user: 2000, group: 200 });
        assert_eq!(map.map(Owner { user: 100, group: 1000 }), Owner { user: 100, group: 1000 });
    }

    #[test]
    fn a_line_that_is_none_is_told_with_its_number() {
        for (text, words) in [
            ("uid 1\n", "ids:1: `ids`: `uid 1` has not three words"),
            ("\nuser 1 2\n", "ids:2: `ids`: `user` is neither"),
            ("uid 1 -2\n", "`-2` is no number"),
            ("gid 4294967295 1\n", "`4294967295` is no number"),
            ("uid 1 2\nuid 1 3\n", "ids:2: `ids`: uid 1 is there twice"),
        ] {
            let error = IdMap::parse(text, Path::new("ids")).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("uid OLD NEW"), "{error}");
        }
    }
}
