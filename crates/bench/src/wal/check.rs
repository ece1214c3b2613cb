//! Whether a log gives back what it acknowledged: its records, replayed into a ledger.

use std::sync::Arc;

use ishigaki_device::Directory;
use ishigaki_wal::{self as wal, Log};

use super::marks::Marks;
use super::{NAME, Workload, record};
use crate::{Result, Target};

/// What the workers know when they are done.
#[derive(Debug, Default)]
pub(super) struct Promised {
    /// By worker, what was acknowledged.
    pub(super) acknowledged: Vec<Marks>,
    /// Where the log was closed and not cut off: by worker how many transactions it appended, and the rows as they left
    /// them.
    pub(super) left: Option<(Vec<u64>, Vec<u32>)>,
}

/// The rows as the log's records make them.
#[derive(Debug)]
pub(super) struct Ledger {
    workload: Workload,
    rows: Vec<u32>,
    /// By worker.
    found: Vec<Marks>,
    wrong: Option<String>,
}

/// Opens the log again and judges what it holds.
pub(super) fn check(
    workload: Workload,
    directory: Arc<dyn Directory>,
    settings: wal::Settings,
    promised: &Promised,
    target: &Target,
) -> Result<()> {
    let mut ledger = Ledger::new(workload, promised.acknowledged.len());
    let (log, _) = Log::open(directory, settings, &mut |_, payload| {
        ledger.enter(payload);
        Ok(())
    })?;
    log.close()?;
    ledger.judge(promised).map_err(|reason| target.wrong(NAME, reason))
}

impl Ledger {
    pub(super) fn new(workload: Workload, workers: usize) -> Self {
        let rows = vec![0; workload.rows() as usize];
        Self { workload, rows, found: vec![Marks::default(); workers], wrong: None }
    }

    /// Takes the next record in LSN order; what is wrong about it is kept for the judgement.
    pub(super) fn enter(&mut self, payload: &[u8]) {
        if self.wrong.is_none() {
            self.wrong = self.apply(payload).err();
        }
    }

    fn apply(&mut self, payload: &[u8]) -> std::result::Result<(), String> {
        let transaction = record::read(payload)?;
        let (worker, number) = (transaction.worker, transaction.number);
        let found = self.found.get_mut(worker as usize).ok_or_else(|| format!("there was no worker {worker}"))?;
        if !found.add(number) {
            return Err(format!("transaction {number} of worker {worker} is there twice"));
        }
        let inserts = self.workload.inserts(&transaction.updates);
        if !self.workload.allows(&transaction.updates) || !inserts.eq(transaction.inserts.iter().copied()) {
            return Err(format!("transaction {number} of worker {worker} is none of {}", self.workload));
        }
        for update in &transaction.updates {
            let row = self.rows.get_mut(update.row as usize);
            let row = row.ok_or_else(|| format!("there is no row {}", update.row))?;
            if *row != update.before || Some(update.after) != update.before.checked_add(1) {
                return Err(format!(
                    "transaction {number} of worker {worker} took row {} from {} to {}, which was {row}",
                    update.row, update.before, update.after
                ));
            }
            *row = update.after;
        }
        Ok(())
    }

