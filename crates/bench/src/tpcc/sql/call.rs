//! A transaction as one statement, and what the server answers.

use std::fmt::Write as _;

use ishigaki_servers::Kind;

use super::rows::text;
use crate::tpcc::Receipt;
use crate::tpcc::customer::By;
use crate::tpcc::inputs::Input;
use crate::tpcc::{delivery, new_order, order_status, payment, stock_level};

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It has committed.
    Done(Receipt),
    /// It was taken back, because an item does not exist.
    Rollback,
    /// It gave way to another, and is to be repeated; the server's code says why.
    GaveWay(String),
}

/// The codes by which servers tell that one transaction gave way to another: deadlocks, locks that were waited for too long,
/// and snapshots that came too late.
const GAVE_WAY: [&str; 6] = ["1213", "1205", "1020", "40P01", "40001", "55P03"];

/// The statement, on one line.
pub(super) fn statement(kind: Kind, input: &Input) -> String {
    let call = match input {
        Input::NewOrder(new_order::Input { district, customer, lines, now }) => {
            let mut wanted = String::with_capacity(lines.len() * 13);
            for line in lines {
                let _ = write!(wanted, "{:06}{:05}{:02}", line.item, line.supplier, line.quantity);
            }
            format!("place_order({}, {}, {customer}, '{wanted}', {now})", district.warehouse, district.district)
        }
        Input::Payment(input) => {
            let payment::Input { district, home, customer, amount, terminal, sequence, now } = input;
            format!(
                "pay({}, {}, {}, {}, {}, {amount}, {terminal}, {sequence}, {now})",
                district.warehouse,
                district.district,
                home.warehouse,
                home.district,
                called(customer)
            )
        }
        Input::OrderStatus(order_status::Input { district, customer }) => {
            format!("order_status({}, {}, {})", district.warehouse, district.district, called(customer))
        }
        Input::Delivery(delivery::Input { warehouse, carrier, now }) => {
            format!("deliver({warehouse}, {carrier}, {now})")
        }
        Input::StockLevel(stock_level::Input { district, threshold }) => {
            format!("stock_level({}, {}, {threshold})", district.warehouse, district.district)
        }
    };
    match kind {
        Kind::MariaDb => format!("call {call};"),
        Kind::PostgreSql => format!("select {call};"),
    }
}

/// A customer by number or by name, as two arguments.
fn called(customer: &By) -> String {
    match customer {
        By::Number(number) => format!("{number}, ''"),
        By::Name(last) => format!("0, '{}'", text(last)),
    }
}

/// What an answer says about that input. The error is an answer that makes no sense.
pub(super) fn understand(input: &Input, answer: &str) -> Result<Answer, String> {
    let odd = || format!("a server has answered {input:?} with `{answer}`");
    let mut words = answer.split(' ');
    match words.next() {
        Some("ok") => {}
        Some("rollback") if matches!(input, Input::NewOrder(_)) => return Ok(Answer::Rollback),
        Some("abort") => {
            let code = words.next().unwrap_or_default();
            return if GAVE_WAY.contains(&code) { Ok(Answer::GaveWay(code.to_owned())) } else { Err(odd()) };
        }
        _ => return Err(odd()),
    }
    let receipt = match input {
        Input::NewOrder(input) => {
            let number = words.next().and_then(|number| number.parse().ok()).ok_or_else(odd)?;
            let (warehouse, district) = (input.district.warehouse.get(), input.district.district);
            let lines = input.lines.len() as u8;
            // Last name, credit, total; then five words for each line.
            if words.count() != 3 + 5 * usize::from(lines) {
                return Err(odd());
            }
            Receipt::Order { warehouse, district, number, customer: input.customer, lines }
        }
        Input::Payment(input) => Receipt::Payment {
            warehouse: input.district.warehouse.get(),
            district: input.district.district,
            terminal: input.terminal,
            sequence: input.sequence,
        },
        Input::Delivery(input) => {
            let numbers: Option<Vec<u32>> = words.map(|word| word.parse().ok()).collect();
            let numbers = numbers.filter(|numbers| numbers.len().is_multiple_of(2)).ok_or_else(odd)?;
            let orders = numbers.chunks(2).map(|pair| (pair[0] as u8, pair[1])).collect();
            Receipt::Delivery { warehouse: input.warehouse, orders }
        }
        Input::OrderStatus(_) | Input::StockLevel(_) => {
            words.next().ok_or_else(odd)?;
            Receipt::Nothing
        }
    };
    Ok(Answer::Done(receipt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::keys::DistrictKey;
    use crate::tpcc::new_order::Wanted;

    fn order() -> Input {
        let wanted = |item, supplier, quantity| Wanted { item, supplier, quantity };
        let lines = [wanted(7, 1, 3), wanted(100_001, 12, 10)].into_iter().collect();
        Input::NewOrder(new_order::Input { district: DistrictKey::new(1, 2), customer: 3, lines, now: 9 })
    }

    #[test]
    fn a_transaction_is_one_statement() {
        let call = "place_order(1, 2, 3, '00000700001031000010001210', 9);";
        assert_eq!(statement(Kind::MariaDb, &order()), format!("call {call}"));
        assert_eq!(statement(Kind::PostgreSql, &order()), format!("select {call}"));
    }

    #[test]
    fn answers_are_told_apart() {
        let receipt = Receipt::Order { warehouse: 1, district: 2, number: 31, customer: 3, lines: 2 };
        let said = |answer| understand(&order(), answer);
        assert_eq!(said("ok 31 BARBARBAR GC 500 a 1 G 2 3 b 4 B 5 6"), Ok(Answer::Done(receipt)));
        assert_eq!(said("rollback"), Ok(Answer::Rollback));
        assert_eq!(said("abort 1213 Deadlock found"), Ok(Answer::GaveWay("1213".to_owned())));
        for odd in ["", "ok", "ok 31 BARBARBAR GC 500 a 1 G 2 3", "abort 1064 You have an error", "ERROR"] {
            assert!(said(odd).is_err(), "{odd}");
        }
        let delivery = Input::Delivery(delivery::Input { warehouse: 4, carrier: 1, now: 2 });
        let orders = Receipt::Delivery { warehouse: 4, orders: vec![(1, 21), (3, 22)] };
        assert_eq!(understand(&delivery, "ok 1 21 3 22"), Ok(Answer::Done(orders)));
        assert!(understand(&delivery, "ok 1 21 3").is_err() && understand(&delivery, "rollback").is_err());
    }
}
