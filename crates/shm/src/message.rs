//! What is asked, and what is answered. A message is 32 bytes; names, bytes and texts lie in the slot's payload beside it.

use std::io;

use ishigaki_base::Fields;
use ishigaki_device::{Error, MAX_BLOCK_SIZE, Promise, SECTOR};

use crate::layout::{MESSAGE, PAYLOAD};

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Opens the device that the payload names.
    Open = 1,
    /// Makes it, of `number` bytes, and opens it.
    Create = 2,
    /// Lets go of a device.
    Close = 3,
    /// Fills the payload from `offset`.
    Read = 4,
    /// Writes the payload at `offset`.
    Write = 5,
    /// The same durably.
    WriteDurable = 6,
    /// Writes `number` runs, all durably. Their offsets and lengths lie behind their bytes, 16 bytes each.
    WriteAll = 7,
    /// Makes a device's bytes durable.
    Sync = 8,
    /// `number` bytes from `offset` hold nothing any more.
    Trim = 9,
    /// The names behind the one in the payload.
    List = 10,
    /// From one name to another, a line each.
    Rename = 11,
    /// Removes the name in the payload.
    Remove = 12,
    /// Makes names durable.
    SyncNames = 13,
}

const OPERATIONS: [Operation; 13] = [
    Operation::Open,
    Operation::Create,
    Operation::Close,
    Operation::Read,
    Operation::Write,
    Operation::WriteDurable,
    Operation::WriteAll,
    Operation::Sync,
    Operation::Trim,
    Operation::List,
    Operation::Rename,
    Operation::Remove,
    Operation::SyncNames,
];

impl Operation {
    /// Its name in errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Open | Self::Close => "open",
            Self::Create => "create",
            Self::Read => "read",
            Self::Write | Self::WriteDurable | Self::WriteAll => "write",
            Self::Sync | Self::SyncNames => "sync",
            Self::Trim => "trim",
            Self::List => "list",
            Self::Rename => "rename",
            Self::Remove => "remove",
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) operation: Operation,
    pub(crate) handle: u32,
    pub(crate) offset: u64,
    /// Bytes in the payload, or of a read those that are wanted there.
    pub(crate) length: usize,
    pub(crate) number: u64,
}

impl Request {
    pub(crate) fn new(operation: Operation) -> Self {
        Self { operation, handle: 0, offset: 0, length: 0, number: 0 }
    }

    pub(crate) fn encode(&self) -> [u8; MESSAGE] {
        let mut bytes = [0; MESSAGE];
        bytes[0..4].copy_from_slice(&(self.operation as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.handle.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..28].copy_from_slice(&(self.length as u32).to_le_bytes());
        bytes
    }

    /// A request, if it is one. Its length fits into a payload.
    pub(crate) fn decode(bytes: &[u8; MESSAGE]) -> Result<Self, Error> {
        let fields = Fields(bytes);
        let operation = fields.u32(0);
        let Some(&operation) = OPERATIONS.iter().find(|known| **known as u32 == operation) else {
            return Err(invalid(format!("there is no operation {operation}")));
        };
        let length = fields.u32(24) as usize;
        if length > PAYLOAD || fields.u32(28) != 0 {
            return Err(invalid(format!("a request of {length} bytes, and a slot carries {PAYLOAD}")));
        }
        Ok(Self { operation, handle: fields.u32(4), offset: fields.u64(8), length, number: fields.u64(16) })
    }
}

/// A request that could never be served.
pub(crate) fn invalid(reason: impl Into<String>) -> Error {
    Error::Invalid { name: "ring".to_owned(), reason: reason.into() }
}

/// What a device is that was opened: 12 bytes of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) promise: Promise,
    pub(crate) writes_through: Option<bool>,
}

impl Opened {
    pub(crate) const BYTES: usize = 12;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..4].copy_from_slice(&(self.promise.block_size as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.promise.atomic_write as u32).to_le_bytes());
        bytes[8] = u8::from(self.promise.direct);
        bytes[9] = u8::from(self.promise.trim);
        bytes[10] = self.writes_through.map_or(0, |through| 1 + u8::from(through));
        bytes
    }

    /// What it says, if a device can be so.
    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let fields = Fields(bytes);
        let (block_size, atomic_write) = (fields.u32(0) as usize, fields.u32(4) as usize);
        let fits = block_size.is_power_of_two() && (SECTOR..=MAX_BLOCK_SIZE).contains(&block_size);
        if !fits || atomic_write < SECTOR || bytes[8..10].iter().any(|&flag| flag > 1) {
            return None;
        }
        let writes_through = [None, Some(false), Some(true)].get(usize::from(bytes[10])).copied()?;
        let promise = Promise { block_size, atomic_write, direct: bytes[8] == 1, trim: bytes[9] == 1 };
        Some(Self { promise, writes_through })
    }
}

