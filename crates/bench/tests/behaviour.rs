//! The workloads at smoke size: what they print follows from what they did.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_bench::bank::{self, Books};
use ishigaki_bench::{Error, Metric, Origin, Progress, Silent, checkpoint, commit};
use ishigaki_txn::{Database, Settings};

/// How many figures one session count has: two sides of four, the writes, the ratio and the share.
const FIGURES: usize = 11;

fn origin() -> Origin {
    Origin::here("test", Seed(1))
}

fn small_log() -> ishigaki_wal::Settings {
    ishigaki_wal::Settings { segment: ByteSize::mib(1), ..ishigaki_wal::Settings::default() }
}

struct Heard(Vec<(u64, u64)>);

impl Progress for Heard {
    fn step(&mut self, _now: &str, done: u64, of: u64) {
        self.0.push((done, of));
    }
}

#[test]
fn commit_measures_both_sides_for_each_session_count() {
    let directory = tempfile::tempdir().unwrap();
    let settings = commit::Settings {
        sessions: vec![1, 2],
        duration: Duration::from_millis(50),
        rounds: 2,
        log: small_log(),
        ..commit::Settings::new(directory.path().join("new"), origin())
    };
    let mut heard = Heard(Vec::new());
    let lines = commit::run(&settings, &mut heard).unwrap();

    assert_eq!(lines.len(), 2 * FIGURES);
    for line in &lines {
        assert_eq!(line.bench, "commit");
        assert_eq!(line.runs.len(), 2);
        assert!(line.min > 0.0 && line.min <= line.median && line.median <= line.max, "{}", line.json());
    }
    for (sessions, lines) in [1, 2].into_iter().zip(lines.chunks(FIGURES)) {
        assert!(lines.iter().all(|line| line.case["sessions"] == sessions));
        for target in ["engine", "device"] {
            let one = |metric| {
                let of = |line: &&ishigaki_bench::Line| line.case["target"] == target && line.metric == metric;
                lines.iter().find(of).unwrap().median
            };
            assert!(one(Metric::Throughput) > 0.0);
            assert!(one(Metric::LatencyP50) <= one(Metric::LatencyP99));
            assert!(one(Metric::LatencyP99) <= one(Metric::LatencyP999));
        }
    }
    assert_eq!(heard.0.last(), Some(&(8, 8)), "two counts, two rounds, two sides");
    let left = std::fs::read_dir(directory.path().join("new")).unwrap().count();
    assert_eq!(left, 0, "what was measured is gone");
}

#[test]
fn a_lone_commit_takes_one_device_write() {
    let directory = tempfile::tempdir().unwrap();
    let settings = commit::Settings {
        sessions: vec![1],
        duration: Duration::from_millis(100),
        rounds: 1,
        // One segment holds the whole round: what is counted is commits, not the change of segments.
        log: ishigaki_wal::Settings { segment: ByteSize::mib(64), streams: 1, ..small_log() },
        ..commit::Settings::new(directory.path(), origin())
    };
    let lines = commit::run(&settings, &mut Silent).unwrap();
    let writes = lines.iter().find(|line| line.metric == Metric::Writes).unwrap();
    assert!((writes.median - 1.0).abs() < 0.01, "{}", writes.json());
}

#[test]
fn commit_refuses_settings_without_sense() {
    let directory = tempfile::tempdir().unwrap();
    let good = commit::Settings::new(directory.path(), origin());
    for bad in [
        commit::Settings { sessions: vec![], ..good.clone() },
        commit::Settings { sessions: vec![1, 0], ..good.clone() },
        commit::Settings { rounds: 0, ..good.clone() },
        commit::Settings { duration: Duration::ZERO, ..good.clone() },
        commit::Settings { value: ByteSize::gib(1), ..good.clone() },
    ] {
        assert!(matches!(commit::run(&bad, &mut Silent), Err(Error::Invalid { .. })));
    }
}

