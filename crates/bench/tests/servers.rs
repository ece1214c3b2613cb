//! Experiments with Debian's servers at smoke size; skipped where they can not be run.

use std::fs;
use std::io::Write as _;
use std::num::NonZero;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_bench::one_log::{Data, Disk, Host, Side};
use ishigaki_bench::tpcc::{Company, Scale, sql};
use ishigaki_bench::{Line, Metric, Origin, Silent, readers};
use ishigaki_logpool::Waiting;
use ishigaki_servers::Kind;

static STOP: AtomicBool = AtomicBool::new(false);

/// Where a test's servers are: a folder through which they may pass.
struct Place {
    folder: tempfile::TempDir,
    kind: Kind,
}

impl Place {
    /// `None` where such servers can not be run, which is told.
    fn new(test: &str, kind: Kind) -> Option<Self> {
        if let Err(reason) = kind.user() {
            let _ = writeln!(std::io::stderr(), "SKIPPED: {test}, {kind}: {reason}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { folder, kind })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn host(&self) -> Host {
        Host { program: program(), scratch: self.path().to_owned(), origin: origin(), stop: &STOP }
    }

    fn disk(&self) -> Disk {
        Disk::Folder(self.path().join("disk"))
    }

    /// Separate logs, and one log if there is a program that serves it.
    fn sides(&self) -> Vec<Side> {
        let mut sides = vec![Side::Separate];
        if program().exists() {
            sides.push(Side::Pool(Waiting::Auto));
        } else {
            let _ =
                writeln!(std::io::stderr(), "SKIPPED: {} on one log: there is no {}", self.kind, program().display());
        }
        sides
    }
}

fn origin() -> Origin {
    Origin { machine: "a machine".to_owned(), commit: "abc".to_owned(), seed: Seed(11) }
}

/// The example that serves pools, which is built with the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("examples/paper4")
}

fn find<'a>(lines: &'a [Line], metric: Metric, parts: &[(&str, &str)]) -> Vec<&'a Line> {
    let fits = |line: &&Line| {
        let says = |(key, value): &(&str, &str)| line.case.get(*key).and_then(serde_json::Value::as_str) == Some(value);
        line.metric == metric && parts.iter().all(says)
    };
    lines.iter().filter(fits).collect()
}

fn do_tpcc(kind: Kind) {
    let Some(place) = Place::new("servers do TPC-C through SQL", kind) else { return };
    let settings = sql::Settings {
        kind,
        disk: place.disk(),
        data: Data::Memory,
        servers: vec![1, 2],
        clients: 3,
        company: Company {
            warehouses: NonZero::new(2).unwrap(),
            scale: Scale::divided(NonZero::new(300).unwrap()),
            seed: Seed(5),
        },
        duration: Duration::from_secs(2),
        rounds: 1,
        sides: place.sides(),
        host: place.host(),
    };
    let lines = sql::run(&settings, &mut Silent).unwrap();
    for side in &settings.sides {
        let side = side.to_string();
        for transaction in ["all", "new-order", "payment"] {
            let found = find(&lines, Metric::Throughput, &[("side", &side), ("transaction", transaction)]);
            assert_eq!(found.len(), 2, "one for each number of servers");
            assert!(found.iter().all(|line| line.median > 0.0), "{found:?}");
        }
    }
    let over = find(&lines, Metric::Ratio, &[("of", "throughput over separate")]);
    assert_eq!(over.len(), 2 * (settings.sides.len() - 1));
}

#[test]
fn mariadb_does_tpcc_and_has_it_all_when_it_was_killed() {
    do_tpcc(Kind::MariaDb);
}

#[test]
fn postgresql_does_tpcc_and_has_it_all_when_it_was_killed() {
    do_tpcc(Kind::PostgreSql);
}

fn read(kind: Kind) {
    let Some(place) = Place::new("a server reads beside others that write", kind) else { return };
    let settings = readers::Settings {
        kind,
        disk: place.disk(),
        writers: 2,
        scale: 0.01,
        times: 1,
        rounds: 1,
        sides: place.sides(),
        host: place.host(),
    };
    let lines = readers::run(&settings, &mut Silent).unwrap();
    for query in ["q2", "q20"] {
        for beside in ["nobody", "writers"] {
            let found = find(&lines, Metric::Elapsed, &[("query", query), ("beside", beside)]);
            assert_eq!(found.len(), settings.sides.len());
            assert!(found.iter().all(|line| line.median > 0.0), "{found:?}");
        }
    }
    let written = find(&lines, Metric::Throughput, &[("who", "writers")]);
    assert!(written.len() == settings.sides.len() && written.iter().all(|line| line.median > 0.0), "{written:?}");
}

#[test]
fn mariadb_reads_beside_servers_that_write() {
    read(Kind::MariaDb);
}

#[test]
fn postgresql_reads_beside_servers_that_write() {
    read(Kind::PostgreSql);
}
