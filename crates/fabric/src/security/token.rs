//! Proving to know a secret without saying it: each side answers the other's nonce with a keyed hash (HMAC-SHA-256) over
//! both nonces and its own role.
//!
//! The nonces make each proof good for one connection, the role keeps one side's proof from being sent back as the
//! other's.

use std::fmt;
use std::path::Path;

use ring::hmac;

use crate::{Error, Result};

/// Bytes of a nonce.
pub(crate) const NONCE: usize = 32;

/// Bytes of a proof.
pub(crate) const PROOF: usize = 32;

/// No secret is shorter.
const SHORTEST: usize = 16;

/// Who proves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A pre-shared secret. Does not show itself in logs.
#[derive(Clone)]
pub struct Token {
    key: hmac::Key,
}

impl Token {
    /// From the secret itself: at least 16 bytes, better 32 at random.
    pub fn new(secret: &[u8]) -> Result<Self> {
        if secret.len() < SHORTEST {
            let reason = format!("a token has at least {SHORTEST} bytes, this one has {}", secret.len());
            return Err(Error::Invalid { reason });
        }
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret) })
    }

    /// From a file; white space at its end does not count.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let wrong = |reason: String| Error::Credentials { path: path.to_owned(), reason };
        let bytes = std::fs::read(path).map_err(|error| wrong(format!("can not be read: {error}")))?;
        Self::new(bytes.trim_ascii_end()).map_err(|error| wrong(error.to_string()))
    }

    /// What `side` shows.
    pub(crate) fn proof(&self, side: Side, nonces: [&[u8; NONCE]; 2]) -> [u8; PROOF] {
        let tag = hmac::sign(&self.key, &said(side, nonces));
        let mut proof = [0; PROOF];
        proof.copy_from_slice(tag.as_ref());
        proof
    }

    /// Whether `side` has shown it. Takes as long for a wrong proof as for a right one.
    pub(crate) fn is_proof(&self, side: Side, nonces: [&[u8; NONCE]; 2], proof: &[u8; PROOF]) -> bool {
        hmac::verify(&self.key, &said(side, nonces), proof).is_ok()
    }
}

/// What is hashed.
fn said(side: Side, [client, server]: [&[u8; NONCE]; 2]) -> Vec<u8> {
    let role: &[u8] = match side {
        Side::Client => b"ishigaki fabric client",
        Side::Server => b"ishigaki fabric server",
    };
    [role, client, server].concat()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_one_side_and_one_pair_of_nonces() {
        let token = Token::new(b"a secret of some length").expect("long enough");
        let (one, two) = ([1; NONCE], [2; NONCE]);
        let proof = token.proof(Side::Client, [&one, &two]);
        assert!(token.is_proof(Side::Client, [&one, &two], &proof));
        assert!(!token.is_proof(Side::Server, [&one, &two], &proof), "sent back");
        assert!(!token.is_proof(Side::Client, [&two, &one], &proof), "another connection's");
        let other = Token::new(b"A secret of some length").expect("long enough");
        assert!(!other.is_proof(Side::Client, [&one, &two], &proof), "another secret");
    }

    #[test]
    fn a_short_secret_is_refused_and_a_file_names_itself() {
        assert!(Token::new(&[7; SHORTEST - 1]).is_err());
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "short\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n").expect("written");
        let error = Token::from_file(file.path()).expect_err("white space is no secret").to_string();
        assert!(error.contains(&file.path().display().to_string()), "{error}");
        std::fs::write(file.path(), "0123456789abcdef\n").expect("written");
        let (read, given) = (Token::from_file(file.path()).expect("a token"), Token::new(b"0123456789abcdef"));
        let nonces = [&[0; NONCE], &[0; NONCE]];
        assert_eq!(read.proof(Side::Client, nonces), given.expect("a token").proof(Side::Client, nonces));
        assert_eq!(format!("{read:?}"), "Token(..)");
    }
}
