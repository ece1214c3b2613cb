//! What two processes need when one takes the place of the other: a conversation that ends in time, and descriptors.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg, sockopt::socket_peercred,
};
use rustix::process::{PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// Descriptors that are sent at once. The kernel takes 253.
const BATCH: usize = 64;

/// A stream on which all that is read and written must be over at some time.
#[derive(Debug)]
pub struct Timed<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl<'a> Timed<'a> {
    /// For so long from now on.
    pub fn new(stream: &'a UnixStream, time: Duration) -> Self {
        Self { stream, until: Instant::now() + time }
    }

    /// The next call on the stream ends by then.
    fn limit(&self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.set_write_timeout(Some(left))
    }

    /// Reads the other side's next words, which must be these.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] for others; [`io::ErrorKind::TimedOut`]; the stream's.
    pub fn expect(&mut self, words: &[u8]) -> io::Result<()> {
        let mut heard = vec![0; words.len()];
        self.read_exact(&mut heard)?;
        if heard == words { Ok(()) } else { Err(unexpected()) }
    }

    /// Sends descriptors. The sender keeps its own.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::TimedOut`]; the stream's.
    pub fn send(&mut self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        for descriptors in descriptors.chunks(BATCH) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
                return Err(io::Error::other("too many descriptors at once"));
            }
            self.limit()?;
            sendmsg(self.stream, &[IoSlice::new(b"d")], &mut control, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// Receives so many descriptors.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] where fewer come; [`io::ErrorKind::TimedOut`]; the stream's.
    pub fn receive(&mut self, wanted: usize) -> io::Result<Vec<OwnedFd>> {
        let mut descriptors = Vec::new();
        while descriptors.len() < wanted {
            self.limit()?;
            descriptors.extend(received(self.stream).map_err(or_late)?);
        }
        Ok(descriptors)
    }
}

/// Those of one message.
fn received(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
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

/// Another word than the one that must come.
pub fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "another word was expected")
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the other process was silent for too long")
}

fn or_late(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { late() } else { error }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        self.stream.read(buffer).map_err(or_late)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        self.stream.write(bytes).map_err(or_late)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ends a next process that hangs. It would keep devices and lock otherwise, and programs would wait for it for ever.
pub fn end_successor(stream: &UnixStream) {
    let end = || -> rustix::io::Result<()> {
        let peer = socket_peercred(stream)?.pid;
        if peer == getpid() {
            return Ok(());
        }
        // It has not hung up, so that the number is still its own; from here on the descriptor names the process.
        pidfd_send_signal(pidfd_open(peer, PidfdFlags::empty())?, Signal::KILL)?;
        tracing::error!(pid = peer.as_raw_nonzero(), "the process that was to take over hangs, and is killed");
        Ok(())
    };
    if let Err(error) = end() {
        tracing::error!(%error, "the process that was to take over hangs, and could not be killed");
    }
}
