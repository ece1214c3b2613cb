//! What an error asks of the one who gets it.

use std::fmt;

/// What a caller can do about an error.
///
/// Every crate has one typed error of its own; each of them answers `kind()` with one of these, so that the layers above
/// need not know the details to act rightly. Only the doors translate a kind into an exit code, an errno or an SQLSTATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Another transaction was in the way. Run the whole transaction again.
    Conflict,
    /// The request itself is wrong (a duplicate key, an unknown table, a bad setting). Change it.
    Invalid,
    /// Memory, space or another resource with a limit ran out. Free some or raise the limit, then try again.
    Exhausted,
    /// Something outside did not answer as it should: a device failed, a directory is in use. Try again later.
    Unavailable,
    /// Stored bytes are not what was written. Restore from a copy; nothing of it was returned as data.
    Corrupt,
    /// The object refuses work for good after an earlier failure or because it was closed. Open it again.
    Closed,
    /// The caller cancelled the work itself.
    Cancelled,
}

impl ErrorKind {
    /// True when the same request may succeed if it is simply made again.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Conflict)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::Exhausted => "exhausted",
            Self::Unavailable => "unavailable",
            Self::Corrupt => "corrupt",
            Self::Closed => "closed",
            Self::Cancelled => "cancelled",
        })
    }
}
