//! Which servers there are.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::{Error, Result, User, is_root, mariadb, postgresql};

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `MariaDB`, with `InnoDB`'s log in a folder of its own by `innodb_log_group_home_dir`.
    MariaDb,
    /// `PostgreSQL`, with `pg_wal` in a folder of its own by a symbolic link.
    PostgreSql,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::MariaDb, Self::PostgreSql];

    /// Debian's package.
    pub fn package(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadb-server",
            Self::PostgreSql => "postgresql-15",
        }
    }

    /// The server's program.
    pub fn program(self) -> &'static Path {
        Path::new(match self {
            Self::MariaDb => mariadb::PROGRAM,
            Self::PostgreSql => postgresql::PROGRAM,
        })
    }

    /// What the user of the host is called that it runs as.
    pub fn user_name(self) -> &'static str {
        match self {
            Self::MariaDb => mariadb::USER,
            Self::PostgreSql => postgresql::USER,
        }
    }

    /// The user of the host that it runs as, if it can be run here: by root, and where it is installed.
    pub fn user(self) -> Result<User> {
        if !is_root() {
            return Err(Error::NotRoot);
        }
        if !self.program().exists() {
            return Err(Error::Missing { what: self.program().display().to_string(), package: self.package() });
        }
        let name = self.user_name();
        User::find(name)?.ok_or_else(|| Error::Missing { what: format!("user `{name}`"), package: self.package() })
    }
}

/// As a pool's profiles are called: `mariadb`, `postgresql`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MariaDb => "mariadb",
            Self::PostgreSql => "postgresql",
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| format!("there are mariadb and postgresql, not `{text}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_as_it_is_written() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse::<Kind>().unwrap(), kind);
        }
        assert!("oracle".parse::<Kind>().unwrap_err().contains("mariadb and postgresql"));
    }
}
