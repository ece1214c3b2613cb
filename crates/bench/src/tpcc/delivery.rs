//! Delivery: the oldest order of each district that waits is delivered, all ten in one transaction (clause 2.7).

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::access::Access;
use super::keys::{DistrictKey, OrderKey};
use super::rows::{Customer, NewOrder, Order, OrderLine};
use super::scale::DISTRICTS;
use crate::oltp::Stop;

/// Who delivers.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) warehouse: u16,
    pub(super) carrier: u8,
    pub(super) now: u64,
}

/// The orders that were delivered: district and number. A district in which none waits is left out.
pub(super) type Delivered = SmallVec<[(u8, u32); 10]>;

/// Delivers.
pub(super) fn run(access: &mut Access<'_>, input: &Input) -> Result<Delivered, Stop> {
    let mut delivered = Delivered::new();
    for district in 1..=DISTRICTS {
        let key = DistrictKey::new(input.warehouse, district);
        let mut oldest = None;
        access.scan(&key.order(0), &key.order(u32::MAX), |key, _: &NewOrder| {
            oldest = Some(*key);
            ControlFlow::Break(())
        })?;
        if let Some(oldest) = oldest {
            deliver(access, input, oldest)?;
            delivered.push((district, oldest.order.get()));
        }
    }
    Ok(delivered)
}

fn deliver(access: &mut Access<'_>, input: &Input, key: OrderKey) -> Result<(), Stop> {
    access.delete::<NewOrder>(&key)?;
    let mut order: Order = access.fetch(&key)?;
    order.carrier = input.carrier;
    access.put(&key, &order)?;

    let mut lines: SmallVec<[_; 15]> = SmallVec::new();
    access.scan(&key.line(0), &key.line(u8::MAX), |key, line: &OrderLine| {
        lines.push((*key, *line));
        ControlFlow::Continue(())
    })?;
    let mut sum = 0;
    for (key, line) in &mut lines {
        sum += line.amount.get();
        line.delivered = input.now.into();
        access.put(key, line)?;
    }
    let customer_key = key.district.customer(order.customer.get());
    let mut customer: Customer = access.fetch(&customer_key)?;
    customer.balance += sum;
    customer.deliveries += 1;
    access.put(&customer_key, &customer)
}
