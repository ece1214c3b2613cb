//! The initial population (clause 4.3.3.1).
//!
//! It is made of parts: the items, and of each warehouse its stock and each of its districts. Threads take part after part;
//! each part has a seed of its own, so what comes out depends on the database's seed and not on who was faster. A part's
//! rows are committed some at a time.

use fastrand::Rng;
use ishigaki_base::random::Seed;
use ishigaki_txn::Database;
use zerocopy::IntoBytes;

use super::access::Tables;
use super::clock;
use super::draw::{Constants, LAST_NAMES, digits, last_name, letters, original, padded};
use super::inputs::LINES;
use super::keys::{DistrictKey, ItemKey, NameKey, StockKey, WarehouseKey};
use super::rows::{
    Address, Customer, CustomerByName, District, History, Item, NewOrder, Order, OrderByCustomer, OrderLine, Stock,
    Warehouse,
};
use super::scale::{DISTRICTS, FIRST_PAYMENT, Scale};
use super::sql::InSql;
use crate::oltp::{Batch, Stop, fill};

/// The terminal that the initial payments count as taken by.
const LOADER: u32 = u32::MAX;

/// Where rows go.
pub(super) trait Sink {
    /// Adds a row whose key nobody has.
    fn add<R: InSql>(&mut self, key: &R::Key, row: &R) -> Result<(), Stop>;
}

/// Tables of the transaction engine.
struct ToTables<'a, 'b> {
    batch: &'a mut Batch<'b>,
    tables: &'a Tables,
}

impl Sink for ToTables<'_, '_> {
    fn add<R: InSql>(&mut self, key: &R::Key, row: &R) -> Result<(), Stop> {
        self.batch.add(self.tables.id(R::TABLE), key.as_bytes(), row.as_bytes())
    }
}

/// What one thread does at a time.
#[derive(Clone, Copy, Debug)]
enum Part {
    Items,
    Stock(u16),
    District(DistrictKey),
}

/// Makes and fills the tables. `tell` hears how many of how many parts are done.
pub(super) fn populate(
    database: &Database,
    scale: Scale,
    warehouses: u16,
    seed: Seed,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<(), Stop> {
    let tables = Tables::create(database)?;
    let parts = parts(warehouses);
    let load = |number: usize, batch: &mut Batch<'_>| {
        let mut sink = ToTables { batch, tables: &tables };
        Loader::new(&mut sink, scale, seed, number).load(parts[number])
    };
    fill(database, parts.len(), load, tell)
}

/// Gives the rows of all tables, part after part.
pub(super) fn pour(sink: &mut impl Sink, scale: Scale, warehouses: u16, seed: Seed) -> Result<(), Stop> {
    let mut parts = parts(warehouses).into_iter().enumerate();
    parts.try_for_each(|(number, part)| Loader::new(sink, scale, seed, number).load(part))
}

fn parts(warehouses: u16) -> Vec<Part> {
    let mut parts = vec![Part::Items];
    for warehouse in 1..=warehouses {
        parts.push(Part::Stock(warehouse));
        parts.extend((1..=DISTRICTS).map(|district| Part::District(DistrictKey::new(warehouse, district))));
    }
    parts
}

/// The constants that a database of that seed is filled with.
pub(super) fn constants(seed: Seed) -> Constants {
    Constants::load(&mut seed.generator())
}

/// Fills one part.
struct Loader<'a, S> {
    sink: &'a mut S,
    random: Rng,
    scale: Scale,
    constants: Constants,
    now: u64,
}

impl<'a, S: Sink> Loader<'a, S> {
    /// For the part of that number.
    fn new(sink: &'a mut S, scale: Scale, seed: Seed, number: usize) -> Self {
        let random = seed.derive(number as u64).generator();
        Self { sink, random, scale, constants: constants(seed), now: clock::now() }
    }

    fn load(&mut self, part: Part) -> Result<(), Stop> {
        match part {
            Part::Items => self.load_items(),
            Part::Stock(warehouse) => self.load_stock(warehouse),
            Part::District(district) => {
                self.load_district(district)?;
                self.load_customers(district)?;
                self.load_orders(district)
            }
        }
    }

    fn add<R: InSql>(&mut self, key: &R::Key, row: &R) -> Result<(), Stop> {
        self.sink.add(key, row)
    }

    fn load_items(&mut self) -> Result<(), Stop> {
        for item in 1..=self.scale.items {
            let random = &mut self.random;
            let row = Item {
                image: random.u32(1..=10_000).into(),
                name: letters(random, 14),
                price: random.u32(100..=10_000).into(),
                data: original(random),
            };
            self.add(&ItemKey::new(item), &row)?;
        }
        Ok(())
    }

