//! How much there is in a database.

use std::num::NonZero;

/// Districts of a warehouse (clause 1.2.1).
pub(super) const DISTRICTS: u8 = 10;

/// What a customer has paid before anything begins, and what is left of it: the balance is its negative.
pub(super) const FIRST_PAYMENT: i64 = 1000;

/// How many rows a database has beside its warehouses. Only [`Scale::SPECIFICATION`] is to the specification; everything
/// else is for a look at how it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Items, each of which every warehouse has in stock.
    pub items: u32,
    /// Customers of each district, and orders that there are at first: each customer has one.
    pub customers: u32,
    /// The last so many of those orders were not delivered yet.
    pub new_orders: u32,
}

impl Scale {
    /// Clause 1.2.1 and 4.3.3.1: 100,000 items, 3,000 customers and orders a district, 900 of them not delivered.
    pub const SPECIFICATION: Self = Self { items: 100_000, customers: 3000, new_orders: 900 };

    /// So many times smaller, with at least 100 items and ten customers: not to the specification unless that is 1.
    #[must_use]
    pub fn divided(by: NonZero<u32>) -> Self {
        let Self { items, customers, .. } = Self::SPECIFICATION;
        let customers = (customers / by).max(10);
        Self { items: (items / by).max(100), customers, new_orders: customers * 3 / 10 }
    }

    /// Orders of each district that were delivered before anything begins.
    pub(super) fn delivered(self) -> u32 {
        self.customers - self.new_orders
    }

    /// Rows of all tables but those that are there for their keys alone.
    pub fn rows(self, warehouses: u16) -> u64 {
        let districts = u64::from(warehouses) * u64::from(DISTRICTS);
        // District; customer, payment, order and ten lines each; orders that wait.
        let in_districts = 1 + 13 * u64::from(self.customers) + u64::from(self.new_orders);
        u64::from(self.items) * (u64::from(warehouses) + 1) + u64::from(warehouses) + districts * in_districts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_divided_scale_keeps_its_proportions() {
        let by = |by| Scale::divided(NonZero::new(by).unwrap());
        assert_eq!(by(1), Scale::SPECIFICATION);
        assert_eq!(by(10), Scale { items: 10_000, customers: 300, new_orders: 90 });
        assert_eq!(by(1_000_000), Scale { items: 100, customers: 10, new_orders: 3 });
        assert_eq!(Scale::SPECIFICATION.delivered(), 2100);
    }
}
