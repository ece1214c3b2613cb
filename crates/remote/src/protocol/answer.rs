//! What a node answers.

use std::io;

use ishigaki_device::{Error, Promise};
use ishigaki_fabric::RegionKey;

use super::{Cursor, put_text};

/// The longest text of a failure.
const MAX_TEXT: usize = 1000;

/// An answer that is no bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// To [`Request::Hello`](super::Request::Hello): which run of the node this is, drawn at random when it starts.
    Welcome { instance: u64 },
    /// To `Open` and `Create`.
    Opened(Opened),
    /// To `Staging`: a key for each slot.
    Staging { keys: Vec<RegionKey> },
    /// To `List`: names in order; more follow behind the last one.
    Names { names: Vec<String>, more: bool },
    /// To the locks.
    Locked { lock: u32 },
    /// To `Watch`: its number, and how long a lease lasts in milliseconds.
    Watching { watch: u64, lease: u32 },
    /// To `Load`.
    Load(Status),
    /// To `Begin`: what the work is called on this connection.
    Begun { work: u32 },
    /// To `Next`: there are no more results.
    Ended,
    /// To `Next`: there are none yet; ask again.
    Later,
    /// It was not done.
    Failed(Failure),
}

/// A file that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) handle: u32,
    /// The same for every opening of the same file, as long as the node runs.
    pub(crate) file: u64,
    /// What tells it from other files of the node's host, also when the node runs anew. 0: not known.
    pub(crate) identity: u64,
    pub(crate) length: u64,
    pub(crate) promise: Promise,
    pub(crate) writes_through: Option<bool>,
    pub(crate) writable: bool,
}

/// What a node tells about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Processors that it may use.
    pub cores: u32,
    /// Connections at the moment.
    pub connections: u32,
    /// Requests served since it started.
    pub requests: u64,
    /// Bytes read for clients since then.
    pub bytes_read: u64,
    /// Bytes written for clients since then.
    pub bytes_written: u64,
    /// Bytes of results of work that went to clients since then.
    pub bytes_of_results: u64,
    /// Processor time of the node's process since then, in nanoseconds.
    pub processor_nanos: u64,
    /// Time since then, in nanoseconds.
    pub uptime_nanos: u64,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    NotFound,
    AlreadyExists,
    Locked {
        holder: Option<String>,
    },
    Invalid {
        reason: String,
    },
    Damaged {
        reason: String,
    },
    NoSpace {
        needed: u64,
    },
    Io {
        operation: u8,
        errno: i32,
        reason: String,
    },
    PowerCut,
    /// Work that the node does not do, though nothing is wrong with it.
    Refused {
        reason: String,
    },
}

/// What a device does when it fails, by number.
const OPERATIONS: [&str; 12] = [
    "request",
    "read",
    "write",
    "sync",
    "trim",
    "open",
    "create",
    "list",
    "rename",
    "remove",
    "lock",
    "create directory",
];

