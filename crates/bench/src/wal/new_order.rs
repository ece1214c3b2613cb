//! New-Order, the transaction of TPC-C by which a customer orders (P1.12; TPC-C revision 5.11, clause 2.4), as its log sees
//! it.
//!
//! A worker takes orders for its home warehouse. An order takes the next number of one of ten districts, changes the stock
//! of 5 to 15 items, of which one in a hundred comes from another warehouse, and inserts itself and a line for each item:
//!
//! ```text
//!  update DISTRICT ──▶ order number ──▶ insert ORDER, NEW-ORDER, and ORDER-LINE for each item
//!  update STOCK of each item
//! ```
//!
//! So every order depends on the one before it in its district, and on whoever last changed one of its items' stock. What
//! it inserts has a key with its own number. What TPC-C only reads here (warehouse, customer, item) nobody changes; there
//! is nothing to depend on, and it is left out. An order names each item once, and none is rolled back (paper 1, section
//! 5.2.2).
//!
//! # What is logged
//!
//! The paper's transactions log 4,414 bytes on average; it does not say of what. These log BEGIN and COMMIT; for a row that
//! is changed the paper's UPDATE, which holds the change and not the row; for one that is inserted as many bytes again, and
//! the row, as long as TPC-C says (clause 4.2.2):
//!
//! | | bytes | for ten lines |
//! |---|---:|---:|
//! | BEGIN, COMMIT | 132 each | 264 |
//! | UPDATE of a district | 156 | 156 |
//! | UPDATE of stock | 156 each | 1,560 |
//! | INSERT of an order | 156 + 24 | 180 |
//! | INSERT of a new order | 156 + 8 | 164 |
//! | INSERT of an order line | 156 + 54 each | 2,100 |
//! | together | 764 + 366 a line | 4,424 |
//!
//! The mean is that of ten lines, 0.2% above the paper's. With whole rows of districts (95 bytes) and stock (306) it would
//! be 7,579.

use std::iter;

use fastrand::Rng;

use super::record::{Insert, Update};
use super::workload::{Touched, draw_others};
use crate::tpcc::nurand;

/// Districts of a warehouse (clause 1.2.1).
const DISTRICTS: u32 = 10;
/// Items, each of which every warehouse has in stock.
const ITEMS: u32 = 100_000;
/// Lines of an order (clause 2.4.1.3).
const LINES: std::ops::RangeInclusive<usize> = 5..=15;
/// Of as many lines one has an item from another warehouse (clause 2.4.1.5).
const LINES_PER_REMOTE: u32 = 100;

/// A table into which rows are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Orders,
    NewOrders,
    OrderLines,
}

impl Table {
    pub(super) const ALL: [Self; 3] = [Self::Orders, Self::NewOrders, Self::OrderLines];

    /// Bytes of a row (clause 4.2.2).
    pub(super) fn row(self) -> usize {
        match self {
            Self::Orders => 24,
            Self::NewOrders => 8,
            Self::OrderLines => 54,
        }
    }
}

/// Districts, warehouse by warehouse, then stock: so a transaction locks its district first and then stock, as one that
/// needs the order's number first does.
pub(super) fn rows(warehouses: u32) -> u32 {
    warehouses * (DISTRICTS + ITEMS)
}

/// The rows that the next order of a worker changes.
pub(super) fn draw(warehouses: u32, worker: u32, random: &mut Rng) -> Touched {
    let home = worker % warehouses;
    let mut rows = Touched::new();
    rows.push(home * DISTRICTS + random.u32(0..DISTRICTS));
    let lines = random.usize(LINES);
    draw_others(&mut rows, 1 + lines, || {
        let remote = warehouses > 1 && random.u32(0..LINES_PER_REMOTE) == 0;
        let supplier = if remote { (home + random.u32(1..warehouses)) % warehouses } else { home };
        warehouses * DISTRICTS + supplier * ITEMS + draw_item(random)
    });
    rows.sort_unstable();
    rows
}

/// Some items are ordered far more often than others: NURand(8191, 1, 100000) of clause 2.1.6, from 0.
fn draw_item(random: &mut Rng) -> u32 {
    /// A run's constant, which may be any: it says which items those are.
    const C: u32 = 5_003;
    nurand(random, 8191, C, 1, ITEMS) - 1
}

