//! What a kind of server does to its log files, as data.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// A block that a server rewrites in place at its checkpoints, while the rest of its log is written in a row. It goes to
/// the member's checkpoint file, not into the log (paper 4, section 4.1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// The file's path within the member.
    pub file: &'static str,
    /// Where it begins: a multiple of [`Area::LENGTH`].
    pub offset: u64,
}

impl Area {
    /// Bytes of an area.
    pub const LENGTH: u64 = 4096;
    /// The most areas of a profile.
    pub const MOST: usize = 16;
}

/// What the engine is told of a member's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name, for people and for the roster.
    pub name: &'static str,
    /// Its checkpoint areas.
    pub areas: &'static [Area],
}

impl Profile {
    /// Nothing is known of it.
    pub const GENERIC: Self = Self { name: "generic", areas: &[] };
    /// `MariaDB` with `InnoDB`: two checkpoint blocks in `ib_logfile0`, written in turn.
    pub const MARIADB: Self = Self {
        name: "mariadb",
        areas: &[Area { file: "ib_logfile0", offset: 4096 }, Area { file: "ib_logfile0", offset: 8192 }],
    };
    /// `PostgreSQL` with its `pg_wal`: its control file lies elsewhere.
    pub const POSTGRESQL: Self = Self { name: "postgresql", areas: &[] };

    /// All that there are.
    pub const ALL: [Self; 3] = [Self::GENERIC, Self::MARIADB, Self::POSTGRESQL];
}

impl FromStr for Profile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == text).ok_or_else(|| {
            Error::invalid(format!("there is no profile `{text}`; there are generic, mariadb and postgresql"))
        })
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_found_by_its_name_and_fits_the_format() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse::<Profile>().unwrap(), profile);
            assert!(profile.areas.len() <= Area::MOST);
            assert!(profile.areas.iter().all(|area| area.offset.is_multiple_of(Area::LENGTH)));
        }
        assert!("oracle".parse::<Profile>().is_err());
    }
}
