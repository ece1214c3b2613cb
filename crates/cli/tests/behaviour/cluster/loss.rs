//! Nodes that are lost in the middle of a query: killed, or standing still for a while.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ishigaki_tpch::Table;

use super::{Data, Scheduler, at_nodes, joins, status};
use crate::node::served::Served;
use crate::program::{Program, Running, database, signal};

/// A query that takes some seconds at each node, so that it is caught in the middle.
static LONG: LazyLock<String> = LazyLock::new(|| {
    let letters = ["a%e", "e%i", "i%o", "o%u", "u%a", "s%t", "t%r", "r%n", "n%l", "l%y"];
    let counts = letters.iter().zip(1..).flat_map(|(letters, at)| {
        [1, 2].map(|times| {
            format!("count(*) FILTER (WHERE l_comment LIKE '{}%') AS c{at}{times}", format!("%{letters}").repeat(times))
        })
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    format!(
        "SELECT l_returnflag, l_shipmode, {counts}, count(*) AS lines, \
         sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged, min(l_comment) AS first, \
         max(l_comment) AS last FROM lineitem WHERE l_comment LIKE '%e%a%' OR l_comment LIKE '%o%u%i%' \
         GROUP BY l_returnflag, l_shipmode ORDER BY l_returnflag, l_shipmode"
    )
});

/// How long a node may be silent.
const SILENCE: u64 = 3;

/// When that must have been noticed, and the query be over, on a machine that does much else.
const LIMIT: Duration = Duration::from_mins(1);

/// How much processor time a node has used.
fn used(address: &str) -> Duration {
    Duration::from_nanos(status(address).processor_nanos)
}

/// Two nodes with half of a table each, and a copy of the second half at the first one.
fn halves() -> (Data, [PathBuf; 2]) {
    let data = Data::load("0.05");
    let folders = [data.node("a"), data.node("b")];
    let nodes = folders.each_ref().map(|folder| Served::start(folder, &[]));
    let places = nodes.each_ref().map(|node| format!("node://{}/lineitem", node.address()));
    data.spread(Table::LineItem, "l_orderkey", [&places[0], &places[1]]);
    drop(nodes);
    let copy = folders[0].join("copy");
    fs::create_dir(&copy).expect("a folder");
    for entry in fs::read_dir(folders[1].join("lineitem")).expect("the page file") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), copy.join(entry.file_name())).expect("copied");
    }
    (data, folders)
}

/// The long query, under way over two nodes of which the second one stands still.
struct UnderWay {
    scheduler: Scheduler,
    first: Served,
    second: Served,
    database: tempfile::TempDir,
    running: Running,
}

impl UnderWay {
    /// `options` stand behind the second node's location, and know the first one's address.
    fn start(folders: &[PathBuf; 2], options: impl Fn(&str) -> String) -> Self {
        let nodes = folders.each_ref().map(|folder| Served::start(folder, &[]));
        let addresses = nodes.each_ref().map(|node| node.address().to_owned());
        drop(nodes);
        let scheduler = Scheduler::start_with(&["--node-timeout", &SILENCE.to_string()]);
        let [first, second] = [0, 1].map(|at| Served::start(&folders[at], &joins(&scheduler, &addresses[at])));
        let database = database();
        let [one, other] = &addresses;
        let places = format!("node://{one}/lineitem, node://{other}/lineitem{}", options(one));
        let create = format!(
            "CREATE TABLE n_lineitem ({}) WITH (storage = 'paged', location = '{places}', existing = true)",
            Table::LineItem.columns()
        );
        sql(&database).args(["-c", &create]).succeeds();
        let before = used(other);
        let mut running = sql(&database).args(["--cluster", &scheduler.address, "-c", &at_nodes(&LONG)]).start();
        let begun = Instant::now();
        while used(other) < before + Duration::from_millis(150) {
            assert!(begun.elapsed() < Duration::from_mins(1), "the node has nothing to do");
            std::thread::sleep(Duration::from_millis(5));
        }
        // It does nothing more from here on, so the query can not end before it is missed.
        signal(second.id(), "STOP");
        assert!(!running.has_ended(), "the query was over before the node could be stopped");
        Self { scheduler, first, second, database, running }
    }
}

fn sql(database: &tempfile::TempDir) -> Program {
    Program::new().args(["sql", "--format", "csv", "--data"]).arg(database.path())
}

#[test]
fn a_query_whose_node_is_killed_ends_by_a_replica_or_says_what_is_missing() {
    let (data, folders) = halves();
    let alone = data.answer(&LONG);
    let under_way = UnderWay::start(&folders, |first| format!("?replica={first}/copy"));
    under_way.second.kill();
    let begun = Instant::now();
    let answer = under_way.running.ends();
    assert_eq!((answer.code, answer.stdout), (Some(0), alone), "{}", answer.stderr);
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    drop((under_way.first, under_way.scheduler));
    let under_way = UnderWay::start(&folders, |_| String::new());
    under_way.second.kill();
    let begun = Instant::now();
    let answer = under_way.running.ends();
    assert!(answer.code != Some(0) && answer.stdout.is_empty(), "{}", answer.stdout);
    assert!(answer.stderr.contains("n_lineitem, location node://"), "{}", answer.stderr);
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
}

#[test]
fn a_node_that_stood_still_is_done_without_and_takes_part_again_when_it_goes_on() {
    let (data, folders) = halves();
    let alone = data.answer(&LONG);
    let under_way = UnderWay::start(&folders, |first| format!("?replica={first}/copy"));
    let begun = Instant::now();
    let answer = under_way.running.ends();
    assert_eq!((answer.code, answer.stdout), (Some(0), alone.clone()), "{}", answer.stderr);
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(SILENCE - 1) && took < LIMIT, "{took:?}");
    signal(under_way.second.id(), "CONT");
    let before = used(under_way.second.address());
    let again = || {
        let query = at_nodes(&LONG);
        sql(&under_way.database).args(["--cluster", &under_way.scheduler.address, "-c", &query]).succeeds().stdout
    };
    // It may need a moment to be back.
    let begun = Instant::now();
    loop {
        assert_eq!(again(), alone);
        if used(under_way.second.address()) > before + Duration::from_millis(150) {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "the node does not take part again");
    }
    let ended = under_way.first.ends_by("TERM");
    assert!(ended["fragments_here"].as_u64() >= Some(3), "its own twice, and the other one's by the copy: {ended}");
}
