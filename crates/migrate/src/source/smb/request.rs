//! What is asked: the bodies of requests ([MS-SMB2] 2.2).
//!
//! A *chain* is several requests that the server carries out one after the other, the later ones on the file that the first one opens. So everything
//! about a file is one round trip, and nothing is left open at the server: a chain whose connection is lost is sent again over another one.

use super::bytes::Body;

/// Before each body.
pub(super) const HEADER: usize = 64;

pub(super) const NEGOTIATE: u16 = 0;
pub(super) const SESSION_SETUP: u16 = 1;
pub(super) const TREE_CONNECT: u16 = 3;
const CREATE: u16 = 5;
const CLOSE: u16 = 6;
const READ: u16 = 8;
pub(super) const IOCTL: u16 = 11;
const QUERY_DIRECTORY: u16 = 14;
const QUERY_INFO: u16 = 16;

/// Rights: to list or read data, to read attributes, to read the access lists.
const READ_DATA: u32 = 0x1;
const READ_ATTRIBUTES: u32 = 0x80;
const READ_CONTROL: u32 = 0x2_0000;
/// Others may read, write and delete.
const SHARE_ALL: u32 = 7;
const OPEN_EXISTING: u32 = 1;
/// A backup operator may read everything.
const BACKUP: u32 = 0x4000;
const DIRECTORY_FILE: u32 = 0x1;
const NO_DIRECTORY: u32 = 0x40;
const OPEN_REPARSE_POINT: u32 = 0x20_0000;

/// Kinds of information.
const FILE: u8 = 1;
const SECURITY: u8 = 3;
const ALL: u8 = 18;
const ATTRIBUTE_TAG: u8 = 35;
const ID_BOTH_DIRECTORY: u8 = 37;
/// Owner, group and access list.
const DESCRIPTOR: u32 = 7;
/// All information. The path at its end is of no use here, but Samba refuses the request when it has no room for a long one.
const SIZE_OF_ALL: u32 = 16 << 10;
/// Of a descriptor, and of what stands in a link.
const LARGEST: u32 = 64 << 10;

const GET_REPARSE_POINT: u32 = 0x0009_00a8;
pub(super) const VALIDATE_NEGOTIATE: u32 = 0x0014_0204;

/// An open file, as the server numbers it.
pub(super) type FileId = [u8; 16];
/// The one that the chain's first request opens.
pub(super) const OPENED: FileId = [0xff; 16];

/// A request without its header.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) command: u16,
    pub(super) body: Vec<u8>,
    /// Bytes that it brings at most.
    pub(super) brings: u32,
}

impl Request {
    pub(super) fn new(command: u16, body: Body, brings: u32) -> Self {
        Self { command, body: body.0, brings }
    }

    /// How many credits it takes.
    pub(super) fn charge(&self) -> u16 {
        self.brings.max(1).div_ceil(64 << 10) as u16
    }
}

/// For what something is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// To see attributes, also of a symbolic link.
    Look,
    /// To see access lists, too.
    Lists,
    /// To read a file; what stands for it on other media is fetched by the server.
    Read,
    /// To list a directory.
    List,
}

pub(super) fn create(path: &[u8], aim: Aim) -> Request {
    let (access, options) = match aim {
        Aim::Look => (READ_ATTRIBUTES, OPEN_REPARSE_POINT),
        Aim::Lists => (READ_ATTRIBUTES | READ_CONTROL, OPEN_REPARSE_POINT),
        Aim::Read => (READ_ATTRIBUTES | READ_DATA, NO_DIRECTORY),
        Aim::List => (READ_ATTRIBUTES | READ_DATA, OPEN_REPARSE_POINT | DIRECTORY_FILE),
    };
    let body = Body::default().u16(57).u8(0).u8(0).u32(2).zeros(16).u32(access).u32(0).u32(SHARE_ALL);
    let body = body.u32(OPEN_EXISTING).u32(options | BACKUP).u16((HEADER + 56) as u16).u16(path.len() as u16);
    let body = body.u32(0).u32(0).bytes(path);
    Request::new(CREATE, if path.is_empty() { body.u8(0) } else { body }, 0)
}

pub(super) fn close(file: &FileId) -> Request {
    Request::new(CLOSE, Body::default().u16(24).u16(0).u32(0).bytes(file), 0)
}

pub(super) fn read(file: &FileId, offset: u64, size: u32) -> Request {
    let body = Body::default().u16(49).u8(0x50).u8(0).u32(size).u64(offset).bytes(file);
    Request::new(READ, body.u32(0).u32(0).u32(0).u16(0).u16(0).u8(0), size)
}

/// The next entries of an open directory.
pub(super) fn query_directory(file: &FileId, size: u32) -> Request {
    let body = Body::default().u16(33).u8(ID_BOTH_DIRECTORY).u8(0).u32(0).bytes(file);
    let body = body.u16((HEADER + 32) as u16).u16(2).u32(size).u16(u16::from(b'*'));
    Request::new(QUERY_DIRECTORY, body, size)
}

fn query(file: &FileId, kind: u8, class: u8, additional: u32, size: u32) -> Request {
    let body = Body::default().u16(41).u8(kind).u8(class).u32(size).u16(0).u16(0).u32(0).u32(additional).u32(0);
    Request::new(QUERY_INFO, body.bytes(file).u8(0), size)
}

pub(super) fn query_all(file: &FileId) -> Request {
    query(file, FILE, ALL, 0, SIZE_OF_ALL)
}

/// What kind of link it is, if it is one.
pub(super) fn query_tag(file: &FileId) -> Request {
    query(file, FILE, ATTRIBUTE_TAG, 0, 8)
}

pub(super) fn query_descriptor(file: &FileId) -> Request {
    query(file, SECURITY, 0, DESCRIPTOR, LARGEST)
}

pub(super) fn control(file: &FileId, code: u32, input: &[u8], brings: u32) -> Request {
    let size = input.len() as u32;
    let body = Body::default().u16(57).u16(0).u32(code).bytes(file).u32((HEADER + 56) as u32).u32(size);
    let body = body.u32(0).u32(0).u32(0).u32(brings).u32(1).u32(0).bytes(input);
    Request::new(IOCTL, if input.is_empty() { body.u8(0) } else { body }, brings)
}

/// What stands in a link.
pub(super) fn get_reparse_point(file: &FileId) -> Request {
    control(file, GET_REPARSE_POINT, &[], 16 << 10)
}
