//! What keeps the tester from testing.

use std::io;

/// The result of the tester's own work.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a side can not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There can be no server of the rival's here: it is not installed, or this is not root.
    #[error(transparent)]
    Servers(#[from] ishigaki_servers::Error),
    /// Our own database does not open, or does not do what every test takes for granted.
    #[error("our side: {0}")]
    Ours(#[from] ishigaki_sql::Error),
    /// Our storage node does not start.
    #[error("our side's storage node: {0}")]
    Node(String),
    /// A folder, or the connection to the rival.
    #[error("the tester's folder or its connection to PostgreSQL: {0}")]
    Io(io::Error),
    /// The rival refuses what the tester needs.
    #[error("PostgreSQL refuses {statement}: {message}")]
    Rival {
        /// What it was asked.
        statement: String,
        /// What it said.
        message: String,
    },
}

impl Error {
    /// True where this host has no `PostgreSQL`, or no right to start one: a reason to skip, not to fail.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Servers(ishigaki_servers::Error::NotRoot | ishigaki_servers::Error::Missing { .. }))
    }
}
