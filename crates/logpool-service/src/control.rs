//! The control socket: `service.sock` in the data directory, which only its owner (and root) may open.
//!
//! A visitor writes one line of JSON, a [`Request`], and gets one back, a [`Reply`]. The socket is reached through the
//! directory's own descriptor, because a socket's path has room for 107 bytes.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ishigaki_base::ErrorKind;
use ishigaki_logpool_fs::Place;
use serde::{Deserialize, Serialize};

use crate::takeover::Heading;
use crate::{
    Changed, Error, Limits, LimitsSet, MemberConfig, Owner, RebuiltFiles, Result, ScrubRate, Status, Verified,
};
use ishigaki_service::asking::{kind_of, until_taken};
use ishigaki_service::door::{PATIENCE, answer, hear};
use ishigaki_service::socket::{gone, through};

const NAME: &str = "service.sock";
/// A folder in which it is made, so that nobody opens it before its mode is right.
const NEW: &str = "service.sock.new";

/// Bytes of the longest question.
const LONGEST_QUESTION: usize = 64 << 10;
/// Bytes of the longest answer.
const LONGEST_ANSWER: usize = 64 << 20;
/// How long one waits for an answer. A member that is taken in has its home written first; one that is verified has it read.
const WAIT: Duration = Duration::from_mins(10);

/// What a service can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// What it does.
    Status {},
    /// To serve one more member, now and after the next start.
    Add(MemberConfig),
    /// To give a member other limits, now and for good.
    Set(Limits),
    /// To hand over what is served to the one who asks, and end.
    HandOver {},
    /// To remove a member that is served nowhere.
    Remove {
        /// Its name.
        name: String,
        /// With its files, if it has any.
        force: bool,
    },
    /// To compare a member's home, or all, with its checksums.
    Verify {
        /// The member; all where it is not given.
        name: Option<String>,
    },
    /// To mend what can be mended of a member, and serve it again if it is not served.
    Repair {
        /// Its name.
        name: String,
    },
    /// To take a member out of service, the others going on.
    Quarantine {
        /// Its name.
        name: String,
    },
    /// To open a member again and serve it where it was.
    Remount {
        /// Its name.
        name: String,
    },
    /// To write a quarantined member's files as plain ones.
    Rebuild {
        /// Its name.
        name: String,
        /// An empty folder, or one that is not there.
        to: PathBuf,
    },
    /// To compare so many bytes of homes each second from now on.
    Scrub(ScrubRate),
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// What it does.
    Status(Box<Status>),
    /// The member is served.
    Added(Added),
    /// The member has these limits.
    Set(LimitsSet),
    /// What is served follows.
    HandingOver(Heading),
    /// The member is not in the pool any more.
    Removed(Removed),
    /// The damage that was found, and what was mended.
    Verified(Verified),
    /// The member is served, or is not.
    Changed(Changed),
    /// The files are there.
    Rebuilt(RebuiltFiles),
    /// The rate is set.
    Scrubs(ScrubRate),
    /// It can not be.
    Refused {
        /// What can be done about it: [`ErrorKind`], as text.
        kind: String,
        /// Why.
        message: String,
    },
}

/// A member that was taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// Its name.
    pub name: String,
    /// The kind of its server.
    pub profile: String,
    /// Where it is served: `mount` or `socket`.
    #[serde(flatten)]
    pub place: Place,
    /// Whose its files are; by number in a virtual machine.
    pub owner: Owner,
    /// The file that says so to the next start.
    pub noted_in: PathBuf,
}

/// A member that was removed, and what has gone with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Its name.
    pub name: String,
    /// Files and directories; not known of a quarantined member.
    pub files: Option<u64>,
    /// Bytes of its files at home, each rounded up to 64 KiB; not known of a quarantined member.
    pub home_bytes: Option<u64>,
}

impl Reply {
    pub(crate) fn of(outcome: Result<Self>) -> Self {
        outcome.unwrap_or_else(|error| Self::Refused { kind: error.kind().to_string(), message: error.to_string() })
    }
}

/// Where the socket is.
pub(crate) fn path(data: &Path) -> PathBuf {
    data.join(NAME)
}

/// Makes the socket.
#[cfg(test)]
pub(crate) fn listen(data: &Path) -> Result<UnixListener> {
    let listener = prepare(data)?;
    publish(data)?;
    Ok(listener)
}

