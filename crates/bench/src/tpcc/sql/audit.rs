//! What a server has at the end: the consistency conditions, and everything that was acknowledged.

use std::collections::HashMap;

use ishigaki_servers::Server;
use zerocopy::IntoBytes;

use super::rows::{InSql, Place};
use crate::oltp::Stop;
use crate::tpcc::books::{Books, Source};
use crate::tpcc::keys::DistrictKey;
use crate::tpcc::rows::{History, NewOrder, Order};
use crate::tpcc::{Company, Receipt};

/// A server that is asked for its rows.
struct Asked<'a> {
    server: &'a Server,
    stopped: &'a dyn Fn() -> bool,
}

impl Source for Asked<'_> {
    fn each<R: InSql>(&mut self, mut visit: impl FnMut(&R::Key, &R)) -> Result<(), Stop> {
        let Some(Place { table, key, others }) = R::PLACE else { return Ok(()) };
        let columns = if others.is_empty() { key.to_owned() } else { format!("{key}, {others}") };
        let question = format!("select concat_ws(' ', {columns}) from {table} order by {key};\n");
        let told = self.server.run_when_up(&question, self.stopped).map_err(|error| Stop::Wrong(error.to_string()))?;
        for line in told.lines() {
            let numbers: Option<Vec<i64>> = line.split(' ').map(|number| number.parse().ok()).collect();
            let row = numbers.and_then(|numbers| R::told(&numbers));
            let (key, row) = row.ok_or_else(|| Stop::Wrong(format!("{table} has a row `{line}`")))?;
            visit(&key, &row);
        }
        Ok(())
    }
}

impl Asked<'_> {
    /// A table by the bytes of its keys.
    fn rows<R: InSql>(&mut self) -> Result<HashMap<Vec<u8>, R>, Stop> {
        let mut rows = HashMap::new();
        self.each(|key, row: &R| {
            rows.insert(key.as_bytes().to_vec(), *row);
        })?;
        Ok(rows)
    }
}

/// Fails if a consistency condition does not hold on a server that is still, if something that was acknowledged is not there,
/// or if orders are there that nobody was told of.
pub(super) fn check(
    company: &Company,
    server: &Server,
    receipts: &[Receipt],
    stopped: &dyn Fn() -> bool,
) -> Result<(), Stop> {
    let mut asked = Asked { server, stopped };
    let books = Books::read(&mut asked, company.scale, company.warehouses.get())?;
    if let Some(violation) = books.audit(true).first() {
        return Err(Stop::Wrong(violation.to_string()));
    }
    let told: u64 = receipts.iter().map(|receipt| u64::from(matches!(receipt, Receipt::Order { .. }))).sum();
    let (taken, ..) = books.taken();
    if taken != told {
        return Err(Stop::Wrong(format!("{taken} orders were taken, and {told} were acknowledged")));
    }
    let (orders, waiting, payments) = (asked.rows::<Order>()?, asked.rows::<NewOrder>()?, asked.rows::<History>()?);
    for receipt in receipts {
        let district = |warehouse, district| DistrictKey::new(warehouse, district);
        let there = match receipt {
            Receipt::Nothing => true,
            &Receipt::Order { warehouse, district: place, number, customer, lines } => {
                let key = district(warehouse, place).order(number);
                orders.get(key.as_bytes()).is_some_and(|row| (row.customer.get(), row.lines) == (customer, lines))
            }
            &Receipt::Payment { warehouse, district: place, terminal, sequence } => {
                payments.contains_key(district(warehouse, place).payment(terminal, sequence).as_bytes())
            }
            Receipt::Delivery { warehouse, orders: delivered } => delivered.iter().all(|&(place, number)| {
                let key = district(*warehouse, place).order(number);
                let carrier = orders.get(key.as_bytes()).map_or(0, |row| row.carrier);
                carrier != 0 && !waiting.contains_key(key.as_bytes())
            }),
        };
        if !there {
            return Err(Stop::Wrong(format!("{receipt:?} was acknowledged, and is not there")));
        }
    }
    Ok(())
}