/// What an order inserts that made those updates. Its number is what its district's has become.
pub(super) fn inserts(updates: &[Update]) -> impl Iterator<Item = Insert> + '_ {
    updates.split_first().into_iter().flat_map(|(district, stock)| {
        let insert = |table, line, value| Insert { table, key: [district.row, district.after, line], value };
        let lines = (1..).zip(stock).map(move |(line, stock)| insert(Table::OrderLines, line, stock.row));
        let order = insert(Table::Orders, 0, stock.len() as u32);
        iter::once(order).chain([insert(Table::NewOrders, 0, 0)]).chain(lines)
    })
}

/// Whether an order may have those updates, which are in ascending order: one of a district, the others of stock.
pub(super) fn allows(warehouses: u32, updates: &[Update]) -> bool {
    let districts = warehouses * DISTRICTS;
    updates.split_first().is_some_and(|(district, stock)| {
        district.row < districts && LINES.contains(&stock.len()) && stock.iter().all(|stock| stock.row >= districts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Workload;
    use crate::wal::record::Writer;
    use ishigaki_base::random::Seed;
    use std::collections::HashMap;

    /// Bytes that the paper's transactions log on average (section 5.2.2).
    const PAPER: f64 = 4414.0;

    #[test]
    fn a_transaction_logs_as_many_bytes_as_the_papers_on_average() {
        let mut random = Seed(1).generator();
        let mut writer = Writer::new(0, &mut random);
        let orders = 20_000;
        let bytes: usize = (0..orders)
            .map(|order| {
                let rows = Workload::TPCC.draw(order, &mut random);
                let updates: Vec<Update> = rows.iter().map(|&row| Update { row, before: 0, after: 1 }).collect();
                let record = writer.write(0, &updates, Workload::TPCC.inserts(&updates));
                assert_eq!(record.len(), 764 + 366 * (rows.len() - 1));
                record.len()
            })
            .sum();
        let mean = bytes as f64 / f64::from(orders);
        assert!((mean / PAPER - 1.0).abs() < 0.01, "{mean} bytes");
    }

    #[test]
    fn an_order_is_of_the_home_warehouse_and_one_line_in_a_hundred_from_another() {
        let mut random = Seed(2).generator();
        let (warehouses, orders) = (8, 20_000);
        let mut districts = [0; 80];
        let (mut lines, mut remote) = (0, 0);
        for order in 0..orders {
            let home = order % warehouses;
            // The 13th worker shares the home of the fifth.
            let rows = draw(warehouses, home + 8 * (order % 3), &mut random);
            assert!(LINES.contains(&(rows.len() - 1)));
            assert_eq!(rows[0] / DISTRICTS, home);
            districts[rows[0] as usize] += 1;
            lines += rows.len() - 1;
            remote += rows[1..].iter().filter(|&&row| (row - 80) / ITEMS != home).count();
        }
        let share = remote as f64 / lines as f64;
        assert!((0.009..0.011).contains(&share), "{share} of the lines are remote");
        assert!(districts.iter().all(|orders| (150..350).contains(orders)), "{districts:?}");
        let alone = draw(1, 5, &mut random);
        assert!(alone.iter().all(|&row| row < rows(1)), "who has one warehouse orders there");
    }

    #[test]
    fn some_items_are_ordered_far_more_often_than_others() {
        let mut random = Seed(3).generator();
        let mut counts: HashMap<u32, u32> = HashMap::new();
        let draws = 100_000;
        for _ in 0..draws {
            *counts.entry(draw_item(&mut random)).or_default() += 1;
        }
        assert!(counts.keys().all(|item| *item < ITEMS));
        let mut counts: Vec<u32> = counts.into_values().collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let first: u32 = counts.iter().take(ITEMS as usize / 10).sum();
        // Of equal items a tenth would have a quarter of the draws, chance included.
        assert!(first > draws / 2, "the most ordered tenth has {first} of {draws}");
    }

    #[test]
    fn an_order_inserts_itself_and_a_line_for_each_item() {
        let updates: Vec<Update> =
            [3, 80, 90, 800_000].into_iter().map(|row| Update { row, before: 6, after: 7 }).collect();
        let insert = |table, line, value| Insert { table, key: [3, 7, line], value };
        let expected = [
            insert(Table::Orders, 0, 3),
            insert(Table::NewOrders, 0, 0),
            insert(Table::OrderLines, 1, 80),
            insert(Table::OrderLines, 2, 90),
            insert(Table::OrderLines, 3, 800_000),
        ];
        assert_eq!(inserts(&updates).collect::<Vec<_>>(), expected);
        assert_eq!(inserts(&[]).count(), 0);
    }
}
