//! In whose name a server is asked: a file as `mount.cifs` takes it.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::source::{Error, ErrorKind, Result};

/// The most bytes of a file.
const LARGEST: u64 = 64 << 10;

/// A user with a password; without a name, a guest.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Empty for a guest.
    pub user: String,
    /// Of the user.
    pub password: String,
    /// The Windows domain or the server's own name; empty for what the server takes by itself.
    pub domain: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl Credentials {
    /// The account that a server gives to guests.
    pub fn guest() -> Self {
        Self::default()
    }

    pub(super) fn is_guest(&self) -> bool {
        self.user.is_empty()
    }

    /// Reads a file with the lines `username=`, `password=` and `domain=`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if it can not be read, others than its owner may read it, or it has another line.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = |why: String| {
            Error::new(ErrorKind::Invalid, format!("can not use the credentials in {}: {why}", path.display()))
        };
        let mut text = String::new();
        let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
        let mode = file.metadata().map_err(|error| wrong(error.to_string()))?.mode();
        if mode & 0o077 != 0 {
            let why = format!("its permissions are {:04o}: others may read the password; run chmod 600", mode & 0o7777);
            return Err(wrong(why));
        }
        file.take(LARGEST).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
        Self::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut credentials = Self::default();
        for (number, line) in text.lines().enumerate() {
            // Spaces may belong to the password.
            let line = line.trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // The line may be a password, so it is not repeated.
            let wrong = || format!("line {} is none of username=, password= and domain=", number + 1);
            let (key, value) = line.split_once('=').ok_or_else(wrong)?;
            match key.trim() {
                "username" | "user" => value.trim().clone_into(&mut credentials.user),
                "password" | "pass" => value.clone_into(&mut credentials.password),
                "domain" | "dom" => value.trim().clone_into(&mut credentials.domain),
                _ => return Err(wrong()),
            }
        }
        if let Some((domain, user)) = credentials.user.split_once(['\\', '/']) {
            (credentials.domain, credentials.user) = (domain.to_owned(), user.to_owned());
        }
        if credentials.user.is_empty() {
            return Err("it has no username=; leave the file out to come as a guest".to_owned());
        }
        Ok(credentials)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_says_who_asks() {
        let read = Credentials::parse("# ours\n username=anna\npassword= a=b \n\ndomain=OFFICE\n").expect("one");
        let expected = Credentials { user: "anna".into(), password: " a=b ".into(), domain: "OFFICE".into() };
        assert_eq!(read, expected);
        assert!(!format!("{read:?}").contains("a=b"), "the password is not shown");
        let read = Credentials::parse("username=OFFICE\\anna\npassword=x").expect("one");
        assert_eq!((read.user.as_str(), read.domain.as_str()), ("anna", "OFFICE"));
        for text in ["password=secret", "username=a\nsecret", "username=a\nsecret=b"] {
            let error = Credentials::parse(text).expect_err(text);
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("credentials");
        std::fs::write(&path, "username=anna\npassword=x\n").expect("writes");
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("sets");
        mode(0o640);
        let error = Credentials::read(&path).expect_err("refused");
        assert!(error.kind == ErrorKind::Invalid && error.message.contains("chmod 600"), "{error}");
        mode(0o600);
        assert_eq!(Credentials::read(&path).expect("reads").user, "anna");
        assert!(Credentials::read(&place.path().join("absent")).is_err());
    }
}
