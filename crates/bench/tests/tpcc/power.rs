//! The power goes in the middle of the full mix.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_bench::Silent;
use ishigaki_bench::tpcc::{Mix, Receipt, Shift};
use ishigaki_device::{Fault, SimDirectory};
use ishigaki_testkit::seeded_runs;
use ishigaki_txn::{Database, ProtocolKind, Settings};
use ishigaki_wal::{CommitRule, Group, LogKind};

use super::{company, settings};

/// Survivors looked at for each cut.
const SURVIVORS: u64 = 4;

fn engine(protocol: ProtocolKind, kind: LogKind, commit: CommitRule) -> Settings {
    let group = Group { transactions: 4, ..Group::default() };
    let log = ishigaki_wal::Settings { kind, commit, group, streams: 3, ..ishigaki_wal::Settings::default() };
    Settings { protocol, ..settings(log) }
}

/// Fills a company, cuts the power some operations into a shift, and judges what survives. Says how many orders, payments
/// and deliveries were acknowledged before.
fn cut(seed: Seed, engine: &Settings) -> [usize; 3] {
    let medium = SimDirectory::with_seed(seed);
    let database = Database::open_in(Arc::new(medium.clone()), engine.clone()).unwrap();
    let company = company(seed);
    company.populate(&database, &mut Silent).unwrap();
    let operation = medium.operations() + seed.generator().u64(5..400);
    medium.inject(Fault::PowerCut { operation });

    let heard: Arc<Mutex<Vec<Receipt>>> = Arc::default();
    let ear = Arc::clone(&heard);
    let shift = Shift {
        mix: Mix::Full,
        terminals: 3,
        first: 0,
        outstanding: 20,
        duration: Duration::from_mins(1),
        acknowledge: Arc::new(move |receipt| {
            ear.lock().unwrap().push(receipt.clone());
            Ok(())
        }),
    };
    assert!(company.work(&database, &shift).is_err(), "the cut is noticed");
    drop(database);
    let receipts = heard.lock().unwrap();
    for survivors in (0..SURVIVORS).map(|index| seed.derive(index)) {
        let directory = medium.survivors(survivors);
        let database = Database::open_in(Arc::new(directory), engine.clone()).unwrap();
        let violations = company.audit(&database).unwrap();
        assert!(violations.is_empty(), "cut at operation {operation}, survivors {survivors}: {violations:?}");
        company.check(&database, receipts.iter()).unwrap();
    }
    let count = |is: fn(&Receipt) -> bool| receipts.iter().filter(|receipt| is(receipt)).count();
    [
        count(|receipt| matches!(receipt, Receipt::Order { .. })),
        count(|receipt| matches!(receipt, Receipt::Payment { .. })),
        count(|receipt| matches!(receipt, Receipt::Delivery { .. })),
    ]
}

#[test]
fn after_a_power_cut_in_the_full_mix_all_conditions_hold_and_what_was_acknowledged_is_there() {
    let name = "after_a_power_cut_in_the_full_mix_all_conditions_hold_and_what_was_acknowledged_is_there";
    cuts(name, ProtocolKind::Locking);
}

#[test]
fn by_timestamps_after_a_power_cut_in_the_full_mix_all_conditions_hold_and_what_was_acknowledged_is_there() {
    let name = "by_timestamps_after_a_power_cut_in_the_full_mix_all_conditions_hold_and_what_was_acknowledged_is_there";
    cuts(name, ProtocolKind::TicToc);
}

/// Cuts with each log, by one protocol.
fn cuts(name: &str, protocol: ProtocolKind) {
    let mut sum = [0; 3];
    seeded_runs(name, 6, |seed| {
        for (kind, commit) in [
            (LogKind::Parallel, CommitRule::Watermark),
            (LogKind::Parallel, CommitRule::Dependencies),
            (LogKind::Serial, CommitRule::Dependencies),
        ] {
            let counts = cut(seed, &engine(protocol, kind, commit));
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    });
    let [orders, payments, deliveries] = sum;
    println!("{orders} orders, {payments} payments and {deliveries} deliveries were acknowledged");
    assert!(orders > 0 && payments > 0, "something was acknowledged before the cuts: {sum:?}");
}
