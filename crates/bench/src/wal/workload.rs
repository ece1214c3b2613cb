//! What a transaction touches and logs.
//!
//! A workload says how many rows there are, which of them a worker's next transaction changes, and what it inserts beside
//! that. The rest is the same for all: a change adds one to a row's number, and depends on who wrote the row last.
//!
//! ```text
//! draw() ──▶ rows, in the order of their locks ──▶ updates ──▶ inserts() ──▶ record
//! ```

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;
use smallvec::SmallVec;

use super::new_order;
use super::record::{Insert, Update};
use crate::{Error, Result};

/// The pages of U-1 and U-10 (paper 1, section 5.2.1).
const PAGES: u32 = 1 << 16;

/// Warehouses of which rows and the log's check still take little memory.
const MOST_WAREHOUSES: u32 = 64;

/// Different rows in ascending order, the order in which they are locked: ten pages, or a district and 15 of its lines'
/// stock.
pub(super) type Touched = SmallVec<[u32; 16]>;

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Updates one page.
    U1,
    /// Updates ten pages.
    U10,
    /// Takes an order as TPC-C's New-Order does: updates a district and the stock of 5 to 15 items, inserts the order and its
    /// lines.
    Tpcc {
        /// Each worker has one of them as its home. From 1 to 64; the paper has 8.
        warehouses: u32,
    },
}

impl Workload {
    /// New-Order as the paper ran it.
    pub const TPCC: Self = Self::Tpcc { warehouses: 8 };

    /// Those of the paper.
    pub const ALL: [Self; 3] = [Self::U1, Self::U10, Self::TPCC];

    /// How many rows there are to change.
    pub(super) fn rows(self) -> u32 {
        match self {
            Self::U1 | Self::U10 => PAGES,
            Self::Tpcc { warehouses } => new_order::rows(warehouses),
        }
    }

    /// The rows that a worker's next transaction changes.
    pub(super) fn draw(self, worker: u32, random: &mut Rng) -> Touched {
        match self {
            Self::U1 => draw_pages(1, random),
            Self::U10 => draw_pages(10, random),
            Self::Tpcc { warehouses } => new_order::draw(warehouses, worker, random),
        }
    }

    /// What a transaction with those updates inserts: rows whose keys nobody else has, so they need no lock and depend on
    /// nothing.
    pub(super) fn inserts(self, updates: &[Update]) -> impl Iterator<Item = Insert> + '_ {
        let orders = matches!(self, Self::Tpcc { .. });
        orders.then(|| new_order::inserts(updates)).into_iter().flatten()
    }

    /// Whether a transaction may have just those updates.
    pub(super) fn allows(self, updates: &[Update]) -> bool {
        let ascending = updates.is_sorted_by(|one, next| one.row < next.row);
        let there = updates.iter().all(|update| update.row < self.rows());
        ascending
            && there
            && match self {
                Self::U1 => updates.len() == 1,
                Self::U10 => updates.len() == 10,
                Self::Tpcc { warehouses } => new_order::allows(warehouses, updates),
            }
    }

    /// What can not be about it.
    pub(super) fn validate(self) -> Result<()> {
        match self {
            Self::Tpcc { warehouses } if !(1..=MOST_WAREHOUSES).contains(&warehouses) => {
                Err(invalid(format!("there are 1 to {MOST_WAREHOUSES} warehouses, as in tpcc:8, not {warehouses}")))
            }
            _ => Ok(()),
        }
    }
}

fn draw_pages(count: usize, random: &mut Rng) -> Touched {
    let mut pages = Touched::new();
    draw_others(&mut pages, count, || random.u32(0..PAGES));
    pages.sort_unstable();
    pages
}

/// Draws until there are that many different ones.
pub(super) fn draw_others(rows: &mut Touched, count: usize, mut draw: impl FnMut() -> u32) {
    while rows.len() < count {
        let row = draw();
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
}

fn invalid(reason: String) -> Error {
    Error::Invalid { setting: "workload", reason }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U1 => f.write_str("u1"),
            Self::U10 => f.write_str("u10"),
            &Self::TPCC => f.write_str("tpcc"),
            Self::Tpcc { warehouses } => write!(f, "tpcc:{warehouses}"),
        }
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || invalid(format!("there are u1, u10, tpcc, and tpcc:N with N warehouses, not `{text}`"));
        let workload = match text {
            "u1" => Self::U1,
            "u10" => Self::U10,
            "tpcc" => Self::TPCC,
            _ => {
                let warehouses = text.strip_prefix("tpcc:").and_then(|count| count.parse().ok());
                Self::Tpcc { warehouses: warehouses.ok_or_else(unknown)? }
            }
        };
        workload.validate().map(|()| workload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;

    #[test]
    fn names_are_read_and_written_alike() {
        for workload in Workload::ALL.into_iter().chain([Workload::Tpcc { warehouses: 3 }]) {
            assert_eq!(workload.to_string().parse::<Workload>().unwrap(), workload);
        }
        assert_eq!(Workload::TPCC.to_string(), "tpcc");
        assert_eq!("tpcc:8".parse::<Workload>().unwrap(), Workload::TPCC);
        for (text, reason) in [
            ("u2", "u1, u10, tpcc, and tpcc:N with N warehouses, not `u2`"),
            ("tpcc:many", "not `tpcc:many`"),
            ("tpcc:0", "1 to 64 warehouses"),
            ("tpcc:65", "1 to 64 warehouses"),
        ] {
            let refused = text.parse::<Workload>().unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn each_draws_what_it_allows_and_the_others_do_not() {
        let mut random = Seed(1).generator();
        for workload in Workload::ALL {
            for worker in 0..20 {
                let rows = workload.draw(worker, &mut random);
                let updates: Vec<Update> = rows.iter().map(|&row| Update { row, before: 0, after: 1 }).collect();
                for other in Workload::ALL {
                    assert_eq!(other.allows(&updates), other == workload, "{other} of {workload}: {rows:?}");
                }
                if let [.., one, _] = updates[..] {
                    let twice = [&updates[..updates.len() - 1], &[one]].concat();
                    assert!(!workload.allows(&twice), "a row can not be locked twice");
                }
            }
        }
        let beyond = Update { row: PAGES, before: 0, after: 1 };
        assert!(!Workload::U1.allows(&[beyond]));
        // An order of the first district and the stock of the first items.
        let order = |lines: u32| -> Vec<Update> {
            let stock = (0..lines).map(|item| 80 + item);
            [0].into_iter().chain(stock).map(|row| Update { row, before: 0, after: 1 }).collect()
        };
        let allowed: Vec<u32> = (0..20).filter(|&lines| Workload::TPCC.allows(&order(lines))).collect();
        assert_eq!(allowed, (5..=15).collect::<Vec<_>>());
    }
}
