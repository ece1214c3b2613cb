//! From where a log is needed.

use std::fmt;

use ishigaki_base::{Generation, Lsn};

/// A point in a log's history: the records of older generations, and those of this generation with smaller LSNs, lie
/// before it. Whoever has all of their effects elsewhere (a checkpoint) needs the log only from here on.
///
/// An LSN alone would not do: what an older generation dropped may have LSNs that were used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Start {
    /// The generation.
    pub generation: Generation,
    /// The first LSN that is needed in it.
    pub lsn: Lsn,
}

impl Default for Start {
    /// The beginning: everything is needed.
    fn default() -> Self {
        Self { generation: Generation(0), lsn: Lsn::FIRST }
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in generation {}", self.lsn, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_weighs_more_than_an_lsn() {
        let start = |generation, lsn| Start { generation: Generation(generation), lsn: Lsn(lsn) };
        assert!(start(1, 90) < start(2, 50) && start(2, 50) < start(2, 51));
        assert!(Start::default() < start(1, 1));
    }
}
