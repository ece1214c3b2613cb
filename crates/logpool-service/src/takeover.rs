//! One service takes the place of another under working servers.
//!
//! ```text
//!  the next one                       the one that serves
//!    {"hand_over":{}} ──────────────▶   brings members home, takes no more requests from the kernel,
//!                                       answers those it has, closes the pool, frees the directory
//!    ◀── {"handing_over":{…}}           what follows, by its size
//!    go ────────────────────────────▶
//!    ◀── devices (SCM_RIGHTS), table, bytes
//!    opens the pool, goes on
//!    working ───────────────────────▶   once a second in which something was done, until the pool is open
//!    serving ───────────────────────▶   ends, and unmounts nothing
//! ```
//!
//! Until the last word the one that has served keeps the devices, too. If the next one hangs up instead, because it can not serve
//! or was killed, the first opens the pool again and goes on itself. Neither waits for ever: a next one that hangs, and is not at work, is ended by the
//! first, since it has the devices and perhaps the directory's lock.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use ishigaki_logpool_fs::{Inheritance, Table};
pub(crate) use ishigaki_service::handing::end_successor;
use ishigaki_service::handing::{Timed, unexpected};
use serde::{Deserialize, Serialize};

use crate::control::{self, Reply, Request};
use crate::progress::{PERIOD, Progress, Voice};
use crate::{Error, Result};

/// Of this conversation and of the table.
pub(crate) const VERSION: u32 = 1;

const GO: &[u8] = b"go\n";
const SERVING: &[u8] = b"serving\n";
const WORKING: &[u8] = b"working\n";

/// How long the one that serves waits for `go`. No program is answered meanwhile.
const WORD: Duration = Duration::from_secs(10);

/// How long the next one may take from `go` until it serves, or from one word to the next, unless the configuration says otherwise,
/// and the first until all is sent.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The most bytes that are taken from another process.
pub(crate) const MOST: u64 = 4 << 30;

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    version: u32,
    devices: usize,
    table: u64,
    bytes: u64,
    /// Whether it hears that the next one is at work. One that does not takes that word for a wrong one.
    #[serde(default)]
    hears_work: bool,
}

/// An inheritance, ready to be sent.
#[derive(Debug)]
pub(crate) struct Parcel {
    table: Table,
    written: Vec<u8>,
    bytes: Vec<u8>,
    devices: Vec<OwnedFd>,
}

impl Parcel {
    pub(crate) fn of(inheritance: Inheritance) -> Self {
        let (table, bytes, devices) = inheritance.take_apart();
        Self { table, written: Vec::new(), bytes, devices }
    }

    /// Writes its table, before its heading is told.
    ///
    /// # Errors
    ///
    /// For a path that is not UTF-8. It can still be [opened](Self::open).
    pub(crate) fn write(&mut self) -> io::Result<()> {
        self.written = serde_json::to_vec(&self.table).map_err(io::Error::other)?;
        Ok(())
    }

    /// What was [written](Self::write).
    pub(crate) fn written(&self) -> &[u8] {
        &self.written
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn devices(&self) -> &[OwnedFd] {
        &self.devices
    }

    pub(crate) fn heading(&self) -> Heading {
        let (table, bytes) = (self.written.len() as u64, self.bytes.len() as u64);
        Heading { version: VERSION, devices: self.devices.len(), table, bytes, hears_work: true }
    }

    /// Sends it, and waits until the other side serves, for so long since it was last heard to be at work. After an error that side has nothing any more, but where it
    /// hangs ([`io::ErrorKind::TimedOut`]): it may still have the devices.
    pub(crate) fn send(&self, stream: &UnixStream, patience: Duration) -> io::Result<()> {
        let mut timed = Timed::new(stream, patience);
        let devices: Vec<BorrowedFd<'_>> = self.devices.iter().map(AsFd::as_fd).collect();
        timed.send(&devices)?;
        timed.write_all(&self.written)?;
        timed.write_all(&self.bytes)?;
        await_serving(stream, patience)
    }

    /// What it was made of.
    pub(crate) fn open(self) -> io::Result<Inheritance> {
        Inheritance::put_together(self.table, &self.bytes, self.devices)
    }
}

/// Waits until the next one serves, and for as long as it is heard to be at work.
fn await_serving(stream: &UnixStream, patience: Duration) -> io::Result<()> {
    // Both words are of one length.
    let mut heard = [0; SERVING.len()];
    loop {
        Timed::new(stream, patience).read_exact(&mut heard)?;
        if heard == SERVING {
            return Ok(());
        }
        if heard != WORKING {
            return Err(unexpected());
        }
    }
}

/// Waits until the next one asks for what follows.
pub(crate) fn await_go(stream: &UnixStream, patience: Duration) -> io::Result<()> {
    Timed::new(stream, WORD.min(patience)).expect(GO)
}

/// The service that was, for as long as it waits for the next one.
#[derive(Debug)]
pub(crate) struct Predecessor {
    stream: UnixStream,
    hears_work: bool,
}

impl Predecessor {
    /// Has it hear that this process is at work. `None` where it does not.
    pub(crate) fn inform(&self, progress: &Progress) -> io::Result<Option<Voice>> {
        if !self.hears_work {
            return Ok(None);
        }
        let stream = self.stream.try_clone()?;
        let say = move || Timed::new(&stream, WORD).write_all(WORKING);
        Voice::raise(progress, PERIOD, say).map(Some)
    }

    /// Tells it that we serve, and waits until it knows. It ends then, and leaves alone what is ours.
    pub(crate) fn release(self) -> io::Result<()> {
        let mut timed = Timed::new(&self.stream, WORD);
        timed.write_all(SERVING)?;
        timed.read_to_end(&mut Vec::new()).map(drop)
    }
}

/// Asks the service of a data directory to hand over what it serves.
///
/// # Errors
///
/// [`Error::NotServed`] where none does, and its reason if it refuses. It goes on then, and after any other error as soon as
/// the predecessor that was returned is dropped.
pub(crate) fn take(data: &Path) -> Result<(Inheritance, Predecessor)> {
    let wrong = |cause: io::Error| Error::TakeOver { data: data.to_owned(), cause };
    let (stream, reply) = control::converse(data, &Request::HandOver {})?;
    let Reply::HandingOver(heading) = reply else {
        return Err(wrong(io::Error::other("the service has answered another question")));
    };
    let Heading { version, devices: wanted, table, bytes, hears_work } = heading;
    if version != VERSION {
        let reason = format!(
            "it hands over in version {version}, and this program takes version {VERSION}; stop it, and start this one"
        );
        return Err(wrong(io::Error::other(reason)));
    }
    if table.saturating_add(bytes) > MOST {
        return Err(wrong(io::Error::other("it has too much to hand over")));
    }
    let receive = |stream: &UnixStream| -> io::Result<Inheritance> {
        let mut timed = Timed::new(stream, PATIENCE);
        timed.write_all(GO)?;
        let devices = timed.receive(wanted)?;
        let (mut written, mut beside) = (vec![0; table as usize], vec![0; bytes as usize]);
        timed.read_exact(&mut written)?;
        timed.read_exact(&mut beside)?;
        Inheritance::put_together(serde_json::from_slice(&written)?, &beside, devices)
    };
    let inheritance = receive(&stream).map_err(wrong)?;
    Ok((inheritance, Predecessor { stream, hears_work }))
}
