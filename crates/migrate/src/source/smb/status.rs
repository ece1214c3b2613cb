//! What a server says of a request: NTSTATUS, and what the engine does about it.

use std::fmt;

use crate::source::ErrorKind;

/// The server's word on one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(pub(super) u32);

pub(super) const SUCCESS: Status = Status(0);
/// The answer comes later.
pub(super) const PENDING: Status = Status(0x103);
/// There is more than there was room for.
pub(super) const BUFFER_OVERFLOW: Status = Status(0x8000_0005);
pub(super) const NO_MORE_FILES: Status = Status(0x8000_0006);
pub(super) const MORE_PROCESSING: Status = Status(0xc000_0016);
pub(super) const END_OF_FILE: Status = Status(0xc000_0011);

/// What a status means to us.
enum Meaning {
    Kind(ErrorKind),
    /// Ask again in a while.
    Later,
    /// The session or the share is no more: connect again.
    Over,
}

use ErrorKind::{Broken, Denied, Gone, Invalid};
use Meaning::{Kind, Later, Over};

/// Statuses that servers give to what a source asks: number, name, meaning, what a person should know.
const KNOWN: &[(u32, &str, Meaning, &str)] = &[
    (0x8000_002d, "STOPPED_ON_SYMLINK", Kind(Gone), "a symbolic link is in the way"),
    (0xc000_000d, "INVALID_PARAMETER", Kind(Broken), "the server does not understand the question"),
    (0xc000_000e, "NO_SUCH_DEVICE", Kind(Gone), "it is not there"),
    (0xc000_000f, "NO_SUCH_FILE", Kind(Gone), "it is not there"),
    (0xc000_0022, "ACCESS_DENIED", Kind(Denied), "the account may not; use one that may read all (a backup operator)"),
    (0xc000_0033, "OBJECT_NAME_INVALID", Kind(Gone), "the server can have no such name"),
    (0xc000_0034, "OBJECT_NAME_NOT_FOUND", Kind(Gone), "it is not there"),
    (0xc000_003a, "OBJECT_PATH_NOT_FOUND", Kind(Gone), "its directory is not there"),
    (0xc000_003b, "OBJECT_PATH_SYNTAX_BAD", Kind(Gone), "the server can have no such path"),
    (0xc000_003e, "DATA_ERROR", Kind(Broken), "the server can not read its disk"),
    (
        0xc000_0043,
        "SHARING_VIOLATION",
        Kind(Denied),
        "a client has opened it and lets no other read it; close it there",
    ),
    (0xc000_0054, "FILE_LOCK_CONFLICT", Kind(Denied), "a client has locked these bytes; close it there"),
    (0xc000_0056, "DELETE_PENDING", Kind(Gone), "it is being deleted"),
    (0xc000_0061, "PRIVILEGE_NOT_HELD", Kind(Denied), "the account lacks a privilege"),
    (0xc000_006d, "LOGON_FAILURE", Kind(Invalid), "the user or the password is wrong"),
    (0xc000_006e, "ACCOUNT_RESTRICTION", Kind(Invalid), "the account may not log in (an empty password?)"),
    (0xc000_006f, "INVALID_LOGON_HOURS", Kind(Invalid), "the account may not log in at this time"),
    (0xc000_0070, "INVALID_WORKSTATION", Kind(Invalid), "the account may not log in from this host"),
    (0xc000_0071, "PASSWORD_EXPIRED", Kind(Invalid), "the password has expired"),
    (0xc000_0072, "ACCOUNT_DISABLED", Kind(Invalid), "the account is disabled"),
    (0xc000_00ba, "FILE_IS_A_DIRECTORY", Kind(Gone), "it is a directory"),
    (0xc000_00bb, "NOT_SUPPORTED", Kind(Invalid), "the server can not do that"),
    (0xc000_00cc, "BAD_NETWORK_NAME", Kind(Invalid), "there is no such share"),
    (0xc000_0103, "NOT_A_DIRECTORY", Kind(Gone), "it is no directory"),
    (0xc000_015b, "LOGON_TYPE_NOT_GRANTED", Kind(Invalid), "the account may not log in over the network"),
    (0xc000_0193, "ACCOUNT_EXPIRED", Kind(Invalid), "the account has expired"),
    (0xc000_0224, "PASSWORD_MUST_CHANGE", Kind(Invalid), "the password must be changed first"),
    (0xc000_0234, "ACCOUNT_LOCKED_OUT", Kind(Invalid), "the account is locked"),
    (0xc000_0257, "PATH_NOT_COVERED", Kind(Broken), "it lies on another server (DFS); migrate it from there"),
    (0xc000_0279, "IO_REPARSE_TAG_NOT_HANDLED", Kind(Broken), "the server can not read such a file"),
    (0xc000_035c, "NETWORK_SESSION_EXPIRED", Over, "the session has expired"),
    (0xc000_0203, "USER_SESSION_DELETED", Over, "the session is over"),
    (0xc000_00c9, "NETWORK_NAME_DELETED", Over, "the share was closed"),
    (0xc000_020c, "CONNECTION_DISCONNECTED", Over, "the connection is over"),
    (0xc000_005e, "NO_LOGON_SERVERS", Later, "the server reaches no domain controller"),
    (0xc000_009a, "INSUFFICIENT_RESOURCES", Later, "the server has no room for it now"),
    (0xc000_00b5, "IO_TIMEOUT", Later, "the server's disk does not answer"),
    (0xc000_00d0, "REQUEST_NOT_ACCEPTED", Later, "the server has too many clients"),
    (0xc000_011f, "TOO_MANY_OPENED_FILES", Later, "the server has too many files open"),
    (0xc000_0205, "INSUFF_SERVER_RESOURCES", Later, "the server has no room for it now"),
    (0xc000_022d, "RETRY", Later, "the server asks to come again"),
    (0xc000_0266, "VOLUME_DISMOUNTED", Later, "the server's disk is away"),
    (0xc000_0467, "FILE_NOT_AVAILABLE", Later, "the share is moving to another server"),
    (0xc000_0466, "SERVER_UNAVAILABLE", Later, "the server is away"),
];

impl Status {
    fn known(self) -> Option<&'static (u32, &'static str, Meaning, &'static str)> {
        KNOWN.iter().find(|(number, ..)| *number == self.0)
    }

    pub(super) fn is_later(self) -> bool {
        self.known().is_some_and(|(_, _, meaning, _)| matches!(meaning, Later))
    }

    pub(super) fn is_over(self) -> bool {
        self.known().is_some_and(|(_, _, meaning, _)| matches!(meaning, Over))
    }

    pub(super) fn kind(self) -> ErrorKind {
        match self.known() {
            Some((_, _, Kind(kind), _)) => *kind,
            Some((_, _, Later | Over, _)) => ErrorKind::Unavailable,
            None => Broken,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some((_, name, _, words)) => write!(f, "{words} ({name})"),
            None => write!(f, "the server refuses it with status {:#010x}", self.0),
        }
    }
}
