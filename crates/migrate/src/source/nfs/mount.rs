//! How the root of an export is found: the portmapper (RFC 1833) and the mount service (RFC 1813, appendix I).

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::Address;
use super::flight::Flight;
use super::pool::{Dialer, Limits, Pool};
use super::protocol::{self, NFS, Trouble};
use super::rpc::{AUTH_SYS, Call, Credentials, Program};
use super::xdr::{Malformed, Put, Reader};
use crate::source::{Cancel, Error, ErrorKind, Result};

const PORTMAPPER: Program = Program { number: 100_000, version: 2, name: "portmapper", tells_status: false };
const MOUNT: Program = Program { number: 100_005, version: 3, name: "mount service", tells_status: false };
const PORTMAPPER_PORT: u16 = 111;
const NFS_PORT: u16 = 2049;
const GETPORT: u32 = 3;
const TCP: u32 = 6;
const MNT: u32 = 1;
/// How long a portmapper may take. Many servers have none.
const PORTMAPPER_PATIENCE: Duration = Duration::from_secs(5);

/// A host and its services.
pub(super) struct Host {
    addresses: Vec<SocketAddr>,
    credentials: Credentials,
    limits: Limits,
}

impl Host {
    /// Asks for the host's addresses by its name.
    pub(super) fn resolve(address: &Address, cancel: &Cancel) -> Result<Self> {
        let machine = rustix::system::uname();
        let credentials = Credentials::new(machine.nodename().to_bytes(), address.user, address.group);
        let limits = Limits { patience: address.timeout, silence: address.timeout / 2 };
        let (sender, receiver) = channel();
        let host = address.host.clone();
        let ask = move || {
            // Nothing listens any more if the caller was cancelled.
            let _ = sender.send((host.as_str(), NFS_PORT).to_socket_addrs().map(Iterator::collect::<Vec<_>>));
        };
        let failed = |kind, reason: &dyn std::fmt::Display| {
            Error::new(kind, format!("cannot find the host of {address}: {reason}; see whether its name is right"))
        };
        std::thread::Builder::new().spawn(ask).map_err(|error| failed(ErrorKind::Unavailable, &error))?;
        let until = Instant::now() + address.timeout;
        loop {
            match receiver.recv_timeout(Duration::from_millis(50)) {
                Ok(Ok(addresses)) if !addresses.is_empty() => return Ok(Self { addresses, credentials, limits }),
                Ok(Ok(_)) => return Err(failed(ErrorKind::Invalid, &"it has no address")),
                Ok(Err(error)) => return Err(failed(ErrorKind::Unavailable, &error)),
                Err(_) if cancel.is_cancelled() => return Err(Error::cancelled()),
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
                Err(_) => return Err(failed(ErrorKind::Unavailable, &"no answer")),
            }
        }
    }

    /// Connections to the service at that port.
    pub(super) fn pool(&self, port: u16, connections: usize) -> Pool {
        self.pool_with(port, connections, self.limits)
    }

    fn pool_with(&self, port: u16, connections: usize, limits: Limits) -> Pool {
        let addresses = self.addresses.iter().map(|address| SocketAddr::new(address.ip(), port)).collect();
        Pool::new(addresses, connections, Dialer { credentials: self.credentials.clone(), limits })
    }

    /// The ports of NFS and of its mount service.
    pub(super) fn ports(&self, address: &Address, cancel: &Cancel) -> Result<(u16, u16)> {
        let patience = PORTMAPPER_PATIENCE.min(self.limits.patience);
        let portmapper = self.pool_with(PORTMAPPER_PORT, 1, Limits { patience, silence: patience });
        let nfs = match address.port {
            Some(port) => port,
            None => port_of(&portmapper, NFS, cancel)?.unwrap_or(NFS_PORT),
        };
        let mount = match address.mount_port {
            Some(port) => port,
            // Servers without a portmapper have both at one port.
            None => port_of(&portmapper, MOUNT, cancel)?.unwrap_or(nfs),
        };
        Ok((nfs, mount))
    }
}