#[test]
fn checkpoint_measures_both_sides_for_each_session_count() {
    let directory = tempfile::tempdir().unwrap();
    let good = checkpoint::Settings {
        sessions: vec![1, 2],
        duration: Duration::from_millis(100),
        rounds: 2,
        filled: ByteSize::mib(1),
        log: small_log(),
        ..checkpoint::Settings::new(directory.path(), origin())
    };
    let lines = checkpoint::run(&good, &mut Silent).unwrap();
    for sessions in [1, 2] {
        let of = |target: &str, metric| {
            let is = |line: &&ishigaki_bench::Line| {
                line.case["sessions"] == sessions && line.case["target"] == target && line.metric == metric
            };
            lines.iter().find(is).unwrap()
        };
        let (alone, beside) = (of("alone", Metric::Throughput), of("beside", Metric::Throughput));
        let ratio = of("beside/alone", Metric::Ratio);
        for (round, ratio) in ratio.runs.iter().enumerate() {
            assert!((ratio - beside.runs[round] / alone.runs[round]).abs() < 1e-9, "{}", beside.json());
        }
        assert!(of("checkpoint", Metric::Elapsed).min > 0.0, "there were checkpoints");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "what was measured is gone");
    for bad in [
        checkpoint::Settings { value: ByteSize::b(7), ..good.clone() },
        checkpoint::Settings { filled: ByteSize::b(100), ..good.clone() },
        checkpoint::Settings { sessions: vec![0], ..good },
    ] {
        assert!(matches!(checkpoint::run(&bad, &mut Silent), Err(Error::Invalid { .. })));
    }
}

#[test]
fn a_bank_goes_on_where_it_stopped_and_keeps_what_it_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let settings = bank::Settings {
        sessions: 3,
        accounts: 4,
        duration: Some(Duration::from_millis(100)),
        log: small_log(),
        ..bank::Settings::new(directory.path(), origin())
    };
    assert_eq!(bank::check(&settings).unwrap().accounts, 0, "an empty database is right");

    let acknowledged = Mutex::new(Vec::new());
    let acknowledge = |session, sequence| {
        acknowledged.lock().unwrap().push((session, sequence));
        Ok(())
    };
    let mut before = 0;
    for _ in 0..2 {
        let (report, lines) = bank::run(&settings, &AtomicBool::new(false), Some(&acknowledge)).unwrap();
        assert!(report.transfers > before, "the second run adds to the first");
        before = report.transfers;
        assert_eq!((report.accounts, report.last.len()), (4, 3));
        assert!(lines.iter().any(|line| line.metric == Metric::Throughput && line.median > 0.0));
        assert_eq!(bank::check(&settings).unwrap(), report);
    }

    let database = Database::open(directory.path(), Settings { log: small_log(), ..Settings::default() }).unwrap();
    let books = Books::read(&database).unwrap();
    let mut acknowledged = acknowledged.into_inner().unwrap();
    acknowledged.sort_unstable();
    assert!(books.journal.keys().copied().eq(acknowledged), "every transfer was acknowledged once, under its number");
}

#[test]
fn a_bank_that_does_not_add_up_is_not_continued() {
    let directory = tempfile::tempdir().unwrap();
    let settings = bank::Settings {
        duration: Some(Duration::from_millis(20)),
        log: small_log(),
        ..bank::Settings::new(directory.path(), origin())
    };
    bank::run(&settings, &AtomicBool::new(false), None).unwrap();

    let database = Database::open(directory.path(), Settings { log: small_log(), ..Settings::default() }).unwrap();
    let forged = database.session().run(|transaction| {
        let table = transaction.table("account")?.expect("the run founded the bank");
        transaction.put(table, &0_u32.to_be_bytes(), &[0; 16])
    });
    forged.map_err(|error: ishigaki_txn::Error| error.to_string()).unwrap();
    database.close().unwrap();

    for wrong in [bank::check(&settings).unwrap_err(), bank::run(&settings, &AtomicBool::new(false), None).unwrap_err()]
    {
        assert!(matches!(wrong, Error::Wrong { .. }) && wrong.to_string().contains("account 0 holds 0"), "{wrong}");
    }
}

#[test]
fn a_set_stop_flag_ends_a_bank_that_has_no_end() {
    let directory = tempfile::tempdir().unwrap();
    let settings = bank::Settings { log: small_log(), ..bank::Settings::new(directory.path(), origin()) };
    let (report, _) = bank::run(&settings, &AtomicBool::new(true), None).unwrap();
    assert_eq!(report.transfers, 0);
}
