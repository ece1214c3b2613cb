//! The consistency conditions of the specification (clause 3.3.2), over everything and not over samples.
//!
//! | | |
//! |---|---|
//! | 1 | `W_YTD` is the sum of its districts' `D_YTD` |
//! | 2 | `D_NEXT_O_ID` - 1 is the largest `O_ID`, and the largest `NO_O_ID` if an order waits |
//! | 3 | between the smallest and the largest `NO_O_ID` none is missing |
//! | 4 | a district has as many lines as its orders' `O_OL_CNT` together |
//! | 5 | `O_CARRIER_ID` is null just if the order waits |
//! | 6 | an order has `O_OL_CNT` lines |
//! | 7 | `OL_DELIVERY_D` is null just if the order's `O_CARRIER_ID` is |
//! | 8 | `W_YTD` is the sum of the warehouse's `H_AMOUNT` |
//! | 9 | `D_YTD` is the sum of the district's `H_AMOUNT` |
//! | 10 | `C_BALANCE` is the sum of the customer's delivered `OL_AMOUNT` less the sum of the `H_AMOUNT` |
//! | 11 | orders less those that wait are 2,100 for each district, and what was delivered since |
//! | 12 | `C_BALANCE` + `C_YTD_PAYMENT` is the sum of the customer's delivered `OL_AMOUNT` |
//!
//! Condition 11 is written for a fresh population; what Delivery delivers since is counted in its customers'
//! `C_DELIVERY_CNT`, so it holds at all times with their sum. Two more are ours: 0, every row of the population is there and
//! nothing that no company can have; and 13, `S_YTD`, `S_ORDER_CNT` and `S_REMOTE_CNT` are what the lines of all orders since the
//! population say, without which a lost update of stock would go unnoticed.

use std::fmt;

use super::books::{Books, OfDistrict, OfWarehouse};
use super::scale::DISTRICTS;

/// Conditions, those of ours among them.
const CONDITIONS: usize = 14;

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which: 1 to 12 are the specification's, 0 and 13 ours.
    pub condition: u8,
    /// Where, and what is there.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "condition {} does not hold: {}", self.condition, self.what)
    }
}

/// The first violation of each condition.
#[derive(Debug, Default)]
struct Findings([Option<String>; CONDITIONS]);

impl Findings {
    fn expect(&mut self, condition: usize, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.0[condition].is_none() {
            self.0[condition] = Some(what());
        }
    }

    /// Two numbers that should be the same.
    fn equal<T: PartialEq + fmt::Display>(
        &mut self,
        condition: usize,
        place: &str,
        (one, is): (&str, T),
        (other, sum): (&str, T),
    ) {
        self.expect(condition, is == sum, || format!("{place} has {one} {is}, and {other} {sum}"));
    }
}

impl Books {
    /// The first violation of each condition that does not hold; none if all is well. Without inserts New-Order leaves no
    /// order behind: then nothing is said of a district's next order and of what the orders say about the stock.
    pub(super) fn audit(&self, inserts: bool) -> Vec<Violation> {
        let mut findings = Findings::default();
        findings.expect(0, self.oddities.is_empty(), || self.oddities.join("; "));
        findings.equal(0, "the company", ("items", self.items), ("should have", self.scale.items));
        for (number, warehouse) in (1..).zip(&self.warehouses) {
            self.audit_warehouse(number, warehouse, &mut findings);
            for district in &warehouse.districts {
                self.audit_district(district, inserts, &mut findings);
                audit_orders(district, &mut findings);
                audit_customers(district, &mut findings);
            }
            for (item, [said, ordered]) in (1..).zip(&warehouse.stock) {
                let wrong =
                    || format!("stock of item {item} in warehouse {number} says {said:?}, the lines {ordered:?}");
                findings.expect(13, !inserts || said == ordered, wrong);
            }
        }
        let found = (0..).zip(findings.0);
        found.filter_map(|(condition, what)| Some(Violation { condition, what: what? })).collect()
    }

