//! YCSB at smoke size.

use std::sync::Arc;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_bench::oltp::Sweep;
use ishigaki_bench::ycsb::{self, Workload};
use ishigaki_bench::{Error, Line, Medium, Metric, Origin, Silent, Target};
use ishigaki_device::MemoryDirectory;

fn small(target: Target) -> ycsb::Settings {
    let sweep =
        Sweep { duration: Duration::from_millis(30), rounds: 1, ..Sweep::new(target, Origin::here("test", Seed(1))) };
    ycsb::Settings { records: 2000, ..ycsb::Settings::new(sweep) }
}

fn memory() -> Target {
    Target::new("mem", Arc::new(MemoryDirectory::new()))
}

#[test]
fn every_workload_skew_and_number_of_workers_is_a_case_and_checked() {
    let target = memory();
    let settings = small(target.clone());
    let settings = ycsb::Settings {
        workloads: Workload::ALL.into_iter().chain([Workload::Reads(20)]).collect(),
        skews: vec![0.0, 0.99],
        sweep: Sweep { workers: vec![1, 3], ..settings.sweep },
        ..settings
    };
    let lines = ycsb::run(&settings, &mut Silent).unwrap();
    let throughputs: Vec<&Line> = lines.iter().filter(|line| line.metric == Metric::Throughput).collect();
    assert_eq!(throughputs.len(), 5 * 2 * 2);
    for line in &throughputs {
        assert!(line.median > 0.0 && line.bench == "ycsb");
        assert_eq!(throughputs.iter().filter(|other| other.case == line.case).count(), 1);
        for key in ["workload", "skew", "records", "payload", "operations", "workers", "outstanding", "device", "type"]
        {
            assert!(line.case.contains_key(key), "{key}");
        }
    }
    let bytes = |workload: &str| {
        let found = |line: &&Line| line.case["workload"] == workload && line.metric == Metric::BytesWritten;
        lines.iter().find(found).unwrap().median
    };
    assert!(bytes("c") < 1.0, "who only reads writes nothing");
    assert!(bytes("a") > 400.0 && bytes("a") > bytes("b"));
    assert!(target.directory().list().unwrap().is_empty(), "what was measured is gone");
}

#[test]
fn without_a_medium_it_is_measured_too() {
    let lines = ycsb::run(&small(Medium::Nowhere.open("ycsb").unwrap()), &mut Silent).unwrap();
    assert!(lines.iter().all(|line| line.case["device"] == "none"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let changes: [&dyn Fn(&mut ycsb::Settings); 7] = [
        &|settings| settings.workloads.clear(),
        &|settings| settings.skews = vec![1.0],
        &|settings| settings.skews = vec![-0.1],
        &|settings| settings.skews.clear(),
        &|settings| settings.records = 2,
        &|settings| settings.payload = ByteSize::b(15),
        &|settings| settings.operations = 0,
    ];
    for change in changes {
        let mut settings = small(memory());
        change(&mut settings);
        assert!(matches!(ycsb::run(&settings, &mut Silent), Err(Error::Invalid { .. })));
    }
}
