//! What a stub knows: where the rest of it lies at the source, and which of its holes are true.
//!
//! The record is an extended attribute of the stub's inode, so it goes wherever clients move the stub, and ends with it. Bytes are in
//! `docs/format/stub.md`. Paper 5, section 2.3.3 ("stub information").
//!
//! Parts: `codec` turns it into bytes and back.

mod codec;
#[cfg(fuzzing)]
pub mod fuzz;

use crate::ranges::RangeSet;
use crate::source::{Location, Stamp};

pub use codec::{Reference, Stored, decode};

/// How much of the object is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The name, the owner, the mode, times and the size; extended attributes and access control lists are not.
    Dummy,
    /// All attributes; data by its blocks, and of a directory no names.
    Partial,
}

/// The record of a stub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// How much is here.
    pub state: State,
    /// A client has changed data or attributes here.
    pub modified: bool,
    /// The source's object is no longer the one that this record speaks of.
    pub conflict: bool,
    /// Which of the migration's sources.
    pub source: u32,
    /// Where it lies there. A rename of the stub or of directories above it changes nothing here.
    pub location: Location,
    /// What the source's object was when the stub was made.
    pub stamp: Stamp,
    /// The smallest size since then: at and behind it every hole is true.
    pub minsize: u64,
    /// Holes before `minsize` that are true: a client has punched them.
    pub holes: RangeSet,
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// They end too early, or go on behind their end.
    #[error("{0} bytes are not the length that it says")]
    Length(usize),
    /// They begin with something else.
    #[error("it does not begin as a stub's record does")]
    Magic,
    /// A later version wrote them.
    #[error("version {0} is not known; a later version of this program knows it")]
    Version(u8),
    /// They are not what was written.
    #[error("its checksum is wrong")]
    Checksum,
    /// A field holds what no writer writes.
    #[error("its field {0} holds what can not be")]
    Field(&'static str),
}
