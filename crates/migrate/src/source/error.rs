//! What can go wrong at a source.

use std::fmt;

/// The result of asking a source.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the engine does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The object is not there any more, or is another one. Told as a change of the source.
    Gone,
    /// The source refuses this object to the account that is used. Told; other objects go on.
    Denied,
    /// The source does not answer, or asks to come again. Asked again until it does, or until the limit that was set.
    Unavailable,
    /// The answer breaks the protocol, or the object can not be read (a damaged disk at the source). Told; other objects go on.
    Broken,
    /// What was asked for is never there: a wrong export, a wrong password, a protocol version that is not spoken.
    Invalid,
    /// The caller's [`Cancel`](super::Cancel) was told.
    Cancelled,
}

/// Why a source gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What to do about it.
    pub kind: ErrorKind,
    /// What failed, on what, and why, for a person.
    pub message: String,
}

impl Error {
    /// An error of that kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The caller's own end of a call.
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "cancelled")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