    /// Says what does not fit to what was promised.
    pub(super) fn judge(self, promised: &Promised) -> std::result::Result<(), String> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        for (worker, (found, acknowledged)) in self.found.iter().zip(&promised.acknowledged).enumerate() {
            if let Some(missing) = acknowledged.first_not_in(found) {
                return Err(format!("transaction {missing} of worker {worker} was acknowledged and is not there"));
            }
        }
        let Some((appended, rows)) = &promised.left else { return Ok(()) };
        for (worker, (found, appended)) in self.found.iter().zip(appended).enumerate() {
            if found.count() != *appended {
                return Err(format!(
                    "worker {worker} appended {appended} transactions to a log that was closed, and {} are there",
                    found.count()
                ));
            }
        }
        let differs = self.rows.iter().zip(rows).position(|(found, left)| found != left);
        differs.map_or(Ok(()), |row| Err(format!("row {row} is {}, not {}", self.rows[row], rows[row])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;
    use record::{Insert, Update, Writer};
    use std::iter;

    /// Two transactions of one worker on row 9.
    fn records() -> [Vec<u8>; 2] {
        let mut writer = Writer::new(0, &mut Seed(1).generator());
        [0, 1].map(|number| {
            let before = number as u32;
            writer.write(number, &[Update { row: 9, before, after: before + 1 }], iter::empty()).to_vec()
        })
    }

    fn promised() -> Promised {
        let mut marks = Marks::default();
        marks.add(0);
        let mut rows = vec![0; Workload::U1.rows() as usize];
        rows[9] = 2;
        Promised { acknowledged: vec![marks], left: Some((vec![2], rows)) }
    }

    fn judged(records: &[&[u8]], promised: &Promised) -> std::result::Result<(), String> {
        let mut ledger = Ledger::new(Workload::U1, promised.acknowledged.len());
        for record in records {
            ledger.enter(record);
        }
        ledger.judge(promised)
    }

    #[test]
    fn what_was_appended_is_right() {
        let [first, second] = records();
        assert_eq!(judged(&[&first, &second], &promised()), Ok(()));
    }

    #[test]
    fn everything_that_can_be_wrong_is_seen() {
        let [first, second] = records();
        let reason = |records: &[&[u8]], promised| judged(records, &promised).unwrap_err();
        assert!(reason(&[], promised()).contains("transaction 0 of worker 0 was acknowledged and is not there"));
        assert!(reason(&[&second], promised()).contains("from 1 to 2, which was 0"));
        assert!(reason(&[&first, &first], promised()).contains("twice"));
        assert!(reason(&[&first], promised()).contains("appended 2 transactions"));
        assert!(reason(&[&first[..300]], promised()).contains("300 bytes"));
        let mut other = promised();
        other.left.as_mut().unwrap().1[9] = 3;
        assert!(reason(&[&first, &second], other).contains("row 9 is 2, not 3"));
    }

    /// Breaks an order.
    type Change = dyn Fn(&mut Vec<Update>, &mut Vec<Insert>);

    #[test]
    fn an_order_is_whole_and_has_its_districts_next_number() {
        const ORDERS: Workload = Workload::Tpcc { warehouses: 1 };
        let mut writer = Writer::new(0, &mut Seed(1).generator());
        // Order `number` of district 4, with five items whose stock is changed for the first time.
        let updates = |number: u32| -> Vec<Update> {
            let stock = (0..5).map(|item| Update { row: 10 + 5 * number + item, before: 0, after: 1 });
            iter::once(Update { row: 4, before: number, after: number + 1 }).chain(stock).collect()
        };
        let mut record = |number: u32, change: &Change| {
            let mut updates = updates(number);
            let mut inserts: Vec<Insert> = ORDERS.inserts(&updates).collect();
            change(&mut updates, &mut inserts);
            writer.write(number.into(), &updates, inserts.into_iter()).to_vec()
        };
        let judged = |records: &[&Vec<u8>]| {
            let mut ledger = Ledger::new(ORDERS, 1);
            for record in records {
                ledger.enter(record);
            }
            ledger.judge(&Promised { acknowledged: vec![Marks::default()], left: None })
        };
        let [first, second] = [0, 1].map(|number| record(number, &|_, _| ()));
        assert_eq!(judged(&[&first, &second]), Ok(()));
        assert!(judged(&[&second]).unwrap_err().contains("took row 4 from 1 to 2, which was 0"));

        let broken: [&Change; 6] = [
            &|_, inserts| inserts.truncate(6),
            &|_, inserts| inserts[0].value += 1,
            &|_, inserts| inserts[1].key[1] += 1,
            &|_, inserts| inserts[2].value += 1,
            &|updates, _| updates[5].row += 1,
            &|updates, inserts| {
                updates.truncate(5);
                *inserts = ORDERS.inserts(updates).collect();
            },
        ];
        for (place, change) in broken.into_iter().enumerate() {
            let reason = judged(&[&record(0, change)]).unwrap_err();
            assert!(reason.contains("transaction 0 of worker 0 is none of tpcc:1"), "change {place}: {reason}");
        }
        assert!(judged(&[&records()[0]]).unwrap_err().contains("none of tpcc:1"), "of a page");
    }

    #[test]
    fn after_a_cut_only_what_was_acknowledged_must_be_there() {
        let [first, second] = records();
        let cut = Promised { left: None, ..promised() };
        assert_eq!(judged(&[&first], &cut), Ok(()));
        assert_eq!(judged(&[&first, &second], &cut), Ok(()));
        assert!(judged(&[], &cut).is_err());
    }
}
