//! `tpcc`: the five transactions of TPC-C (revision 5.11) on the transaction engine, and the specification's consistency
//! conditions afterwards (P2.6, P2.B1).
//!
//! Everything of the specification's transactions is there: inserts and deletes, customers by last name, a customer's latest
//! order, the oldest order that waits, lines and customers of other warehouses, orders that are taken back, skewed numbers.
//! Rows are fixed layouts over byte tables; there is no SQL in the way. What is left out is the terminals: nobody types or
//! thinks, so these are no tpmC. The reductions of the papers are there beside it ([`Mix`]).
//!
//! ```text
//!  warehouse ─┬─ district ×10 ─┬─ customer ×3,000 ─── history        new-order: what waits for delivery
//!             │                └─ order ─── order-line ×5..15
//!             └─ stock ×100,000 ─── item
//! ```
//!
//! A run counts only if all twelve conditions of clause 3.3.2 hold and everything that was acknowledged is there, in the
//! database opened again from its log (with the medium `none`: in the database as it is).
//!
//! Rooms: `rows` and `keys` are the layout, `access` reads and writes it in a transaction, `load` fills it, `mix` and
//! `terminal` draw what is done, `new_order` to `stock_level` do it, `books`, `conditions` and `promised` judge it, and
//! `company` puts it together for who brings a database.

mod access;
mod books;
mod clock;
mod company;
mod conditions;
mod customer;
mod delivery;
mod draw;
mod inputs;
mod keys;
mod load;
mod mix;
mod new_order;
mod order_status;
mod payment;
mod promised;
mod rows;
mod scale;
pub mod sql;
mod stock_level;
mod terminal;

use std::num::NonZero;

use ishigaki_base::random::Seed;
use ishigaki_txn::Database;

use crate::oltp::{Experiment, Stop, Sweep};
use crate::{Case, Error, Line, Progress, Result};
use access::Tables;
pub(crate) use draw::nurand;
use mix::Kind;
use terminal::Terminal;

pub use company::{Company, Shift};
pub use conditions::Violation;
pub use mix::Mix;
pub use scale::Scale;
pub use terminal::{Acknowledge, Receipt};

/// The workload's name in figures and errors.
const NAME: &str = "tpcc";

/// What is measured. Each mix runs with each number of warehouses.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Default: the full mix.
    pub mixes: Vec<Mix>,
    /// Each worker has one of them as its home. Default: one.
    pub warehouses: Vec<u16>,
    /// Default: to the specification.
    pub scale: Scale,
    /// Engines, workers and times.
    pub sweep: Sweep,
}

impl Settings {
    /// The defaults.
    pub fn new(sweep: Sweep) -> Self {
        Self { mixes: vec![Mix::Full], warehouses: vec![1], scale: Scale::SPECIFICATION, sweep }
    }
}

/// Measures and checks. The figures come case by case, by mix, warehouses, workers and engine: of all transactions together,
/// and of each type.
pub fn run(settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let Settings { mixes, warehouses, scale, sweep } = settings;
    if mixes.is_empty() {
        return Err(Error::Invalid { setting: "mix", reason: "give at least one, such as full".to_owned() });
    }
    let works: Vec<_> = mixes.iter().flat_map(|&mix| warehouses.iter().map(move |&count| (mix, count))).collect();
    run_each(&works, *scale, sweep, progress)
}

/// The same for mixes that each have a number of warehouses of their own.
pub(crate) fn run_each(
    works: &[(Mix, u16)],
    scale: Scale,
    sweep: &Sweep,
    progress: &mut dyn Progress,
) -> Result<Vec<Line>> {
    let few = || Error::Invalid {
        setting: "warehouses",
        reason: "give one or more counts from 1 on, such as 1,4,10".to_owned(),
    };
    let work = |&(mix, warehouses): &(Mix, u16)| {
        let warehouses = NonZero::new(warehouses).ok_or_else(few)?;
        Ok(Work { company: Company { warehouses, scale, seed: sweep.origin.seed }, mix })
    };
    let experiments: Vec<Work> = works.iter().map(work).collect::<Result<_>>()?;
    if experiments.is_empty() {
        return Err(few());
    }
    sweep.run(NAME, &experiments, progress)
}

/// A company and what its terminals do.
#[derive(Clone, Copy, Debug)]
struct Work {
    company: Company,
    mix: Mix,
}

impl Experiment for Work {
    type Client = Terminal;

    fn kinds(&self) -> &'static [&'static str] {
        &Kind::NAMES
    }

    fn case(&self) -> Case {
        let mut case = Case::from_iter([
            ("mix".to_owned(), self.mix.to_string().into()),
            ("warehouses".to_owned(), self.company.warehouses.get().into()),
        ]);
        let Scale { items, customers, .. } = self.company.scale;
        if self.company.scale != Scale::SPECIFICATION {
            case.insert("items".to_owned(), items.into());
            case.insert("customers".to_owned(), customers.into());
        }
        case
    }

    fn populate(&self, database: &Database, tell: &mut dyn FnMut(&str)) -> Result<(), Stop> {
        self.company.fill(database, &mut |done, of| tell(&format!("filling, {} %", done * 100 / of.max(1))))
    }

    fn client(&self, database: &Database, number: u32, seed: Seed) -> Result<Terminal, Stop> {
        Ok(self.company.terminal(Tables::find(database)?, self.mix, number, seed, None))
    }

    fn check(&self, database: &Database, terminals: &[Terminal]) -> Result<(), Stop> {
        let books = self.company.books(database)?;
        if let Some(violation) = books.audit(self.mix.inserts()).first() {
            return Err(Stop::Wrong(violation.to_string()));
        }
        let receipts = || terminals.iter().flat_map(|terminal| &terminal.receipts);
        let (mut orders, mut lines) = (0, 0);
        for receipt in receipts() {
            if let Receipt::Order { lines: count, .. } = receipt {
                orders += 1;
                lines += u64::from(*count);
            }
        }
        let (taken, taken_lines, _) = books.taken();
        if (taken, taken_lines) != (orders, lines) {
            let found = format!("{taken} orders with {taken_lines} lines were taken");
            return Err(Stop::Wrong(format!("{found}, and {orders} with {lines} were acknowledged")));
        }
        if self.mix.inserts() { promised::check(database, &Tables::find(database)?, receipts()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
