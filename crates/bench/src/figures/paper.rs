//! Which papers there are, and what each one's experiments are drawn as.

use std::fmt;
use std::str::FromStr;

use super::chart::Chart;
use super::{Plot, p1, p2, p3, p4, p4_tpcc, p5a, p5b};
use crate::{Error, Line};

/// A paper whose experiments are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// P-WAL (Kamiya, Kawashima, Hoshino, Tatebe 2017).
    P1,
    /// TicToc with P-WAL (Nakamura, Kawashima, Tatebe).
    P2,
    /// Queries over disaggregated storage (Kato 2022).
    P3,
    /// One log for many database servers (Saito, Yamada).
    P4,
    /// The same paper: TPC-C, and readers.
    P4Tpcc,
    /// A file server that is replaced (paper 5, chapter 2).
    P5a,
    /// Volumes over a fast and a slow device (paper 5, chapter 3).
    P5b,
}

impl Paper {
    /// All of them, a page each.
    pub const ALL: [Self; 7] = [Self::P1, Self::P2, Self::P3, Self::P4, Self::P4Tpcc, Self::P5a, Self::P5b];

    /// The charts that these lines give.
    pub(super) fn charts(self, lines: &[Line]) -> Vec<Chart> {
        let mut charts = match self {
            Self::P1 => p1::charts(lines),
            Self::P2 => p2::charts(lines),
            Self::P3 => p3::charts(lines),
            Self::P4 => p4::charts(lines),
            Self::P4Tpcc => p4_tpcc::charts(lines),
            Self::P5a => p5a::charts(lines),
            Self::P5b => p5b::charts(lines),
        };
        charts.retain(|chart| chart.series.iter().any(|series| !series.points.is_empty()));
        charts
    }

    /// The page for these lines, in Markdown, with an empty place for notes.
    pub fn page(self, lines: &[Line], plots: &[Plot]) -> String {
        match self {
            Self::P1 => p1::page(lines, plots),
            Self::P2 => p2::page(lines, plots),
            Self::P3 => p3::page(lines, plots),
            Self::P4 => p4::page(lines, plots),
            Self::P4Tpcc => p4_tpcc::page(lines, plots),
            Self::P5a => p5a::page(lines, plots),
            Self::P5b => p5b::page(lines, plots),
        }
    }
}

/// As files are called: `p1`, `p4-tpcc`.
impl fmt::Display for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P1 => "p1",
            Self::P2 => "p2",
            Self::P3 => "p3",
            Self::P4 => "p4",
            Self::P4Tpcc => "p4-tpcc",
            Self::P5a => "p5a",
            Self::P5b => "p5b",
        })
    }
}

impl FromStr for Paper {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|paper| paper.to_string() == text).ok_or_else(|| {
            let reason = format!("there are p1, p2, p3 and p4, p4-tpcc, p5a and p5b, not `{text}`");
            Error::Invalid { setting: "paper", reason }
        })
    }
}
