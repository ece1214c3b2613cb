//! What a client asks.

use ishigaki_fabric::{RegionKey, Target};

use super::{Cursor, MAX_ORDER, MAX_PATH, put_text};

/// The longest name of a file.
const MAX_NAME: usize = 100;

/// One request of a client's. `handle` is what [`Request::Open`] was answered with on the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// Who are you? Answered by [`Answer::Welcome`](super::Answer::Welcome).
    Hello,
    /// Opens a file of a directory below the node's folder.
    Open { directory: &'a str, name: &'a str },
    /// Forgets a handle.
    Close { handle: u32 },
    /// Answered by bytes at `target`.
    Read { handle: u32, offset: u64, length: u32, target: Target },
    /// As long a read of nothing: for measuring the network alone.
    Blank { length: u32, target: Target },
    /// Memory of the node's to put bytes to be written into: answered by keys.
    Staging,
    /// Writes what is in a staging slot; durably, or until the next sync.
    Write { handle: u32, offset: u64, length: u32, slot: u16, durable: bool },
    /// Makes all durable that was written to the file before.
    Sync { handle: u32 },
    /// The bytes hold nothing any more.
    Trim { handle: u32, offset: u64, length: u64 },
    /// Takes a file for this connection alone.
    LockFile { handle: u32 },
    /// Makes a file of zeros. Answered as [`Request::Open`] is.
    Create { directory: &'a str, name: &'a str, length: u64 },
    /// The names behind `after`, as many as fit.
    List { directory: &'a str, after: &'a str },
    /// Another name for a file.
    Rename { directory: &'a str, from: &'a str, to: &'a str },
    /// Takes a name away.
    Remove { directory: &'a str, name: &'a str },
    /// Makes names durable.
    SyncNames { directory: &'a str },
    /// Takes a directory for this connection alone.
    LockNames { directory: &'a str },
    /// Gives a lock free.
    Unlock { lock: u32 },
    /// Makes this connection the one by which the client hears of others' writes.
    Watch,
    /// The client of that watch keeps pages of this file.
    Keep { handle: u32, watch: u64 },
    /// The client of that watch is alive: its lease begins anew.
    Renew { watch: u64 },
    /// How the node is doing.
    Load,
    /// Has work done beside the files; what the order means is not the node's business.
    Begin { order: &'a [u8] },
    /// The next results of a work, at most `length` bytes at `target`, as soon as there are any.
    Next { work: u32, length: u32, target: Target },
    /// Nobody wants the results any more.
    Stop { work: u32 },
}

impl<'a> Request<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::with_capacity(64);
        let put_target = |to: &mut Vec<u8>, target: &Target| {
            to.extend_from_slice(&target.key.0);
            to.extend_from_slice(&target.offset.to_le_bytes());
        };
        match *self {
            Self::Hello => to.push(1),
            Self::Open { directory, name } => Self::put_names(&mut to, 2, &[directory, name]),
            Self::Close { handle } => Self::put_handle(&mut to, 3, handle),
            Self::Read { handle, offset, length, ref target } => {
                Self::put_handle(&mut to, 4, handle);
                to.extend_from_slice(&offset.to_le_bytes());
                to.extend_from_slice(&length.to_le_bytes());
                put_target(&mut to, target);
            }
            Self::Blank { length, ref target } => {
                to.push(5);
                to.extend_from_slice(&length.to_le_bytes());
                put_target(&mut to, target);
            }
            Self::Staging => to.push(6),
            Self::Write { handle, offset, length, slot, durable } => {
                Self::put_handle(&mut to, 7, handle);
                to.extend_from_slice(&offset.to_le_bytes());
                to.extend_from_slice(&length.to_le_bytes());
                to.extend_from_slice(&slot.to_le_bytes());
                to.push(durable.into());
            }
            Self::Sync { handle } => Self::put_handle(&mut to, 8, handle),
            Self::Trim { handle, offset, length } => {
                Self::put_handle(&mut to, 9, handle);
                to.extend_from_slice(&offset.to_le_bytes());
                to.extend_from_slice(&length.to_le_bytes());
            }
            Self::LockFile { handle } => Self::put_handle(&mut to, 10, handle),
            Self::Create { directory, name, length } => {
                Self::put_names(&mut to, 11, &[directory, name]);
                to.extend_from_slice(&length.to_le_bytes());
            }
            Self::List { directory, after } => Self::put_names(&mut to, 12, &[directory, after]),
            Self::Rename { directory, from, to: new } => Self::put_names(&mut to, 13, &[directory, from, new]),
            Self::Remove { directory, name } => Self::put_names(&mut to, 14, &[directory, name]),
            Self::SyncNames { directory } => Self::put_names(&mut to, 15, &[directory]),
            Self::LockNames { directory } => Self::put_names(&mut to, 16, &[directory]),
            Self::Unlock { lock } => Self::put_handle(&mut to, 17, lock),
            Self::Watch => to.push(18),
            Self::Keep { handle, watch } => {
                Self::put_handle(&mut to, 19, handle);
                to.extend_from_slice(&watch.to_le_bytes());
            }
            Self::Renew { watch } => {
                to.push(20);
                to.extend_from_slice(&watch.to_le_bytes());
            }
            Self::Load => to.push(21),
            Self::Begin { order } => {
                Self::put_handle(&mut to, 22, order.len() as u32);
                to.extend_from_slice(order);
            }
            Self::Next { work, length, ref target } => {
                Self::put_handle(&mut to, 23, work);
                to.extend_from_slice(&length.to_le_bytes());
                put_target(&mut to, target);
            }
            Self::Stop { work } => Self::put_handle(&mut to, 24, work),
        }
        to
    }

    fn put_handle(to: &mut Vec<u8>, kind: u8, handle: u32) {
        to.push(kind);
        to.extend_from_slice(&handle.to_le_bytes());
    }

    fn put_names(to: &mut Vec<u8>, kind: u8, names: &[&str]) {
        to.push(kind);
        for name in names {
            put_text(to, name);
        }
    }

    /// Nothing: nobody may send this.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Cursor(bytes);
        let from = &mut from;
        let target = |from: &mut Cursor<'a>| Some(Target { key: RegionKey(from.array()?), offset: from.u64()? });
        let name = |from: &mut Cursor<'a>| from.text(MAX_NAME);
        let directory = |from: &mut Cursor<'a>| from.text(MAX_PATH);
        let request = match from.u8()? {
            1 => Self::Hello,
            2 => Self::Open { directory: directory(from)?, name: name(from)? },
            3 => Self::Close { handle: from.u32()? },
            4 => Self::Read { handle: from.u32()?, offset: from.u64()?, length: from.u32()?, target: target(from)? },
            5 => Self::Blank { length: from.u32()?, target: target(from)? },
            6 => Self::Staging,
            7 => Self::Write {
                handle: from.u32()?,
                offset: from.u64()?,
                length: from.u32()?,
                slot: from.u16()?,
                durable: from.flag()?,
            },
            8 => Self::Sync { handle: from.u32()? },
            9 => Self::Trim { handle: from.u32()?, offset: from.u64()?, length: from.u64()? },
            10 => Self::LockFile { handle: from.u32()? },
            11 => Self::Create { directory: directory(from)?, name: name(from)?, length: from.u64()? },
            12 => Self::List { directory: directory(from)?, after: name(from)? },
            13 => Self::Rename { directory: directory(from)?, from: name(from)?, to: name(from)? },
            14 => Self::Remove { directory: directory(from)?, name: name(from)? },
            15 => Self::SyncNames { directory: directory(from)? },
            16 => Self::LockNames { directory: directory(from)? },
            17 => Self::Unlock { lock: from.u32()? },
            18 => Self::Watch,
            19 => Self::Keep { handle: from.u32()?, watch: from.u64()? },
            20 => Self::Renew { watch: from.u64()? },
            21 => Self::Load,
            22 => {
                let length = from.u32()? as usize;
                Self::Begin { order: (length <= MAX_ORDER).then(|| from.run(length)).flatten()? }
            }
            23 => Self::Next { work: from.u32()?, length: from.u32()?, target: target(from)? },
            24 => Self::Stop { work: from.u32()? },
            _ => return None,
        };
        from.0.is_empty().then_some(request)
    }
}

/// What a node tells a client by the connection that watches; each wants an empty answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// These bytes of a file are about to be changed: no copy of them may be used or made.
    Begin { file: u64, offset: u64, length: u64 },
    /// They have been changed: copies may be made again.
    End { file: u64, offset: u64, length: u64 },
}

impl Notice {
    pub(crate) fn encode(self) -> Vec<u8> {
        let (kind, file, offset, length) = match self {
            Self::Begin { file, offset, length } => (1, file, offset, length),
            Self::End { file, offset, length } => (2, file, offset, length),
        };
        let mut to = vec![kind];
        for number in [file, offset, length] {
            to.extend_from_slice(&u64::to_le_bytes(number));
        }
        to
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Cursor(bytes);
        let kind = from.u8()?;
        let (file, offset, length) = (from.u64()?, from.u64()?, from.u64()?);
        match kind {
            1 => from.end(Self::Begin { file, offset, length }),
            2 => from.end(Self::End { file, offset, length }),
            _ => None,
        }
    }
}
