//! TPC-C at smoke size: figures, and what is left when the power goes or the process is killed.

#[path = "tpcc/kill.rs"]
mod kill;
#[path = "tpcc/power.rs"]
mod power;

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_bench::oltp::{Choices, Engine, Sweep};
use ishigaki_bench::tpcc::{self, Company, Mix, Scale};
use ishigaki_bench::{Error, Line, Medium, Metric, Origin, Silent, Target};
use ishigaki_device::MemoryDirectory;
use ishigaki_txn::{ProtocolKind, Release};
use ishigaki_wal::{CommitRule, LogKind};

/// Filled in an instant.
const SMALL: Scale = Scale { items: 200, customers: 30, new_orders: 9 };

/// Two warehouses, so that terminals meet.
fn company(seed: Seed) -> Company {
    Company { warehouses: NonZero::new(2).unwrap(), scale: SMALL, seed }
}

/// An engine with small segments.
fn settings(log: ishigaki_wal::Settings) -> ishigaki_txn::Settings {
    let roomy = Engine::roomy();
    let log = ishigaki_wal::Settings { segment: ByteSize::kib(256), relief: 1, space: roomy.log.space, ..log };
    ishigaki_txn::Settings { log, ..roomy }
}

fn small(target: Target) -> tpcc::Settings {
    let sweep = Sweep {
        engines: Choices { groups: vec![4], ..Choices::default() }
            .engines(&settings(ishigaki_wal::Settings::default())),
        duration: Duration::from_millis(60),
        rounds: 1,
        ..Sweep::new(target, Origin::here("test", Seed(1)))
    };
    tpcc::Settings { scale: SMALL, ..tpcc::Settings::new(sweep) }
}

fn memory() -> Target {
    Target::new("mem", Arc::new(MemoryDirectory::new()))
}

fn figure(lines: &[Line], key: &str, value: &str, metric: Metric) -> f64 {
    let found = |line: &&Line| line.case.get(key).is_some_and(|it| it == value) && line.metric == metric;
    lines.iter().find(found).unwrap_or_else(|| panic!("no {metric:?} with {key} {value}")).median
}

#[test]
fn the_full_mix_gives_figures_of_each_type_and_of_all() {
    let target = memory();
    let settings = tpcc::Settings { warehouses: vec![2], ..small(target.clone()) };
    let settings = tpcc::Settings { sweep: Sweep { workers: vec![2], rounds: 2, ..settings.sweep }, ..settings };
    let lines = tpcc::run(&settings, &mut Silent).unwrap();
    let mut sum = 0.0;
    for kind in ["new-order", "payment", "order-status", "delivery", "stock-level"] {
        sum += figure(&lines, "type", kind, Metric::Throughput);
        assert!(figure(&lines, "type", kind, Metric::LatencyP50) <= figure(&lines, "type", kind, Metric::LatencyP99));
    }
    let all = figure(&lines, "type", "all", Metric::Throughput);
    assert!((sum / all - 1.0).abs() < 0.01, "{sum} is not {all}");
    assert!(figure(&lines, "type", "new-order", Metric::Throughput) / all > 0.4);
    assert!(figure(&lines, "type", "all", Metric::BytesWritten) > 500.0, "an order alone has lines of 50 bytes");
    assert!(figure(&lines, "type", "all", Metric::Rollbacks) < 0.1);
    assert!(figure(&lines, "reason", "all", Metric::Aborts) >= 0.0);
    for key in ["mix", "warehouses", "workers", "log", "commit", "group", "outstanding", "device", "items", "customers"]
    {
        assert!(lines.iter().all(|line| line.case.contains_key(key)), "{key}");
    }
    assert!(lines.iter().all(|line| line.runs.len() == 2 && line.bench == "tpcc"));
    assert!(target.directory().list().unwrap().is_empty(), "what was measured is gone");
}

#[test]
fn every_mix_engine_and_way_to_wait_is_a_case() {
    let settings = small(memory());
    let choices = Choices {
        protocols: vec![ProtocolKind::Locking, ProtocolKind::TicToc],
        releases: vec![Release::Early, Release::Normal],
        logs: vec![LogKind::Parallel, LogKind::Serial],
        commits: vec![CommitRule::Watermark, CommitRule::Dependencies],
        groups: vec![4],
    };
    let engines = choices.engines(&settings.sweep.engines[0].settings);
    let sweep = Sweep { engines, outstanding: vec![1, 20], duration: Duration::from_millis(10), ..settings.sweep };
    let settings = tpcc::Settings { mixes: Mix::ALL.to_vec(), sweep, ..settings };
    let lines = tpcc::run(&settings, &mut Silent).unwrap();
    let total =
        |line: &&Line| line.case.get("type").is_some_and(|kind| kind == "all") && line.metric == Metric::Throughput;
    let totals: Vec<&Line> = lines.iter().filter(total).collect();
    assert_eq!(totals.len(), 4 * 16 * 2);
    assert!(totals.iter().all(|line| line.median > 0.0));
    for line in &totals {
        assert_eq!(totals.iter().filter(|other| other.case == line.case).count(), 1, "{:?}", line.case);
    }
}

#[test]
fn without_a_medium_everything_is_done_and_nothing_is_kept() {
    let target = Medium::Nowhere.open("tpcc").unwrap();
    let lines = tpcc::run(&small(target), &mut Silent).unwrap();
    assert!(figure(&lines, "type", "all", Metric::BytesWritten) > 500.0, "it is written all the same");
    assert!(lines.iter().all(|line| line.case["device"] == "none"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |change: &dyn Fn(&mut tpcc::Settings)| {
        let mut settings = small(memory());
        change(&mut settings);
        tpcc::run(&settings, &mut Silent).unwrap_err()
    };
    let changes: [&dyn Fn(&mut tpcc::Settings); 9] = [
        &|settings| settings.mixes.clear(),
        &|settings| settings.warehouses.clear(),
        &|settings| settings.warehouses = vec![0],
        &|settings| settings.sweep.workers = vec![0],
        &|settings| settings.sweep.workers.clear(),
        &|settings| settings.sweep.outstanding = vec![0],
        &|settings| settings.sweep.rounds = 0,
        &|settings| settings.sweep.duration = Duration::ZERO,
        &|settings| settings.sweep.engines.clear(),
    ];
    for change in changes {
        assert!(matches!(refused(change), Error::Invalid { .. }));
    }
}
