//! The rows of TPC-C's tables in SQL: as values that are inserted, and as the numbers that the consistency conditions need.

use zerocopy::FromZeros;

use crate::tpcc::keys::{DistrictKey, ItemKey, StockKey, Stored, WarehouseKey};
use crate::tpcc::rows::{
    Address, Customer, CustomerByName, District, History, Item, NewOrder, Order, OrderByCustomer, OrderLine, Stock,
    Warehouse,
};

/// A table of SQL, and the columns that are asked for, numbers all of them.
pub(in crate::tpcc) struct Place {
    pub(super) table: &'static str,
    /// The key's, by which rows come in order.
    pub(super) key: &'static str,
    /// The others.
    pub(super) others: &'static str,
}

impl Place {
    const fn new(table: &'static str, key: &'static str, others: &'static str) -> Self {
        Self { table, key, others }
    }
}

/// A row that has its place in a table of SQL, or in none, if it is there for its key alone.
pub(in crate::tpcc) trait InSql: Stored {
    /// Where it is.
    const PLACE: Option<Place>;

    /// What is between the brackets of an insert, in the order of the columns.
    fn values(_key: &Self::Key, _row: &Self) -> String {
        String::new()
    }

    /// Of the numbers that were asked for, in their order; zero is what nobody asked for. `None` if they make no row.
    fn told(_numbers: &[i64]) -> Option<(Self::Key, Self)> {
        None
    }
}

impl InSql for CustomerByName {
    const PLACE: Option<Place> = None;
}

impl InSql for OrderByCustomer {
    const PLACE: Option<Place> = None;
}

impl InSql for Warehouse {
    const PLACE: Option<Place> = Some(Place::new("warehouse", "w_id", "w_ytd"));

    fn values(key: &Self::Key, row: &Self) -> String {
        let Self { name, address, tax, ytd } = row;
        format!("{}, '{}', {}, {tax}, {ytd}", key.warehouse, text(name), whole(address))
    }

    fn told(numbers: &[i64]) -> Option<(Self::Key, Self)> {
        let &[warehouse, ytd] = numbers else { return None };
        let row = Self { ytd: ytd.into(), ..Self::new_zeroed() };
        Some((WarehouseKey::new(warehouse.try_into().ok()?), row))
    }
}

impl InSql for District {
    const PLACE: Option<Place> = Some(Place::new("district", "d_w_id, d_id", "d_ytd, d_next_o_id"));

    fn values(key: &Self::Key, row: &Self) -> String {
        let Self { name, address, tax, ytd, next_order } = row;
        format!("{}, '{}', {}, {tax}, {ytd}, {next_order}", district(*key), text(name), whole(address))
    }

    fn told(numbers: &[i64]) -> Option<(Self::Key, Self)> {
        let &[warehouse, district, ytd, next] = numbers else { return None };
        let row = Self { ytd: ytd.into(), next_order: u32::try_from(next).ok()?.into(), ..Self::new_zeroed() };
        Some((district_key(warehouse, district)?, row))
    }
}

impl InSql for Customer {
    const PLACE: Option<Place> =
        Some(Place::new("customer", "c_w_id, c_d_id, c_id", "c_balance, c_ytd_payment, c_delivery_cnt"));

    fn values(key: &Self::Key, row: &Self) -> String {
        format!(
            "{}, {}, '{}', '{}', '{}', {}, '{}', {}, '{}', {}, {}, {}, {}, {}, {}, '{}'",
            district(key.district),
            key.customer,
            text(&row.first),
            text(&row.middle),
            text(&row.last),
            whole(&row.address),
            text(&row.phone),
            row.since,
            text(&row.credit),
            row.credit_limit,
            row.discount,
            row.balance,
            row.ytd_payment,
            row.payments,
            row.deliveries,
            text(&row.data),
        )
    }

    fn told(numbers: &[i64]) -> Option<(Self::Key, Self)> {
        let &[warehouse, district, customer, balance, ytd_payment, deliveries] = numbers else { return None };
        let row = Self {
            balance: balance.into(),
            ytd_payment: ytd_payment.into(),
            deliveries: u32::try_from(deliveries).ok()?.into(),
            ..Self::new_zeroed()
        };
        Some((district_key(warehouse, district)?.customer(customer.try_into().ok()?), row))
    }
}

impl InSql for History {
    const PLACE: Option<Place> =
        Some(Place::new("history", "h_w_id, h_d_id, h_terminal, h_sequence", "h_c_w_id, h_c_d_id, h_c_id, h_amount"));

    fn values(key: &Self::Key, row: &Self) -> String {
        format!(
            "{}, {}, {}, {}, {}, {}, {}, {}, '{}'",
            district(key.district),
            key.terminal,
            key.sequence,
            row.customer_warehouse,
            row.customer_district,
            row.customer,
            row.date,
            row.amount,
            text(&row.data),
        )
    }

    fn told(numbers: &[i64]) -> Option<(Self::Key, Self)> {
        let &[warehouse, district, terminal, sequence, home, home_district, customer, amount] = numbers else {
            return None;
        };
        let row = Self {
            customer_warehouse: u16::try_from(home).ok()?.into(),
            customer_district: home_district.try_into().ok()?,
            customer: u32::try_from(customer).ok()?.into(),
            amount: amount.into(),
            ..Self::new_zeroed()
        };
        let (terminal, sequence) = (terminal.try_into().ok()?, sequence.try_into().ok()?);
        Some((district_key(warehouse, district)?.payment(terminal, sequence), row))
    }
}

