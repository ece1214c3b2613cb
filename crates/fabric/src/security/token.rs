//! Proving to know a secret without saying it: each side answers the other's nonce with a keyed hash (HMAC-SHA-256) over
//! both nonces and its own role.
//!
//! The nonces make each proof good for one connection, the role keeps one side's proof from being sent back as the
//! other's.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ring::hmac;

use crate::region::random;
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

    /// From a file of this user's alone, which is made with a secret at random if it is not there.
    ///
    /// # Errors
    ///
    /// [`Error::Credentials`] if the file is a link, belongs to another user, or others can read or change it.
    pub fn own(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let wrong = |reason: String| Error::Credentials { path: path.to_owned(), reason };
        let mut file = match open_own(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                make_own(path).map_err(|error| wrong(format!("can not be made: {error}")))?;
                open_own(path)
            }
            opened => opened,
        }
        .map_err(|error| wrong(format!("can not be opened: {error}; remove it, and a new one is made")))?;
        let known = file.metadata().map_err(|error| wrong(format!("can not be looked at: {error}")))?;
        if known.uid() != rustix::process::geteuid().as_raw() || !known.is_file() || known.mode() & 0o077 != 0 {
            let reason = "is no file of this user's alone (mode 0600), so its secret may be known; remove it, and a new one is made";
            return Err(wrong(reason.to_owned()));
        }
        let mut secret = Vec::new();
        file.read_to_end(&mut secret).map_err(|error| wrong(format!("can not be read: {error}")))?;
        // Clients keep copies of it: it must not be another one after a power cut.
        sync_name(path).map_err(|error| wrong(format!("can not be made durable: {error}")))?;
        Self::new(secret.trim_ascii_end()).map_err(|error| wrong(error.to_string()))
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

/// Opens a token's file; a link is not followed.
fn open_own(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// Makes a file with a secret at random; whole or not at all, and none if another process was faster.
fn make_own(path: &Path) -> std::io::Result<()> {
    let drawn = u64::from_le_bytes(random().map_err(std::io::Error::other)?);
    let secret: [u8; 32] = random().map_err(std::io::Error::other)?;
    let text: String = secret.iter().map(|byte| format!("{byte:02x}")).chain(["\n".to_owned()]).collect();
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{drawn:016x}.new"));
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::hard_link(&temporary, path)
    });
    let _ = std::fs::remove_file(&temporary);
    match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Makes a file's name durable, also one that a process has made which was killed.
fn sync_name(path: &Path) -> std::io::Result<()> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(above)?.sync_all()
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

    #[test]
    fn a_token_of_ones_own_is_made_once_and_for_this_user_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let (first, second) = (Token::own(&path).expect("made"), Token::own(&path).expect("found"));
        let nonces = [&[0; NONCE], &[0; NONCE]];
        assert_eq!(first.proof(Side::Client, nonces), second.proof(Side::Client, nonces));
        let given = Token::from_file(&path).expect("as a client is given it");
        assert_eq!(first.proof(Side::Client, nonces), given.proof(Side::Client, nonces));
        let known = std::fs::metadata(&path).expect("there");
        assert_eq!((known.mode() & 0o777, known.len()), (0o600, 65));
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1, "nothing else is left");
        let other = Token::own(folder.path().join("other")).expect("made");
        assert_ne!(first.proof(Side::Client, nonces), other.proof(Side::Client, nonces), "drawn at random");
    }

    #[test]
    fn a_token_that_others_could_read_or_have_put_there_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        Token::own(&path).expect("made");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        Token::own(&link).expect_err("a link leads anywhere");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        std::fs::set_permissions(&path, open).expect("set");
        let error = Token::own(&path).expect_err("the group may read it").to_string();
        assert!(error.contains("mode 0600") && error.contains("remove it"), "{error}");
    }
}
