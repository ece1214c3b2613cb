//! New-Order: a customer orders 5 to 15 items (clause 2.4).

use std::hint::black_box;

use smallvec::SmallVec;

use super::access::Access;
use super::draw::is_original;
use super::keys::{CustomerKey, DistrictKey, ItemKey, StockKey, WarehouseKey};
use super::rows::{Customer, District, Item, NewOrder, Order, OrderByCustomer, OrderLine, Stock, Warehouse};
use crate::oltp::Stop;

/// What is ordered.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) district: DistrictKey,
    pub(super) customer: u32,
    pub(super) lines: SmallVec<[Wanted; 15]>,
    pub(super) now: u64,
}

/// A line of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) item: u32,
    pub(super) supplier: u16,
    pub(super) quantity: u8,
}

/// What the customer is told.
#[allow(dead_code, reason = "a terminal would show it; what is measured includes making it")]
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) number: u32,
    /// In cents, with taxes and discount.
    pub(super) total: i64,
    pub(super) last: [u8; 16],
    pub(super) credit: [u8; 2],
    pub(super) lines: SmallVec<[Line; 15]>,
}

/// A line of it.
#[allow(dead_code, reason = "a terminal would show it; what is measured includes making it")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) name: [u8; 24],
    pub(super) price: u32,
    pub(super) amount: i64,
    pub(super) stock: i32,
    /// `B` for brand if both item and stock are original, else `G` for generic.
    pub(super) brand: u8,
}

/// Places the order; `None` if an item does not exist, for which everything is to be taken back.
pub(super) fn run(access: &mut Access<'_>, input: &Input, inserts: bool) -> Result<Option<Placed>, Stop> {
    let home = input.district.warehouse.get();
    access.prefetch::<Item>(input.lines.iter().map(|wanted| ItemKey::new(wanted.item)));
    access.prefetch::<Stock>(input.lines.iter().map(|wanted| StockKey::new(wanted.supplier, wanted.item)));
    let warehouse_tax = access.look(&WarehouseKey::new(home), |row: &Warehouse| row.tax.get())?;
    let mut district: District = access.fetch(&input.district)?;
    let number = district.next_order.get();
    district.next_order = (number + 1).into();
    access.put(&input.district, &district)?;
    let customer = input.district.customer(input.customer);
    let (discount, last, credit) =
        access.look(&customer, |row: &Customer| (row.discount.get(), row.last, row.credit))?;

    enter(access, input, customer, number, inserts)?;
    let (mut sum, mut lines) = (0, SmallVec::new());
    for (place, wanted) in (1..).zip(&input.lines) {
        let Some(line) = order_line(access, input, number, place, *wanted, inserts)? else { return Ok(None) };
        sum += line.amount;
        lines.push(line);
    }
    let tax = i64::from(warehouse_tax) + i64::from(district.tax.get());
    let total = sum * (10_000 - i64::from(discount)) * (10_000 + tax) / 100_000_000;
    Ok(Some(Placed { number, total, last, credit, lines }))
}

/// Inserts the order and that it waits for its delivery.
fn enter(
    access: &mut Access<'_>,
    input: &Input,
    customer: CustomerKey,
    number: u32,
    inserts: bool,
) -> Result<(), Stop> {
    let home = input.district.warehouse.get();
    let order = Order {
        customer: input.customer.into(),
        entered: input.now.into(),
        carrier: 0,
        lines: input.lines.len() as u8,
        all_local: u8::from(input.lines.iter().all(|wanted| wanted.supplier == home)),
    };
    let key = input.district.order(number);
    if !inserts {
        black_box((key, order));
        return Ok(());
    }
    access.insert(&key, &NewOrder {})?;
    access.insert(&key, &order)?;
    access.insert(&customer.order(number), &OrderByCustomer {})
}

/// Takes one item from stock and inserts its line; `None` if there is no such item.
fn order_line(
    access: &mut Access<'_>,
    input: &Input,
    number: u32,
    place: u8,
    wanted: Wanted,
    inserts: bool,
) -> Result<Option<Line>, Stop> {
    let found =
        access.find(&ItemKey::new(wanted.item), |row: &Item| (row.price.get(), row.name, is_original(&row.data)))?;
    let Some((price, name, original)) = found else { return Ok(None) };
    let stock_key = StockKey::new(wanted.supplier, wanted.item);
    let mut stock: Stock = access.fetch(&stock_key)?;
    take(&mut stock, wanted.quantity, wanted.supplier != input.district.warehouse.get());
    access.put(&stock_key, &stock)?;

    let amount = i64::from(price) * i64::from(wanted.quantity);
    let line = OrderLine {
        item: wanted.item.into(),
        supplier: wanted.supplier.into(),
        delivered: 0.into(),
        quantity: wanted.quantity,
        amount: amount.into(),
        district_info: stock.districts[usize::from(input.district.district - 1)],
    };
    let key = input.district.order(number).line(place);
    if inserts {
        access.insert(&key, &line)?;
    } else {
        black_box((key, line));
    }
    let brand = if original && is_original(&stock.data) { b'B' } else { b'G' };
    Ok(Some(Line { name, price, amount, stock: stock.quantity.get(), brand }))
}

/// What is ordered leaves the stock, which is filled up before fewer than ten would be left.
fn take(stock: &mut Stock, quantity: u8, remote: bool) {
    let (left, quantity) = (stock.quantity.get(), i32::from(quantity));
    let left = if left >= quantity + 10 { left - quantity } else { left - quantity + 91 };
    stock.quantity = left.into();
    stock.ytd += quantity as u32;
    stock.orders += 1;
    stock.remote += u32::from(remote);
}