    fn audit_warehouse(&self, number: u16, warehouse: &OfWarehouse, findings: &mut Findings) {
        let place = format!("warehouse {number}");
        findings.expect(0, warehouse.ytd.is_some(), || format!("{place} is not there"));
        findings.equal(0, &place, ("stock rows", warehouse.stocked), ("should have", self.scale.items));
        let ytd = warehouse.ytd.unwrap_or(0);
        let districts: i64 = warehouse.districts.iter().map(|district| district.ytd).sum();
        let paid: i64 = warehouse.districts.iter().map(|district| district.paid).sum();
        findings.equal(1, &place, ("W_YTD", ytd), ("the sum of D_YTD", districts));
        findings.equal(8, &place, ("W_YTD", ytd), ("the sum of H_AMOUNT", paid));
    }

    fn audit_district(&self, district: &OfDistrict, inserts: bool, findings: &mut Findings) {
        let OfDistrict { orders, waiting, .. } = district;
        let place = district.name();
        findings.expect(0, district.there, || format!("{place} is not there; there are {DISTRICTS}"));
        let last = district.next_order.saturating_sub(1);
        let largest = orders.last().map_or(0, |order| order.number);
        if inserts {
            findings.equal(2, &place, ("the last order", last), ("the largest O_ID", largest));
        }
        if let (Some(first), Some(newest)) = (waiting.first(), waiting.last()) {
            findings.equal(2, &place, ("the largest O_ID", largest), ("the largest NO_O_ID", *newest));
            let span = (newest - first + 1) as usize;
            findings.equal(3, &place, ("orders that wait", waiting.len()), ("from first to last there are", span));
        }
        let said: u64 = orders.iter().map(|order| u64::from(order.lines)).sum();
        findings.equal(4, &place, ("lines", district.lines), ("the sum of O_OL_CNT", said));
        findings.equal(9, &place, ("D_YTD", district.ytd), ("the sum of H_AMOUNT", district.paid));
        let since: u64 = district.customers.iter().map(|customer| u64::from(customer.deliveries)).sum();
        let delivered = orders.len() as u64 - (waiting.len() as u64).min(orders.len() as u64);
        let expected = u64::from(self.scale.delivered()) + since;
        findings.equal(11, &place, ("orders less those that wait", delivered), ("there were delivered", expected));
    }
}

fn audit_orders(district: &OfDistrict, findings: &mut Findings) {
    let place = |number: u32| format!("order {number} of {}", district.name());
    for order in &district.orders {
        let (number, waits) = (order.number, district.waiting.binary_search(&order.number).is_ok());
        let is_null = order.carrier == 0;
        findings.expect(5, is_null == waits, || {
            format!("{} has carrier {}, and waits: {waits}", place(number), order.carrier)
        });
        let (said, found) = (u32::from(order.lines), order.found);
        findings.expect(6, said == found, || format!("{} has {found} lines, and O_OL_CNT {said}", place(number)));
        let delivered = if is_null { 0 } else { found };
        findings.expect(7, order.delivered == delivered, || {
            format!(
                "{} has carrier {}, and {} of {found} lines delivered",
                place(number),
                order.carrier,
                order.delivered
            )
        });
    }
    let numbers = |number: &u32| district.orders.binary_search_by_key(number, |order| order.number).is_ok();
    let lonely = district.waiting.iter().find(|number| !numbers(number));
    findings.expect(5, lonely.is_none(), || format!("{} waits and is not there", place(lonely.copied().unwrap_or(0))));
    if let Some(stray) = district.stray_line {
        findings.expect(6, false, || format!("{} has a line and is not there", place(stray)));
    }
}

fn audit_customers(district: &OfDistrict, findings: &mut Findings) {
    for (number, customer) in (1..).zip(&district.customers) {
        let place = |number: u32| format!("customer {number} of {}", district.name());
        findings.expect(0, customer.there, || format!("{} is not there", place(number)));
        let (balance, bought) = (customer.balance, customer.delivered);
        let owed = bought - customer.paid;
        findings.expect(10, balance == owed, || {
            format!("{} has C_BALANCE {balance}, and by lines and payments {owed}", place(number))
        });
        let sum = balance + customer.ytd_payment;
        findings.expect(12, sum == bought, || {
            format!("{} has C_BALANCE and C_YTD_PAYMENT {sum} together, and bought for {bought}", place(number))
        });
    }
}
