//! What the tables hold at one moment, added up as far as the consistency conditions need it.

use super::access::Access;
use super::keys::{DistrictKey, OrderKey, StockKey};
use super::rows::{Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, Warehouse};
use super::scale::{DISTRICTS, Scale};
use super::sql::InSql;
use crate::oltp::Stop;

/// Where tables are read.
pub(super) trait Source {
    /// Shows all rows of a table in the order of their keys.
    fn each<R: InSql>(&mut self, visit: impl FnMut(&R::Key, &R)) -> Result<(), Stop>;
}

impl Source for Access<'_> {
    fn each<R: InSql>(&mut self, visit: impl FnMut(&R::Key, &R)) -> Result<(), Stop> {
        self.scan_all(visit)
    }
}

/// A company's tables, added up.
#[derive(Clone, Debug)]
pub(super) struct Books {
    pub(super) scale: Scale,
    pub(super) warehouses: Vec<OfWarehouse>,
    pub(super) items: u32,
    /// What a company can not have, such as a customer without a district.
    pub(super) oddities: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct OfWarehouse {
    /// `None` if the warehouse is not there.
    pub(super) ytd: Option<i64>,
    pub(super) districts: Vec<OfDistrict>,
    /// By item: what the stock's row says, and what the orders' lines say since the beginning.
    pub(super) stock: Vec<[Ordered; 2]>,
    pub(super) stocked: u32,
}

/// Pieces, lines, and lines of other warehouses' orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ordered {
    pub(super) pieces: u32,
    pub(super) lines: u32,
    pub(super) remote: u32,
}

