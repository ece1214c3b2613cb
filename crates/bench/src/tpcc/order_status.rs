//! Order-Status: what became of a customer's latest order (clause 2.6). It changes nothing.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::access::Access;
use super::customer::By;
use super::keys::DistrictKey;
use super::rows::{Customer, Order, OrderByCustomer, OrderLine};
use crate::oltp::Stop;

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) district: DistrictKey,
    pub(super) customer: By,
}

/// What the customer is told.
#[allow(dead_code, reason = "a terminal would show it; what is measured includes making it")]
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) customer: u32,
    pub(super) balance: i64,
    /// First, middle and last name.
    pub(super) name: ([u8; 16], [u8; 2], [u8; 16]),
    pub(super) number: u32,
    pub(super) order: Order,
    pub(super) lines: SmallVec<[OrderLine; 15]>,
}

/// Looks it up.
pub(super) fn run(access: &mut Access<'_>, input: &Input) -> Result<Status, Stop> {
    let customer = input.customer.find(access, input.district)?;
    let key = input.district.customer(customer);
    let (balance, name) = access.look(&key, |row: &Customer| (row.balance.get(), (row.first, row.middle, row.last)))?;
    let mut latest = None;
    access.scan(&key.order(u32::MAX), &key.order(0), |key, _: &OrderByCustomer| {
        latest = Some(key.order());
        ControlFlow::Break(())
    })?;
    let number = latest.ok_or_else(|| Stop::Wrong(format!("{key:?} has no order")))?;
    let order_key = input.district.order(number);
    let order: Order = access.fetch(&order_key)?;
    let mut lines = SmallVec::new();
    access.scan(&order_key.line(0), &order_key.line(u8::MAX), |_, line: &OrderLine| {
        lines.push(*line);
        ControlFlow::Continue(())
    })?;
    Ok(Status { customer, balance, name, number, order, lines })
}
