//! Where a directory of a storage node is, in one word: `node://host:port/dir?token-file=FILE`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ishigaki_base::ByteSize;
use ishigaki_fabric::{Fabric, Security};

use crate::{CacheSettings, Client, ClientSettings, Credentials, Error, RemoteDirectory, Result};

/// A directory below the folder of a storage node, and how to connect there.
///
/// | Behind `?`, joined by `&` | |
/// |---|---|
/// | `token-file=FILE` | the token that the node has, too |
/// | `tls-ca=FILE`, `tls-cert=FILE`, `tls-key=FILE` | TLS, all three |
/// | `fabric=ofi:PROVIDER` | what carries the bytes, which the node must have, too; TCP if it is not said |
/// | `connections=NUMBER` | connections that requests take turns by; 1 if it is not said |
/// | `cache=SIZE` | bytes of pages of which copies are kept; none if it is not said |
/// | `replica=HOST:PORT/DIR` | another node's directory with a copy of the files, for those who may take either; several are joined by a bar |
///
/// ```
/// use ishigaki_remote::Location;
///
/// let location: Location = "node://10.0.0.7:7117/lineitem/part-1".parse()?;
/// assert_eq!((&location.address[..], &location.directory[..]), ("10.0.0.7:7117", "lineitem/part-1"));
/// let location: Location = "node://10.0.0.7:7117/tables?token-file=/etc/ishigaki/token&connections=4".parse()?;
/// assert_eq!((location.credentials.to_string().as_str(), location.connections), ("token", 4));
/// # Ok::<(), ishigaki_remote::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// `host:port`.
    pub address: String,
    /// Names separated by `/`; empty for the folder itself.
    pub directory: String,
    /// What both sides show each other.
    pub credentials: Credentials,
    /// What carries the bytes.
    pub fabric: Fabric,
    /// Connections that requests take turns by.
    pub connections: usize,
    /// Bytes of pages of which copies are kept.
    pub cache: Option<ByteSize>,
    /// Where copies of its files are: other nodes' directories, reached with the same credentials. Whoever connects does not
    /// use them by himself: he must be able to tell that a copy is one.
    pub replicas: Vec<Replica>,
}

/// Another node's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// `host:port`.
    pub address: String,
    /// Names separated by `/`; empty for the node's folder itself.
    pub directory: String,
}

/// How a location begins.
const SCHEME: &str = "node://";

/// More connections of one client do not help anybody.
const MOST_CONNECTIONS: usize = 1024;

/// What can stand behind the question mark.
const KEYS: [&str; 8] = ["token-file", "tls-ca", "tls-cert", "tls-key", "fabric", "connections", "cache", "replica"];

impl Location {
    /// A node's folder itself, over TCP by one connection.
    pub fn new(address: impl Into<String>, credentials: Credentials) -> Self {
        Self {
            address: address.into(),
            directory: String::new(),
            credentials,
            fabric: Fabric::Tcp,
            connections: 1,
            cache: None,
            replicas: Vec::new(),
        }
    }

    /// Connects as the location itself says. The connection lasts as long as the directory, or anything that was opened in
    /// it.
    pub fn connect(&self) -> Result<RemoteDirectory> {
        let cache = self.cache.map(|memory| CacheSettings { memory, ..CacheSettings::default() });
        let defaults = ClientSettings::default();
        let fabric = ishigaki_fabric::Settings { fabric: self.fabric.clone(), ..defaults.fabric };
        let settings = ClientSettings { connections: self.connections, cache, fabric, ..defaults };
        self.open(&settings, &self.credentials.security()?)
    }

    /// The locations of the copies.
    pub fn of_replicas(&self) -> impl Iterator<Item = Self> {
        self.replicas.iter().map(|Replica { address, directory }| {
            let (address, directory) = (address.clone(), directory.clone());
            Self { address, directory, replicas: Vec::new(), ..self.clone() }
        })
    }

    /// Connects with these settings instead of what the location says.
    pub fn open(&self, settings: &ClientSettings, security: &Security) -> Result<RemoteDirectory> {
        Ok(Client::connect(&self.address, settings, security)?.directory(&self.directory))
    }
}