/// What the portmapper says, if there is one.
fn port_of(portmapper: &Pool, program: Program, cancel: &Cancel) -> Result<Option<u16>> {
    let mut arguments = Vec::new();
    for word in [program.number, program.version, TCP, 0] {
        arguments.put_u32(word);
    }
    match Flight::call(portmapper, cancel, Call { program: PORTMAPPER, procedure: GETPORT, arguments }) {
        Ok(answer) => {
            Ok(answer.results().u32().ok().and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0))
        }
        Err(failure) if failure.error.kind == ErrorKind::Cancelled => Err(failure.error),
        Err(_) => Ok(None),
    }
}

/// The handle of what the address names. The server may export it, or something above it: the rest is looked up.
pub(super) fn root(address: &Address, mount: &Pool, nfs: &Pool, cancel: &Cancel) -> Result<Box<[u8]>> {
    let path = &address.export;
    let ends = (0..path.len()).rev().filter(|end| path[*end] == b'/').map(|end| end.max(1));
    let mut first = None;
    for end in std::iter::once(path.len()).chain(ends) {
        match export(&path[..end], mount, cancel) {
            Ok(root) => return below(address, root, &path[end..], nfs, cancel),
            Err(Refused::ByStatus(error)) => first = first.or(Some(error)),
            Err(Refused::Else(error)) => {
                let message = format!("cannot mount {address}: {}", error.message);
                return Err(if error.kind == ErrorKind::Cancelled { error } else { Error::new(error.kind, message) });
            }
        }
    }
    let (kind, reason) = first.unwrap_or((ErrorKind::Invalid, "it has no path".to_owned()));
    Err(Error::new(kind, format!("cannot mount {address}: {reason}")))
}

enum Refused {
    /// There is no such export, or not for this host.
    ByStatus((ErrorKind, String)),
    Else(Error),
}

fn export(path: &[u8], mount: &Pool, cancel: &Cancel) -> Result<Box<[u8]>, Refused> {
    let mut arguments = Vec::new();
    arguments.put_opaque(path);
    let call = Call { program: MOUNT, procedure: MNT, arguments };
    let answer = Flight::call(mount, cancel, call).map_err(|failure| Refused::Else(failure.error))?;
    let mounted = mounted(answer.results()).map_err(|Malformed(reason)| {
        let message = format!("the mount service's answer breaks the protocol: {reason}");
        Refused::Else(Error::new(ErrorKind::Broken, message))
    })?;
    mounted.map_err(|status| {
        let shown = String::from_utf8_lossy(path);
        Refused::ByStatus(match status {
            1 | 13 => (
                ErrorKind::Denied,
                format!(
                    "the server does not let this host mount {shown}, or has none; `showmount -e` lists its exports and their clients"
                ),
            ),
            2 | 20 => (ErrorKind::Invalid, format!("the server exports no {shown}; `showmount -e` lists what it does")),
            KERBEROS => (ErrorKind::Invalid, format!("the server gives {shown} with Kerberos only; allow sec=sys")),
            other => (ErrorKind::Broken, format!("the server does not mount {shown}: status {other}")),
        })
    })
}

/// No status of the server's: it takes no credentials that we have.
const KERBEROS: u32 = u32::MAX;

/// The handle of an export, or the status that stands for it.
pub(super) fn mounted(mut reader: Reader<'_>) -> Result<Result<Box<[u8]>, u32>, Malformed> {
    match reader.u32()? {
        0 => {}
        status => return Ok(Err(status)),
    }
    let handle = protocol::handle(&mut reader)?;
    let count = reader.u32()?;
    // 0 is AUTH_NONE, which servers name that take any.
    for _ in 0..count {
        if matches!(reader.u32()?, 0 | AUTH_SYS) {
            return Ok(Ok(handle));
        }
    }
    Ok(if count == 0 { Ok(handle) } else { Err(KERBEROS) })
}

fn below(address: &Address, root: Box<[u8]>, path: &[u8], nfs: &Pool, cancel: &Cancel) -> Result<Box<[u8]>> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let mut handle = root;
    for name in names {
        let answer = Flight::call(nfs, cancel, protocol::lookup(&handle, name)).map_err(Trouble::from);
        let found = answer.and_then(|answer| protocol::looked_up(answer.results()));
        (handle, _) = found.map_err(|trouble| {
            let error = trouble.into_error(&address.to_string(), "mount", "".as_ref());
            if error.kind == ErrorKind::Gone { Error::new(ErrorKind::Invalid, error.message) } else { error }
        })?;
    }
    Ok(handle)
}
