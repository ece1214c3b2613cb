//! What each transaction does, by example, and what terminals draw.

use std::collections::BTreeMap;

use super::*;
use crate::oltp::Client;
use crate::tpcc::customer::By;
use crate::tpcc::keys::{DistrictKey, ItemKey, StockKey, WarehouseKey};
use crate::tpcc::mix::Mix;
use crate::tpcc::new_order::Wanted;
use crate::tpcc::rows::{Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, Warehouse};
use crate::tpcc::{delivery, new_order, order_status, payment, stock_level};

const HOME: u16 = 1;

fn district() -> DistrictKey {
    DistrictKey::new(HOME, 3)
}

fn order(lines: &[(u32, u16, u8)]) -> new_order::Input {
    let wanted = |&(item, supplier, quantity): &(u32, u16, u8)| Wanted { item, supplier, quantity };
    new_order::Input { district: district(), customer: 5, lines: lines.iter().map(wanted).collect(), now: 99 }
}

fn stock(office: &Office, warehouse: u16, item: u32, quantity: i32) {
    office.act(|access| {
        let key = StockKey::new(warehouse, item);
        let mut row: Stock = access.fetch(&key)?;
        row.quantity = quantity.into();
        access.put(&key, &row)
    });
}

#[test]
fn a_new_order_takes_a_number_and_stock_and_inserts_itself_and_its_lines() {
    let office = Office::open(2);
    stock(&office, 1, 10, 25);
    stock(&office, 2, 11, 15);
    let placed = office.act(|access| new_order::run(access, &order(&[(10, 1, 10), (11, 2, 7)]), true)).unwrap();
    assert_eq!(placed.number, 31);
    assert_eq!(office.fetch::<District>(&district()).next_order.get(), 32);

    let key = district().order(31);
    let row: Order = office.fetch(&key);
    assert_eq!((row.customer.get(), row.entered.get(), row.carrier), (5, 99, 0));
    assert_eq!((row.lines, row.all_local), (2, 0), "a line comes from another warehouse");
    office.fetch::<NewOrder>(&key);

    let near: Stock = office.fetch(&StockKey::new(1, 10));
    assert_eq!((near.quantity.get(), near.ytd.get(), near.orders.get(), near.remote.get()), (15, 10, 1, 0));
    let far: Stock = office.fetch(&StockKey::new(2, 11));
    let left = 15 - 7 + 91;
    assert_eq!((far.quantity.get(), far.ytd.get(), far.orders.get(), far.remote.get()), (left, 7, 1, 1));
    let prices = [10, 11].map(|item| i64::from(office.fetch::<Item>(&ItemKey::new(item)).price.get()));
    let lines: [OrderLine; 2] = [1, 2].map(|line| office.fetch(&key.line(line)));
    assert_eq!(lines.map(|line| line.amount.get()), [prices[0] * 10, prices[1] * 7]);
    assert_eq!(lines.map(|line| (line.supplier.get(), line.quantity, line.delivered.get())), [(1, 10, 0), (2, 7, 0)]);
    assert_eq!(lines[0].district_info, near.districts[2]);
    assert_eq!((placed.lines[0].stock, placed.lines[1].stock), (15, left));

    let tax = i64::from(office.fetch::<Warehouse>(&WarehouseKey::new(1)).tax.get())
        + i64::from(office.fetch::<District>(&district()).tax.get());
    let discount = i64::from(office.fetch::<Customer>(&district().customer(5)).discount.get());
    let total = (prices[0] * 10 + prices[1] * 7) as f64 * (1.0 - discount as f64 / 1e4) * (1.0 + tax as f64 / 1e4);
    assert!((placed.total as f64 - total).abs() <= 1.0, "{} is not {total}", placed.total);
    office.assert_consistent();
}

#[test]
fn an_item_twice_in_an_order_leaves_the_stock_twice() {
    let office = Office::open(1);
    stock(&office, 1, 10, 50);
    office.act(|access| new_order::run(access, &order(&[(10, 1, 4), (10, 1, 5)]), true));
    let row: Stock = office.fetch(&StockKey::new(1, 10));
    assert_eq!((row.quantity.get(), row.ytd.get(), row.orders.get()), (41, 9, 2));
    office.assert_consistent();
}

#[test]
fn an_order_of_an_item_that_does_not_exist_is_taken_back() {
    let office = Office::open(1);
    let session = office.database.session();
    let mut transaction = session.begin().unwrap();
    let mut access = Access::new(&mut transaction, &office.tables);
    let placed = new_order::run(&mut access, &order(&[(10, 1, 4), (SMALL.items + 1, 1, 5)]), true).unwrap();
    assert!(placed.is_none());
    transaction.rollback();
    assert_eq!(office.fetch::<District>(&district()).next_order.get(), 31);
    assert_eq!(office.fetch::<Stock>(&StockKey::new(1, 10)).orders.get(), 0);
    office.assert_consistent();
}

