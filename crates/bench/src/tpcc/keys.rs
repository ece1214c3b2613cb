//! The keys of TPC-C's tables: big-endian, so that their bytes are in the order of what they say.
//!
//! A table and its rows' type are one: [`Stored`] says which table a row lies in and what its key is. Three tables are
//! there for their keys alone, as other ways to rows: customers by name, a customer's orders with the latest first, and
//! orders that wait for their delivery with the oldest first.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::rows;

/// Something of a fixed layout without alignment, which can be looked at where it lies.
pub(super) trait Fixed: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + Copy {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + Copy> Fixed for T {}

/// A row of one of the tables.
pub(super) trait Stored: Fixed {
    /// Under which it lies.
    type Key: Fixed + std::fmt::Debug;
    /// The table's name.
    const TABLE: Table;
}

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Warehouse,
    District,
    Customer,
    CustomerByName,
    History,
    Order,
    OrderByCustomer,
    NewOrder,
    OrderLine,
    Item,
    Stock,
}

impl Table {
    pub(super) const ALL: [Self; 11] = [
        Self::Warehouse,
        Self::District,
        Self::Customer,
        Self::CustomerByName,
        Self::History,
        Self::Order,
        Self::OrderByCustomer,
        Self::NewOrder,
        Self::OrderLine,
        Self::Item,
        Self::Stock,
    ];

    /// Its name in the database.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Warehouse => "warehouse",
            Self::District => "district",
            Self::Customer => "customer",
            Self::CustomerByName => "customer_by_name",
            Self::History => "history",
            Self::Order => "order",
            Self::OrderByCustomer => "order_by_customer",
            Self::NewOrder => "new_order",
            Self::OrderLine => "order_line",
            Self::Item => "item",
            Self::Stock => "stock",
        }
    }
}

/// A warehouse, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct WarehouseKey {
    pub(super) warehouse: U16,
}

/// A district, from 1 to 10 in each warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct DistrictKey {
    pub(super) warehouse: U16,
    pub(super) district: u8,
}

/// A customer, from 1 in each district.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct CustomerKey {
    pub(super) district: DistrictKey,
    pub(super) customer: U32,
}

/// A customer by last name, and those of one last name by first name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct NameKey {
    pub(super) district: DistrictKey,
    pub(super) last: [u8; 16],
    pub(super) first: [u8; 16],
    pub(super) customer: U32,
}

/// A payment: by whom it was taken, and their how manieth it is. The specification has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct HistoryKey {
    /// Where it was paid.
    pub(super) district: DistrictKey,
    pub(super) terminal: U32,
    pub(super) sequence: U64,
}

/// An order, or one that was not delivered yet; from 1 in each district.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct OrderKey {
    pub(super) district: DistrictKey,
    pub(super) order: U32,
}

/// An order of a customer, the latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct CustomerOrderKey {
    pub(super) customer: CustomerKey,
    /// All bits of its number inverted.
    inverted: U32,
}

/// A line of an order, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct LineKey {
    pub(super) order: OrderKey,
    pub(super) line: u8,
}

/// An item, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct ItemKey {
    pub(super) item: U32,
}

/// An item in a warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct StockKey {
    pub(super) warehouse: U16,
    pub(super) item: U32,
}

impl WarehouseKey {
    pub(super) fn new(warehouse: u16) -> Self {
        Self { warehouse: warehouse.into() }
    }
}

impl DistrictKey {
    pub(super) fn new(warehouse: u16, district: u8) -> Self {
        Self { warehouse: warehouse.into(), district }
    }

    pub(super) fn customer(self, customer: u32) -> CustomerKey {
        CustomerKey { district: self, customer: customer.into() }
    }

    pub(super) fn order(self, order: u32) -> OrderKey {
        OrderKey { district: self, order: order.into() }
    }

    pub(super) fn payment(self, terminal: u32, sequence: u64) -> HistoryKey {
        HistoryKey { district: self, terminal: terminal.into(), sequence: sequence.into() }
    }
}

impl CustomerKey {
    /// One of the customer's orders.
    pub(super) fn order(self, order: u32) -> CustomerOrderKey {
        CustomerOrderKey { customer: self, inverted: (!order).into() }
    }
}

impl CustomerOrderKey {
    /// The order's number.
    pub(super) fn order(&self) -> u32 {
        !self.inverted.get()
    }
}

impl OrderKey {
    pub(super) fn line(self, line: u8) -> LineKey {
        LineKey { order: self, line }
    }
}

impl ItemKey {
    pub(super) fn new(item: u32) -> Self {
        Self { item: item.into() }
    }
}

impl StockKey {
    pub(super) fn new(warehouse: u16, item: u32) -> Self {
        Self { warehouse: warehouse.into(), item: item.into() }
    }
}

macro_rules! stored {
    ($($row:ident under $key:ident),* $(,)?) => {
        $(impl Stored for rows::$row {
            type Key = $key;
            const TABLE: Table = Table::$row;
        })*
    };
}

stored! {
    Warehouse under WarehouseKey,
    District under DistrictKey,
    Customer under CustomerKey,
    CustomerByName under NameKey,
    History under HistoryKey,
    Order under OrderKey,
    OrderByCustomer under CustomerOrderKey,
    NewOrder under OrderKey,
    OrderLine under LineKey,
    Item under ItemKey,
    Stock under StockKey,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_what_they_say() {
        let districts = [(1, 1), (1, 2), (1, 10), (2, 1), (255, 9), (256, 1)];
        let keys: Vec<_> =
            districts.iter().map(|&(warehouse, district)| DistrictKey::new(warehouse, district)).collect();
        assert!(keys.windows(2).all(|pair| pair[0].as_bytes() < pair[1].as_bytes()));
        let lines = [(1, 1), (1, 15), (2, 1), (256, 3), (70_000, 1)];
        let keys: Vec<_> = lines.iter().map(|&(order, line)| keys[0].order(order).line(line)).collect();
        assert!(keys.windows(2).all(|pair| pair[0].as_bytes() < pair[1].as_bytes()));
    }

    #[test]
    fn of_a_customers_orders_the_latest_comes_first() {
        let customer = DistrictKey::new(1, 1).customer(7);
        let keys: Vec<_> = [70_000, 256, 2, 1].map(|order| customer.order(order)).into();
        assert!(keys.windows(2).all(|pair| pair[0].as_bytes() < pair[1].as_bytes()));
        assert_eq!(keys[0].order(), 70_000);
    }

    #[test]
    fn every_table_has_a_name_of_its_own_at_its_place() {
        for (place, table) in Table::ALL.into_iter().enumerate() {
            assert_eq!(table as usize, place);
            assert_eq!(Table::ALL.iter().filter(|other| other.name() == table.name()).count(), 1);
        }
    }
}