#[derive(Clone, Debug)]
pub(super) struct OfDistrict {
    pub(super) key: DistrictKey,
    pub(super) there: bool,
    pub(super) ytd: i64,
    pub(super) next_order: u32,
    /// The sum of what was paid here.
    pub(super) paid: i64,
    pub(super) customers: Vec<OfCustomer>,
    /// In the order of their numbers.
    pub(super) orders: Vec<OfOrder>,
    /// Numbers of orders that wait, in order.
    pub(super) waiting: Vec<u32>,
    pub(super) lines: u64,
    /// A line whose order is not there.
    pub(super) stray_line: Option<u32>,
    /// The order that the last line belonged to, by its place.
    cursor: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfCustomer {
    pub(super) there: bool,
    pub(super) balance: i64,
    pub(super) ytd_payment: i64,
    pub(super) deliveries: u32,
    /// The sum of what the customer paid, by the payments.
    pub(super) paid: i64,
    /// The sum of the lines that were delivered to the customer.
    pub(super) delivered: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OfOrder {
    pub(super) number: u32,
    pub(super) customer: u32,
    pub(super) carrier: u8,
    /// How many lines it says that it has, how many there are, and how many of those are delivered.
    pub(super) lines: u8,
    pub(super) found: u32,
    pub(super) delivered: u32,
}

impl Books {
    /// Reads all tables.
    pub(super) fn read(source: &mut impl Source, scale: Scale, warehouses: u16) -> Result<Self, Stop> {
        let mut books = Self::empty(scale, warehouses);
        let mut odd = Vec::new();
        source.each(|key, row: &Warehouse| match books.warehouse(key.warehouse.get()) {
            Some(warehouse) => warehouse.ytd = Some(row.ytd.get()),
            None => odd.push(format!("there is a warehouse {}", key.warehouse)),
        })?;
        source.each(|key, row: &District| match books.district(*key) {
            Some(district) => {
                district.there = true;
                district.ytd = row.ytd.get();
                district.next_order = row.next_order.get();
            }
            None => odd.push(format!("there is {key:?}")),
        })?;
        source.each(|key, row: &Customer| match books.customer(key.district, key.customer.get()) {
            Some(customer) => {
                customer.there = true;
                customer.balance = row.balance.get();
                customer.ytd_payment = row.ytd_payment.get();
                customer.deliveries = row.deliveries.get();
            }
            None => odd.push(format!("there is {key:?}")),
        })?;
        source.each(|key, row: &History| {
            let amount = row.amount.get();
            let home = DistrictKey::new(row.customer_warehouse.get(), row.customer_district);
            let known = books.district(key.district).map(|district| district.paid += amount);
            let known = known.and_then(|()| books.customer(home, row.customer.get()));
            match known {
                Some(customer) => customer.paid += amount,
                None => odd.push(format!("{key:?} was paid by nobody, or nowhere")),
            }
        })?;
        books.read_orders(source, &mut odd)?;
        books.read_stock(source, &mut odd)?;
        books.oddities = odd;
        Ok(books)
    }

    fn empty(scale: Scale, warehouses: u16) -> Self {
        let district = |key| OfDistrict {
            key,
            there: false,
            ytd: 0,
            next_order: 0,
            paid: 0,
            customers: vec![OfCustomer::default(); scale.customers as usize],
            orders: Vec::new(),
            waiting: Vec::new(),
            lines: 0,
            stray_line: None,
            cursor: 0,
        };
        let warehouse = |number| OfWarehouse {
            ytd: None,
            districts: (1..=DISTRICTS).map(|place| district(DistrictKey::new(number, place))).collect(),
            stock: vec![[Ordered::default(); 2]; scale.items as usize],
            stocked: 0,
        };
        Self { scale, warehouses: (1..=warehouses).map(warehouse).collect(), items: 0, oddities: Vec::new() }
    }

    fn read_orders(&mut self, source: &mut impl Source, odd: &mut Vec<String>) -> Result<(), Stop> {
        source.each(|key, row: &Order| match self.district(key.district) {
            Some(district) => district.orders.push(OfOrder {
                number: key.order.get(),
                customer: row.customer.get(),
                carrier: row.carrier,
                lines: row.lines,
                found: 0,
                delivered: 0,
            }),
            None => odd.push(format!("there is {key:?}")),
        })?;
        source.each(|key, _: &NewOrder| match self.district(key.district) {
            Some(district) => district.waiting.push(key.order.get()),
            None => odd.push(format!("{key:?} waits")),
        })?;
        source.each(|key, row: &OrderLine| {
            if let Some(reason) = self.take_line(key.order, row) {
                odd.push(reason);
            }
        })
    }

    /// A line, which comes in the order of the keys. Says what about it can not be.
    fn take_line(&mut self, key: OrderKey, row: &OrderLine) -> Option<String> {
        let (number, loaded) = (key.order.get(), self.scale.customers);
        let Some(district) = self.district(key.district) else { return Some(format!("there is a line of {key:?}")) };
        district.lines += 1;
        while district.orders.get(district.cursor).is_some_and(|order| order.number < number) {
            district.cursor += 1;
        }
        let order = district.orders.get_mut(district.cursor).filter(|order| order.number == number);
        let Some(order) = order else {
            district.stray_line.get_or_insert(number);
            return None;
        };
        order.found += 1;
        let customer = order.customer;
        if row.delivered.get() != 0 {
            order.delivered += 1;
            match self.customer(key.district, customer) {
                Some(customer) => customer.delivered += row.amount.get(),
                None => return Some(format!("{key:?} was ordered by {customer}, whom nobody knows")),
            }
        }
        if number > loaded {
            let (home, supplier) = (key.district.warehouse.get(), row.supplier.get());
            let Some([_, ordered]) = self.stock(StockKey::new(supplier, row.item.get())) else {
                return Some(format!("{key:?} has {row:?}, which nobody has in stock"));
            };
            ordered.pieces += u32::from(row.quantity);
            ordered.lines += 1;
            ordered.remote += u32::from(supplier != home);
        }
        None
    }

    fn read_stock(&mut self, source: &mut impl Source, odd: &mut Vec<String>) -> Result<(), Stop> {
        let mut items = 0;
        source.each(|_, _: &Item| items += 1)?;
        self.items = items;
        source.each(|key, row: &Stock| {
            let Some([said, _]) = self.stock(*key) else {
                odd.push(format!("there is {key:?}"));
                return;
            };
            *said = Ordered { pieces: row.ytd.get(), lines: row.orders.get(), remote: row.remote.get() };
            if !(0..=100).contains(&row.quantity.get()) {
                odd.push(format!("{key:?} has {} pieces", row.quantity));
            }
            if let Some(warehouse) = self.warehouse(key.warehouse.get()) {
                warehouse.stocked += 1;
            }
        })
    }

    fn warehouse(&mut self, number: u16) -> Option<&mut OfWarehouse> {
        self.warehouses.get_mut(usize::from(number).checked_sub(1)?)
    }

    fn district(&mut self, key: DistrictKey) -> Option<&mut OfDistrict> {
        let place = usize::from(key.district).checked_sub(1)?;
        self.warehouse(key.warehouse.get())?.districts.get_mut(place)
    }

    fn customer(&mut self, district: DistrictKey, number: u32) -> Option<&mut OfCustomer> {
        self.district(district)?.customers.get_mut((number as usize).checked_sub(1)?)
    }

    fn stock(&mut self, key: StockKey) -> Option<&mut [Ordered; 2]> {
        self.warehouse(key.warehouse.get())?.stock.get_mut((key.item.get() as usize).checked_sub(1)?)
    }

    /// All districts.
    pub(super) fn districts(&self) -> impl Iterator<Item = &OfDistrict> {
        self.warehouses.iter().flat_map(|warehouse| &warehouse.districts)
    }

    /// Orders that were taken since the beginning, by the districts' counters; lines and pieces of them, by the stock.
    pub(super) fn taken(&self) -> (u64, u64, u64) {
        let first = self.scale.customers + 1;
        let orders = self.districts().map(|district| u64::from(district.next_order.saturating_sub(first))).sum();
        let stock = || self.warehouses.iter().flat_map(|warehouse| warehouse.stock.iter().map(|[said, _]| said));
        let sum = |pick: fn(&Ordered) -> u32| stock().map(|said| u64::from(pick(said))).sum();
        (orders, sum(|said| said.lines), sum(|said| said.pieces))
    }
}

impl OfDistrict {
    /// As a person calls it.
    pub(super) fn name(&self) -> String {
        format!("district {} of warehouse {}", self.key.district, self.key.warehouse)
    }
}
