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
//!    serving ───────────────────────▶   ends, and unmounts nothing
//! ```
//!
//! Until the last word the one that has served keeps the devices, too. If the next one hangs up instead, because it can not serve
//! or was killed, the first opens the pool again and goes on itself.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use ishigaki_logpool_fs::{Inheritance, Table};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::control::{self, Reply, Request};
use crate::{Error, Result};

/// Of this conversation and of the table.
const VERSION: u32 = 1;

/// Descriptors that are sent at once. The kernel takes 253.
const BATCH: usize = 64;

const GO: &[u8] = b"go\n";
const SERVING: &[u8] = b"serving\n";

/// The most bytes that are taken from another process.
const MOST: u64 = 4 << 30;

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    version: u32,
    devices: usize,
    table: u64,
    bytes: u64,
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

    pub(crate) fn heading(&self) -> Heading {
        let (table, bytes) = (self.written.len() as u64, self.bytes.len() as u64);
        Heading { version: VERSION, devices: self.devices.len(), table, bytes }
    }

    /// Sends it, and waits until the other side serves. After an error it has nothing any more.
    pub(crate) fn send(&self, stream: &mut UnixStream) -> io::Result<()> {
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        expect(stream, GO)?;
        for devices in self.devices.chunks(BATCH) {
            let devices: Vec<BorrowedFd<'_>> = devices.iter().map(AsFd::as_fd).collect();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !control.push(SendAncillaryMessage::ScmRights(&devices)) {
                return Err(io::Error::other("too many descriptors at once"));
            }
            sendmsg(&*stream, &[IoSlice::new(b"d")], &mut control, SendFlags::NOSIGNAL)?;
        }
        stream.write_all(&self.written)?;
        stream.write_all(&self.bytes)?;
        expect(stream, SERVING)
    }

    /// What it was made of.
    pub(crate) fn open(self) -> io::Result<Inheritance> {
        Inheritance::put_together(self.table, &self.bytes, self.devices)
    }
}

/// The other side's next words must be these.
fn expect(stream: &mut UnixStream, words: &[u8]) -> io::Result<()> {
    let mut heard = vec![0; words.len()];
    stream.read_exact(&mut heard)?;
    if heard == words { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidData, "another word was expected")) }
}

/// The service that was, for as long as it waits for the next one.
#[derive(Debug)]
pub(crate) struct Predecessor(UnixStream);

impl Predecessor {
    /// Tells it that we serve, and waits until it knows. It ends then, and leaves alone what is ours.
    pub(crate) fn release(mut self) -> io::Result<()> {
        self.0.write_all(SERVING)?;
        self.0.read_to_end(&mut Vec::new()).map(drop)
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
    let (mut stream, reply) = control::converse(data, &Request::HandOver {})?;
    let Reply::HandingOver(heading) = reply else {
        return Err(wrong(io::Error::other("the service has answered another question")));
    };
    let Heading { version, devices: wanted, table, bytes } = heading;
    if version != VERSION {
        let reason = format!(
            "it hands over in version {version}, and this program takes version {VERSION}; stop it, and start this one"
        );
        return Err(wrong(io::Error::other(reason)));
    }
    if table.saturating_add(bytes) > MOST {
        return Err(wrong(io::Error::other("it has too much to hand over")));
    }
    let receive = |stream: &mut UnixStream| -> io::Result<Inheritance> {
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        stream.write_all(GO)?;
        let mut devices = Vec::new();
        while devices.len() < wanted {
            devices.extend(descriptors(stream)?);
        }
        let (mut written, mut beside) = (vec![0; table as usize], vec![0; bytes as usize]);
        stream.read_exact(&mut written)?;
        stream.read_exact(&mut beside)?;
        Inheritance::put_together(serde_json::from_slice(&written)?, &beside, devices)
    };
    let inheritance = receive(&mut stream).map_err(wrong)?;
    Ok((inheritance, Predecessor(stream)))
}

/// Those of one message.
fn descriptors(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let (mut word, mut space) = ([0], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))]);
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let heard = recvmsg(stream, &mut [IoSliceMut::new(&mut word)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut devices = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            devices.extend(rights);
        }
    }
    if heard.bytes == 0 || devices.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(devices)
}
