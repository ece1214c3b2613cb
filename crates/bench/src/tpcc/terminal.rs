//! A terminal: draws the inputs of one transaction after the other, and runs them (clauses 2.4.1 to 2.8.1).
//!
//! It belongs to a home warehouse, and for Stock-Level to one of its districts. There is no keying and no thinking: the
//! next transaction begins at once.

use std::hint::black_box;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use fastrand::Rng;
use ishigaki_txn::Transaction;
use smallvec::SmallVec;

use super::access::{Access, Tables};
use super::customer::By;
use super::draw::{Constants, last_name};
use super::keys::DistrictKey;
use super::mix::{Deck, Kind, Mix};
use super::scale::{DISTRICTS, Scale};
use super::{clock, delivery, new_order, order_status, payment, stock_level};
use crate::oltp::{Client, Ended, Stop};

/// Lines of an order (clause 2.4.1.3).
pub(super) const LINES: RangeInclusive<u8> = 5..=15;

/// What a transaction promises to be there once it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// An order with so many lines.
    Order {
        /// Where.
        warehouse: u16,
        /// Where.
        district: u8,
        /// Its number there.
        number: u32,
        /// Who ordered.
        customer: u32,
        /// How many lines it has.
        lines: u8,
    },
    /// A payment.
    Payment {
        /// Where it was paid.
        warehouse: u16,
        /// Where it was paid.
        district: u8,
        /// Who took it.
        terminal: u32,
        /// The how manieth of that terminal.
        sequence: u64,
    },
    /// Orders that were delivered.
    Delivery {
        /// Where.
        warehouse: u16,
        /// District and number of each.
        orders: Vec<(u8, u32)>,
    },
    /// Nothing: it only read.
    Nothing,
}

/// Hears of each transaction that is acknowledged, from the terminals' threads.
pub type Acknowledge = dyn Fn(&Receipt) -> io::Result<()> + Send + Sync;

/// The input of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Input {
    NewOrder(new_order::Input),
    Payment(payment::Input),
    OrderStatus(order_status::Input),
    Delivery(delivery::Input),
    StockLevel(stock_level::Input),
}

/// One terminal.
pub(super) struct Terminal {
    pub(super) tables: Tables,
    pub(super) scale: Scale,
    pub(super) warehouses: u16,
    pub(super) constants: Constants,
    pub(super) mix: Mix,
    deck: Deck,
    pub(super) random: Rng,
    /// Its own.
    number: u32,
    home: u16,
    /// Payments that it took, acknowledged or not.
    sequence: u64,
    /// What is to be attempted.
    pub(super) input: Option<Input>,
    acknowledge: Option<Arc<Acknowledge>>,
    /// What was acknowledged, if nobody else hears of it.
    pub(super) receipts: Vec<Receipt>,
}

impl Terminal {
    #[expect(clippy::too_many_arguments, reason = "a terminal is all this")]
    pub(super) fn new(
        tables: Tables,
        scale: Scale,
        warehouses: u16,
        constants: Constants,
        mix: Mix,
        number: u32,
        random: Rng,
        acknowledge: Option<Arc<Acknowledge>>,
    ) -> Self {
        Self {
            tables,
            scale,
            warehouses,
            constants,
            mix,
            deck: Deck::new(mix),
            random,
            number,
            home: (number % u32::from(warehouses)) as u16 + 1,
            sequence: 0,
            input: None,
            acknowledge,
            receipts: Vec::new(),
        }
    }

    fn draw_district(&mut self, warehouse: u16) -> DistrictKey {
        DistrictKey::new(warehouse, self.random.u8(1..=DISTRICTS))
    }

    /// Any warehouse but the home; the home if there is no other.
    fn draw_other(&mut self) -> u16 {
        if self.warehouses == 1 {
            return self.home;
        }
        (self.home - 1 + self.random.u16(1..self.warehouses)) % self.warehouses + 1
    }

    /// Sixty of a hundred customers are called by name.
    fn draw_customer(&mut self) -> By {
        if self.random.u8(0..100) < 60 {
            By::Name(last_name(self.constants.draw_last_name(self.scale, &mut self.random)))
        } else {
            By::Number(self.constants.draw_customer(self.scale, &mut self.random))
        }
    }

