//! Payment: a customer pays, at home or in another warehouse (clause 2.5).

use std::io::Write;

use super::access::Access;
use super::customer::By;
use super::draw::padded;
use super::keys::{DistrictKey, WarehouseKey};
use super::rows::{Customer, District, History, Warehouse};
use crate::oltp::Stop;

/// What is paid.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// Where it is paid.
    pub(super) district: DistrictKey,
    /// Whose the customer is.
    pub(super) home: DistrictKey,
    pub(super) customer: By,
    /// In cents.
    pub(super) amount: i64,
    pub(super) terminal: u32,
    pub(super) sequence: u64,
    pub(super) now: u64,
}

/// What the customer is told.
#[allow(dead_code, reason = "a terminal would show it; what is measured includes making it")]
#[derive(Clone, Debug)]
pub(super) struct Paid {
    pub(super) customer: u32,
    pub(super) balance: i64,
}

/// Takes the payment.
pub(super) fn run(access: &mut Access<'_>, input: &Input) -> Result<Paid, Stop> {
    let warehouse_key = WarehouseKey::new(input.district.warehouse.get());
    let mut warehouse: Warehouse = access.fetch(&warehouse_key)?;
    warehouse.ytd += input.amount;
    access.put(&warehouse_key, &warehouse)?;
    let mut district: District = access.fetch(&input.district)?;
    district.ytd += input.amount;
    access.put(&input.district, &district)?;

    let number = input.customer.find(access, input.home)?;
    let key = input.home.customer(number);
    let mut customer: Customer = access.fetch(&key)?;
    customer.balance -= input.amount;
    customer.ytd_payment += input.amount;
    customer.payments += 1;
    if customer.credit == *b"BC" {
        remember(&mut customer.data, input, number);
    }
    access.put(&key, &customer)?;
    let payment = History {
        customer_warehouse: input.home.warehouse.get().into(),
        customer_district: input.home.district,
        customer: number.into(),
        date: input.now.into(),
        amount: input.amount.into(),
        data: names(&warehouse.name, &district.name),
    };
    access.insert(&input.district.payment(input.terminal, input.sequence), &payment)?;
    Ok(Paid { customer: number, balance: customer.balance.get() })
}

/// Writes the payment before what is known of the customer; what does not fit any more is forgotten.
fn remember(data: &mut [u8; 500], input: &Input, customer: u32) {
    let mut note = [0; 64];
    let mut rest = note.as_mut_slice();
    let (home, paid, amount) = (input.home, input.district, input.amount);
    let told = write!(
        rest,
        "{customer} {} {} {} {} {}.{:02} ",
        home.district,
        home.warehouse,
        paid.district,
        paid.warehouse,
        amount / 100,
        amount % 100
    );
    debug_assert!(told.is_ok(), "64 bytes are enough for the longest numbers");
    let length = 64 - rest.len();
    data.copy_within(..500 - length, length);
    data[..length].copy_from_slice(&note[..length]);
}

/// Both names, four blanks apart.
fn names(warehouse: &[u8; 10], district: &[u8; 10]) -> [u8; 24] {
    let text = |name: &'_ [u8; 10]| name.iter().position(|&letter| letter == 0).unwrap_or(10);
    let (one, other) = (&warehouse[..text(warehouse)], &district[..text(district)]);
    let mut data: [u8; 24] = padded(one);
    data[one.len()..one.len() + 4].fill(b' ');
    data[one.len() + 4..one.len() + 4 + other.len()].copy_from_slice(other);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payments_data_are_both_names() {
        let data = names(&padded(b"Northern"), &padded(b"Harbour123"));
        assert_eq!(data, padded::<24>(b"Northern    Harbour123"));
        assert_eq!(names(&[b'a'; 10], &[b'b'; 10]), *b"aaaaaaaaaa    bbbbbbbbbb");
    }

    #[test]
    fn what_is_known_of_a_customer_moves_behind_the_payment() {
        let mut data = [b'x'; 500];
        let (home, district) = (DistrictKey::new(12, 3), DistrictKey::new(1, 10));
        let input =
            Input { district, home, customer: By::Number(7), amount: 123_405, terminal: 0, sequence: 0, now: 1 };
        remember(&mut data, &input, 7);
        let note = b"7 3 12 10 1 1234.05 ";
        assert_eq!(data[..note.len()], *note);
        assert!(data[note.len()..].iter().all(|&letter| letter == b'x'));
    }
}
