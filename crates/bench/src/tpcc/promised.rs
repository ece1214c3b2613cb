//! Whether what was acknowledged is there.

use ishigaki_txn::Database;

use super::access::{Access, Tables};
use super::keys::DistrictKey;
use super::rows::{History, NewOrder, Order};
use super::terminal::Receipt;
use crate::oltp::Stop;

/// Receipts that are looked up in one transaction.
const BATCH: usize = 1000;

/// Looks each of them up; the error says which is not there.
pub(super) fn check<'a>(
    database: &Database,
    tables: &Tables,
    receipts: impl Iterator<Item = &'a Receipt>,
) -> Result<(), Stop> {
    let session = database.session();
    let mut receipts = receipts.peekable();
    while receipts.peek().is_some() {
        let batch: Vec<&Receipt> = receipts.by_ref().take(BATCH).collect();
        session.run(|transaction| {
            let mut access = Access::new(transaction, tables);
            batch.iter().try_for_each(|receipt| look_up(&mut access, receipt))
        })?;
    }
    Ok(())
}

fn look_up(access: &mut Access<'_>, receipt: &Receipt) -> Result<(), Stop> {
    let broken = |what: &str| Err(Stop::Wrong(format!("{receipt:?} was acknowledged, and {what}")));
    match receipt {
        Receipt::Nothing => Ok(()),
        &Receipt::Order { warehouse, district, number, customer, lines } => {
            let key = DistrictKey::new(warehouse, district).order(number);
            match access.find(&key, |row: &Order| (row.customer.get(), row.lines))? {
                None => broken("is not there"),
                Some(found) if found != (customer, lines) => broken("is another's order"),
                Some(_) => Ok(()),
            }
        }
        &Receipt::Payment { warehouse, district, terminal, sequence } => {
            let key = DistrictKey::new(warehouse, district).payment(terminal, sequence);
            match access.find(&key, |_: &History| ())? {
                None => broken("is not there"),
                Some(()) => Ok(()),
            }
        }
        Receipt::Delivery { warehouse, orders } => orders.iter().try_for_each(|&(district, number)| {
            let key = DistrictKey::new(*warehouse, district).order(number);
            let delivered = access.find(&key, |row: &Order| row.carrier != 0)?.unwrap_or(false);
            let waits = access.find(&key, |_: &NewOrder| ())?.is_some();
            if delivered && !waits { Ok(()) } else { broken("it still waits, or is not there") }
        }),
    }
}
