//! What an agent tells its host: one line of JSON, answered by another.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use ishigaki_prefetch::{Extent, File};
use serde::{Deserialize, Serialize};

use crate::{Error, Result, port};

/// Bytes of the longest message.
pub const LONGEST: usize = 16 << 20;

/// How long the host may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A file: its name, and its extents (place in the file, on the disk, length).
pub type Told = (String, Vec<(u64, u64, u64)>);

/// What is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The volume.
    pub volume: String,
    /// What the host has given for that volume, so that no other guest speaks for it.
    pub token: String,
    /// Files, if they have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<Told>>,
    /// Work done a second, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<f64>,
}

/// What the host answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It is taken.
    Taken {
        /// Whether the host knows where the files lie. One that was started anew does not.
        has_layout: bool,
    },
    /// It is not.
    Refused {
        /// Why.
        message: String,
    },
}

impl Message {
    /// With the files of a layout.
    #[must_use]
    pub fn with_files(mut self, files: &[File]) -> Self {
        let extents =
            |file: &File| file.extents.iter().map(|one| (one.logical, one.physical, one.length)).collect::<Vec<_>>();
        self.files = Some(files.iter().map(|file| (file.name.clone(), extents(file))).collect());
        self
    }

    /// The files that it tells of.
    pub fn laid(&self) -> Option<Vec<File>> {
        let extent = |&(logical, physical, length): &(u64, u64, u64)| Extent { logical, physical, length };
        let file = |(name, extents): &Told| File { name: name.clone(), extents: extents.iter().map(extent).collect() };
        self.files.as_ref().map(|files| files.iter().map(file).collect())
    }
}

/// Tells the host, at its `HOST:PORT`, or by the port of this machine of that path. Whether it knows where the files lie, from this message or from one before.
///
/// # Errors
///
/// [`Error::Host`] where it is not reached, [`Error::Refused`] with its reason.
pub fn send(to: &str, message: &Message) -> Result<bool> {
    let failed = |cause| Error::Host { to: to.to_owned(), cause };
    let mut line = serde_json::to_vec(message).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    if line.len() > LONGEST {
        return Err(Error::Refused(format!("a layout of {} bytes is too long; name fewer directories", line.len())));
    }
    let speak = || {
        if to.starts_with('/') {
            return port::converse(Path::new(to), &line, PATIENCE);
        }
        let address = to.to_socket_addrs()?.next().ok_or(std::io::ErrorKind::NotFound)?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&line)?;
        let mut answer = Vec::new();
        BufReader::new(stream.take(1 << 16)).read_until(b'\n', &mut answer)?;
        Ok(answer)
    };
    match serde_json::from_slice(&speak().map_err(failed)?) {
        Ok(Reply::Taken { has_layout }) => Ok(has_layout),
        Ok(Reply::Refused { message }) => Err(Error::Refused(message)),
        Err(error) => Err(Error::Refused(format!("it does not answer as it should: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_as_they_were_told() {
        let files = vec![File { name: "a".to_owned(), extents: vec![Extent { logical: 1, physical: 2, length: 3 }] }];
        let message = Message { volume: "v".to_owned(), token: "t".to_owned(), files: None, work: Some(1.5) };
        let line = serde_json::to_string(&message.clone().with_files(&files)).unwrap();
        assert_eq!(line, r#"{"volume":"v","token":"t","files":[["a",[[1,2,3]]]],"work":1.5}"#);
        let read: Message = serde_json::from_str(&line).unwrap();
        assert_eq!(read.laid(), Some(files));
        assert_eq!(message.laid(), None);
    }
}
