//! When write locks are let go of, by name.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// When a transaction lets go of its locks (paper 2: ELR and NLR).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// As soon as its place in the log is drawn: others see what is not durable yet, and are acknowledged only after it.
    #[default]
    Early,
    /// When its record is durable: whatever others see is. Under [`ProtocolKind::TicToc`](crate::ProtocolKind) a session
    /// gathers [`Group::transactions`](ishigaki_wal::Group) of them, and makes them durable together before that when
    /// somebody is in need of what they hold; under locking, a commit returns when it is durable.
    Normal,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Early => "early",
            Self::Normal => "normal",
        })
    }
}

impl FromStr for Release {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "early" => Ok(Self::Early),
            "normal" => Ok(Self::Normal),
            _ => Err(Error::InvalidSetting { reason: format!("locks are released early or normal, not `{text}`") }),
        }
    }
}
