//! The sessions' threads: one transfer after the other.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ishigaki_txn::{self as txn, Database, Session, Transaction};

use super::books::{Account, Entry, Tables};
use super::{Acknowledge, Books, NAME, Settings};
use crate::latency::Latencies;
use crate::{Case, Error, Line, Metric, Result};

/// The largest amount of one transfer.
const MOST: u32 = 100;

/// Transfers in all sessions until the time is over, `stop` is set, or one of them fails. Gives the figures.
pub(super) fn transfer(
    database: &Database,
    settings: &Settings,
    (tables, books): &(Tables, Books),
    stop: &AtomicBool,
    acknowledge: Option<&Acknowledge<'_>>,
) -> Result<Vec<Line>> {
    let began = Instant::now();
    let failed = AtomicBool::new(false);
    let over = || {
        let late = settings.duration.is_some_and(|duration| began.elapsed() >= duration);
        late || stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed)
    };
    let parts: Vec<Result<Latencies>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..settings.sessions)
            .map(|number| {
                let teller = Teller {
                    session: database.session(),
                    tables: *tables,
                    accounts: books.accounts(),
                    number,
                    next: books.next_sequence(number),
                };
                let (over, failed) = (&over, &failed);
                scope.spawn(move || {
                    let part = teller.work(settings, over, acknowledge);
                    if part.is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                    part
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a teller returns its errors")).collect()
    });
    let elapsed = began.elapsed();
    let mut latencies = Latencies::new();
    for part in parts {
        latencies.add(&part?);
    }
    Ok(figures(settings, books.accounts(), &latencies, elapsed))
}

fn figures(settings: &Settings, accounts: u32, latencies: &Latencies, elapsed: Duration) -> Vec<Line> {
    let throughput = latencies.count() as f64 / elapsed.as_secs_f64();
    let metrics = [
        (Metric::Throughput, throughput),
        (Metric::LatencyP50, latencies.quantile(0.5)),
        (Metric::LatencyP99, latencies.quantile(0.99)),
        (Metric::LatencyP999, latencies.quantile(0.999)),
    ];
    let line = |(metric, value)| {
        let mut case = Case::new();
        case.insert("sessions".to_owned(), settings.sessions.into());
        case.insert("accounts".to_owned(), accounts.into());
        Line::new(NAME, case, metric, vec![value], &settings.origin)
    };
    metrics.into_iter().map(line).collect()
}

/// One session.
struct Teller {
    session: Session,
    tables: Tables,
    accounts: u32,
    number: u32,
    /// The sequence of the next transfer.
    next: u64,
}

impl Teller {
    fn work(
        mut self,
        settings: &Settings,
        over: &dyn Fn() -> bool,
        acknowledge: Option<&Acknowledge<'_>>,
    ) -> Result<Latencies> {
        // A bank that goes on draws other transfers than it drew before.
        let mut random = settings.origin.seed.derive(u64::from(self.number)).derive(self.next).generator();
        let mut latencies = Latencies::new();
        while !over() {
            let from = random.u32(0..self.accounts);
            let to = (from + random.u32(1..self.accounts)) % self.accounts;
            let entry = Entry { from, to, amount: random.u32(1..=MOST) };
            let before = Instant::now();
            if let Some(account) = self.transfer(entry)? {
                let reason = format!("account {account} can not be read");
                return Err(Error::Wrong { workload: NAME, reason, path: settings.data.clone() });
            }
            latencies.record(before.elapsed());
            if let Some(acknowledge) = acknowledge {
                let failed = |source| Error::Io { path: PathBuf::from("output"), operation: "acknowledging", source };
                acknowledge(self.number, self.next).map_err(failed)?;
            }
            self.next += 1;
        }
        Ok(latencies)
    }

    /// One transfer, durable when this returns; `Some` names an account that can not be read.
    fn transfer(&self, entry: Entry) -> txn::Result<Option<u32>> {
        self.session.run(|transaction: &mut Transaction| {
            let Some(mut from) = self.tables.account(transaction, entry.from)? else { return Ok(Some(entry.from)) };
            let Some(mut to) = self.tables.account(transaction, entry.to)? else { return Ok(Some(entry.to)) };
            change(&mut from, -i64::from(entry.amount));
            change(&mut to, i64::from(entry.amount));
            self.tables.set_account(transaction, entry.from, from)?;
            self.tables.set_account(transaction, entry.to, to)?;
            self.tables.enter(transaction, (self.number, self.next), entry)?;
            Ok(None)
        })
    }
}

fn change(account: &mut Account, by: i64) {
    account.balance += by;
    account.transfers += 1;
}
