//! The control socket: `control` in the migration's hidden directory, which only root may open.
//!
//! A visitor writes a line of JSON, a [`Request`], and gets one back, a [`Reply`]; then the next one, if it likes. When the migration is finished, the
//! socket goes with the hidden directory. It is reached through the directory's own descriptor, because a socket's path has room for 107 bytes.
//! Where the destination has no room for a socket, it is in `/run`, under the number of the hidden directory.

mod visitors;

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ishigaki_migrate::engine::HIDDEN;
use ishigaki_service::asking::{kind_of, until_taken};
use ishigaki_service::socket::{gone, through};
use serde::{Deserialize, Serialize};

use crate::status::{Conflict, Status};
use crate::takeover::Heading;
use crate::{Error, Result};

pub(crate) use visitors::admit;

const NAME: &str = "control";
/// How long one waits for an answer: to take a source's version may wait for the source.
const WAIT: Duration = Duration::from_mins(10);
/// Bytes of the longest answer.
const LONGEST_ANSWER: u64 = 64 << 20;

/// What a service can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// How far it is.
    Status {},
    /// To stop the crawler, within a file if need be; answered when it has stopped.
    Pause {},
    /// To go on with the crawler, and to try again what it could not copy.
    Resume {},
    /// To copy so fast from now on, until the service ends. What is not given stays.
    Throttle {
        /// Bytes a second; 0 for no limit.
        bandwidth: Option<u64>,
        /// Requests under way at a time.
        parallel: Option<usize>,
    },
    /// Which files have changed at the source.
    Conflicts {},
    /// To decide on one of them; or, with [`Keep::Here`], to accept that an object was left out, as a problem of the status says.
    Resolve {
        /// Where it is now, below the destination, written as in [`Problem::path`](crate::status::Problem::path).
        path: String,
        /// Which version stays.
        keep: Keep,
    },
    /// To have the crawler take what is below a path before everything else, until the service ends.
    First {
        /// Below the destination, as it was when the migration began, written as in [`Problem::path`](crate::status::Problem::path).
        path: String,
    },
    /// To hand over what is served to the process that asks, and end.
    HandOver {},
    /// To end the migration when nothing is missing: removes every trace of it.
    Finish {},
}

/// Which version of a file stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// What is here. What was not copied becomes zeros.
    Here,
    /// The source's, as it is now. What clients have changed here is lost.
    Source,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// How far it is.
    Status(Box<Status>),
    /// It is done.
    Done {},
    /// The files that have changed at the source.
    Conflicts(Vec<Conflict>),
    /// What is served follows.
    HandingOver(Heading),
    /// It can not be.
    Refused {
        /// What can be done about it: an [`ErrorKind`], as text.
        kind: String,
        /// Why.
        message: String,
    },
}

impl Reply {
    pub(crate) fn of(outcome: Result<Self>) -> Self {
        outcome.unwrap_or_else(|error| Self::Refused { kind: error.kind().to_string(), message: error.to_string() })
    }
}

fn failed(to: &Path) -> impl Fn(io::Error) -> Error {
    let path = to.join(HIDDEN).join(NAME);
    move |cause| Error::Destination { path: path.clone(), cause }
}

/// Makes the socket. The caller holds the destination's lock, so that one that is there belongs to no living process. Root alone may enter the
/// directory, so no other user opens it before its mode is right.
pub(crate) fn listen(to: &Path) -> Result<UnixListener> {
    let make = || {
        remove(to)?;
        let directory = File::open(to.join(HIDDEN))?;
        let (listener, path) = match UnixListener::bind(through(&directory, NAME)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                let path = in_memory(to)?;
                tracing::warn!(path = %path.display(), "the control socket is here until the next start: the destination has no room for it");
                (UnixListener::bind(&path)?, path)
            }
            bound => (bound?, to.join(HIDDEN).join(NAME)),
        };
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    make().map_err(failed(to))
}

/// Where the socket is if the destination has no room for it. Only root makes names there.
pub(crate) fn in_memory(to: &Path) -> io::Result<PathBuf> {
    let hidden = fs::metadata(to.join(HIDDEN))?;
    Ok(PathBuf::from(format!("/run/ishigaki-migrate-{:x}-{:x}", hidden.dev(), hidden.ino())))
}

/// Whether a service listens there.
pub(crate) fn is_answered(to: &Path) -> bool {
    connect(to).is_ok()
}

fn connect(to: &Path) -> io::Result<UnixStream> {
    let directory = File::open(to.join(HIDDEN))?;
    UnixStream::connect(through(&directory, NAME)).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            UnixStream::connect(in_memory(to)?).map_err(|_| error)
        }
        _ => Err(error),
    })
}

/// Why nothing can be asked there.
fn unreachable_by(to: &Path, cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::NotFound if to.is_dir() && !to.join(HIDDEN).exists() => Error::NoMigration(to.to_owned()),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::NotServed(to.to_owned()),
        io::ErrorKind::PermissionDenied => Error::Forbidden(to.to_owned()),
        _ => failed(to)(cause),
    }
}

/// Removes the socket, if it is there.
pub(crate) fn remove(to: &Path) -> io::Result<()> {
    gone(in_memory(to).and_then(fs::remove_file))?;
    gone(fs::remove_file(to.join(HIDDEN).join(NAME)))
}

/// Writes an answer.
pub(crate) fn say(mut stream: &UnixStream, reply: &Reply) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(reply).map_err(io::Error::other)?;
    bytes.push(b'\n');
    stream.write_all(&bytes)
}

/// Puts a question to the service that migrates into a destination.
///
/// # Errors
///
/// [`Error::NotServed`] and [`Error::NoMigration`] where none does, [`Error::Refused`] with its reason, [`Error::Answer`] where it does not answer.
pub fn ask(to: &Path, request: &Request) -> Result<Reply> {
    converse(to, request).map(|(_, reply)| reply)
}

/// The same; the conversation goes on.
pub(crate) fn converse(to: &Path, request: &Request) -> Result<(UnixStream, Reply)> {
    let silent = |reason: String| Error::Answer { to: to.to_owned(), reason };
    let mut line = serde_json::to_vec(request).map_err(|error| silent(error.to_string()))?;
    line.push(b'\n');
    let heard = until_taken(|| {
        let stream = match connect(to) {
            Ok(stream) => stream,
            Err(cause) => return Ok(Err(unreachable_by(to, cause))),
        };
        stream.set_read_timeout(Some(WAIT))?;
        (&stream).write_all(&line)?;
        let mut answer = Vec::new();
        BufReader::new(&stream).take(LONGEST_ANSWER).read_until(b'\n', &mut answer)?;
        Ok(Ok((stream, answer)))
    });
    let (stream, answer) = heard.map_err(|error| silent(error.to_string()))??;
    if answer.is_empty() {
        return Err(silent("it has hung up; perhaps it is ending, or is asked by too many".to_owned()));
    }
    match serde_json::from_slice(&answer) {
        Ok(Reply::Refused { kind, message }) => Err(Error::Refused { kind: kind_of(&kind), message }),
        Ok(reply) => Ok((stream, reply)),
        Err(error) => Err(silent(error.to_string())),
    }
}
