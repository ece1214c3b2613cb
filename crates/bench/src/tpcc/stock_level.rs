//! Stock-Level: of how many items of a district's last 20 orders there is little left (clause 2.8). It changes nothing.

use std::ops::ControlFlow;

use super::access::Access;
use super::keys::{DistrictKey, StockKey};
use super::rows::{District, OrderLine, Stock};
use crate::oltp::Stop;

/// Orders that are looked at.
const ORDERS: u32 = 20;

/// What is asked.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) district: DistrictKey,
    /// Fewer than so many are little.
    pub(super) threshold: i32,
}

/// Counts the items.
pub(super) fn run(access: &mut Access<'_>, input: &Input) -> Result<usize, Stop> {
    let next = access.look(&input.district, |row: &District| row.next_order.get())?;
    let first = input.district.order(next.saturating_sub(ORDERS));
    let mut items: Vec<u32> = Vec::with_capacity(ORDERS as usize * 15);
    access.scan(&first.line(0), &input.district.order(next - 1).line(u8::MAX), |_, line: &OrderLine| {
        items.push(line.item.get());
        ControlFlow::Continue(())
    })?;
    items.sort_unstable();
    items.dedup();
    let stock = |item: &u32| StockKey::new(input.district.warehouse.get(), *item);
    let mut low = 0;
    for items in items.chunks(32) {
        access.prefetch::<Stock>(items.iter().map(stock));
        for item in items {
            let quantity = access.look(&stock(item), |row: &Stock| row.quantity.get())?;
            low += usize::from(quantity < input.threshold);
        }
    }
    Ok(low)
}
