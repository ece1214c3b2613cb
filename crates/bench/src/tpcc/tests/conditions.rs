//! Each condition is seen to be broken.

use super::*;
use crate::tpcc::keys::{DistrictKey, OrderKey, StockKey, WarehouseKey};
use crate::tpcc::rows::{Customer, District, History, NewOrder, Order, OrderLine, Stock, Warehouse};

/// The terminal that took the initial payments.
const LOADER: u32 = u32::MAX;

fn district() -> DistrictKey {
    DistrictKey::new(1, 3)
}

/// An order that waits; the first that does is 22.
fn waiting() -> OrderKey {
    district().order(25)
}

/// Changes a row; says which conditions do not hold any more.
fn broken<R: Stored>(key: &R::Key, change: impl Fn(&mut R)) -> Vec<u8> {
    let office = Office::open(1);
    office.act(|access| {
        let mut row: R = access.fetch(key)?;
        change(&mut row);
        access.put(key, &row)
    });
    office.violated()
}

/// Removes a row likewise.
fn lost<R: Stored>(key: &R::Key) -> Vec<u8> {
    let office = Office::open(1);
    office.act(|access| access.delete::<R>(key));
    office.violated()
}

#[test]
fn every_condition_is_found_broken_by_what_breaks_it() {
    let warehouse = WarehouseKey::new(1);
    let customer = district().customer(4);
    assert_eq!(broken(&warehouse, |row: &mut Warehouse| row.ytd += 1), [1, 8]);
    assert_eq!(broken(&district(), |row: &mut District| row.ytd += 1), [1, 9]);
    assert_eq!(broken(&district(), |row: &mut District| row.next_order += 1), [2]);
    assert_eq!(lost::<NewOrder>(&district().order(30)), [2, 5, 11]);
    assert_eq!(lost::<NewOrder>(&waiting()), [3, 5, 11]);
    assert_eq!(lost::<OrderLine>(&waiting().line(2)), [4, 6]);
    assert_eq!(broken(&waiting(), |row: &mut Order| row.carrier = 3), [5, 7]);
    assert_eq!(broken(&waiting(), |row: &mut Order| row.lines += 1), [4, 6]);
    let early = |row: &mut OrderLine| (row.delivered, row.amount) = (5.into(), 0.into());
    assert_eq!(broken(&waiting().line(1), early), [7]);
    let unpaid = |row: &mut OrderLine| (row.delivered, row.amount) = (5.into(), 9.into());
    assert_eq!(broken(&waiting().line(1), unpaid), [7, 10, 12]);
    let undelivered = |row: &mut OrderLine| row.delivered = 0.into();
    assert_eq!(broken(&district().order(3).line(1), undelivered), [7]);
    let payment = district().payment(LOADER, 4);
    assert_eq!(broken(&payment, |row: &mut History| row.amount += 1), [8, 9, 10]);
    assert_eq!(broken(&customer, |row: &mut Customer| row.balance += 1), [10, 12]);
    let shifted = |row: &mut Customer| {
        row.balance += 1;
        row.ytd_payment -= 1;
    };
    assert_eq!(broken(&customer, shifted), [10]);
    assert_eq!(broken(&customer, |row: &mut Customer| row.deliveries += 1), [11]);
    assert_eq!(broken(&customer, |row: &mut Customer| row.ytd_payment += 1), [12]);
    let stock = StockKey::new(1, 9);
    assert_eq!(broken(&stock, |row: &mut Stock| row.ytd += 1), [13]);
    assert_eq!(broken(&stock, |row: &mut Stock| row.orders += 1), [13]);
    assert_eq!(broken(&stock, |row: &mut Stock| row.remote += 1), [13]);
    assert_eq!(broken(&stock, |row: &mut Stock| row.quantity = (-1).into()), [0]);
}

#[test]
fn conditions_that_hold_in_sum_are_found_broken_in_part() {
    // A payment in another district: all sums but the districts' are right.
    let office = Office::open(1);
    let (from, to) = (district().payment(LOADER, 4), DistrictKey::new(1, 4).payment(7, 4));
    office.act(|access| {
        let row: History = access.fetch(&from)?;
        access.delete::<History>(&from)?;
        access.insert(&to, &row)
    });
    assert_eq!(office.violated(), [9]);

    // A line more in one order, and one fewer in another.
    let office = Office::open(1);
    office.act(|access| {
        let line: OrderLine = access.fetch(&waiting().line(1))?;
        let few = (22..=30).map(|number| district().order(number));
        for (key, more) in few.zip([true, false]) {
            let order: Order = access.fetch(&key)?;
            if more {
                access.insert(&key.line(order.lines + 1), &line)?;
            } else {
                access.delete::<OrderLine>(&key.line(order.lines))?;
            }
        }
        Ok(())
    });
    assert_eq!(office.violated(), [6]);
}

#[test]
fn what_is_missing_and_what_no_company_has_are_found() {
    assert_eq!(lost::<Warehouse>(&WarehouseKey::new(1)), [0, 1, 8]);
    assert_eq!(lost::<Stock>(&StockKey::new(1, 9)), [0]);
    assert_eq!(lost::<crate::tpcc::rows::Item>(&crate::tpcc::keys::ItemKey::new(9)), [0]);
    assert_eq!(lost::<District>(&district())[0], 0);
    assert_eq!(lost::<Customer>(&district().customer(4))[0], 0);
    let office = Office::open(1);
    office.act(|access| access.insert(&district().order(31), &NewOrder {}));
    assert_eq!(office.violated(), [2, 5, 11]);
    let office = Office::open(1);
    let line: OrderLine = office.fetch(&waiting().line(1));
    office.act(|access| access.insert(&district().order(40).line(1), &line));
    assert_eq!(office.violated(), [4, 6], "a line of no order");
    for stray in [DistrictKey::new(1, 11), DistrictKey::new(2, 1), DistrictKey::new(0, 0)] {
        let office = Office::open(1);
        let row: Order = office.fetch(&waiting());
        office.act(|access| access.insert(&stray.order(1), &row));
        assert_eq!(office.violated(), [0]);
    }
    let short = Office::open(1);
    let id = short.tables.id(crate::tpcc::keys::Table::Order);
    let session = short.database.session();
    session.run(|transaction| transaction.put(id, b"another key", b"")).unwrap();
    let error = short.company.audit(&short.database).unwrap_err();
    assert!(error.to_string().contains("has a row of another layout"), "{error}");
}