impl InSql for Order {
    const PLACE: Option<Place> =
        Some(Place::new("orders", "o_w_id, o_d_id, o_id", "o_c_id, coalesce(o_carrier_id, 0), o_ol_cnt"));

    fn values(key: &Self::Key, row: &Self) -> String {
        format!(
            "{}, {}, {}, {}, {}, {}, {}",
            district(key.district),
            key.order,
            row.customer,
            row.entered,
            or_null(u64::from(row.carrier)),
            row.lines,
            row.all_local
        )
    }

    fn told(numbers: &[i64]) -> Option<(Self::Key, Self)> {
        let &[warehouse, district, order, customer, carrier, lines] = numbers else { return None };
        let row = Self {
            customer: u32::try_from(customer).ok()?.into(),
            carrier: carrier.try_into().ok()?,
            lines: lines.try_into().ok()?,
            ..Self::new_zeroed()
        };
        Some((district_key(warehouse, district)?.order(order.try_into().ok()?), row))
    }
}

impl InSql for NewOrder {
    const PLACE: Option<Place> = Some(Place::new("new_order", "no_w_id, no_d_id, no_o_id", ""));

    fn values(key: &Self::Key, _: &Self) -> String {
        format!("{}, {}", district(key.district), key.order)
    }

    fn told(numbers: &[i64]) -> Option<(Self::Key, Self)> {
        let &[warehouse, district, order] = numbers else { return None };
        Some((district_key(warehouse, district)?.order(order.try_into().ok()?), Self {}))
    }
}

impl InSql for OrderLine {
    const PLACE: Option<Place> = Some(Place::new(
        "order_line",
        "ol_w_id, ol_d_id, ol_o_id, ol_number",
        "ol_i_id, ol_supply_w_id, coalesce(ol_delivery_d, 0), ol_quantity, ol_amount",
    ));

    fn values(key: &Self::Key, row: &Self) -> String {
        format!(
            "{}, {}, {}, {}, {}, {}, {}, {}, '{}'",
            district(key.order.district),
            key.order.order,
            key.line,
            row.item,
            row.supplier,
            or_null(row.delivered.get()),
            row.quantity,
            row.amount,
            text(&row.district_info)
        )
    }

    fn told(numbers: &[i64]) -> Option<(Self::Key, Self)> {
        let &[warehouse, district, order, line, item, supplier, delivered, quantity, amount] = numbers else {
            return None;
        };
        let row = Self {
            item: u32::try_from(item).ok()?.into(),
            supplier: u16::try_from(supplier).ok()?.into(),
            delivered: u64::try_from(delivered).ok()?.into(),
            quantity: quantity.try_into().ok()?,
            amount: amount.into(),
            ..Self::new_zeroed()
        };
        let order = district_key(warehouse, district)?.order(order.try_into().ok()?);
        Some((order.line(line.try_into().ok()?), row))
    }
}

impl InSql for Item {
    const PLACE: Option<Place> = Some(Place::new("item", "i_id", ""));

    fn values(key: &Self::Key, row: &Self) -> String {
        format!("{}, {}, '{}', {}, '{}'", key.item, row.image, text(&row.name), row.price, text(&row.data))
    }

    fn told(numbers: &[i64]) -> Option<(Self::Key, Self)> {
        let &[item] = numbers else { return None };
        Some((ItemKey::new(item.try_into().ok()?), Self::new_zeroed()))
    }
}

impl InSql for Stock {
    const PLACE: Option<Place> =
        Some(Place::new("stock", "s_w_id, s_i_id", "s_quantity, s_ytd, s_order_cnt, s_remote_cnt"));

    fn values(key: &Self::Key, row: &Self) -> String {
        let districts: Vec<String> = row.districts.iter().map(|info| format!("'{}'", text(info))).collect();
        let (districts, data) = (districts.join(", "), text(&row.data));
        let Self { quantity, ytd, orders, remote, .. } = row;
        format!("{}, {}, {quantity}, {districts}, {ytd}, {orders}, {remote}, '{data}'", key.warehouse, key.item)
    }

    fn told(numbers: &[i64]) -> Option<(Self::Key, Self)> {
        let &[warehouse, item, quantity, ytd, orders, remote] = numbers else { return None };
        let row = Self {
            quantity: i32::try_from(quantity).ok()?.into(),
            ytd: u32::try_from(ytd).ok()?.into(),
            orders: u32::try_from(orders).ok()?.into(),
            remote: u32::try_from(remote).ok()?.into(),
            ..Self::new_zeroed()
        };
        Some((StockKey::new(warehouse.try_into().ok()?, item.try_into().ok()?), row))
    }
}

/// Letters and digits without the zeros behind them; nothing in them has a meaning in SQL.
pub(super) fn text(padded: &[u8]) -> &str {
    let length = padded.iter().position(|&letter| letter == 0).unwrap_or(padded.len());
    std::str::from_utf8(&padded[..length]).unwrap_or_default()
}

fn whole(address: &Address) -> String {
    let Address { street_1, street_2, city, state, zip } = address;
    let parts = [text(street_1), text(street_2), text(city), text(state), text(zip)];
    format!("'{}'", parts.join("', '"))
}

fn or_null(number: u64) -> String {
    if number == 0 { "null".to_owned() } else { number.to_string() }
}

fn district(key: DistrictKey) -> String {
    format!("{}, {}", key.warehouse, key.district)
}

fn district_key(warehouse: i64, district: i64) -> Option<DistrictKey> {
    Some(DistrictKey::new(warehouse.try_into().ok()?, district.try_into().ok()?))
}
