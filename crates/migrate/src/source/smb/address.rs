//! Addresses of shares, as people write them.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use super::name;
use crate::source::url::{decoded, split_port};
use crate::source::{Error, ErrorKind, Owner, Result};

/// The options, for messages.
const OPTIONS: &str = "connections, timeout, encrypt, links, uid, gid, file_mode, dir_mode";
/// Where SMB is spoken.
const PORT: u16 = 445;

/// Where a share is: `smb://HOST[:PORT]/SHARE[/PATH][?OPTION=VALUE&…]`.
///
/// | Option | Means | Without it |
/// |---|---|---|
/// | `connections` | the most TCP connections, 1 to 64 | 4 |
/// | `timeout` | seconds until a server that does not answer is an error | 60 |
/// | `encrypt` | `yes`: refuse a server that can not encrypt | encrypted where the server wants it |
/// | `links` | `no`: do not ask each listed file for its number of names | asked |
/// | `uid`, `gid` | to whom files belong | root, with a warning |
/// | `file_mode`, `dir_mode` | permissions, octal | `0600`, `0700` |
///
/// Bytes that can not stand in an address are written as `%` and two hexadecimal digits; an IPv6 address stands in brackets.
///
/// ```
/// use ishigaki_migrate::source::smb::Address;
///
/// let address: Address = "smb://old/data/our%20files?encrypt=yes".parse()?;
/// assert_eq!((address.host.as_str(), address.port, address.share.as_str()), ("old", 445, "data"));
/// assert_eq!(address.path.to_str(), Some("our files"));
/// # Ok::<(), ishigaki_migrate::source::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or an IP address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The share's name.
    pub share: String,
    /// The directory below the share.
    pub path: PathBuf,
    /// The most TCP connections.
    pub connections: usize,
    /// How long a server that does not answer is waited for in one call.
    pub timeout: Duration,
    /// Nothing is asked without encryption.
    pub encrypt: bool,
    /// Each file of a listing is asked for the number of its names.
    pub links: bool,
    /// To whom files belong, if that was given.
    pub owner: Option<Owner>,
    /// Permissions of files.
    pub file_mode: u32,
    /// Permissions of directories.
    pub dir_mode: u32,
    /// As it was written, without the options.
    text: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            let message = format!("{text} is no address of an SMB share: {why}; give one as in smb://server/share");
            Error::new(ErrorKind::Invalid, message)
        };
        let rest = text.strip_prefix("smb://").ok_or_else(|| wrong("it does not begin with smb://"))?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = place.split_once('/').unwrap_or((place, ""));
        if host.contains('@') {
            // The password may stand in it, so it is not repeated.
            let message = "an address of an SMB share has no user and no password in it; write them into a file, and name that by \
                           `credentials`";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let (host, port) = split_port(host).ok_or_else(|| wrong("its host or port can not be understood"))?;
        let mut names = path.split('/').filter(|name| !name.is_empty()).map(decoded);
        let share = names.next().ok_or_else(|| wrong("it has no share"))?;
        let share = share
            .and_then(|share| String::from_utf8(share).ok())
            .filter(|share| name::can_be_asked_for(share.as_bytes()));
        let share = share.ok_or_else(|| wrong("its share has a name that no share has"))?;
        let mut path = PathBuf::new();
        for name in names {
            let name = name.ok_or_else(|| wrong("a % needs two hexadecimal digits, and not 00"))?;
            if !name::can_be_asked_for(&name) {
                return Err(wrong("its path has a name in it that no directory has"));
            }
            path.push(OsString::from_vec(name));
        }
        if name::path(&path, "".as_ref()).is_none() {
            return Err(wrong("its path has a name in it that no directory has"));
        }
        let mut address = Self {
            host: host.to_owned(),
            port: port.unwrap_or(PORT),
            share,
            path,
            connections: 4,
            timeout: Duration::from_mins(1),
            encrypt: false,
            links: true,
            owner: None,
            file_mode: 0o600,
            dir_mode: 0o700,
            text: format!("smb://{place}").trim_end_matches('/').to_owned(),
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            address.set(name, value).map_err(|why| wrong(&why))?;
        }
        Ok(address)
    }
}

impl Address {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<u32>().map_err(|_| format!("{name} is no number"));
        let choice = || match value {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(format!("{name} is neither yes nor no")),
        };
        let mode = || {
            let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode < 0o10000);
            mode.ok_or_else(|| format!("{name} are no octal permissions"))
        };
        match name {
            "connections" => {
                let count = number()? as usize;
                self.connections =
                    Some(count).filter(|count| (1..=64).contains(count)).ok_or("connections is not 1 to 64")?;
            }
            "timeout" => {
                let seconds = Some(number()?).filter(|seconds| *seconds > 0).ok_or("timeout is 0")?;
                self.timeout = Duration::from_secs(seconds.into());
            }
            "encrypt" => self.encrypt = choice()?,
            "links" => self.links = choice()?,
            "uid" => self.owner.get_or_insert(Owner { user: 0, group: 0 }).user = number()?,
            "gid" => self.owner.get_or_insert(Owner { user: 0, group: 0 }).group = number()?,
            "file_mode" => self.file_mode = mode()?,
            "dir_mode" => self.dir_mode = mode()?,
            _ => return Err(format!("there is no option {name}, but {OPTIONS}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_every_part() {
        let text = "smb://[fe80::1]:4450/Our%20Share/a//b/?connections=8&timeout=5&encrypt=yes&links=no&gid=2&file_mode=640&dir_mode=0750";
        let address: Address = text.parse().expect("one");
        assert_eq!((address.host.as_str(), address.port, address.share.as_str()), ("fe80::1", 4450, "Our Share"));
        assert_eq!(address.path.to_str(), Some("a/b"));
        assert_eq!((address.connections, address.timeout, address.encrypt), (8, Duration::from_secs(5), true));
        assert_eq!(address.owner, Some(Owner { user: 0, group: 2 }));
        assert_eq!((address.file_mode, address.dir_mode, address.links), (0o640, 0o750, false));
        assert_eq!(address.to_string(), "smb://[fe80::1]:4450/Our%20Share/a//b");
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for (text, reason) in [
            ("\\\\old\\home", "begin with smb://"),
            ("smb://old", "no share"),
            ("smb://old/", "no share"),
            ("smb:///home", "host"),
            ("smb://old:0/home", "port"),
            ("smb://old/a%0", "no share has"),
            ("smb://old/a/b%00", "hexadecimal"),
            ("smb://old/a/../b", "no directory has"),
            ("smb://old/a/b:c", "no directory has"),
            ("smb://old/a/b%5cc", "no directory has"),
            ("smb://anna:secret@old/a", "credentials"),
            ("smb://old/home?ui=3", "no option ui"),
            ("smb://old/home?encrypt=1", "neither yes nor no"),
            ("smb://old/home?timeout=0", "timeout"),
            ("smb://old/home?file_mode=8", "octal"),
            ("smb://old/home?connections=65", "connections"),
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.kind == ErrorKind::Invalid && error.message.contains(reason), "{error}");
            assert!(!error.message.contains("secret"), "{error}");
        }
    }
}