    fn load_stock(&mut self, warehouse: u16) -> Result<(), Stop> {
        let paid = i64::from(DISTRICTS) * i64::from(self.scale.customers) * FIRST_PAYMENT;
        let random = &mut self.random;
        let row = Warehouse {
            name: letters(random, 6),
            address: address(random),
            tax: random.u16(0..=2000).into(),
            ytd: paid.into(),
        };
        self.add(&WarehouseKey::new(warehouse), &row)?;
        for item in 1..=self.scale.items {
            let random = &mut self.random;
            let row = Stock {
                quantity: random.i32(10..=100).into(),
                districts: std::array::from_fn(|_| letters(random, 24)),
                ytd: 0.into(),
                orders: 0.into(),
                remote: 0.into(),
                data: original(random),
            };
            self.add(&StockKey::new(warehouse, item), &row)?;
        }
        Ok(())
    }

    fn load_district(&mut self, district: DistrictKey) -> Result<(), Stop> {
        let random = &mut self.random;
        let row = District {
            name: letters(random, 6),
            address: address(random),
            tax: random.u16(0..=2000).into(),
            ytd: (i64::from(self.scale.customers) * FIRST_PAYMENT).into(),
            next_order: (self.scale.customers + 1).into(),
        };
        self.add(&district, &row)
    }

    fn load_customers(&mut self, district: DistrictKey) -> Result<(), Stop> {
        for customer in 1..=self.scale.customers {
            // The first thousand have all names, the others some more often.
            let name = if customer <= LAST_NAMES {
                customer - 1
            } else {
                self.constants.draw_last_name(self.scale, &mut self.random)
            };
            let random = &mut self.random;
            let row = Customer {
                first: letters(random, 8),
                middle: *b"OE",
                last: last_name(name),
                address: address(random),
                phone: digits(random),
                since: self.now.into(),
                credit: if random.u8(0..10) == 0 { *b"BC" } else { *b"GC" },
                credit_limit: 5_000_000.into(),
                discount: random.u16(0..=5000).into(),
                balance: (-FIRST_PAYMENT).into(),
                ytd_payment: FIRST_PAYMENT.into(),
                payments: 1.into(),
                deliveries: 0.into(),
                data: letters(random, 300),
            };
            let payment = History {
                customer_warehouse: district.warehouse.get().into(),
                customer_district: district.district,
                customer: customer.into(),
                date: self.now.into(),
                amount: FIRST_PAYMENT.into(),
                data: letters(random, 12),
            };
            let name = NameKey { district, last: row.last, first: row.first, customer: customer.into() };
            self.add(&district.customer(customer), &row)?;
            self.add(&name, &CustomerByName {})?;
            self.add(&district.payment(LOADER, customer.into()), &payment)?;
        }
        Ok(())
    }

    /// An order of each customer, in any order of theirs.
    fn load_orders(&mut self, district: DistrictKey) -> Result<(), Stop> {
        let mut customers: Vec<u32> = (1..=self.scale.customers).collect();
        self.random.shuffle(&mut customers);
        for (number, customer) in (1..).zip(customers) {
            let delivered = number <= self.scale.delivered();
            let order = Order {
                customer: customer.into(),
                entered: self.now.into(),
                carrier: if delivered { self.random.u8(1..=10) } else { 0 },
                lines: self.random.u8(LINES),
                all_local: 1,
            };
            let key = district.order(number);
            self.add(&key, &order)?;
            self.add(&district.customer(customer).order(number), &OrderByCustomer {})?;
            if !delivered {
                self.add(&key, &NewOrder {})?;
            }
            for line in 1..=order.lines {
                let random = &mut self.random;
                let row = OrderLine {
                    item: random.u32(1..=self.scale.items).into(),
                    supplier: district.warehouse.get().into(),
                    delivered: if delivered { self.now } else { 0 }.into(),
                    quantity: 5,
                    amount: if delivered { 0 } else { random.i64(1..=999_999) }.into(),
                    district_info: letters(random, 24),
                };
                self.add(&key.line(line), &row)?;
            }
        }
        Ok(())
    }
}

fn address(random: &mut Rng) -> Address {
    let zip = [digits::<4>(random).as_slice(), b"11111"].concat();
    Address {
        street_1: letters(random, 10),
        street_2: letters(random, 10),
        city: letters(random, 10),
        state: letters(random, 2),
        zip: padded(&zip),
    }
}