/// An answer. What it carries lies in the payload; of a failure that is what the error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// Bytes in the payload.
    pub(crate) length: usize,
    /// Of a device that was opened its handle; of names 1 if there are more; of a failure the operating system's number, or
    /// the bytes that there is no space for.
    pub(crate) number: u64,
    /// Of a device that was opened its length.
    pub(crate) size: u64,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done = 0,
    NotFound = 1,
    AlreadyExists = 2,
    Locked = 3,
    Invalid = 4,
    Damaged = 5,
    NoSpace = 6,
    Failed = 7,
    PowerCut = 8,
}

const OUTCOMES: [Outcome; 9] = [
    Outcome::Done,
    Outcome::NotFound,
    Outcome::AlreadyExists,
    Outcome::Locked,
    Outcome::Invalid,
    Outcome::Damaged,
    Outcome::NoSpace,
    Outcome::Failed,
    Outcome::PowerCut,
];

impl Answer {
    pub(crate) const DONE: Self = Self { outcome: Outcome::Done, length: 0, number: 0, size: 0 };

    pub(crate) fn encode(&self) -> [u8; MESSAGE] {
        let mut bytes = [0; MESSAGE];
        bytes[0..4].copy_from_slice(&(self.outcome as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.length as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; MESSAGE]) -> Option<Self> {
        let fields = Fields(bytes);
        let outcome = OUTCOMES.iter().copied().find(|known| *known as u32 == fields.u32(0))?;
        let length = fields.u32(4) as usize;
        (length <= PAYLOAD).then(|| Self { outcome, length, number: fields.u64(8), size: fields.u64(16) })
    }

    /// A failure, and the text that goes with it.
    pub(crate) fn of(error: &Error) -> (Self, String) {
        let (outcome, number, text) = match error {
            Error::NotFound { .. } => (Outcome::NotFound, 0, String::new()),
            Error::AlreadyExists { .. } => (Outcome::AlreadyExists, 0, String::new()),
            Error::Locked { holder, .. } => (Outcome::Locked, 0, holder.clone().unwrap_or_default()),
            Error::Invalid { reason, .. } => (Outcome::Invalid, 0, reason.clone()),
            Error::Damaged { reason, .. } => (Outcome::Damaged, 0, reason.clone()),
            Error::NoSpace { name, needed } => (Outcome::NoSpace, *needed, name.clone()),
            Error::Io { source, .. } | Error::ReadOnly { source, .. } => {
                let number = source.raw_os_error().and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
                (Outcome::Failed, number, source.to_string())
            }
            Error::PowerCut { .. } => (Outcome::PowerCut, 0, String::new()),
            other => (Outcome::Failed, 0, other.to_string()),
        };
        (Self { outcome, length: 0, number, size: 0 }, text)
    }

    /// The error that it stands for, of a device or directory of that name.
    pub(crate) fn error(&self, text: String, name: &str, operation: Operation) -> Error {
        let name = name.to_owned();
        match self.outcome {
            Outcome::NotFound => Error::NotFound { name },
            Outcome::AlreadyExists => Error::AlreadyExists { name },
            Outcome::Locked => Error::Locked { directory: name, holder: Some(text).filter(|text| !text.is_empty()) },
            Outcome::Invalid => Error::Invalid { name, reason: text },
            Outcome::Damaged => Error::Damaged { name, reason: text },
            // Its text names the device, and says which limit it was.
            Outcome::NoSpace => Error::NoSpace { name: text, needed: self.number },
            Outcome::PowerCut => Error::PowerCut { name },
            Outcome::Done | Outcome::Failed => {
                let source = match i32::try_from(self.number) {
                    Ok(number) if number > 0 => io::Error::from_raw_os_error(number),
                    _ => io::Error::other(text),
                };
                let operation = operation.name();
                match source.kind() {
                    io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { name, operation, source },
                    _ => Error::Io { name, operation, source },
                }
            }
        }
    }
}
