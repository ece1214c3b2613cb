//! What a company begins with.

use super::*;
use crate::tpcc::draw::{is_original, last_name};
use crate::tpcc::keys::DistrictKey;
use crate::tpcc::rows::{
    Customer, CustomerByName, District, History, Item, NewOrder, Order, OrderByCustomer, OrderLine, Stock, Warehouse,
};

#[test]
fn there_are_as_many_rows_as_the_specification_says() {
    let office = Office::open(2);
    let districts = 20;
    assert_eq!(office.count::<Warehouse>(), 2);
    assert_eq!(office.count::<District>(), districts);
    for rows in [
        office.count::<Customer>(),
        office.count::<CustomerByName>(),
        office.count::<History>(),
        office.count::<Order>(),
        office.count::<OrderByCustomer>(),
    ] {
        assert_eq!(rows, districts * 30);
    }
    assert_eq!(office.count::<NewOrder>(), districts * 9);
    assert_eq!((office.count::<Item>(), office.count::<Stock>()), (150, 300));
    let lines = office.count::<OrderLine>();
    assert!((districts * 30 * 9..districts * 30 * 11).contains(&lines), "{lines} lines, which should be ten an order");
    assert_eq!(SMALL.rows(2), 2 + 20 + 13 * 600 + 180 + 450);
    // Of which the specification's has half a million for each warehouse.
    assert_eq!(Scale::SPECIFICATION.rows(1), 100_000 + 1 + 10 + 30_000 * 13 + 9_000 + 100_000);
}

#[test]
fn a_fresh_company_is_consistent() {
    Office::open(2).assert_consistent();
}

#[test]
fn sums_and_shares_are_those_of_the_specification() {
    let office = Office::open(2);
    let [mut bad, mut original, mut delivered] = [0, 0, 0];
    office.act(|access| {
        access.scan_all(|_, row: &Warehouse| {
            assert_eq!(row.ytd.get(), 30_000 * 10);
            assert!(row.tax.get() <= 2000 && row.address.zip.ends_with(b"11111"));
        })?;
        access.scan_all(|_, row: &District| assert_eq!((row.ytd.get(), row.next_order.get()), (30_000, 31)))
    });
    let rows = std::cell::RefCell::new((&mut bad, &mut original, &mut delivered));
    office.act(|access| {
        let (bad, original, delivered) = &mut *rows.borrow_mut();
        (**bad, **original, **delivered) = (0, 0, 0);
        access.scan_all(|key, row: &Customer| {
            assert_eq!((row.balance.get(), row.ytd_payment.get(), row.payments.get()), (-1000, 1000, 1));
            assert_eq!(row.last, last_name(key.customer.get() - 1));
            **bad += u32::from(row.credit == *b"BC");
        })?;
        access.scan_all(|_, row: &Stock| {
            assert!((10..=100).contains(&row.quantity.get()));
            assert_eq!((row.ytd.get(), row.orders.get(), row.remote.get()), (0, 0, 0));
            **original += u32::from(is_original(&row.data));
        })?;
        access.scan_all(|_, row: &Item| assert!((100..=10_000).contains(&row.price.get())))?;
        access.scan_all(|key, row: &Order| {
            let early = key.order.get() <= 21;
            assert_eq!((1..=10).contains(&row.carrier), early);
            assert!((5..=15).contains(&row.lines) && row.all_local == 1);
            **delivered += u32::from(early);
        })?;
        access.scan_all(|key, row: &OrderLine| {
            let early = key.order.order.get() <= 21;
            assert_eq!((row.delivered.get() != 0, row.amount.get() == 0), (early, early));
            assert!(row.quantity == 5 && (1..=150).contains(&row.item.get()));
        })
    });
    assert!((30..100).contains(&bad), "{bad} of 600 customers have bad credit");
    assert!((10..60).contains(&original), "{original} of 300 have ORIGINAL");
    assert_eq!(delivered, 420);
}

#[test]
fn each_customer_has_one_order_and_the_seed_decides_which() {
    let customers = |company: &Office| {
        company.act(|access| {
            let mut customers = Vec::new();
            let first = DistrictKey::new(1, 1);
            access.scan(&first.order(0), &first.order(u32::MAX), |_, row: &Order| {
                customers.push(row.customer.get());
                std::ops::ControlFlow::Continue(())
            })?;
            Ok(customers)
        })
    };
    let office = Office::open(1);
    let (mut one, other) = (customers(&office), customers(&Office::open(1)));
    assert_eq!(one, other, "threads load in any order, and the rows are the same");
    assert!(!one.is_sorted());
    one.sort_unstable();
    assert_eq!(one, (1..=30).collect::<Vec<_>>());
}
