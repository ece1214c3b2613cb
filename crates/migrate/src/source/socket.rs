//! Making a connection, until it is there or the caller has enough.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::source::Cancel;

/// How long the other host may take to answer.
const CONNECT: Duration = Duration::from_secs(5);
/// After so long the caller's [`Cancel`] is looked at.
const TICK: Duration = Duration::from_millis(50);
/// How often the connection's reader looks whether the server has gone silent.
pub(super) const LOOK: Duration = Duration::from_millis(500);
/// How long the other host may leave bytes without confirmation, in milliseconds.
const UNCONFIRMED: u32 = 10_000;
/// Ports that only privileged users get, above those of well-known services.
const PRIVILEGED: std::ops::Range<u16> = 665..1024;
/// For requests alone, so that sending never waits for the server.
const SEND_BUFFER: usize = 256 << 10;

/// Connects.
pub(super) fn connect(address: SocketAddr, cancel: &Cancel) -> io::Result<TcpStream> {
    let socket = socket(address)?;
    establish(&socket, address, cancel)?;
    ready(socket)
}

/// Connects from a privileged port where this process may have one: NFS servers ask for it as a proof that root is calling.
pub(super) fn connect_privileged(address: SocketAddr, cancel: &Cancel) -> io::Result<TcpStream> {
    let count = PRIVILEGED.len();
    let first = usize::from(random());
    for number in 0..count {
        let port = PRIVILEGED.start + ((first + number) % count) as u16;
        let socket = socket(address)?;
        let any = match address {
            SocketAddr::V4(_) => SocketAddr::from(([0; 4], port)),
            SocketAddr::V6(_) => SocketAddr::from(([0; 8], port)),
        };
        match rustix::net::bind(&socket, &any) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => continue,
            // Not a privileged user.
            Err(_) => break,
        }
        match establish(&socket, address, cancel) {
            // An earlier connection from that port is not quite over.
            Err(error) if error.raw_os_error() == Some(Errno::ADDRNOTAVAIL.raw_os_error()) => {}
            outcome => return outcome.and_then(|()| ready(socket)),
        }
    }
    connect(address, cancel)
}

fn random() -> u16 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) as u16
}

fn socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(socket)
}

fn establish(socket: &OwnedFd, address: SocketAddr, cancel: &Cancel) -> io::Result<()> {
    match rustix::net::connect(socket, &address) {
        Ok(()) => return Ok(()),
        Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let until = Instant::now() + CONNECT;
    let tick = Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) };
    while Instant::now() < until && !cancel.is_cancelled() {
        match rustix::event::poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&tick)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(sockopt::socket_error(socket)??),
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn ready(socket: OwnedFd) -> io::Result<TcpStream> {
    sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(&socket, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(&socket, 3)?;
    sockopt::set_tcp_user_timeout(&socket, UNCONFIRMED)?;
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(CONNECT))?;
    Ok(stream)
}
