//! A place on this host, a directory of a storage node, or a member of a log pool, in one word.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use ishigaki_device::{Directory, Place};
use ishigaki_shm::ShmDirectory;

use crate::{Error, Location, Result};

/// Where a directory is: a [`Place`] on this host, a [`Location`] at a storage node, or the ring of a running service, as a log
/// pool has one for a member: `pool:` and its socket.
///
/// ```
/// use ishigaki_remote::Anywhere;
///
/// assert!(matches!("ring:/srv/data".parse()?, Anywhere::Here(_)));
/// assert!(matches!("node://10.0.0.7:7117/tables".parse()?, Anywhere::Node(_)));
/// assert!(matches!("pool:/srv/orders.ring".parse()?, Anywhere::Pool(_)));
/// "mem".parse::<Anywhere>()?.open()?.create("log", 4096)?;
/// # Ok::<(), ishigaki_remote::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Anywhere {
    /// This host.
    Here(Place),
    /// A storage node.
    Node(Location),
    /// A directory that another process of this host serves on that socket.
    Pool(PathBuf),
}

/// How the ring of a service is told from other places.
const POOL: &str = "pool:";

impl Anywhere {
    /// Opens the directory; a node is connected to with what its location says.
    pub fn open(&self) -> Result<Arc<dyn Directory>> {
        match self {
            Self::Here(place) => Ok(place.open()?),
            Self::Node(location) => Ok(Arc::new(location.connect()?)),
            Self::Pool(path) => Ok(Arc::new(ShmDirectory::connect(path)?)),
        }
    }

    /// Opens a directory that is there already, for reading alone. A node, or a pool, opens it as it does for others.
    pub fn open_to_read(&self) -> Result<Arc<dyn Directory>> {
        match self {
            Self::Here(place) => Ok(place.open_to_read()?),
            Self::Node(_) | Self::Pool(_) => self.open(),
        }
    }
}

impl FromStr for Anywhere {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.strip_prefix(POOL) {
            Some("") => {
                let reason = format!("`{text}`: a socket is missing, as in pool:/srv/orders.ring");
                Err(Error::Invalid { reason })
            }
            Some(path) => Ok(Self::Pool(path.into())),
            None if text.starts_with("node:") => text.parse().map(Self::Node),
            None => Ok(Self::Here(text.parse()?)),
        }
    }
}

impl fmt::Display for Anywhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(place) => place.fmt(f),
            Self::Node(location) => location.fmt(f),
            Self::Pool(path) => write!(f, "{POOL}{}", path.display()),
        }
    }
}

impl From<Place> for Anywhere {
    fn from(place: Place) -> Self {
        Self::Here(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_and_every_location_is_read_as_it_is_written() {
        for text in
            ["file:/srv/data", "mem", "nvm:500ns", "node://localhost:7117/a/b?connections=2", "pool:/srv/a.ring"]
        {
            assert_eq!(text.parse::<Anywhere>().expect("somewhere").to_string(), text);
        }
        for (text, words) in
            [("node:x", "node://host:port/dir"), ("tape:/dev/st0", "no such kind"), ("pool:", "pool:/srv")]
        {
            let error = text.parse::<Anywhere>().expect_err(text).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
