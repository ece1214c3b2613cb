//! What share of the operations reads, and what the others do.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

use crate::{Error, Result};

/// Which operations there are, and in which proportion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Half reads, half updates.
    A,
    /// 95 of a hundred read, the others update.
    B,
    /// Reads only.
    C,
    /// Half reads, half read, change and write back.
    F,
    /// So many of a hundred read, the others update.
    Reads(u8),
}

/// One operation on one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    /// Writes the record anew, without looking at it.
    Update,
    /// Reads it, changes it, writes it back.
    Modify,
}

impl Workload {
    /// Those of YCSB.
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::F];

    /// Of a hundred operations.
    fn reads(self) -> u8 {
        match self {
            Self::A | Self::F => 50,
            Self::B => 95,
            Self::C => 100,
            Self::Reads(reads) => reads,
        }
    }

    pub(super) fn draw(self, random: &mut Rng) -> Operation {
        match self {
            _ if random.u8(0..100) < self.reads() => Operation::Read,
            Self::F => Operation::Modify,
            _ => Operation::Update,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::A => f.write_str("a"),
            Self::B => f.write_str("b"),
            Self::C => f.write_str("c"),
            Self::F => f.write_str("f"),
            Self::Reads(reads) => write!(f, "reads:{reads}"),
        }
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || Error::Invalid {
            setting: "workload",
            reason: format!("there are a, b, c, f, and reads:N with N from 0 to 100, not `{text}`"),
        };
        if let Some(known) = Self::ALL.into_iter().find(|workload| workload.to_string() == text) {
            return Ok(known);
        }
        let reads = text.strip_prefix("reads:").and_then(|reads| reads.parse().ok()).filter(|reads| *reads <= 100);
        reads.map(Self::Reads).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;

    #[test]
    fn names_are_read_and_written_alike() {
        for workload in Workload::ALL.into_iter().chain([Workload::Reads(0), Workload::Reads(100)]) {
            assert_eq!(workload.to_string().parse::<Workload>().unwrap(), workload);
        }
        for wrong in ["d", "A", "reads:101", "reads:", "reads:-1", ""] {
            assert!(wrong.parse::<Workload>().unwrap_err().to_string().contains("reads:N"));
        }
    }

    #[test]
    fn operations_have_their_proportions() {
        let mut random = Seed(1).generator();
        for (workload, [reads, updates, modifications]) in [
            (Workload::A, [50, 50, 0]),
            (Workload::B, [95, 5, 0]),
            (Workload::C, [100, 0, 0]),
            (Workload::F, [50, 0, 50]),
            (Workload::Reads(20), [20, 80, 0]),
        ] {
            let drawn: Vec<Operation> = (0..20_000).map(|_| workload.draw(&mut random)).collect();
            for (operation, share) in
                [(Operation::Read, reads), (Operation::Update, updates), (Operation::Modify, modifications)]
            {
                let count = drawn.iter().filter(|other| **other == operation).count() as i64;
                assert!((count - share * 200).abs() <= if share % 100 == 0 { 0 } else { 350 }, "{workload}: {count}");
            }
        }
    }
}