/// Makes the socket under a name that no client knows. The caller holds the directory's lock, so that one that is there belongs to no
/// living process.
pub(crate) fn prepare(data: &Path) -> Result<UnixListener> {
    let make = || -> io::Result<UnixListener> {
        let new = data.join(NEW);
        discard(&new)?;
        DirBuilder::new().mode(0o700).create(&new)?;
        let directory = File::open(&new)?;
        let listener = UnixListener::bind(through(&directory, NAME))?;
        fs::set_permissions(new.join(NAME), Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    make().map_err(|cause| Error::File { path: path(data), cause })
}

/// Gives it its name, in place of one that is there.
pub(crate) fn publish(data: &Path) -> Result<()> {
    let new = data.join(NEW);
    let named = fs::rename(new.join(NAME), path(data)).and_then(|()| fs::remove_dir(&new));
    named.map_err(|cause| Error::File { path: path(data), cause })
}

/// Removes what a process that died while it made a socket has left.
fn discard(new: &Path) -> io::Result<()> {
    gone(fs::remove_file(new.join(NAME)))?;
    gone(fs::remove_dir(new))
}

/// Hears a visitor's question and answers it.
pub(crate) fn serve(mut stream: UnixStream, reply: impl Fn(Request, &mut UnixStream) -> Option<Reply>) {
    let heard = hear(&mut stream, LONGEST_QUESTION, PATIENCE, |heard| heard.ends_with(b"\n"));
    let outcome = heard.and_then(|line| {
        let reply = match serde_json::from_slice(&line) {
            Ok(request) => reply(request, &mut stream),
            Err(error) => {
                let message = format!("no question: {error}");
                Some(Reply::Refused { kind: ErrorKind::Invalid.to_string(), message })
            }
        };
        reply.map_or(Ok(()), |reply| say(&mut stream, &reply))
    });
    if let Err(error) = outcome {
        tracing::debug!(%error, "a visitor of the control socket was not answered");
    }
}

/// Says a reply.
pub(crate) fn say(stream: &mut UnixStream, reply: &Reply) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(reply).map_err(io::Error::other)?;
    bytes.push(b'\n');
    answer(stream, &bytes)
}

/// Puts a question to the service that serves a data directory.
///
/// # Errors
///
/// [`Error::NotServed`] where none does, [`Error::Refused`] with its reason.
pub fn ask(data: &Path, request: &Request) -> Result<Reply> {
    converse(data, request).map(|(_, reply)| reply)
}

/// The same, and goes on with the conversation.
pub(crate) fn converse(data: &Path, request: &Request) -> Result<(UnixStream, Reply)> {
    let silent = |cause: io::Error| Error::Answer { data: data.to_owned(), reason: cause.to_string() };
    let mut question = serde_json::to_vec(request).map_err(|error| silent(error.into()))?;
    question.push(b'\n');
    let heard = until_taken(|| {
        let mut stream = match connect(data) {
            Ok(stream) => stream,
            Err(error) => return Ok(Err(error)),
        };
        answer(&mut stream, &question)?;
        let line = hear(&mut stream, LONGEST_ANSWER, WAIT, |heard| heard.ends_with(b"\n"))?;
        Ok(Ok((stream, line)))
    });
    let (stream, line) = heard.map_err(silent)??;
    if line.is_empty() {
        return Err(silent(io::Error::other("it has hung up; perhaps it is ending, or is asked by too many")));
    }
    match serde_json::from_slice(&line) {
        Ok(Reply::Refused { kind, message }) => Err(Error::Refused { kind: kind_of(&kind), message }),
        Ok(reply) => Ok((stream, reply)),
        Err(error) => Err(silent(error.into())),
    }
}

fn connect(data: &Path) -> Result<UnixStream> {
    let open = || UnixStream::connect(through(&File::open(data)?, NAME));
    open().map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::NotServed { data: data.to_owned() },
        io::ErrorKind::PermissionDenied => Error::Forbidden { data: data.to_owned() },
        _ => Error::File { path: path(data), cause },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use ishigaki_service::door::Door;

    /// A service that knows no members, and counts who asks.
    fn open(data: &Path, asked: &'static AtomicU32) -> Door {
        let reply = |_, _: &mut UnixStream| {
            asked.fetch_add(1, Ordering::SeqCst);
            Some(Reply::of(Err(Error::Member("no such thing".to_owned()))))
        };
        Door::open("test", listen(data).unwrap(), move |visitor| serve(visitor, reply)).unwrap()
    }

    #[test]
    fn a_socket_is_made_whatever_a_dead_process_has_left_and_refusals_keep_their_kind() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let data = tempfile::tempdir().unwrap();
        assert!(matches!(ask(data.path(), &Request::Status {}), Err(Error::NotServed { .. })));
        // One that died with its socket made, and one that died before that was in its place.
        drop(listen(data.path()).unwrap());
        assert!(matches!(ask(data.path(), &Request::Status {}), Err(Error::NotServed { .. })));
        fs::create_dir(data.path().join(NEW)).unwrap();
        drop(UnixListener::bind(data.path().join(NEW).join(NAME)).unwrap());
        let door = open(data.path(), &ASKED);
        assert!(!data.path().join(NEW).exists());
        assert_eq!(fs::metadata(path(data.path())).unwrap().permissions().mode() & 0o7777, 0o600);
        let error = ask(data.path(), &Request::Status {}).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, "no such thing"));
        assert_eq!(ASKED.load(Ordering::SeqCst), 1);
        drop(door);
        assert!(matches!(ask(data.path(), &Request::Status {}), Err(Error::NotServed { .. })));
    }

    #[test]
    fn what_is_no_question_is_refused_and_nobody_is_asked() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let data = tempfile::tempdir().unwrap();
        let _door = open(data.path(), &ASKED);
        for question in ["\n", "hello\n", "{}\n", "{\"remove\":{}}\n", "{\"status\":{\"more\":1}}\n", "{\"status\":{}"]
        {
            let mut stream = connect(data.path()).unwrap();
            io::Write::write_all(&mut stream, question.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let line = hear(&mut stream, LONGEST_ANSWER, PATIENCE, |_| false).unwrap();
            let Ok(Reply::Refused { kind, message }) = serde_json::from_slice(&line) else { panic!("{question}") };
            assert_eq!(
                (kind.as_str(), message.starts_with("no question: ")),
                ("invalid", true),
                "{question}: {message}"
            );
        }
        assert_eq!(ASKED.load(Ordering::SeqCst), 0);
    }
}