impl Failure {
    /// As it is told to a client: without the node's own paths.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::NotFound { .. } => Self::NotFound,
            Error::AlreadyExists { .. } => Self::AlreadyExists,
            Error::Locked { holder, .. } => Self::Locked { holder: holder.clone() },
            Error::Invalid { reason, .. } => Self::Invalid { reason: reason.clone() },
            Error::Damaged { reason, .. } => Self::Damaged { reason: reason.clone() },
            Error::NoSpace { needed, .. } => Self::NoSpace { needed: *needed },
            Error::Io { operation, source, .. } | Error::ReadOnly { operation, source, .. } => {
                let number = OPERATIONS.iter().position(|known| known == operation).unwrap_or(0);
                let errno = source.raw_os_error().unwrap_or(0);
                Self::Io { operation: number as u8, errno, reason: source.to_string() }
            }
            Error::PowerCut { .. } => Self::PowerCut,
            other => Self::Io { operation: 0, errno: 0, reason: other.to_string() },
        }
    }

    /// As who asks a node for no file in particular gets it.
    pub(crate) fn of_node(self, peer: &str) -> crate::Error {
        match self {
            Self::Refused { reason } => crate::Error::Refused { peer: peer.to_owned(), reason },
            other => other.into_error(peer).into(),
        }
    }

    /// As the caller gets it who asked about a file; nobody refuses those.
    pub(crate) fn into_error(self, name: &str) -> Error {
        let name = name.to_owned();
        match self {
            Self::NotFound => Error::NotFound { name },
            Self::AlreadyExists => Error::AlreadyExists { name },
            Self::Locked { holder } => Error::Locked { directory: name, holder },
            Self::Invalid { reason } | Self::Refused { reason } => Error::Invalid { name, reason },
            Self::Damaged { reason } => Error::Damaged { name, reason },
            Self::NoSpace { needed } => Error::NoSpace { name, needed },
            Self::Io { operation, errno, reason } => {
                let operation = OPERATIONS.get(usize::from(operation)).copied().unwrap_or("request");
                let source = if errno > 0 { io::Error::from_raw_os_error(errno) } else { io::Error::other(reason) };
                match source.kind() {
                    io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { name, operation, source },
                    _ => Error::Io { name, operation, source },
                }
            }
            Self::PowerCut => Error::PowerCut { name },
        }
    }
}

impl Answer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::with_capacity(64);
        match self {
            Self::Done => to.push(0),
            Self::Welcome { instance } => {
                to.push(1);
                to.extend_from_slice(&instance.to_le_bytes());
            }
            Self::Opened(opened) => {
                to.push(2);
                opened.encode(&mut to);
            }
            Self::Staging { keys } => {
                to.push(3);
                to.extend_from_slice(&(keys.len() as u16).to_le_bytes());
                for key in keys {
                    to.extend_from_slice(&key.0);
                }
            }
            Self::Names { names, more } => {
                to.extend_from_slice(&[4, u8::from(*more)]);
                to.extend_from_slice(&(names.len() as u32).to_le_bytes());
                for name in names {
                    put_text(&mut to, name);
                }
            }
            Self::Locked { lock } => {
                to.push(5);
                to.extend_from_slice(&lock.to_le_bytes());
            }
            Self::Watching { watch, lease } => {
                to.push(6);
                to.extend_from_slice(&watch.to_le_bytes());
                to.extend_from_slice(&lease.to_le_bytes());
            }
            Self::Load(status) => {
                to.push(7);
                status.encode(&mut to);
            }
            Self::Begun { work } => {
                to.push(8);
                to.extend_from_slice(&work.to_le_bytes());
            }
            Self::Ended => to.push(9),
            Self::Later => to.push(10),
            Self::Failed(failure) => {
                to.push(255);
                failure.encode(&mut to);
            }
        }
        to
    }

    /// Nothing: no node says this.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Cursor(bytes);
        let answer = match from.u8()? {
            0 => Self::Done,
            1 => Self::Welcome { instance: from.u64()? },
            2 => Self::Opened(Opened::decode(&mut from)?),
            3 => {
                let count = from.u16()?;
                let keys: Option<_> = (0..count).map(|_| from.array().map(RegionKey)).collect();
                Self::Staging { keys: keys? }
            }
            4 => {
                let more = from.flag()?;
                let count = from.u32()?;
                let names: Option<_> = (0..count).map(|_| from.text(MAX_TEXT).map(str::to_owned)).collect();
                Self::Names { names: names?, more }
            }
            5 => Self::Locked { lock: from.u32()? },
            6 => Self::Watching { watch: from.u64()?, lease: from.u32()? },
            7 => Self::Load(Status::decode(&mut from)?),
            8 => Self::Begun { work: from.u32()? },
            9 => Self::Ended,
            10 => Self::Later,
            255 => Self::Failed(Failure::decode(&mut from)?),
            _ => return None,
        };
        from.end(answer)
    }
}

