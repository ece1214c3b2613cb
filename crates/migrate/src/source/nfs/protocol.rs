//! NFS version 3 (RFC 1813): what is asked, and what is answered.

use std::fmt;
use std::path::Path;

use super::flight::Failure;
use super::rpc::{Call, Program};
use super::xdr::{Malformed, Put, Reader};
use crate::source::{Attributes, Error, ErrorKind, FileType, Owner, Timestamp};

pub(super) const NFS: Program = Program { number: 100_003, version: 3, name: "NFS version 3", tells_status: true };

/// The most bytes of a file handle.
pub(super) const HANDLE: usize = 64;
/// The longest name or target of a symbolic link that is taken.
const TEXT: usize = 64 << 10;

const GETATTR: u32 = 1;
const LOOKUP: u32 = 3;
const READLINK: u32 = 5;
const READ: u32 = 6;
const READDIR: u32 = 16;
const READDIRPLUS: u32 = 17;
const FSINFO: u32 = 19;

/// `nfsstat3`: how the server says that a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(pub(super) u32);

pub(super) const STALE: Status = Status(70);
pub(super) const BAD_HANDLE: Status = Status(10_001);
pub(super) const INVALID: Status = Status(22);
pub(super) const BAD_COOKIE: Status = Status(10_003);
pub(super) const NOT_SUPPORTED: Status = Status(10_004);
pub(super) const TOO_SMALL: Status = Status(10_005);
pub(super) const BAD_TYPE: Status = Status(10_007);
pub(super) const JUKEBOX: u32 = 10_008;

impl Status {
    /// What the engine does about it.
    pub(super) fn kind(self) -> ErrorKind {
        match self.0 {
            // It is absent, or no directory, or one, or the handle leads nowhere.
            2 | 20 | 21 | 70 | 10_001 => ErrorKind::Gone,
            1 | 13 => ErrorKind::Denied,
            JUKEBOX => ErrorKind::Unavailable,
            _ => ErrorKind::Broken,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            1 => "NFS3ERR_PERM: the user is not the owner",
            2 => "NFS3ERR_NOENT: there is none",
            5 => "NFS3ERR_IO: its disk fails",
            13 => "NFS3ERR_ACCES: the user may not; the export may turn root into another user (root_squash)",
            20 => "NFS3ERR_NOTDIR: it is no directory",
            21 => "NFS3ERR_ISDIR: it is a directory",
            22 => "NFS3ERR_INVAL: it can not be asked that",
            70 => "NFS3ERR_STALE: it is gone",
            10_001 => "NFS3ERR_BADHANDLE: it is gone",
            10_006 => "NFS3ERR_SERVERFAULT: the server has trouble of its own",
            other => return write!(f, "NFS status {other}"),
        };
        f.write_str(name)
    }
}

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The server says so.
    Status(Status),
    /// The answer makes no sense.
    Malformed(Malformed),
    /// It was not carried out.
    Failure(Failure),
    /// Something else, told completely.
    Error(Error),
}

impl From<Malformed> for Trouble {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Trouble {
    /// Whether the handle leads nowhere.
    pub(super) fn is_stale(&self) -> bool {
        matches!(self, Self::Status(STALE | BAD_HANDLE))
    }

