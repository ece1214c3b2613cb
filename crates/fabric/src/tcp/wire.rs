//! Bytes to and from a socket, through TLS where that is asked for, and never for ever.
//!
//! The socket blocks, but only for [`SLICE`] at a time; between slices a wait looks at its deadline.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, sockopt};
use rustls::pki_types::ServerName;

use crate::endpoint::Settings;
use crate::security::Security;
use crate::source::{Block, Fault, Source};
use crate::{Error, Result};

/// How late a deadline may be noticed.
const SLICE: Duration = Duration::from_millis(100);

/// Bytes of TLS records that are taken from the socket at once.
const CIPHERED: usize = 64 << 10;

/// A connected socket.
pub(crate) struct Wire {
    socket: TcpStream,
    stall: Duration,
    tls: Option<Tls>,
    /// Nothing is received any more.
    deaf: AtomicBool,
}

/// The two directions of a TLS connection share its state; the lock is held to encrypt or to decrypt, never over a system
/// call.
struct Tls {
    state: Mutex<rustls::Connection>,
    /// Records on their way in, of the one who receives.
    records: Mutex<Records>,
    /// Records on their way out, of the one who sends.
    sealed: Mutex<Vec<u8>>,
}

/// Bytes that came from the socket and are not opened yet: `bytes[begin..end]`.
struct Records {
    bytes: Box<[u8]>,
    begin: usize,
    end: usize,
}