#[test]
fn a_new_order_without_inserts_changes_the_same_and_leaves_nothing_behind() {
    let office = Office::open(1);
    let before = [office.count::<Order>(), office.count::<NewOrder>(), office.count::<OrderLine>()];
    office.act(|access| new_order::run(access, &order(&[(10, 1, 4)]), false)).unwrap();
    assert_eq!([office.count::<Order>(), office.count::<NewOrder>(), office.count::<OrderLine>()], before);
    assert_eq!(office.fetch::<District>(&district()).next_order.get(), 32);
    assert_eq!(office.fetch::<Stock>(&StockKey::new(1, 10)).orders.get(), 1);
    assert_eq!(office.violated(), [2, 13], "so these two conditions are not asked for");
    assert!(office.company.books(&office.database).unwrap().audit(false).is_empty());
    assert_eq!(office.company.books(&office.database).unwrap().taken(), (1, 1, 4));
}

#[test]
fn a_payment_counts_where_it_is_paid_and_for_whom() {
    let office = Office::open(2);
    let home = DistrictKey::new(2, 9);
    let input = |amount, sequence| payment::Input {
        district: district(),
        home,
        customer: By::Number(4),
        amount,
        terminal: 3,
        sequence,
        now: 8,
    };
    // One with bad credit, whose data the payment is written before.
    let key = home.customer(4);
    let mut customer: Customer = office.fetch(&key);
    customer.credit = *b"BC";
    office.act(|access| access.put(&key, &customer));
    let paid = office.act(|access| payment::run(access, &input(12_345, 1)));
    assert_eq!((paid.customer, paid.balance), (4, -13_345));
    assert_eq!(office.fetch::<Warehouse>(&WarehouseKey::new(1)).ytd.get(), 300_000 + 12_345);
    assert_eq!(office.fetch::<Warehouse>(&WarehouseKey::new(2)).ytd.get(), 300_000);
    assert_eq!(office.fetch::<District>(&district()).ytd.get(), 30_000 + 12_345);
    let after: Customer = office.fetch(&key);
    assert_eq!((after.ytd_payment.get(), after.payments.get()), (13_345, 2));
    assert!(after.data.starts_with(b"4 9 2 3 1 123.45 ") && after.data[17..] == customer.data[..483]);
    let history: History = office.fetch(&district().payment(3, 1));
    assert_eq!((history.customer_warehouse.get(), history.customer_district, history.customer.get()), (2, 9, 4));
    assert_eq!((history.amount.get(), history.date.get()), (12_345, 8));

    office.act(|access| access.put(&key, &Customer { credit: *b"GC", ..after }));
    office.act(|access| payment::run(access, &input(100, 2)));
    assert_eq!(office.fetch::<Customer>(&key).data, after.data, "of good credit nothing is remembered");
    office.assert_consistent();
}

#[test]
fn of_several_customers_of_a_name_the_middle_one_by_first_name_is_meant() {
    let office = Office::open(1);
    let last = crate::tpcc::draw::last_name(0);
    let named = |first: &str, number: u32| {
        let key = crate::tpcc::keys::NameKey {
            district: district(),
            last,
            first: crate::tpcc::draw::padded(first.as_bytes()),
            customer: number.into(),
        };
        office.act(|access| access.insert(&key, &crate::tpcc::rows::CustomerByName {}));
    };
    let find = || office.act(|access| By::Name(last).find(access, district()));
    assert_eq!(find(), 1, "there is one");
    let own = office.fetch::<Customer>(&district().customer(1)).first;
    // Both before, whatever the one is called: its letters are alphanumeric.
    named("!b", 17);
    assert_eq!(find(), 17, "of two the first");
    named("!a", 23);
    assert_eq!(find(), 17, "of three the second, {own:?}");
    named("~", 29);
    assert_eq!(find(), 17, "of four the second");
    named("!c", 2);
    assert_eq!(find(), 2, "of five the third");
    let unknown = office.database.session().run(|transaction| {
        By::Name(crate::tpcc::draw::last_name(999)).find(&mut Access::new(transaction, &office.tables), district())
    });
    assert!(unknown.unwrap_err().to_string().contains("EINGEINGEING"));
}

