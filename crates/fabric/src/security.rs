//! Who may talk to whom: nobody but this host, who knows a token, or who has a certificate.
//!
//! | | authenticates | encrypts |
//! |---|---|---|
//! | [`Security::Open`] | nobody, hence only addresses of this host | no |
//! | [`Security::Token`] | both sides know a secret; it never travels | no: whoever can change packets can take over a connection |
//! | [`Security::Tls`] | both sides have a certificate of an authority that the other one trusts | yes, TLS 1.3 |
//!
//! Parts: [`token`] is the proof of knowing the secret, [`tls`] reads certificates.

use std::net::IpAddr;

use crate::{Error, Result};

pub(crate) mod tls;
mod token;

pub use tls::{Tls, TlsFiles};
pub use token::Token;
pub(crate) use token::{NONCE, PROOF, Side};

/// How two peers find out who they are. Both must use the same.
#[derive(Clone, Debug, Default)]
pub enum Security {
    /// No authentication: the address must be one of this host.
    #[default]
    Open,
    /// A pre-shared secret.
    Token(Token),
    /// TLS 1.3 with certificates on both sides.
    Tls(Tls),
}

impl Security {
    /// Refuses an address that others could use without showing who they are.
    pub(crate) fn check(&self, address: IpAddr) -> Result<()> {
        match self {
            Self::Open if !address.to_canonical().is_loopback() => {
                Err(Error::Insecure { address: address.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// The number in the handshake.
    pub(crate) fn method(&self) -> u8 {
        match self {
            // The channel itself has authenticated both; nothing is left to be shown.
            Self::Open | Self::Tls(_) => 0,
            Self::Token(_) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_host_needs_no_authentication() {
        let token = Security::Token(Token::new(b"sixteen bytes or more").expect("long enough"));
        for own in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            Security::Open.check(own.parse().expect("an address")).expect(own);
        }
        for others in ["0.0.0.0", "::", "10.0.0.1", "192.0.2.7", "::ffff:10.0.0.1"] {
            let address = others.parse().expect("an address");
            assert!(matches!(Security::Open.check(address), Err(Error::Insecure { .. })), "{others}");
            token.check(address).expect("there is authentication");
        }
    }
}
