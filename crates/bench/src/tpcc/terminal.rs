//! A terminal: runs one transaction after the other.
//!
//! It belongs to a home warehouse, and for Stock-Level to one of its districts. There is no keying and no thinking: the
//! next transaction begins at once. What it does is drawn by `inputs`.

use std::hint::black_box;
use std::io;
use std::sync::Arc;

use ishigaki_txn::Transaction;

use super::access::{Access, Tables};
use super::inputs::{Input, Inputs};
use super::mix::Mix;
use super::{delivery, new_order, order_status, payment, stock_level};
use crate::oltp::{Client, Ended, Stop};

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

/// One terminal.
pub(super) struct Terminal {
    tables: Tables,
    inputs: Inputs,
    mix: Mix,
    /// What is to be attempted.
    pub(super) input: Option<Input>,
    acknowledge: Option<Arc<Acknowledge>>,
    /// What was acknowledged, if nobody else hears of it.
    pub(super) receipts: Vec<Receipt>,
}

impl Terminal {
    pub(super) fn new(tables: Tables, inputs: Inputs, mix: Mix, acknowledge: Option<Arc<Acknowledge>>) -> Self {
        Self { tables, inputs, mix, input: None, acknowledge, receipts: Vec::new() }
    }
}

impl Client for Terminal {
    type Receipt = Receipt;

    fn draw(&mut self) -> usize {
        let (kind, input) = self.inputs.draw();
        self.input = Some(input);
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
