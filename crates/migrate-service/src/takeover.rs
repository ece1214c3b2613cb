//! One service takes the place of another under working clients.
//!
//! ```text
//!  the next one                       the one that serves
//!    {"hand_over":{}} ──────────────▶   stops the crawler, takes no more requests from the kernel, settles
//!    ◀── {"handing_over":{…}}           what follows, by its size
//!    go ────────────────────────────▶
//!    ◀── descriptors (SCM_RIGHTS), what the kernel knows and has open
//!    opens the migration, goes on
//!    serving ───────────────────────▶   ends, and unmounts nothing
//! ```
//!
//! The destination's lock and the control socket go with the descriptors, so no third process comes between. Until the last word the one that
//! has served keeps them, too: if the next one hangs up instead, the first opens the migration again and goes on itself. If the one that
//! has served dies, the next one goes on with what it has got; with less than all, it starts as usual.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use ishigaki_migrate_fs::Handed;
use ishigaki_service::handing::{Timed, end_successor};
use serde::{Deserialize, Serialize};

use crate::control::{self, Reply, Request};
use crate::shown;
use crate::{Config, Error, Result};

/// Of this conversation.
pub(crate) const VERSION: u32 = 1;

const GO: &[u8] = b"go\n";
const SERVING: &[u8] = b"serving\n";

/// How long the one that serves waits for `go`. No client is answered meanwhile.
const WORD: Duration = Duration::from_secs(10);
/// How long the next one may take from `go` until it serves.
const PATIENCE: Duration = Duration::from_mins(2);
/// The most bytes that are taken from another process.
const MOST: u64 = 4 << 30;
/// The lock, the control socket and the mount's device stand before the files without names.
const OWN: usize = 3;

/// What follows, and how the crawler was told to work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    pub(crate) version: u32,
    /// The folder.
    pub(crate) at: String,
    pub(crate) orphans: usize,
    pub(crate) table: u64,
    /// Whether the crawler is paused, if a person has changed that.
    pub(crate) paused: Option<bool>,
    /// Bytes a second and requests at a time, if a person has changed them.
    pub(crate) throttle: Option<(Option<u64>, usize)>,
    /// What a person has told the crawler to take first.
    #[serde(default)]
    pub(crate) first: Vec<String>,
}

/// What a service has alone.
pub(crate) struct Own {
    /// The destination's lock, as long as any process has it.
    pub(crate) lock: File,
    /// The control socket.
    pub(crate) listener: UnixListener,
}

impl Own {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { lock: self.lock.try_clone()?, listener: self.listener.try_clone()? })
    }
}

/// What one service leaves to the next.
pub(crate) struct Inheritance {
    pub(crate) own: Own,
    pub(crate) handed: Handed,
}

impl Inheritance {
    /// Sends it, and waits until the other side serves.
    pub(crate) fn send(&self, stream: &UnixStream) -> io::Result<()> {
        Timed::new(stream, WORD).expect(GO)?;
        let mut timed = Timed::new(stream, PATIENCE);
        let own = [self.own.lock.as_fd(), self.own.listener.as_fd(), self.handed.device.as_fd()];
        let descriptors: Vec<_> = own.into_iter().chain(self.handed.orphans.iter().map(AsFd::as_fd)).collect();
        timed.send(&descriptors)?;
        timed.write_all(&self.handed.table)?;
        timed.expect(SERVING).inspect_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut {
                end_successor(stream);
            }
        })
    }
}

/// The service that was, for as long as it waits for the next one.
pub(crate) struct Predecessor(UnixStream);

impl Predecessor {
    /// Tells it that this process serves, and waits until it knows.
    pub(crate) fn release(self) -> io::Result<()> {
        let mut timed = Timed::new(&self.0, WORD);
        timed.write_all(SERVING)?;
        timed.read_to_end(&mut Vec::new()).map(drop)
    }
}

/// Asks the service of a destination to hand over.
///
/// # Errors
///
/// [`Error::NotServed`] and [`Error::NoMigration`] where none does, and its reason if it refuses. It goes on then, and after any other error as soon as the predecessor
/// is dropped.
pub(crate) fn take(config: &Config) -> Result<(Heading, Inheritance, Predecessor)> {
    let (stream, reply) = match control::converse(&config.to, &Request::HandOver {}) {
        Err(Error::Answer { reason, .. }) => return Err(torn(&config.to, &reason)),
        conversed => conversed?,
    };
    let Reply::HandingOver(heading) = reply else {
        return Err(wrong(&config.to, "it has answered another question"));
    };
    if heading.version != VERSION {
        let reason = format!("it hands over in version {}, and this program takes {VERSION}", heading.version);
        return Err(wrong(&config.to, &reason));
    }
    if shown::read(&heading.at) != config.at {
        let reason = format!("the service that runs has its folder at {}", heading.at);
        return Err(Error::setting("at", reason, "take over with the same folder, or stop that service first"));
    }
    if heading.table > MOST {
        return Err(wrong(&config.to, "it has too much to hand over"));
    }
    let receive = || -> io::Result<Inheritance> {
        let mut timed = Timed::new(&stream, PATIENCE);
        timed.write_all(GO)?;
        let mut descriptors = timed.receive(OWN.saturating_add(heading.orphans))?.into_iter();
        let mut next = || descriptors.next().ok_or(io::ErrorKind::UnexpectedEof);
        let own = Own { lock: next()?.into(), listener: next()?.into() };
        let device = next()?;
        let mut table = vec![0; heading.table as usize];
        timed.read_exact(&mut table)?;
        let orphans = descriptors.collect();
        Ok(Inheritance { own, handed: Handed { device, table, orphans } })
    };
    let inheritance = receive().map_err(|error| torn(&config.to, &error.to_string()))?;
    Ok((heading, inheritance, Predecessor(stream)))
}

fn wrong(to: &Path, reason: &str) -> Error {
    Error::HandOver { to: to.to_owned(), reason: reason.to_owned(), is_torn: false }
}

/// The conversation has ended too early.
fn torn(to: &Path, reason: &str) -> Error {
    Error::HandOver { to: to.to_owned(), reason: reason.to_owned(), is_torn: true }
}
