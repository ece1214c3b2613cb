//! The protocols there are, by name.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// How transactions that run at the same time are kept apart. All of them are serializable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolKind {
    /// Strict two-phase locking with wait-die: who comes second waits or gives way at once, and what a transaction has seen
    /// stays so until its end. A transaction that keeps its [`Age`](crate::Age) gets its turn.
    Locking,
    /// Optimistic, with timestamps from the data: nothing is locked while a transaction runs, and it learns at its commit
    /// whether all that it saw fits together. The default: it was the faster one in every workload that was measured.
    #[default]
    TicToc,
}

impl fmt::Display for ProtocolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locking => "locking",
            Self::TicToc => "tictoc",
        })
    }
}

impl FromStr for ProtocolKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "locking" => Ok(Self::Locking),
            "tictoc" => Ok(Self::TicToc),
            _ => Err(Error::InvalidSetting { reason: format!("a protocol is locking or tictoc, not `{text}`") }),
        }
    }
}