    /// What failed, on what, and why.
    pub(super) fn into_error(self, source: &str, action: &str, path: &Path) -> Error {
        let (kind, reason) = match self {
            Self::Status(status) => (status.kind(), format!("the server says {status}")),
            Self::Malformed(Malformed(reason)) => {
                (ErrorKind::Broken, format!("the server's answer breaks the protocol: {reason}"))
            }
            Self::Failure(Failure { error, .. }) if error.kind != ErrorKind::Cancelled => (error.kind, error.message),
            Self::Failure(Failure { error, .. }) | Self::Error(error) => return error,
        };
        let slash = if path.as_os_str().is_empty() { "" } else { "/" };
        Error::new(kind, format!("cannot {action} {source}{slash}{}: {reason}", path.display()))
    }
}

fn call(procedure: u32, handle: &[u8], rest: impl FnOnce(&mut Vec<u8>)) -> Call {
    let mut arguments = Vec::with_capacity(handle.len() + 32);
    arguments.put_opaque(handle);
    rest(&mut arguments);
    Call { program: NFS, procedure, arguments }
}

pub(super) fn getattr(handle: &[u8]) -> Call {
    call(GETATTR, handle, |_| {})
}

pub(super) fn lookup(directory: &[u8], name: &[u8]) -> Call {
    call(LOOKUP, directory, |arguments| arguments.put_opaque(name))
}

pub(super) fn readlink(handle: &[u8]) -> Call {
    call(READLINK, handle, |_| {})
}

pub(super) fn read(handle: &[u8], offset: u64, count: usize) -> Call {
    call(READ, handle, |arguments| {
        arguments.put_u64(offset);
        arguments.put_u32(count as u32);
    })
}

pub(super) fn fsinfo(handle: &[u8]) -> Call {
    call(FSINFO, handle, |_| {})
}

/// Where a listing goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cookie: u64,
    pub(super) verifier: u64,
}

/// The entries behind a place, in so many bytes; with attributes and handles if it is `plus`.
pub(super) fn readdir(directory: &[u8], place: Place, size: usize, plus: bool) -> Call {
    call(if plus { READDIRPLUS } else { READDIR }, directory, |arguments| {
        arguments.put_u64(place.cookie);
        arguments.put_u64(place.verifier);
        arguments.put_u32(size as u32);
        if plus {
            arguments.put_u32(size as u32);
        }
    })
}

pub(super) fn status(reader: &mut Reader<'_>) -> Result<(), Trouble> {
    match reader.u32()? {
        0 => Ok(()),
        other => Err(Trouble::Status(Status(other))),
    }
}

/// The answer to [`getattr`].
pub(super) fn got_attributes(mut reader: Reader<'_>) -> Result<Attributes, Trouble> {
    status(&mut reader)?;
    Ok(attributes(&mut reader)?)
}

/// The answer to [`lookup`]: a handle, and attributes where the server gives them.
pub(super) fn looked_up(mut reader: Reader<'_>) -> Result<(Box<[u8]>, Option<Attributes>), Trouble> {
    status(&mut reader)?;
    let handle = handle(&mut reader)?;
    Ok((handle, reader.option(attributes)?))
}

/// The answer to [`readlink`]; `None` if it is no symbolic link.
pub(super) fn link_read(mut reader: Reader<'_>) -> Result<Option<Vec<u8>>, Trouble> {
    match status(&mut reader) {
        Err(Trouble::Status(INVALID | NOT_SUPPORTED | BAD_TYPE)) => return Ok(None),
        outcome => outcome?,
    }
    reader.option(attributes)?;
    let target = reader.opaque(TEXT)?;
    if target.is_empty() || target.contains(&0) {
        return Err(Malformed("the target of a symbolic link is empty or has a zero in it").into());
    }
    Ok(Some(target.to_vec()))
}

/// Bytes of a file.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) bytes: &'a [u8],
    /// Of the file behind the read.
    pub(super) attributes: Option<Attributes>,
    pub(super) is_last: bool,
}

