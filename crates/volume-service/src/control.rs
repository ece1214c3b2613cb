//! The control socket: `service.sock` in the directory of the map, which only its owner (and root) may open.
//!
//! A visitor writes one line of JSON, a [`Request`], and gets one back, a [`Reply`].

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use ishigaki_base::ErrorKind;
use ishigaki_service::asking::{kind_of, until_taken};
use ishigaki_service::door::{PATIENCE, answer, hear};
use ishigaki_service::socket::{gone, through};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::core::{Core, until_free};
use crate::status::{Status, VolumeStatus};
use crate::{Error, Result};

const NAME: &str = "service.sock";
/// Bytes of the longest question.
const LONGEST_QUESTION: usize = 64 << 10;
/// Bytes of the longest answer.
const LONGEST_ANSWER: usize = 64 << 20;
/// How long one waits for an answer: a volume that is detached has all of it taken home first.
const WAIT: Duration = Duration::from_hours(24);

/// What can be done with a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// What it does.
    Status {},
    /// To make a volume, all zeros.
    Create {
        /// Its name, which is that of its file on the slow device.
        name: String,
        /// Its bytes.
        size: u64,
        /// As [`ishigaki_tier::Mode`] is written.
        mode: String,
    },
    /// To make a volume of a file that lies on the slow device already: the image of a disk.
    Attach {
        /// The file.
        name: String,
        /// As [`ishigaki_tier::Mode`] is written.
        mode: String,
    },
    /// To make a volume longer, by zeros.
    Resize {
        /// Its name.
        name: String,
        /// Its bytes from then on.
        size: u64,
    },
    /// To take home all of a volume: its file is the image of a disk, and no volume any more.
    Detach {
        /// Its name.
        name: String,
    },
    /// To remove a volume and its file.
    Remove {
        /// Its name.
        name: String,
        /// With all that is in it.
        force: bool,
    },
    /// To have all of a volume be on the fast device and stay there, or not any more.
    Pin {
        /// Its name.
        name: String,
        /// Whether it is to.
        pinned: bool,
    },
    /// To take home what is on the fast device alone.
    Flush {},
    /// To give the token by which an agent speaks for a volume.
    Token {
        /// The volume.
        name: String,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// What the pool does.
    Status(Box<Status>),
    /// The volume is there.
    Made(Made),
    /// It is done.
    Done {},
    /// The token.
    Token(String),
    /// It can not be.
    Refused {
        /// What can be done about it: an [`ErrorKind`], as text.
        kind: String,
        /// Why.
        message: String,
    },
}

/// A volume that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// A service serves it.
    pub served: bool,
    /// How it is.
    pub volume: VolumeStatus,
}

/// Makes the socket. The caller holds the lock of the map, so that one that is there belongs to no living process; the directory is its user's alone.
pub(crate) fn listen(map: &Path) -> Result<UnixListener> {
    let make = || {
        remove(map)?;
        let directory = File::open(map)?;
        let listener = UnixListener::bind(through(&directory, NAME))?;
        fs::set_permissions(map.join(NAME), Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    make().map_err(Error::path(&map.join(NAME)))
}

/// Removes the socket, if it is there.
pub(crate) fn remove(map: &Path) -> io::Result<()> {
    gone(fs::remove_file(map.join(NAME)))
}

/// Hears a visitor's question and answers it.
pub(crate) fn serve(mut stream: UnixStream, core: &Core) {
    let heard = hear(&mut stream, LONGEST_QUESTION, PATIENCE, |heard| heard.ends_with(b"\n"));
    let outcome = heard.and_then(|line| {
        let refused = |kind: ErrorKind, message| Reply::Refused { kind: kind.to_string(), message };
        let reply = match serde_json::from_slice(&line) {
            Ok(request) => core.answer(request).unwrap_or_else(|error| refused(error.kind(), error.to_string())),
            Err(error) => refused(ErrorKind::Invalid, format!("no question: {error}")),
        };
        let mut bytes = serde_json::to_vec(&reply).map_err(io::Error::other)?;
        bytes.push(b'\n');
        answer(&mut stream, &bytes)
    });
    if let Err(error) = outcome {
        tracing::debug!(%error, "a visitor of the control socket was not answered");
    }
}

/// Has something done with a pool: by the service that serves it, or where none does, here.
///
/// # Errors
///
/// [`Error::NoPool`] where there is none, [`Error::Refused`] with the service's reason, those of devices and pool.
pub fn ask(config: &Config, request: &Request) -> Result<Reply> {
    until_free(|| match converse(&config.map, request) {
        Err(Error::NotServed(_)) => Core::of_pool(config, false)?.answer(request.clone()),
        answered => answered,
    })
}

fn converse(map: &Path, request: &Request) -> Result<Reply> {
    let silent = |cause: io::Error| Error::Answer { map: map.to_owned(), reason: cause.to_string() };
    let mut question = serde_json::to_vec(request).map_err(|error| silent(error.into()))?;
    question.push(b'\n');
    let heard = until_taken(|| {
        let mut stream = match connect(map) {
            Ok(stream) => stream,
            Err(error) => return Ok(Err(error)),
        };
        answer(&mut stream, &question)?;
        Ok(Ok(hear(&mut stream, LONGEST_ANSWER, WAIT, |heard| heard.ends_with(b"\n"))?))
    });
    let line = heard.map_err(silent)??;
    if line.is_empty() {
        return Err(silent(io::Error::other("it has hung up; perhaps it is ending, or is asked by too many")));
    }
    match serde_json::from_slice(&line) {
        Ok(Reply::Refused { kind, message }) => Err(Error::Refused { kind: kind_of(&kind), message }),
        Ok(reply) => Ok(reply),
        Err(error) => Err(silent(error.into())),
    }
}

fn connect(map: &Path) -> Result<UnixStream> {
    let open = || UnixStream::connect(through(&File::open(map)?, NAME));
    open().map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::NotServed(map.to_owned()),
        io::ErrorKind::PermissionDenied => Error::Forbidden(map.to_owned()),
        _ => Error::Path { path: map.join(NAME), cause },
    })
}
