//! The inputs of a terminal's transactions, drawn one after the other (clauses 2.4.1 to 2.8.1), whatever it is that runs them.

use std::ops::RangeInclusive;

use fastrand::Rng;
use smallvec::SmallVec;

use super::customer::By;
use super::draw::{Constants, last_name};
use super::keys::DistrictKey;
use super::mix::{Deck, Kind, Mix};
use super::scale::{DISTRICTS, Scale};
use super::{clock, delivery, new_order, order_status, payment, stock_level};

/// Lines of an order (clause 2.4.1.3).
pub(super) const LINES: RangeInclusive<u8> = 5..=15;

/// The input of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Input {
    NewOrder(new_order::Input),
    Payment(payment::Input),
    OrderStatus(order_status::Input),
    Delivery(delivery::Input),
    StockLevel(stock_level::Input),
}

/// What a terminal of a home warehouse draws; Stock-Level is always of the same of its districts.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    scale: Scale,
    warehouses: u16,
    constants: Constants,
    deck: Deck,
    random: Rng,
    /// The terminal's own.
    number: u32,
    home: u16,
    /// Payments that it took, acknowledged or not.
    sequence: u64,
}

impl Inputs {
    /// Those of the terminal of that number. All terminals of a run have the same constants.
    pub(super) fn new(scale: Scale, warehouses: u16, constants: Constants, mix: Mix, number: u32, random: Rng) -> Self {
        let home = (number % u32::from(warehouses)) as u16 + 1;
        Self { scale, warehouses, constants, deck: Deck::new(mix), random, number, home, sequence: 0 }
    }

    /// The next one.
    pub(super) fn draw(&mut self) -> (Kind, Input) {
        let kind = self.deck.draw(&mut self.random);
        (kind, self.draw_input(kind))
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
