//! The log's workloads at smoke size, on modelled and plain memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, Lsn};
use ishigaki_bench::wal::{self, COMMITS, LOGS, Variant, Workload};
use ishigaki_bench::{Error, Line, Metric, Origin, Silent, Target, long};
use ishigaki_device::{MemoryDirectory, ModelledDirectory, Pace};
use ishigaki_wal::{CommitRule, Log, LogKind};

/// Figures of one case.
const FIGURES: usize = 9;

fn origin() -> Origin {
    Origin::here("test", Seed(1))
}

fn modelled(name: &str) -> Target {
    Target::new(name, Arc::new(ModelledDirectory::in_memory(name.parse().unwrap(), Pace::Real)))
}

fn small(target: Target) -> wal::Settings {
    wal::Settings {
        duration: Duration::from_millis(40),
        rounds: 1,
        log: ishigaki_wal::Settings { segment: ByteSize::mib(1), ..ishigaki_wal::Settings::default() },
        ..wal::Settings::new(target, origin())
    }
}

fn figure(lines: &[Line], metric: Metric) -> f64 {
    lines.iter().find(|line| line.metric == metric).unwrap().median
}

#[test]
fn every_log_and_rule_and_number_of_workers_is_a_case() {
    let target = modelled("nvm:5us");
    // Epochs that are shorter than a run.
    let short = LogKind::Epoch { time: Duration::from_millis(3) };
    let logs = LOGS.map(|log| if log == LogKind::EPOCH { short } else { log });
    let settings = wal::Settings {
        workloads: Workload::ALL.to_vec(),
        variants: Variant::product(&logs, &COMMITS),
        workers: vec![1, 2],
        rounds: 1,
        duration: Duration::from_millis(10),
        ..small(target.clone())
    };
    let lines = wal::run(&settings, &mut Silent).unwrap();
    let cases = Workload::ALL.len() * 2 * LOGS.len() * COMMITS.len();
    assert_eq!(lines.len(), cases * FIGURES);
    for lines in lines.chunks(FIGURES) {
        let case = &lines[0].case;
        for key in ["workload", "log", "commit", "workers", "group", "device", "outstanding"] {
            assert!(case.contains_key(key), "{key}");
        }
        assert!(lines.iter().all(|line| line.case == *case && line.runs.len() == 1 && line.bench == "wal"));
        assert!(figure(lines, Metric::Throughput) > 0.0);
        assert!(figure(lines, Metric::UntilFlushedP50) <= figure(lines, Metric::LatencyP50), "{case:?}");
        assert!(figure(lines, Metric::LatencyP50) <= figure(lines, Metric::LatencyP99));
        assert!((0.0..=1.0).contains(&figure(lines, Metric::ShareOfWaiting)));
        // So short a run may fall between two writes where the machine does other things.
        assert!(figure(lines, Metric::Bandwidth) >= 0.0 && figure(lines, Metric::ShareOfDevice) >= 0.0);
    }
    assert!(target.directory().list().unwrap().is_empty(), "what was measured is gone");
}

#[test]
fn a_full_group_is_one_device_write() {
    let settings = wal::Settings {
        workers: vec![1],
        variants: vec![Variant { log: LogKind::Parallel, commit: CommitRule::Watermark }],
        // Without threads of its own the log writes a group when it is full, neither before nor later.
        log: ishigaki_wal::Settings {
            background: false,
            segment: ByteSize::mib(64),
            ..ishigaki_wal::Settings::default()
        },
        duration: Duration::from_millis(200),
        ..small(modelled("nvm:20us"))
    };
    let lines = wal::run(&settings, &mut Silent).unwrap();
    assert!(figure(&lines, Metric::ShareOfDevice) > 0.0);
    let writes = figure(&lines, Metric::Writes);
    // The last group is not full.
    let about = figure(&lines, Metric::Throughput) * 0.2;
    assert!((writes - 1.0 / 16.0).abs() < 0.001 + 2.0 / about, "{writes} writes a transaction");
    let bytes = figure(&lines, Metric::Bandwidth) / figure(&lines, Metric::Throughput);
    assert!((210.0..840.0).contains(&bytes), "{bytes} bytes a transaction, and its record has 420");
}

#[test]
fn one_worker_never_waits_for_others_to_know_that_its_record_counts() {
    let settings = wal::Settings { workers: vec![1], ..small(modelled("nvm:5us")) };
    let lines = wal::run(&settings, &mut Silent).unwrap();
    for lines in lines.chunks(FIGURES) {
        assert!(figure(lines, Metric::ShareOfWaiting) < 0.2, "{:?}", figure(lines, Metric::ShareOfWaiting));
    }
}

#[test]
fn settings_without_sense_are_refused() {
    let memory = || Target::new("mem", Arc::new(MemoryDirectory::new()));
    let good = small(memory());
    let full = memory();
    full.directory().create("something", 512).unwrap();
    for bad in [
        wal::Settings { workloads: vec![], ..good.clone() },
        wal::Settings { workloads: vec![Workload::Tpcc { warehouses: 0 }], ..good.clone() },
        wal::Settings { variants: vec![], ..good.clone() },
        wal::Settings { workers: vec![1, 0], ..good.clone() },
        wal::Settings { groups: vec![0], ..good.clone() },
        wal::Settings { outstanding: Some(0), ..good.clone() },
        wal::Settings { rounds: 0, ..good.clone() },
        wal::Settings { duration: Duration::ZERO, ..good.clone() },
        wal::Settings { target: full, ..good.clone() },
    ] {
        assert!(matches!(wal::run(&bad, &mut Silent), Err(Error::Invalid { .. })));
    }
}

fn long(target: Target, free_after: ByteSize) -> long::Settings {
    let log = ishigaki_wal::Settings { segment: ByteSize::mib(1), ..ishigaki_wal::Settings::default() };
    long::Settings {
        writes: vec![ByteSize::kib(8)],
        workers: 2,
        duration: Duration::from_millis(500),
        interval: Duration::from_millis(100),
        free_after,
        ..long::Settings::new(long::Side::both(&log), target, origin())
    }
}

#[test]
fn long_writing_has_a_figure_for_each_interval_and_frees_space_in_between() {
    let freed = AtomicU64::new(0);
    let free = |log: &Log, side: &long::Side| {
        assert!(log.last_drawn() > Lsn::ZERO);
        freed.fetch_add(if side.trim { 1 } else { 1 << 32 }, Ordering::Relaxed);
        Ok(())
    };
    let target = modelled("nvm:50us");
    let lines = long::run(&long(target.clone(), ByteSize::kib(64)), &free, &mut Silent).unwrap();
    assert_eq!(lines.len(), 2 * 2);
    for (lines, trim) in lines.chunks(2).zip([false, true]) {
        assert_eq!(lines[0].case["trim"], trim);
        assert_eq!((lines[0].metric, lines[0].runs.len()), (Metric::Bandwidth, 5));
        assert!(lines[0].max > 0.0);
        assert_eq!(lines[1].metric, Metric::Ratio);
    }
    let freed = freed.into_inner();
    assert!(freed >> 32 > 0 && freed as u32 > 0, "space is freed on both sides");
    assert!(target.directory().list().unwrap().is_empty());
}

#[test]
fn long_writing_ends_with_the_failure_of_freeing() {
    let fails = |_: &Log, _: &long::Side| Err(ishigaki_wal::Error::Closed);
    let settings = long(modelled("nvm:50us"), ByteSize::kib(64));
    assert!(matches!(long::run(&settings, &fails, &mut Silent), Err(Error::Log(_))));
}
