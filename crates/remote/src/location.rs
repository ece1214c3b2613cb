//! Where a directory of a storage node is, in one word: `node://host:port/dir`.

use std::fmt;
use std::str::FromStr;

use ishigaki_fabric::Security;

use crate::{Client, ClientSettings, Error, RemoteDirectory, Result};

/// A directory below the folder of a storage node.
///
/// ```
/// use ishigaki_remote::Location;
///
/// let location: Location = "node://10.0.0.7:7117/lineitem/part-1".parse()?;
/// assert_eq!((&location.address[..], &location.directory[..]), ("10.0.0.7:7117", "lineitem/part-1"));
/// # Ok::<(), ishigaki_remote::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// `host:port`.
    pub address: String,
    /// Names separated by `/`; empty for the folder itself.
    pub directory: String,
}

/// How a location begins.
const SCHEME: &str = "node://";

impl Location {
    /// Connects to the node. The connection lasts as long as the directory, or anything that was opened in it.
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
        let (address, directory) = rest.split_once('/').unwrap_or((rest, ""));
        match address.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {}
            _ => return Err(invalid("host or port is missing, as in node://localhost:7117/dir")),
        }
        let directory = directory.trim_end_matches('/');
        if directory.split('/').any(|name| name.starts_with('.')) || directory.contains("//") {
            return Err(invalid("a directory's name is empty or begins with a dot"));
        }
        Ok(Self { address: address.to_owned(), directory: directory.to_owned() })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.address, self.directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_location_is_read_as_it_is_written() {
        for text in ["node://localhost:7117/", "node://[::1]:1/a", "node://n:65535/a/b-c.d"] {
            assert_eq!(text.parse::<Location>().expect("a location").to_string(), text);
        }
        assert_eq!("node://n:1".parse::<Location>().expect("a location").directory, "");
    }

    #[test]
    fn what_is_no_location_is_told_with_the_remedy() {
        for text in
            ["/srv/data", "node://", "node://n", "node://:1/a", "node://n:x/a", "node://n:70000/a", "node://n:1/../a"]
        {
            let error = text.parse::<Location>().expect_err(text).to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