#[test]
fn the_status_is_that_of_the_latest_order() {
    let office = Office::open(1);
    let input = order_status::Input { district: district(), customer: By::Number(5) };
    let before = office.act(|access| order_status::run(access, &input));
    assert_eq!((before.customer, before.balance), (5, -1000));
    assert!(before.number <= 30 && before.lines.len() == usize::from(before.order.lines));
    office.act(|access| new_order::run(access, &order(&[(10, 1, 4), (12, 1, 1), (9, 1, 2)]), true));
    let after = office.act(|access| order_status::run(access, &input));
    assert_eq!((after.number, after.order.lines, after.lines.len()), (31, 3, 3));
    assert_eq!(after.lines[1].item.get(), 12);
    let name: Customer = office.fetch(&district().customer(5));
    assert_eq!(after.name, (name.first, name.middle, name.last));
}

#[test]
fn a_delivery_delivers_the_oldest_order_of_each_district() {
    let office = Office::open(2);
    let input = delivery::Input { warehouse: HOME, carrier: 6, now: 77 };
    let key = district().order(22);
    let customer = district().customer(office.fetch::<Order>(&key).customer.get());
    let delivered = office.act(|access| delivery::run(access, &input));
    assert_eq!(delivered.to_vec(), (1..=10).map(|district| (district, 22)).collect::<Vec<_>>());
    let row: Order = office.fetch(&key);
    assert_eq!(row.carrier, 6);
    let lines: Vec<OrderLine> = (1..=row.lines).map(|line| office.fetch(&key.line(line))).collect();
    assert!(lines.iter().all(|line| line.delivered.get() == 77));
    let sum: i64 = lines.iter().map(|line| line.amount.get()).sum();
    let customer: Customer = office.fetch(&customer);
    assert_eq!((customer.balance.get(), customer.deliveries.get()), (sum - 1000, 1));
    assert!(office.act(|access| access.find(&key, |_: &NewOrder| ())).is_none());
    office.assert_consistent();

    for number in 23..=30 {
        let delivered = office.act(|access| delivery::run(access, &input));
        assert!(delivered.iter().all(|&(_, order)| order == number) && delivered.len() == 10);
    }
    assert!(office.act(|access| delivery::run(access, &input)).is_empty(), "none waits any more");
    assert_eq!(office.count::<NewOrder>(), 90, "those of the other warehouse wait");
    office.assert_consistent();
}

#[test]
fn the_stock_level_counts_items_of_the_last_twenty_orders_once() {
    let office = Office::open(1);
    let input = stock_level::Input { district: district(), threshold: 15 };
    for item in 1..=SMALL.items {
        stock(&office, 1, item, 15);
    }
    assert_eq!(office.act(|access| stock_level::run(access, &input)), 0);
    // Twenty orders of the same items push all others out of sight.
    for _ in 0..20 {
        office.act(|access| new_order::run(access, &order(&[(10, 1, 1), (11, 1, 1), (12, 1, 1)]), true));
    }
    for item in 1..=SMALL.items {
        stock(&office, 1, item, if item == 12 { 15 } else { 14 });
    }
    assert_eq!(office.act(|access| stock_level::run(access, &input)), 2);
    let row: OrderLine = office.fetch(&district().order(1).line(1));
    office.act(|access| access.put(&district().order(31).line(1), &OrderLine { item: 99.into(), ..row }));
    assert_eq!(office.act(|access| stock_level::run(access, &input)), 3, "the twentieth last counts");
    office.act(|access| access.put(&district().order(30).line(1), &OrderLine { item: 98.into(), ..row }));
    assert_eq!(office.act(|access| stock_level::run(access, &input)), 3, "the one before does not");
}

/// What a terminal drew, by looking at what it is about to do.
fn drawn(warehouses: u16, number: u32, count: usize) -> BTreeMap<&'static str, usize> {
    use crate::tpcc::inputs::Input;
    let office = Office::open(1);
    let company = Company { warehouses: NonZero::new(warehouses).unwrap(), ..office.company };
    let mut terminal = company.terminal(office.tables, Mix::Full, number, Seed(3), None);
    let home = (number % u32::from(warehouses)) as u16 + 1;
    let mut counts = BTreeMap::new();
    let mut note = |what, count| *counts.entry(what).or_default() += count;
    for _ in 0..count {
        terminal.draw();
        match terminal.input.as_ref().unwrap() {
            Input::NewOrder(input) => {
                assert_eq!(input.district.warehouse.get(), home);
                assert!((5..=15).contains(&input.lines.len()) && (1..=30).contains(&input.customer));
                assert!(input.lines.iter().all(|line| (1..=10).contains(&line.quantity)));
                assert!(input.lines[1..].iter().all(|line| (1..=warehouses).contains(&line.supplier)));
                note("orders", 1);
                note("lines", input.lines.len());
                note("remote lines", input.lines.iter().filter(|line| line.supplier != home).count());
                note("taken back", usize::from(input.lines.last().unwrap().item > SMALL.items));
            }
            Input::Payment(input) => {
                assert_eq!(input.district.warehouse.get(), home);
                assert!((100..=500_000).contains(&input.amount));
                note("payments", 1);
                note("remote payments", usize::from(input.home.warehouse != input.district.warehouse));
                note("by name", usize::from(matches!(input.customer, By::Name(_))));
            }
            Input::StockLevel(input) => {
                assert_eq!(input.district, DistrictKey::new(home, (number / u32::from(warehouses)) as u8 % 10 + 1));
                assert!((10..=20).contains(&input.threshold));
            }
            Input::Delivery(input) => assert!(input.warehouse == home && (1..=10).contains(&input.carrier)),
            Input::OrderStatus(input) => assert_eq!(input.district.warehouse.get(), home),
        }
    }
    counts
}