    /// Clause 2.4.1: one line in a hundred is another warehouse's, and of one order in a hundred the last item does not
    /// exist.
    fn draw_new_order(&mut self) -> new_order::Input {
        let district = self.draw_district(self.home);
        let customer = self.constants.draw_customer(self.scale, &mut self.random);
        let count = self.random.u8(LINES);
        let mut lines: SmallVec<[new_order::Wanted; 15]> = SmallVec::new();
        for _ in 0..count {
            let item = self.constants.draw_item(self.scale, &mut self.random);
            let supplier = if self.random.u8(0..100) == 0 { self.draw_other() } else { self.home };
            lines.push(new_order::Wanted { item, supplier, quantity: self.random.u8(1..=10) });
        }
        if self.random.u8(0..100) == 0
            && let Some(last) = lines.last_mut()
        {
            last.item = self.scale.items + 1;
        }
        new_order::Input { district, customer, lines, now: clock::now() }
    }

    /// Clause 2.5.1: of a hundred payments 15 are of another warehouse's customers.
    fn draw_payment(&mut self) -> payment::Input {
        let district = self.draw_district(self.home);
        let remote = self.warehouses > 1 && self.random.u8(0..100) < 15;
        let home = if remote {
            let other = self.draw_other();
            self.draw_district(other)
        } else {
            district
        };
        self.sequence += 1;
        payment::Input {
            district,
            home,
            customer: self.draw_customer(),
            amount: self.random.i64(100..=500_000),
            terminal: self.number,
            sequence: self.sequence,
            now: clock::now(),
        }
    }

    fn draw_input(&mut self, kind: Kind) -> Input {
        match kind {
            Kind::NewOrder => Input::NewOrder(self.draw_new_order()),
            Kind::Payment => Input::Payment(self.draw_payment()),
            Kind::OrderStatus => {
                let district = self.draw_district(self.home);
                Input::OrderStatus(order_status::Input { district, customer: self.draw_customer() })
            }
            Kind::Delivery => Input::Delivery(delivery::Input {
                warehouse: self.home,
                carrier: self.random.u8(1..=10),
                now: clock::now(),
            }),
            Kind::StockLevel => {
                let district = (self.number / u32::from(self.warehouses)) % u32::from(DISTRICTS) + 1;
                let district = DistrictKey::new(self.home, district as u8);
                Input::StockLevel(stock_level::Input { district, threshold: self.random.i32(10..=20) })
            }
        }
    }
}

impl Client for Terminal {
    type Receipt = Receipt;

    fn draw(&mut self) -> usize {
        let kind = self.deck.draw(&mut self.random);
        self.input = Some(self.draw_input(kind));
        kind as usize
    }

    fn attempt(&mut self, transaction: &mut Transaction) -> Result<Ended<Receipt>, Stop> {
        let mut access = Access::new(transaction, &self.tables);
        let receipt = match &self.input {
            Some(Input::NewOrder(input)) => match new_order::run(&mut access, input, self.mix.inserts())? {
                None => return Ok(Ended::Rollback),
                Some(placed) => {
                    let placed = black_box(placed);
                    Receipt::Order {
                        warehouse: input.district.warehouse.get(),
                        district: input.district.district,
                        number: placed.number,
                        customer: input.customer,
                        lines: placed.lines.len() as u8,
                    }
                }
            },
            Some(Input::Payment(input)) => {
                black_box(payment::run(&mut access, input)?);
                let (warehouse, district) = (input.district.warehouse.get(), input.district.district);
                Receipt::Payment { warehouse, district, terminal: input.terminal, sequence: input.sequence }
            }
            Some(Input::Delivery(input)) => {
                let orders = delivery::run(&mut access, input)?.to_vec();
                Receipt::Delivery { warehouse: input.warehouse, orders }
            }
            Some(Input::OrderStatus(input)) => {
                black_box(order_status::run(&mut access, input)?);
                Receipt::Nothing
            }
            Some(Input::StockLevel(input)) => {
                black_box(stock_level::run(&mut access, input)?);
                Receipt::Nothing
            }
            None => Receipt::Nothing,
        };
        Ok(Ended::Commit(receipt))
    }

    fn acknowledge(&mut self, receipt: Receipt) -> Result<(), Stop> {
        match &self.acknowledge {
            _ if receipt == Receipt::Nothing => Ok(()),
            Some(acknowledge) => {
                acknowledge(&receipt).map_err(|error| Stop::Wrong(format!("nobody hears of a commit: {error}")))
            }
            None => {
                self.receipts.push(receipt);
                Ok(())
            }
        }
    }
}
