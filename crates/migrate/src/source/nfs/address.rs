//! Addresses of exports, as people write them.

use std::fmt;
use std::time::Duration;

use crate::source::url::{decoded, split_port};
use crate::source::{Error, ErrorKind, Result};

/// The options, for messages.
const OPTIONS: &str = "mountport, uid, gid, connections, timeout";

/// Where an export is: `nfs://HOST[:PORT]/EXPORT[/SUB][?OPTION=VALUE&…]`.
///
/// | Option | Means | Without it |
/// |---|---|---|
/// | `mountport` | the port of the mount service | the portmapper says it |
/// | `uid`, `gid` | the user and group in whose name is read | 0, root |
/// | `connections` | the most TCP connections, 1 to 64 | 4 |
/// | `timeout` | seconds until a server that does not answer is an error | 60 |
///
/// Bytes that can not stand in an address are written as `%` and two hexadecimal digits; an IPv6 address stands in brackets.
///
/// ```
/// use ishigaki_migrate::source::nfs::Address;
///
/// let address: Address = "nfs://old:2050/srv/home%20data?uid=1000".parse()?;
/// assert_eq!((address.host.as_str(), address.port), ("old", Some(2050)));
/// assert_eq!(address.export, b"/srv/home data");
/// assert_eq!((address.user, address.group), (1000, 0));
/// # Ok::<(), ishigaki_migrate::source::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or an IP address.
    pub host: String,
    /// The port of NFS, if it was given.
    pub port: Option<u16>,
    /// With a slash before it and none behind it. What part of it is exported shows when it is mounted.
    pub export: Vec<u8>,
    /// The port of the mount service, if it was given.
    pub mount_port: Option<u16>,
    /// In whose name is read.
    pub user: u32,
    /// In whose name is read.
    pub group: u32,
    /// The most TCP connections.
    pub connections: usize,
    /// How long a server that does not answer is waited for in one call.
    pub timeout: Duration,
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
            let message = format!("{text} is no address of an NFS export: {why}; give one as in nfs://server/export");
            Error::new(ErrorKind::Invalid, message)
        };
        let rest = text.strip_prefix("nfs://").ok_or_else(|| wrong("it does not begin with nfs://"))?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let slash = place.find('/').ok_or_else(|| wrong("it has no path"))?;
        let (host, export) = place.split_at(slash);
        let (host, port) = split_port(host).ok_or_else(|| wrong("its host or port can not be understood"))?;
        let export = decoded(export).ok_or_else(|| wrong("a % needs two hexadecimal digits, and not 00"))?;
        let mut components = export.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        if components.clone().any(|name| name == b"." || name == b"..") {
            return Err(wrong("its path has . or .. in it"));
        }
        let export = components.try_fold(Vec::new(), |mut path, name| {
            path.push(b'/');
            path.extend_from_slice(name);
            (path.len() <= 1024).then_some(path)
        });
        let mut export = export.ok_or_else(|| wrong("its path is longer than 1024 bytes"))?;
        if export.is_empty() {
            export.push(b'/');
        }
        let mut address = Self {
            host: host.to_owned(),
            port,
            export,
            mount_port: None,
            user: 0,
            group: 0,
            connections: 4,
            timeout: Duration::from_mins(1),
            text: format!("nfs://{place}").trim_end_matches('/').to_owned(),
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
        match name {
            "mountport" => {
                let port = u16::try_from(number()?).ok().filter(|port| *port != 0);
                self.mount_port = Some(port.ok_or("mountport is no port")?);
            }
            "uid" => self.user = number()?,
            "gid" => self.group = number()?,
            "connections" => {
                let count = number()? as usize;
                self.connections =
                    Some(count).filter(|count| (1..=64).contains(count)).ok_or("connections is not 1 to 64")?;
            }
            "timeout" => {
                let seconds = Some(number()?).filter(|seconds| *seconds > 0).ok_or("timeout is 0")?;
                self.timeout = Duration::from_secs(seconds.into());
            }
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
        let address: Address =
            "nfs://[fe80::1]:2050/a//b/%ff/?mountport=7&uid=1&gid=2&connections=8&timeout=5".parse().expect("one");
        assert_eq!((address.host.as_str(), address.port, address.mount_port), ("fe80::1", Some(2050), Some(7)));
        assert_eq!(address.export, b"/a/b/\xff");
        assert_eq!((address.user, address.group, address.connections), (1, 2, 8));
        assert_eq!(address.timeout, Duration::from_secs(5));
        assert_eq!(address.to_string(), "nfs://[fe80::1]:2050/a//b/%ff");
        assert_eq!("nfs://old/".parse::<Address>().expect("one").export, b"/");
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for (text, reason) in [
            ("old:/home", "begin with nfs://"),
            ("nfs://old", "no path"),
            ("nfs:///home", "host"),
            ("nfs://old:0/home", "port"),
            ("nfs://old:x/home", "port"),
            ("nfs://[::1/home", "host"),
            ("nfs://old/a%0", "hexadecimal"),
            ("nfs://old/a%00", "hexadecimal"),
            ("nfs://old/a/../b", ".."),
            ("nfs://old/home?ui=3", "no option ui"),
            ("nfs://old/home?uid=x", "uid is no number"),
            ("nfs://old/home?timeout=0", "timeout"),
            ("nfs://old/home?connections=65", "connections"),
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.kind == ErrorKind::Invalid && error.message.contains(reason), "{error}");
        }
    }
}