#[test]
fn terminals_draw_what_the_specification_says() {
    let counts = drawn(4, 9, 40_000);
    assert_eq!((counts["orders"], counts["payments"]), (18_000, 17_200));
    let share = |part: &str, whole: &str| counts[part] as f64 / counts[whole] as f64;
    for (part, whole, low, high) in [
        ("lines", "orders", 9.9, 10.1),
        ("remote lines", "lines", 0.009, 0.011),
        ("taken back", "orders", 0.0075, 0.0125),
        ("remote payments", "payments", 0.14, 0.16),
        ("by name", "payments", 0.585, 0.615),
    ] {
        assert!((low..high).contains(&share(part, whole)), "{part} of {whole}: {}", share(part, whole));
    }
    let alone = drawn(1, 3, 2000);
    assert_eq!((alone["remote lines"], alone["remote payments"]), (0, 0));
}

#[test]
fn what_a_terminal_did_is_acknowledged_with_what_it_promises() {
    let office = Office::open(1);
    let mut terminal = office.company.terminal(office.tables, Mix::Full, 0, Seed(3), None);
    let input = order(&[(10, 1, 1), (11, 1, 2), (12, 1, 3)]);
    terminal.input = Some(crate::tpcc::inputs::Input::NewOrder(input));
    let mut transaction = office.database.session().begin().unwrap();
    let crate::oltp::Ended::Commit(receipt) = terminal.attempt(&mut transaction).unwrap() else { panic!("taken back") };
    let expected = crate::tpcc::Receipt::Order { warehouse: 1, district: 3, number: 31, customer: 5, lines: 3 };
    assert_eq!(receipt, expected);
    transaction.commit().unwrap().wait().unwrap();
    office.company.check(&office.database, [&receipt].into_iter()).unwrap();
    terminal.acknowledge(receipt).unwrap();
    terminal.acknowledge(crate::tpcc::Receipt::Nothing).unwrap();
    assert_eq!(terminal.receipts, [expected]);

    let later = crate::tpcc::Receipt::Order { warehouse: 1, district: 3, number: 32, customer: 5, lines: 3 };
    let lost = office.company.check(&office.database, [&later].into_iter()).unwrap_err();
    assert!(lost.to_string().contains("was acknowledged, and is not there"), "{lost}");
    let another = crate::tpcc::Receipt::Order { warehouse: 1, district: 3, number: 31, customer: 6, lines: 3 };
    assert!(office.company.check(&office.database, [&another].into_iter()).is_err());
    let payment = crate::tpcc::Receipt::Payment { warehouse: 1, district: 3, terminal: 1, sequence: 1 };
    assert!(office.company.check(&office.database, [&payment].into_iter()).is_err());
    let delivered = |orders: &[(u8, u32)]| {
        let receipt = crate::tpcc::Receipt::Delivery { warehouse: 1, orders: orders.to_vec() };
        office.company.check(&office.database, [&receipt].into_iter()).is_ok()
    };
    assert!(delivered(&[(1, 21), (2, 20)]) && !delivered(&[(1, 21), (2, 22)]), "one of them waits");
    let key = DistrictKey::new(1, 2).order(22);
    let row: Order = office.fetch(&key);
    office.act(|access| access.put(&key, &Order { carrier: 3, ..row }));
    assert!(!delivered(&[(2, 22)]), "it has a carrier and waits all the same");
    office.act(|access| {
        access.put(&key, &row)?;
        access.delete::<NewOrder>(&key)
    });
    assert!(!delivered(&[(2, 22)]), "it does not wait any more and has no carrier");
}