/// The answer to [`read`] of so many bytes from `offset` on.
pub(super) fn have_read(mut reader: Reader<'_>, offset: u64, asked: usize) -> Result<Piece<'_>, Trouble> {
    status(&mut reader)?;
    let attributes = reader.option(attributes)?;
    let count = reader.u32()? as usize;
    let says_last = reader.bool()?;
    let bytes = reader.opaque(asked)?;
    if bytes.len() != count {
        return Err(Malformed("a read has two lengths").into());
    }
    if bytes.is_empty() && !says_last {
        return Err(Malformed("a read gives nothing before the file ends").into());
    }
    // An end before the size that stands in the same answer is asked about once more.
    let reached = offset.saturating_add(count as u64);
    let is_end = attributes.is_none_or(|attributes| reached >= attributes.size);
    let is_last = says_last && (bytes.is_empty() || is_end);
    Ok(Piece { bytes, attributes, is_last })
}

/// The largest read that the server takes: the answer to [`fsinfo`].
pub(super) fn largest_read(mut reader: Reader<'_>) -> Result<usize, Trouble> {
    status(&mut reader)?;
    reader.option(attributes)?;
    Ok(reader.u32()? as usize)
}

/// An entry as a page of a listing has it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: Vec<u8>,
    pub(super) handle: Box<[u8]>,
    pub(super) attributes: Option<Attributes>,
}

/// A page of a listing.
#[derive(Debug)]
pub(super) struct Page {
    /// Without `.` and `..`.
    pub(super) entries: Vec<Found>,
    /// Where the next one begins; `None` after the last.
    pub(super) next: Option<Place>,
}

/// The answer to [`readdir`] from `place` on.
pub(super) fn page(mut reader: Reader<'_>, place: Place, plus: bool) -> Result<Page, Trouble> {
    status(&mut reader)?;
    reader.option(attributes)?;
    let verifier = reader.u64()?;
    let mut entries = Vec::new();
    let mut last = None;
    while reader.bool()? {
        reader.u64()?;
        let name = reader.opaque(TEXT)?;
        let cookie = reader.u64()?;
        last = Some(Place { cookie, verifier });
        let (told, handle) = if plus {
            (reader.option(attributes)?, reader.option(handle)?.unwrap_or_default())
        } else {
            (None, Box::default())
        };
        if name == b"." || name == b".." {
            continue;
        }
        if name.is_empty() || name.iter().any(|byte| [0, b'/'].contains(byte)) {
            return Err(Malformed("a name is empty, or has a slash or a zero in it").into());
        }
        entries.push(Found { name: name.to_vec(), handle, attributes: told });
    }
    let is_last = reader.bool()?;
    let next = match last {
        _ if is_last => None,
        None => return Err(Malformed("a page of a listing is empty and not the last").into()),
        Some(last) if last.cookie == place.cookie => return Err(Malformed("a listing goes in a circle").into()),
        last => last,
    };
    Ok(Page { entries, next })
}

pub(super) fn handle(reader: &mut Reader<'_>) -> Result<Box<[u8]>, Malformed> {
    match reader.opaque(HANDLE)? {
        [] => Err(Malformed("a file handle is empty")),
        handle => Ok(handle.into()),
    }
}

pub(super) fn attributes(reader: &mut Reader<'_>) -> Result<Attributes, Malformed> {
    let file_type = match reader.u32()? {
        1 => FileType::Regular,
        2 => FileType::Directory,
        3 => FileType::BlockDevice,
        4 => FileType::CharDevice,
        5 => FileType::Symlink,
        6 => FileType::Socket,
        7 => FileType::Fifo,
        _ => return Err(Malformed("an object is of an unknown type")),
    };
    let mode = reader.u32()? & 0o7777;
    let links = reader.u32()?;
    let owner = Owner { user: reader.u32()?, group: reader.u32()? };
    let size = reader.u64()?;
    // What it takes on the disk.
    reader.u64()?;
    let device = (reader.u32()?, reader.u32()?);
    let id = (reader.u64()?, reader.u64()?);
    let [accessed, modified, changed] = [moment(reader)?, moment(reader)?, moment(reader)?];
    Ok(Attributes { file_type, mode, owner, links, size, device, id, accessed, modified, changed, created: None })
}

fn moment(reader: &mut Reader<'_>) -> Result<Timestamp, Malformed> {
    // Unsigned in NFS: from 1970 to 2106. Some servers send more than a second of nanoseconds.
    Ok(Timestamp { seconds: reader.u32()?.into(), nanos: reader.u32()?.min(999_999_999) })
}
