//! How a node and its clients show each other who they are, as people say it: by files.

use std::fmt;
use std::path::{Path, PathBuf};

use ishigaki_fabric::{Security, Tls, TlsFiles, Token};

use crate::{Error, Result};

/// The file with the token of the node that serves a folder, if the node was given no other. No client can name it.
pub const OWN_TOKEN: &str = "ishigaki-token";

/// Nothing, a file with a token, or files with certificates. The same on both sides.
///
/// ```
/// use ishigaki_remote::Credentials;
///
/// let credentials = Credentials::of(Some("token".into()), None, None, None)?;
/// assert_eq!(credentials.to_string(), "token");
/// assert!(Credentials::of(None, Some("ca.pem".into()), None, None).is_err());
/// # Ok::<(), ishigaki_remote::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Credentials {
    /// Nobody shows anything: for addresses of this host alone.
    #[default]
    None,
    /// A file that both sides have.
    Token(PathBuf),
    /// PEM files.
    Tls {
        /// The authorities that the other side's certificate must come from.
        authorities: PathBuf,
        /// Our own certificate.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
}

impl Credentials {
    /// Of what was given; refuses half of something, and both at once.
    pub fn of(
        token: Option<PathBuf>,
        authorities: Option<PathBuf>,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
    ) -> Result<Self> {
        match (token, authorities, certificate, key) {
            (None, None, None, None) => Ok(Self::None),
            (Some(token), None, None, None) => Ok(Self::Token(token)),
            (None, Some(authorities), Some(certificate), Some(key)) => Ok(Self::Tls { authorities, certificate, key }),
            (Some(_), ..) => Err(Error::Invalid { reason: "give a token or certificates, not both".to_owned() }),
            (None, ..) => {
                let reason = "TLS needs three files: tls-ca, tls-cert and tls-key".to_owned();
                Err(Error::Invalid { reason })
            }
        }
    }

    /// The token of the node that serves this folder: a file in it, [`OWN_TOKEN`], made if it is not there. Only the user who made it can
    /// read it, and clients are given its path.
    pub fn own(folder: &Path) -> Result<Self> {
        let path = std::path::absolute(folder.join(OWN_TOKEN));
        let path = path.map_err(|error| Error::Invalid { reason: format!("{}: {error}", folder.display()) })?;
        Token::own(&path)?;
        Ok(Self::Token(path))
    }

    /// Reads the files.
    pub fn security(&self) -> Result<Security> {
        Ok(match self {
            Self::None => Security::Open,
            Self::Token(path) => Security::Token(Token::from_file(path)?),
            Self::Tls { authorities, certificate, key } => {
                let (authorities, certificate, key) = (authorities.clone(), certificate.clone(), key.clone());
                Security::Tls(Tls::from_files(&TlsFiles { authorities, certificate, key })?)
            }
        })
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Token(_) => "token",
            Self::Tls { .. } => "tls",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_something_and_both_at_once_are_refused_with_what_is_missing() {
        let some = |name: &str| Some(PathBuf::from(name));
        let tls = Credentials::of(None, some("ca"), some("cert"), some("key")).expect("three files");
        assert_eq!(tls.to_string(), "tls");
        for (token, authorities, certificate, key, word) in [
            (None, some("ca"), some("cert"), None, "tls-key"),
            (None, None, some("cert"), some("key"), "tls-ca"),
            (some("token"), some("ca"), some("cert"), some("key"), "not both"),
        ] {
            let error = Credentials::of(token, authorities, certificate, key).expect_err(word);
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
