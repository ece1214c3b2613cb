//! Which transport carries the bytes, in one word.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// What carries the bytes of a connection.
///
/// ```
/// use ishigaki_fabric::Fabric;
///
/// assert_eq!("tcp".parse::<Fabric>()?, Fabric::Tcp);
/// assert_eq!("ofi:shm".parse::<Fabric>()?, Fabric::Libfabric { provider: "shm".to_owned() });
/// # Ok::<(), ishigaki_fabric::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fabric {
    /// `tcp`: the connection that the handshake was on, with TLS if there is any.
    #[default]
    Tcp,
    /// `ofi:PROVIDER`: a provider of libfabric, which must be installed on both hosts. The handshake's connection stays open
    /// beside it. What travels is not encrypted, whatever the handshake was.
    Libfabric {
        /// `tcp`, `net`, `sockets`, `shm`, `verbs`, …, as `ishigaki media probe --fabric` lists them.
        provider: String,
    },
}

impl FromStr for Fabric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            None if text == "tcp" => Ok(Self::Tcp),
            Some(("ofi", provider)) if !provider.is_empty() => Ok(Self::Libfabric { provider: provider.to_owned() }),
            _ => {
                let reason =
                    format!("{text:?} is no transport; there are \"tcp\" and \"ofi:PROVIDER\", as in \"ofi:verbs\"");
                Err(Error::Invalid { reason })
            }
        }
    }
}

impl fmt::Display for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp => f.write_str("tcp"),
            Self::Libfabric { provider } => write!(f, "ofi:{provider}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_reads_back_as_it_was_written_and_nothing_else_is_one() {
        for text in ["tcp", "ofi:shm", "ofi:tcp;ofi_rxm"] {
            assert_eq!(text.parse::<Fabric>().expect("a transport").to_string(), text);
        }
        for text in ["", "ofi", "ofi:", "udp", "tcp:", "verbs"] {
            assert!(matches!(text.parse::<Fabric>(), Err(Error::Invalid { .. })), "{text}");
        }
    }
}