impl Wire {
    /// The side that connected.
    pub(crate) fn client(socket: TcpStream, address: &str, security: &Security, settings: &Settings) -> Result<Self> {
        let refused = |reason: String| Error::Refused { peer: address.to_owned(), reason };
        let tls = match security {
            Security::Tls(tls) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
                    .map_err(|_| refused("no certificate can be of a host with such a name".to_owned()))?;
                let state = rustls::ClientConnection::new(tls.client.clone(), name);
                Some(Tls::of(state.map_err(|error| refused(error.to_string()))?.into()))
            }
            Security::Open | Security::Token(_) => None,
        };
        Self::of(socket, tls, settings).map_err(|source| Error::Unreachable { peer: address.to_owned(), source })
    }

    /// The side that listened.
    pub(crate) fn server(socket: TcpStream, peer: &str, security: &Security, settings: &Settings) -> Result<Self> {
        let tls = match security {
            Security::Tls(tls) => {
                let refused =
                    |error: rustls::Error| Error::Refused { peer: peer.to_owned(), reason: error.to_string() };
                Some(Tls::of(rustls::ServerConnection::new(tls.server.clone()).map_err(refused)?.into()))
            }
            Security::Open | Security::Token(_) => None,
        };
        Self::of(socket, tls, settings).map_err(|source| Error::Unreachable { peer: peer.to_owned(), source })
    }

    fn of(socket: TcpStream, tls: Option<Tls>, settings: &Settings) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SLICE))?;
        socket.set_write_timeout(Some(SLICE))?;
        // A host that has vanished is noticed within a minute, also by who only waits for it.
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, Duration::from_secs(30))?;
        sockopt::set_tcp_keepintvl(&socket, Duration::from_secs(10))?;
        sockopt::set_tcp_keepcnt(&socket, 3)?;
        if socket.peer_addr()?.ip().is_loopback() {
            // Within a host nothing is congested, and a control that paces what it sends (BBR) only adds delays. Where this
            // one is not to be had, the host's own serves.
            let _ = sockopt::set_tcp_congestion(&socket, "reno");
        }
        Ok(Self { socket, stall: settings.stall, tls, deaf: AtomicBool::new(false) })
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// From now on nothing is received; whoever waits for it finds out within [`SLICE`].
    pub(crate) fn close_incoming(&self) {
        // Not by the operating system: it would then refuse what the peer sends, and the peer the connection.
        self.deaf.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::Relaxed)
    }

    /// Ends the outgoing direction, and throws away what comes until the peer has ended the other one. An error means that
    /// there is no connection any more.
    pub(crate) fn close_outgoing(&self, deadline: Instant) {
        let mut bytes = [0; 4096];
        if self.socket.shutdown(Shutdown::Write).is_err() {
            return;
        }
        while Instant::now() < deadline {
            match rustix::net::recv(self.socket.as_fd(), &mut bytes[..], RecvFlags::empty()) {
                Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Ends the outgoing direction. An error means that there is none any more.
    pub(crate) fn finish(&self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Ends both directions. An error means that they have ended.
    pub(crate) fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Sends all of it. One at a time: callers keep order among themselves.
    pub(crate) fn send(&self, slices: &mut [IoSlice<'_>]) -> Result<(), Fault> {
        let Some(tls) = &self.tls else { return self.push(slices) };
        let mut sealed = tls.sealed.lock();
        sealed.clear();
        {
            let mut state = tls.state.lock();
            for slice in &*slices {
                state.writer().write_all(slice).map_err(broken)?;
            }
            while state.wants_write() {
                state.write_tls(&mut *sealed).map_err(broken)?;
            }
        }
        self.push(&mut [IoSlice::new(&sealed)])
    }

    /// Receives exactly so many bytes.
    pub(crate) fn receive_exact(&self, mut bytes: &mut [u8], deadline: Instant) -> Result<(), Fault> {
        while !bytes.is_empty() {
            let received = self.receive(&mut [IoSliceMut::new(bytes)], Block::Until(deadline))?;
            bytes = &mut bytes[received..];
        }
        Ok(())
    }

    /// The handshake of TLS, where there is one.
    pub(crate) fn agree(&self, deadline: Instant) -> Result<(), Fault> {
        let Some(tls) = &self.tls else { return Ok(()) };
        loop {
            // Sends what the state has to say, if anything.
            self.send(&mut [])?;
            if !tls.state.lock().is_handshaking() {
                return Ok(());
            }
            self.take_records(tls, Block::Until(deadline))?;
        }
    }

    fn receive_sealed(&self, tls: &Tls, slices: &mut [IoSliceMut<'_>], block: Block) -> Result<usize, Fault> {
        loop {
            match tls.state.lock().reader().read_vectored(slices) {
                Ok(0) => return Err(Fault::Broken("the peer closed it".to_owned())),
                Ok(received) => return Ok(received),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(broken(error)),
            }
            if !self.take_records(tls, block)? {
                return Ok(0);
            }
        }
    }

    /// Opens records until there is something to read, taking more from the socket if none is left; false if there is none
    /// there either and waiting was not wanted.
    fn take_records(&self, tls: &Tls, block: Block) -> Result<bool, Fault> {
        let mut records = tls.records.lock();
        let Records { bytes, begin, end } = &mut *records;
        if begin == end {
            (*begin, *end) = (0, self.pull(&mut [IoSliceMut::new(bytes)], block)?);
        }
        let had = begin < end;
        let mut state = tls.state.lock();
        // No more than that: the state keeps only so much of what nobody has read.
        let mut readable = 0;
        while begin < end && readable == 0 {
            *begin += state.read_tls(&mut &bytes[*begin..*end]).map_err(broken)?;
            match state.process_new_packets() {
                Ok(now) => readable = now.plaintext_bytes_to_read(),
                Err(error) => {
                    // Tells the peer why, if it still listens.
                    let mut alert = Vec::new();
                    let _ = state.write_tls(&mut alert);
                    let _ = self.push(&mut [IoSlice::new(&alert)]);
                    return Err(Fault::Refused(format!("TLS: {error}")));
                }
            }
        }
        Ok(had)
    }

    fn push(&self, mut slices: &mut [IoSlice<'_>]) -> Result<(), Fault> {
        let mut deadline = None;
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let most = slices.len().min(MOST_SLICES);
            let flags = SendFlags::NOSIGNAL;
            match rustix::net::sendmsg(self.socket.as_fd(), &slices[..most], &mut SendAncillaryBuffer::default(), flags)
            {
                Ok(sent) => {
                    // The peer is taking something.
                    deadline = None;
                    IoSlice::advance_slices(&mut slices, sent);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let now = Instant::now();
                    if now >= *deadline.get_or_insert(now + self.stall.saturating_sub(SLICE)) {
                        return Err(Fault::Late);
                    }
                }
                Err(errno) => return Err(broken(errno.into())),
            }
        }
        Ok(())
    }

    fn pull(&self, slices: &mut [IoSliceMut<'_>], block: Block) -> Result<usize, Fault> {
        let flags = match block {
            Block::No => RecvFlags::DONTWAIT,
            Block::Until(_) => RecvFlags::empty(),
        };
        loop {
            let outcome = match &mut *slices {
                [one] => rustix::net::recv(self.socket.as_fd(), &mut **one, flags).map(|(received, _)| received),
                many => {
                    let mut control = RecvAncillaryBuffer::default();
                    rustix::net::recvmsg(self.socket.as_fd(), many, &mut control, flags).map(|message| message.bytes)
                }
            };
            match (outcome, block) {
                (Ok(0), _) => return Err(Fault::Broken("the peer closed it".to_owned())),
                (Ok(received), _) => return Ok(received),
                (Err(Errno::AGAIN), _) if self.is_deaf() => {
                    return Err(Fault::Broken("we take nothing more".to_owned()));
                }
                (Err(Errno::AGAIN), Block::No) => return Ok(0),
                (Err(Errno::AGAIN), Block::Until(deadline)) if Instant::now() >= deadline => return Err(Fault::Late),
                (Err(Errno::AGAIN | Errno::INTR), _) => {}
                (Err(errno), _) => return Err(broken(errno.into())),
            }
        }
    }
}

impl Source for Wire {
    fn receive(&self, slices: &mut [IoSliceMut<'_>], block: Block) -> Result<usize, Fault> {
        match &self.tls {
            None => self.pull(slices, block),
            Some(tls) => self.receive_sealed(tls, slices, block),
        }
    }

    /// Through TLS bytes come by way of a buffer anyway.
    fn is_plain(&self) -> bool {
        self.tls.is_none()
    }
}

/// The kernel takes no more slices at once.
const MOST_SLICES: usize = 1024;

impl Tls {
    fn of(mut state: rustls::Connection) -> Self {
        // Batches have limits of their own.
        state.set_buffer_limit(None);
        let records = Records { bytes: vec![0; CIPHERED].into_boxed_slice(), begin: 0, end: 0 };
        Self { state: Mutex::new(state), records: Mutex::new(records), sealed: Mutex::default() }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn broken(error: io::Error) -> Fault {
    Fault::Broken(error.to_string())
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channel = if self.tls.is_some() { "TLS" } else { "plain" };
        write!(f, "Wire({channel}, {:?})", self.socket.peer_addr().ok())
    }
}