impl Opened {
    fn encode(&self, to: &mut Vec<u8>) {
        let Promise { block_size, atomic_write, direct, trim } = self.promise;
        to.extend_from_slice(&self.handle.to_le_bytes());
        to.extend_from_slice(&self.file.to_le_bytes());
        to.extend_from_slice(&self.identity.to_le_bytes());
        to.extend_from_slice(&self.length.to_le_bytes());
        to.extend_from_slice(&(block_size as u32).to_le_bytes());
        to.extend_from_slice(&(atomic_write as u32).to_le_bytes());
        let writes_through = self.writes_through.map_or(2, u8::from);
        to.extend_from_slice(&[u8::from(direct), u8::from(trim), writes_through, u8::from(self.writable)]);
    }

    fn decode(from: &mut Cursor<'_>) -> Option<Self> {
        let (handle, file, identity, length) = (from.u32()?, from.u64()?, from.u64()?, from.u64()?);
        let (block_size, atomic_write) = (from.u32()? as usize, from.u32()? as usize);
        let promise = Promise { block_size, atomic_write, direct: from.flag()?, trim: from.flag()? };
        let writes_through = match from.u8()? {
            0 => Some(false),
            1 => Some(true),
            2 => None,
            _ => return None,
        };
        let writable = from.flag()?;
        // A client divides by it and sizes memory after it.
        let sound = block_size.is_power_of_two()
            && (ishigaki_device::SECTOR..=ishigaki_device::MAX_BLOCK_SIZE).contains(&block_size)
            && length.is_multiple_of(block_size as u64);
        sound.then_some(Self { handle, file, identity, length, promise, writes_through, writable })
    }
}

impl Status {
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.cores.to_le_bytes());
        to.extend_from_slice(&self.connections.to_le_bytes());
        let Self { requests, bytes_read, bytes_written, bytes_of_results, processor_nanos, uptime_nanos, .. } = *self;
        for number in [requests, bytes_read, bytes_written, bytes_of_results, processor_nanos, uptime_nanos] {
            to.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn decode(from: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            cores: from.u32()?,
            connections: from.u32()?,
            requests: from.u64()?,
            bytes_read: from.u64()?,
            bytes_written: from.u64()?,
            bytes_of_results: from.u64()?,
            processor_nanos: from.u64()?,
            uptime_nanos: from.u64()?,
        })
    }
}

impl Failure {
    fn encode(&self, to: &mut Vec<u8>) {
        let text = |to: &mut Vec<u8>, text: &str| {
            let end = text.floor_char_boundary(MAX_TEXT);
            put_text(to, &text[..end]);
        };
        match self {
            Self::NotFound => to.push(1),
            Self::AlreadyExists => to.push(2),
            Self::Locked { holder } => {
                to.push(3);
                text(to, holder.as_deref().unwrap_or(""));
            }
            Self::Invalid { reason } => {
                to.push(4);
                text(to, reason);
            }
            Self::Damaged { reason } => {
                to.push(5);
                text(to, reason);
            }
            Self::NoSpace { needed } => {
                to.push(6);
                to.extend_from_slice(&needed.to_le_bytes());
            }
            Self::Io { operation, errno, reason } => {
                to.extend_from_slice(&[7, *operation]);
                to.extend_from_slice(&errno.to_le_bytes());
                text(to, reason);
            }
            Self::PowerCut => to.push(8),
            Self::Refused { reason } => {
                to.push(9);
                text(to, reason);
            }
        }
    }

    fn decode(from: &mut Cursor<'_>) -> Option<Self> {
        let text = |from: &mut Cursor<'_>| from.text(MAX_TEXT).map(str::to_owned);
        Some(match from.u8()? {
            1 => Self::NotFound,
            2 => Self::AlreadyExists,
            3 => Self::Locked { holder: text(from).map(|holder| Some(holder).filter(|holder| !holder.is_empty()))? },
            4 => Self::Invalid { reason: text(from)? },
            5 => Self::Damaged { reason: text(from)? },
            6 => Self::NoSpace { needed: from.u64()? },
            7 => Self::Io { operation: from.u8()?, errno: from.array().map(i32::from_le_bytes)?, reason: text(from)? },
            8 => Self::PowerCut,
            9 => Self::Refused { reason: text(from)? },
            _ => return None,
        })
    }
}
