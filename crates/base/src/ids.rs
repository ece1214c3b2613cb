//! Identifiers of the log: small numbers with a meaning of their own.

use std::fmt;

/// A log sequence number: the place of a record in the order of all records of one log, over all its streams.
///
/// It is drawn from one shared counter (paper 1, section 3) and is no file position. The first record of a log has
/// [`Lsn::FIRST`]; [`Lsn::ZERO`] comes before every record and means "nothing".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Before every record.
    pub const ZERO: Self = Self(0);
    /// Of the first record that a log ever holds.
    pub const FIRST: Self = Self(1);
    /// After every record.
    pub const MAX: Self = Self(u64::MAX);

    /// The one after this.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The one before this; `ZERO` stays `ZERO`.
    #[must_use]
    pub fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The identity of one log, drawn at random when it is created. A chunk of another log can not pass for one of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogId(pub u64);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// How often a log has been opened for writing. Each recovery begins a new generation before anything is appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl Generation {
    /// The last one that there can be.
    pub const MAX: Self = Self(u64::MAX);

    /// The one after this.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One of the parallel streams of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a record is: its LSN, and the stream that holds it. What a reader of the record depends on.
///
/// Eight bytes, so that a table can keep one beside every value and replace it in one step: the LSN in the upper 56 bits,
/// which last for centuries, the stream in the lower 8. Positions are ordered as their LSNs are; no two records of a log
/// share one. [`Position::NONE`] is before every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// No record.
    pub const NONE: Self = Self(0);
    /// The largest number of streams that a position can tell apart.
    pub const MAX_STREAMS: u16 = 1 << Self::STREAM_BITS;
    /// The largest LSN that a position can hold.
    pub const MAX_LSN: Lsn = Lsn(u64::MAX >> Self::STREAM_BITS);

    const STREAM_BITS: u32 = 8;

    /// Of the record `lsn` in `stream`.
    pub fn new(lsn: Lsn, stream: StreamId) -> Self {
        debug_assert!(lsn <= Self::MAX_LSN && stream.0 < Self::MAX_STREAMS, "{lsn} of stream {stream} does not fit");
        Self(lsn.0 << Self::STREAM_BITS | u64::from(stream.0))
    }

    /// The record's LSN.
    pub fn lsn(self) -> Lsn {
        Lsn(self.0 >> Self::STREAM_BITS)
    }

    /// The record's stream.
    pub fn stream(self) -> StreamId {
        StreamId(u16::from(self.0 as u8))
    }

    /// As a number, to be kept in a word.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Back from [`to_bits`](Self::to_bits).
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of stream {}", self.lsn(), self.stream())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_back_and_is_ordered_by_its_lsn() {
        let last = Position::new(Position::MAX_LSN, StreamId(Position::MAX_STREAMS - 1));
        assert_eq!((last.lsn(), last.stream()), (Position::MAX_LSN, StreamId(255)));
        assert_eq!(Position::from_bits(last.to_bits()), last);
        assert!(Position::new(Lsn(7), StreamId(200)) < Position::new(Lsn(8), StreamId(0)));
        assert!(Position::NONE < Position::new(Lsn::FIRST, StreamId(0)));
    }
}
