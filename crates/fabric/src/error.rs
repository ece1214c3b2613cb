//! What can go wrong between two hosts.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ishigaki_base::ErrorKind;

/// The result of asking a peer for something.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the peer's address in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody answers at that address.
    #[error("{peer}: no connection: {source}; see that the node runs there and that no firewall is in the way")]
    Unreachable {
        /// Whom we wanted.
        peer: String,
        /// The operating system's word for it.
        source: io::Error,
    },
    /// We can not wait for peers at that address.
    #[error("{address}: can not listen: {source}{}", remedy_of_listening(source))]
    Listen {
        /// The address.
        address: String,
        /// The operating system's word for it.
        source: io::Error,
    },
    /// The peer did not answer in time. The connection is given up.
    #[error("{peer}: no answer to {operation} within {after:?}; the connection is given up")]
    Timeout {
        /// The peer.
        peer: String,
        /// What we waited for.
        operation: &'static str,
        /// How long we did.
        after: Duration,
    },
    /// The connection broke.
    #[error("{peer}: the connection is lost: {reason}; {}", if *sent { "the request was sent and may have been carried out, or not" } else { "the request was not sent" })]
    Lost {
        /// The peer.
        peer: String,
        /// Why.
        reason: String,
        /// The request had left, wholly or in part: whether the peer acted upon it is not known.
        sent: bool,
    },
    /// The peer, or we, did not like what the other one showed at the handshake.
    #[error("{peer}: refused: {reason}")]
    Refused {
        /// The peer.
        peer: String,
        /// Why, and the remedy.
        reason: String,
    },
    /// The peer sent what nobody may send. The connection is given up.
    #[error("{peer}: broke the protocol: {reason}")]
    Protocol {
        /// The peer.
        peer: String,
        /// What was wrong.
        reason: String,
    },
    /// Others than this host could connect, and nobody would ask them who they are.
    #[error(
        "{address}: without authentication only addresses of this host (127.0.0.1, ::1) can be used; give a token or certificates"
    )]
    Insecure {
        /// The address.
        address: String,
    },
    /// A file with a token, a key or certificates is of no use.
    #[error("{}: {reason}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A request that no peer could ever serve.
    #[error("{reason}")]
    Invalid {
        /// What about it is wrong.
        reason: String,
    },
}

/// What one may do about an address that can not be listened at.
fn remedy_of_listening(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => "; end who listens there, or take another port; port 0 takes one that is free",
        io::ErrorKind::AddrNotAvailable => "; give an address of this host, or 0.0.0.0 for all of them",
        io::ErrorKind::PermissionDenied => "; ports below 1024 are for root alone, take another one",
        io::ErrorKind::InvalidInput => "; an address is written HOST:PORT, as in 127.0.0.1:7117",
        _ => "",
    }
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreachable { .. }
            | Self::Listen { .. }
            | Self::Timeout { .. }
            | Self::Lost { .. }
            | Self::Protocol { .. } => ErrorKind::Unavailable,
            Self::Refused { .. } | Self::Insecure { .. } | Self::Credentials { .. } | Self::Invalid { .. } => {
                ErrorKind::Invalid
            }
        }
    }
}
