//! Paper 5, chapter 3: a run of a few seconds, a run that is stopped, and the page of fixed lines.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_bench::figures::{self, Paper, p5b};
use ishigaki_bench::{Error, Metric, Progress, Silent, volumes};
use serde_json::json;

use crate::{line, origin};

/// Whether there can be servers on volumes here; says what is missing if not. Everything else that fails is the measurement's fault.
fn can_run() -> bool {
    let fuse = (!Path::new("/dev/fuse").exists()).then(|| "no /dev/fuse".to_owned());
    let control = (!Path::new("/dev/loop-control").exists()).then(|| "no loop devices".to_owned());
    let missing = volumes::missing().or(fuse).or(control);
    if let Some(lack) = &missing {
        let _ = writeln!(std::io::stderr(), "SKIPPED: servers on volumes: {lack}");
    }
    missing.is_none()
}

fn smoke(scratch: &Path, stop: &'static AtomicBool) -> p5b::Settings {
    p5b::Settings { scale: p5b::Scale::smoke(), scratch: scratch.to_owned(), origin: origin(), stop }
}

/// Nothing of this process is left: no file, no mount, no control group.
fn assert_nothing_is_left(scratch: &Path) {
    assert_eq!(std::fs::read_dir(scratch).unwrap().count(), 0, "a file is left");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&scratch.display().to_string()), "a mount is left: {mounts}");
    let own = format!("ishigaki-bench-{}-", std::process::id());
    for root in ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"] {
        let groups = std::fs::read_dir(root).into_iter().flatten().flatten();
        let left: Vec<_> =
            groups.map(|group| group.file_name()).filter(|name| name.to_string_lossy().starts_with(&own)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
#[ignore = "long: four servers on four volumes, several times over, take more than a minute"]
fn servers_work_on_volumes_by_every_way_and_a_run_that_is_stopped_leaves_nothing() {
    static NEVER: AtomicBool = AtomicBool::new(false);
    static STOP: AtomicBool = AtomicBool::new(false);
    /// Stops before the second way.
    struct Stopping;
    impl Progress for Stopping {
        fn step(&mut self, _now: &str, done: u64, _of: u64) {
            STOP.store(done >= 1, Ordering::Release);
        }
    }

    if !can_run() {
        return;
    }
    let held = tempfile::tempdir().unwrap();
    let error = p5b::run(&smoke(held.path(), &STOP), &mut Stopping).unwrap_err();
    assert!(matches!(error, Error::Server(ishigaki_servers::Error::Stopped)), "{error}");
    assert_nothing_is_left(held.path());

    let lines = p5b::run(&smoke(held.path(), &NEVER), &mut Silent).unwrap();
    assert_nothing_is_left(held.path());
    let work = lines.iter().filter(|line| line.bench == volumes::WORK && line.metric == Metric::Throughput);
    assert!(work.clone().all(|line| line.median > 0.0), "{lines:?}");
    assert_eq!(work.count(), 3);
    // Two ways are told over time: throughput, hits and the share, in halves of ten phases.
    assert_eq!(lines.iter().filter(|line| line.bench == volumes::TIME).count(), 2 * 3 * 20);
    let page = Paper::P5b.page(&lines, &figures::plots(Paper::P5b, &lines).unwrap());
    assert!(page.contains("\n## What gets done\n"), "{page}");
}

#[test]
fn the_page_tells_what_holds_and_what_does_not() {
    let case = |mode: &str, fifteenths: u32, share: Option<f64>, mib: u64, more: serde_json::Value| {
        let mut case = json!({
            "mode": mode, "share": share, "fifteenths": fifteenths, "chunk": 1_048_576, "unit": mib << 20, "data": 960 << 20,
            "servers": 4, "cached_percent": 2, "phase": 10.0, "sets": 2, "window": 1.0, "workers": 8, "extents": 500,
        });
        case.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        case
    };
    let done = |mode: &str, share, mib, runs: &[f64]| {
        line(volumes::WORK, &case(mode, 2, share, mib, json!({})), Metric::Throughput, runs)
    };
    let part = |half: u32, metric, value, more| {
        let mut case = case("adaptive", 2, None, 3, json!({"half_phase": half}));
        case.as_object_mut().unwrap().extend(serde_json::Value::as_object(&more).unwrap().clone());
        line(volumes::TIME, &case, metric, &[value])
    };
    let lines = [
        line(volumes::WORK, &case("none", 0, None, 3, json!({})), Metric::Throughput, &[50.0]),
        done("block cache", None, 3, &[90.0, 100.0, 110.0]),
        line(volumes::WORK, &case("block cache", 2, None, 3, json!({})), Metric::HitRatio, &[0.25]),
        line(volumes::WORK, &case("block cache", 2, None, 3, json!({"of": volumes::READS})), Metric::Ratio, &[0.82]),
        done("plain", Some(0.4), 3, &[280.0]),
        done("plain", Some(0.4), 4, &[200.0]),
        done("layout", Some(0.4), 3, &[300.0]),
        done("layout", Some(0.4), 4, &[230.0]),
        done("layout", Some(0.6), 3, &[330.0]),
        done("adaptive", None, 3, &[320.0]),
        part(0, Metric::Throughput, 100.0, json!({})),
        part(1, Metric::Throughput, 120.0, json!({})),
        part(0, Metric::HitRatio, 0.1, json!({})),
        part(0, Metric::Ratio, 0.8, json!({"of": volumes::SHARE})),
    ];
    let plots = figures::plots(Paper::P5b, &lines).unwrap();
    let names: Vec<_> = plots.iter().map(|plot| plot.name.as_str()).collect();
    assert_eq!(names, ["p5b-work", "p5b-shares", "p5b-units", "p5b-throughput-2", "p5b-hits-2", "p5b-share-2"]);
    let page = Paper::P5b.page(&lines, &plots);
    for row in [
        "| r adaptive: 3.15 of FlashCache's work | 2/15: 3.20 (rounds 2.91 to 3.56) | yes |",
        "| r adaptive: 1.171 of prefetch without layout | 2/15: 1.14 (rounds 1.14 to 1.14) | **no** |",
        "| 2/15: the best of the fixed shares is 0.6 | 0.6 | yes |",
        "| units of 3 MiB get most done | 3 MiB | yes |",
        "| in units of 4 MiB, layout gets 1.12 of what is done without | 2/15: 1.15 (rounds 1.15 to 1.15) | yes |",
        "| adaptive: at least 1 of what the best of the fixed shares gets done | 2/15: 0.97 (rounds 0.97 to 0.97) | **no** |",
        "| 2/15 | block cache | 3 MiB | 100/s | 90/s | 110/s | 25% | 82% |",
        "4 servers in four groups have tables of 960 MiB together",
    ] {
        assert!(page.contains(row), "{row}\n{page}");
    }
}
