//! Whether a log gives back what it acknowledged: its records, replayed into a ledger.

use std::sync::Arc;

use ishigaki_device::Directory;
use ishigaki_wal::{self as wal, Log};

use super::marks::Marks;
use super::pages::PAGES;
use super::{NAME, Workload, record};
use crate::{Result, Target};

/// What the workers know when they are done.
#[derive(Debug, Default)]
pub(super) struct Promised {
    /// By worker, what was acknowledged.
    pub(super) acknowledged: Vec<Marks>,
    /// Where the log was closed and not cut off: by worker how many transactions it appended, and the pages as they left
    /// them.
    pub(super) left: Option<(Vec<u64>, Vec<u32>)>,
}

/// The pages as the log's records make them.
#[derive(Debug)]
pub(super) struct Ledger {
    workload: Workload,
    pages: Vec<u32>,
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
        Self { workload, pages: vec![0; PAGES as usize], found: vec![Marks::default(); workers], wrong: None }
    }

    /// Takes the next record in LSN order; what is wrong about it is kept for the judgement.
    pub(super) fn enter(&mut self, payload: &[u8]) {
        if self.wrong.is_none() {
            self.wrong = self.apply(payload).err();
        }
    }

    fn apply(&mut self, payload: &[u8]) -> std::result::Result<(), String> {
        let transaction = record::read(self.workload, payload)?;
        let (worker, number) = (transaction.worker, transaction.number);
        let found = self.found.get_mut(worker as usize).ok_or_else(|| format!("there was no worker {worker}"))?;
        if !found.add(number) {
            return Err(format!("transaction {number} of worker {worker} is there twice"));
        }
        for update in transaction.updates {
            let page = self.pages.get_mut(update.page as usize);
            let page = page.ok_or_else(|| format!("there is no page {}", update.page))?;
            if *page != update.before || update.after != update.before + 1 {
                return Err(format!(
                    "transaction {number} of worker {worker} took page {} from {} to {}, which was {page}",
                    update.page, update.before, update.after
                ));
            }
            *page = update.after;
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
        let transactions: u64 = self.found.iter().map(Marks::count).sum();
        let sum: u64 = self.pages.iter().map(|page| u64::from(*page)).sum();
        let updates = transactions * self.workload.updates() as u64;
        if sum != updates {
            return Err(format!("the pages add up to {sum} after {updates} updates"));
        }
        let Some((appended, pages)) = &promised.left else { return Ok(()) };
        for (worker, (found, appended)) in self.found.iter().zip(appended).enumerate() {
            if found.count() != *appended {
                return Err(format!(
                    "worker {worker} appended {appended} transactions to a log that was closed, and {} are there",
                    found.count()
                ));
            }
        }
        let differs = self.pages.iter().zip(pages).position(|(found, left)| found != left);
        differs.map_or(Ok(()), |page| Err(format!("page {page} is {}, not {}", self.pages[page], pages[page])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;
    use record::{Update, Writer};

    /// Two transactions of one worker on page 9.
    fn records() -> [Vec<u8>; 2] {
        let mut writer = Writer::new(Workload::U1, 0, &mut Seed(1).generator());
        [0, 1].map(|number| {
            let before = number as u32;
            writer.update(0, Update { page: 9, before, after: before + 1 });
            writer.finish(number).to_vec()
        })
    }

    fn promised() -> Promised {
        let mut marks = Marks::default();
        marks.add(0);
        let mut pages = vec![0; PAGES as usize];
        pages[9] = 2;
        Promised { acknowledged: vec![marks], left: Some((vec![2], pages)) }
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
        assert!(reason(&[&first, &second], other).contains("page 9 is 2, not 3"));
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
