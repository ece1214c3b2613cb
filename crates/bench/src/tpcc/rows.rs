//! The rows of TPC-C's tables, each a fixed layout that is looked at where it lies (clauses 1.3, 4.2.2).
//!
//! Numbers are little-endian, money counts cents, rates count hundredths of a percent, times count microseconds since 1970,
//! and zero stands for null. Texts are padded with zeros to the longest they may be. What a row's key says is not said
//! again in the row.

use zerocopy::little_endian::{I32, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where somebody or something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Address {
    pub(super) street_1: [u8; 20],
    pub(super) street_2: [u8; 20],
    pub(super) city: [u8; 20],
    pub(super) state: [u8; 2],
    pub(super) zip: [u8; 9],
}

/// A warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Warehouse {
    pub(super) name: [u8; 10],
    pub(super) address: Address,
    pub(super) tax: U16,
    /// All that was ever paid.
    pub(super) ytd: I64,
}

/// One of the ten districts of a warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct District {
    pub(super) name: [u8; 10],
    pub(super) address: Address,
    pub(super) tax: U16,
    pub(super) ytd: I64,
    /// The number of its next order.
    pub(super) next_order: U32,
}

/// Somebody who orders and pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Customer {
    pub(super) first: [u8; 16],
    pub(super) middle: [u8; 2],
    pub(super) last: [u8; 16],
    pub(super) address: Address,
    pub(super) phone: [u8; 16],
    pub(super) since: U64,
    /// `GC` for good credit, `BC` for bad.
    pub(super) credit: [u8; 2],
    pub(super) credit_limit: I64,
    pub(super) discount: U16,
    pub(super) balance: I64,
    pub(super) ytd_payment: I64,
    pub(super) payments: U32,
    pub(super) deliveries: U32,
    pub(super) data: [u8; 500],
}

/// A customer found by name: the key says everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct CustomerByName {}

/// A payment that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct History {
    /// The customer, who may be another warehouse's.
    pub(super) customer_warehouse: U16,
    pub(super) customer_district: u8,
    pub(super) customer: U32,
    pub(super) date: U64,
    pub(super) amount: I64,
    pub(super) data: [u8; 24],
}

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Order {
    pub(super) customer: U32,
    pub(super) entered: U64,
    /// Who delivered it; zero before that.
    pub(super) carrier: u8,
    pub(super) lines: u8,
    /// One if every line comes from the order's own warehouse.
    pub(super) all_local: u8,
}

/// An order of a customer, the latest first: the key says everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct OrderByCustomer {}

/// An order that was not delivered yet: the key says everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct NewOrder {}

/// One line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct OrderLine {
    pub(super) item: U32,
    /// The warehouse whose stock it takes.
    pub(super) supplier: U16,
    /// When it was delivered; zero before that.
    pub(super) delivered: U64,
    pub(super) quantity: u8,
    pub(super) amount: I64,
    pub(super) district_info: [u8; 24],
}

/// Something that can be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Item {
    pub(super) image: U32,
    pub(super) name: [u8; 24],
    pub(super) price: U32,
    pub(super) data: [u8; 50],
}

/// What a warehouse has of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Stock {
    pub(super) quantity: I32,
    /// What is written on a line, by its district.
    pub(super) districts: [[u8; 24]; 10],
    /// Pieces that were ever ordered, in how many lines, and in how many of other warehouses.
    pub(super) ytd: U32,
    pub(super) orders: U32,
    pub(super) remote: U32,
    pub(super) data: [u8; 50],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_long_as_their_columns() {
        assert_eq!(size_of::<Warehouse>(), 10 + 71 + 2 + 8);
        assert_eq!(size_of::<District>(), 10 + 71 + 2 + 8 + 4);
        assert_eq!(size_of::<Customer>(), 16 + 2 + 16 + 71 + 16 + 8 + 2 + 8 + 2 + 8 + 8 + 4 + 4 + 500);
        assert_eq!(size_of::<History>(), 2 + 1 + 4 + 8 + 8 + 24);
        assert_eq!(size_of::<Order>(), 4 + 8 + 1 + 1 + 1);
        assert_eq!(size_of::<OrderLine>(), 4 + 2 + 8 + 1 + 8 + 24);
        assert_eq!(size_of::<Item>(), 4 + 24 + 4 + 50);
        assert_eq!(size_of::<Stock>(), 4 + 240 + 4 + 4 + 4 + 50);
        assert_eq!(size_of::<NewOrder>(), 0);
    }

    #[test]
    fn numbers_lie_little_endian_at_fixed_places() {
        let order = Order { customer: 0x0102_0304.into(), entered: 5.into(), carrier: 6, lines: 7, all_local: 1 };
        assert_eq!(order.as_bytes(), [4, 3, 2, 1, 5, 0, 0, 0, 0, 0, 0, 0, 6, 7, 1]);
        assert_eq!(Order::ref_from_bytes(order.as_bytes()).unwrap(), &order);
        assert!(Order::ref_from_bytes(&order.as_bytes()[1..]).is_err());
    }
}