impl FromStr for Location {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = |reason: &str| Error::Invalid { reason: format!("`{text}`: {reason}") };
        let rest =
            text.strip_prefix(SCHEME).ok_or_else(|| invalid("a node's directory is written node://host:port/dir"))?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let Replica { address, directory } = place(rest).map_err(invalid)?;
        let mut values: [Option<&str>; KEYS.len()] = [None; KEYS.len()];
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let value_of = KEYS.iter().position(|known| *known == key).and_then(|at| values.get_mut(at));
            match value_of {
                _ if value.is_empty() => return Err(invalid(&format!("`{key}` has no value, as in {key}=…"))),
                None => {
                    let known = KEYS.join(", ");
                    return Err(invalid(&format!("`{key}` means nothing here; there are {known}")));
                }
                Some(Some(_)) => return Err(invalid(&format!("`{key}` is given twice"))),
                Some(unset) => *unset = Some(value),
            }
        }
        let [token, authorities, certificate, key, fabric, connections, cache, replicas] = values;
        let path = |value: Option<&str>| value.map(PathBuf::from);
        let credentials = Credentials::of(path(token), path(authorities), path(certificate), path(key))
            .map_err(|error| invalid(&error.to_string()))?;
        let fabric = fabric.map_or(Ok(Fabric::Tcp), str::parse).map_err(|error| invalid(&error.to_string()))?;
        let connections = match connections.map_or(Ok(1), str::parse) {
            Ok(count) if (1..=MOST_CONNECTIONS).contains(&count) => count,
            _ => return Err(invalid("connections is a number from 1 to 1024")),
        };
        let cache = cache.map(str::parse).transpose();
        let cache = cache.map_err(|_| invalid("cache is a size, as in cache=256MiB"))?;
        let replicas = replicas.into_iter().flat_map(|replicas| replicas.split('|'));
        let replicas = replicas.map(|replica| place(replica).map_err(invalid)).collect::<Result<_>>()?;
        Ok(Self { address, directory, credentials, fabric, connections, cache, replicas })
    }
}

/// `host:port/dir`.
fn place(text: &str) -> Result<Replica, &'static str> {
    let (address, directory) = text.split_once('/').unwrap_or((text, ""));
    match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {}
        _ => return Err("host or port is missing, as in node://localhost:7117/dir"),
    }
    let directory = directory.trim_end_matches('/');
    if directory.split('/').any(|name| name.starts_with('.')) || directory.contains("//") {
        return Err("a directory's name is empty or begins with a dot");
    }
    Ok(Replica { address: address.to_owned(), directory: directory.to_owned() })
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.address, self.directory)?;
        let mut options = Vec::new();
        match &self.credentials {
            Credentials::None => {}
            Credentials::Token(path) => options.push(format!("token-file={}", path.display())),
            Credentials::Tls { authorities, certificate, key } => {
                for (key, path) in [("tls-ca", authorities), ("tls-cert", certificate), ("tls-key", key)] {
                    options.push(format!("{key}={}", path.display()));
                }
            }
        }
        if self.fabric != Fabric::Tcp {
            options.push(format!("fabric={}", self.fabric));
        }
        if self.connections > 1 {
            options.push(format!("connections={}", self.connections));
        }
        if let Some(cache) = self.cache {
            options.push(format!("cache={}B", cache.0));
        }
        if !self.replicas.is_empty() {
            let replicas = self.replicas.iter().map(|replica| format!("{}/{}", replica.address, replica.directory));
            options.push(format!("replica={}", replicas.collect::<Vec<_>>().join("|")));
        }
        if options.is_empty() { Ok(()) } else { write!(f, "?{}", options.join("&")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_location_is_read_as_it_is_written() {
        for text in [
            "node://localhost:7117/",
            "node://[::1]:1/a",
            "node://n:65535/a/b-c.d",
            "node://n:1/a?token-file=/etc/token&connections=4&cache=1048576B",
            "node://n:1/a?replica=m:2/b/c|o:3/",
            "node://n:1/a?fabric=ofi:verbs;ofi_rxm&connections=2",
            "node://n:1/?tls-ca=ca.pem&tls-cert=cert.pem&tls-key=key.pem",
        ] {
            assert_eq!(text.parse::<Location>().expect("a location").to_string(), text);
        }
        assert_eq!("node://n:1".parse::<Location>().expect("a location").directory, "");
        let location: Location = "node://n:1?cache=64MiB".parse().expect("a location");
        assert_eq!((location.cache, location.connections), (Some(ByteSize::mib(64)), 1));
    }

    #[test]
    fn what_is_no_location_is_told_with_the_remedy() {
        for text in
            ["/srv/data", "node://", "node://n", "node://:1/a", "node://n:x/a", "node://n:70000/a", "node://n:1/../a"]
        {
            let error = text.parse::<Location>().expect_err(text).to_string();
            assert!(error.contains(text), "{error}");
        }
        for (options, words) in [
            ("tokn-file=a", "token-file"),
            ("token-file", "no value"),
            ("token-file=a&token-file=b", "twice"),
            ("tls-ca=a", "tls-cert"),
            ("connections=0", "from 1"),
            ("fabric=verbs", "ofi:verbs"),
            ("cache=much", "256MiB"),
            ("replica=m/a", "host or port"),
            ("replica=m:1/a|m:2/../b", "begins with a dot"),
        ] {
            let error = format!("node://n:1/a?{options}").parse::<Location>().expect_err(options).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
