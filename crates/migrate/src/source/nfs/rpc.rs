//! Remote procedure calls (ONC RPC version 2, RFC 5531) with `AUTH_SYS`.

use super::xdr::{Malformed, Put, Reader};
use crate::source::{Error, ErrorKind};

const CALL: u32 = 0;
const REPLY: u32 = 1;
const VERSION: u32 = 2;
const AUTH_NONE: u32 = 0;
pub(super) const AUTH_SYS: u32 = 1;
/// The most bytes of credentials and verifiers.
const AUTH_SIZE: usize = 400;
/// The bit of a fragment's length that says that it is the record's last.
pub(super) const LAST: u32 = 1 << 31;

/// A version of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) number: u32,
    pub(super) version: u32,
    /// For people.
    pub(super) name: &'static str,
    /// Every answer begins with an `nfsstat3`.
    pub(super) tells_status: bool,
}

/// What is asked of a server.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) program: Program,
    pub(super) procedure: u32,
    pub(super) arguments: Vec<u8>,
}

/// In the name of which user calls are made, encoded.
#[derive(Clone, Debug)]
pub(super) struct Credentials {
    body: Vec<u8>,
}

impl Credentials {
    pub(super) fn new(machine: &[u8], user: u32, group: u32) -> Self {
        let mut body = Vec::new();
        body.put_u32(0);
        body.put_opaque(&machine[..machine.len().min(255)]);
        body.put_u32(user);
        body.put_u32(group);
        // No further groups.
        body.put_u32(0);
        Self { body }
    }
}

impl Call {
    /// Appends the record of this call, with the mark before it.
    pub(super) fn encode(&self, xid: u32, credentials: &Credentials, out: &mut Vec<u8>) {
        let begin = out.len();
        for word in [0, xid, CALL, VERSION, self.program.number, self.program.version, self.procedure, AUTH_SYS] {
            out.put_u32(word);
        }
        out.put_opaque(&credentials.body);
        out.put_u32(AUTH_NONE);
        out.put_u32(0);
        out.extend_from_slice(&self.arguments);
        let size = (out.len() - begin - 4) as u32;
        out[begin..begin + 4].copy_from_slice(&(size | LAST).to_be_bytes());
    }
}

/// Why a server did not carry out a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It has no such program.
    Program,
    /// It has the program in these versions only.
    Versions(u32, u32),
    /// It has no such procedure.
    Procedure,
    /// It does not understand the arguments.
    Arguments,
    /// It has trouble of its own.
    System,
    /// It speaks another version of RPC.
    Rpc,
    /// It does not take these credentials (`auth_stat`).
    Credentials(u32),
}

impl Refusal {
    pub(super) fn error(self, call: &Call) -> Error {
        let name = call.program.name;
        let (kind, reason) = match self {
            Self::Program => (ErrorKind::Invalid, format!("the server has no {name}")),
            Self::Versions(low, high) => {
                (ErrorKind::Invalid, format!("the server has {name} in versions {low} to {high} only"))
            }
            Self::Procedure => (ErrorKind::Invalid, format!("the server's {name} has no procedure {}", call.procedure)),
            Self::Arguments => (ErrorKind::Broken, format!("the server's {name} does not understand the request")),
            Self::System => (ErrorKind::Unavailable, format!("the server's {name} has trouble of its own")),
            Self::Rpc => (ErrorKind::Invalid, "the server speaks another version of RPC".to_owned()),
            Self::Credentials(stat) => (
                ErrorKind::Denied,
                format!(
                    "the server's {name} refuses this user (auth_stat {stat}); it may want a privileged port: run as root"
                ),
            ),
        };
        Error::new(kind, reason)
    }
}

/// The transaction number of a record, and what follows it.
pub(super) fn split_xid(record: &[u8]) -> Option<(u32, &[u8])> {
    record.split_first_chunk().map(|(xid, rest)| (u32::from_be_bytes(*xid), rest))
}

/// Reads an answer behind its transaction number up to the results.
pub(super) fn results(record: &[u8]) -> Result<Result<Reader<'_>, Refusal>, Malformed> {
    let mut reader = Reader::new(record);
    if reader.u32()? != REPLY {
        return Err(Malformed("it is no answer"));
    }
    let refusal = match reader.u32()? {
        0 => {
            reader.u32()?;
            reader.opaque(AUTH_SIZE)?;
            match reader.u32()? {
                0 => return Ok(Ok(reader)),
                1 => Refusal::Program,
                2 => Refusal::Versions(reader.u32()?, reader.u32()?),
                3 => Refusal::Procedure,
                4 => Refusal::Arguments,
                5 => Refusal::System,
                _ => return Err(Malformed("its state is unknown")),
            }
        }
        1 => match reader.u32()? {
            0 => Refusal::Rpc,
            1 => Refusal::Credentials(reader.u32()?),
            _ => return Err(Malformed("its refusal is unknown")),
        },
        _ => return Err(Malformed("it is neither accepted nor denied")),
    };
    Ok(Err(refusal))
}
