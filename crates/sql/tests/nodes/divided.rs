//! Scans that are long enough to be done in both ways at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_remote::{Access, Folder, Results, WorkError, Worker};
use ishigaki_scan::{FragmentWorker, WorkerSettings};
use ishigaki_sql::{Database, Settings};
use ishigaki_testkit::seeded_runs;

use crate::shell::Shell;
use crate::{Node, QUERIES, counted, create, serve_with};

/// Does every second piece of work, and as for the others is busy until nobody wants them any more.
#[derive(Debug)]
struct Tiring {
    worker: FragmentWorker,
    taken: AtomicUsize,
}

impl Tiring {
    fn new() -> Self {
        let worker = FragmentWorker::new(WorkerSettings::default()).expect("a worker");
        Self { worker, taken: AtomicUsize::new(0) }
    }
}

impl Worker for Tiring {
    fn take(&self, order: &[u8], folder: Folder, results: Results) -> Result<(), WorkError> {
        if !self.taken.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            return self.worker.take(order, folder, results);
        }
        std::thread::spawn(move || {
            while !results.is_stopped() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Ok(())
    }
}

impl Node {
    fn start_with(&mut self, worker: Option<Arc<dyn Worker>>) {
        self.stop();
        self.running = Some(serve_with(&self.folder, &self.address, Access::ReadWrite, worker));
    }
}

const ROWS: u64 = 150_000;

/// One that keeps pages in so much memory.
fn shell(page_memory: ByteSize) -> Shell {
    let directory = tempfile::tempdir().expect("a folder");
    let settings = Settings { page_memory, ..Settings::default() };
    let database = Database::open(directory.path().join("data"), settings).expect("opens");
    let session = database.session();
    Shell { directory, database, session }
}

/// The same anew, with no page in memory.
fn cold(shell: Shell, page_memory: ByteSize) -> Shell {
    let Shell { directory, database, session } = shell;
    drop((session, database));
    let settings = Settings { page_memory, ..Settings::default() };
    let database = Database::open(directory.path().join("data"), settings).expect("opens");
    let session = database.session();
    Shell { directory, database, session }
}

/// A table `t` at a node that is worth dividing, and what all queries give if its pages are fetched. No page is kept.
fn filled() -> (Shell, Node, Vec<Vec<String>>) {
    let (shell, node) = (shell(ByteSize(0)), Node::start());
    shell.run(&create("t", &node.place("tables")).replace("4KiB", "32KiB"));
    shell.run(&format!(
        "INSERT INTO t SELECT value, 'name ' || value || repeat('.', 80), value % 7 FROM generate_series(1, {ROWS})"
    ));
    shell.run("CREATE TABLE few (n BIGINT PRIMARY KEY, word TEXT); INSERT INTO few VALUES (9999, 'a'), (10000, 'b')");
    shell.run("SET ishigaki.placement = 'fetch'");
    let answers = QUERIES.iter().map(|query| shell.rows(query)).collect();
    shell.run("SET ishigaki.placement = 'auto'");
    (shell, node, answers)
}

const SUMS: &str = "SELECT rest, count(*), sum(n), min(name) FROM t WHERE n > 5 GROUP BY rest ORDER BY rest";

#[track_caller]
fn all_answers_are(shell: &Shell, answers: &[Vec<String>]) {
    for (query, answer) in QUERIES.iter().zip(answers) {
        assert_eq!(&shell.rows(query), answer, "{query}");
    }
}

#[test]
fn a_long_scan_that_is_left_to_the_planner_is_divided_and_each_page_is_done_once() {
    let (shell, _node, answers) = filled();
    let plan = shell.plan(SUMS);
    for words in ["placement=fetch", "placement=push", ", divided", "estimated=[fetch", "estimated=[push"] {
        assert!(plan.contains(words), "{words} in {plan}");
    }
    all_answers_are(&shell, &answers);
    shell.run("SET ishigaki.placement = 'fetch'");
    let pages = counted(&shell, SUMS, "pages_read");
    shell.run("SET ishigaki.placement = 'auto'");
    let explained = shell.rows(&format!("EXPLAIN ANALYZE {SUMS}")).join("\n");
    let both = crate::added(&explained, "pages_read") + crate::added(&explained, "pages_at_node");
    assert_eq!(both, pages, "{explained}");
    assert!(crate::added(&explained, "orders") > 0, "{explained}");
}

/// Whether all that the node is to do of it may be fetched as well. What is pushed alone waits as long as the node works.
fn is_divided(shell: &Shell, query: &str) -> bool {
    let plan = shell.plan(query);
    plan.lines().filter(|line| line.contains("IshigakiPushScan")).all(|line| line.contains(", divided"))
        && plan.contains(", divided")
}

#[test]
fn what_a_node_is_too_busy_for_is_taken_back_and_fetched() {
    let (shell, mut node, answers) = filled();
    node.start_with(Some(Arc::new(Tiring::new())));
    let begun = Instant::now();
    let explained = shell.rows(&format!("EXPLAIN ANALYZE {SUMS}")).join("\n");
    let count = |counter| crate::added(&explained, counter);
    assert_eq!((count("orders"), count("orders_taken_back")), (1, 1), "{explained}");
    assert_eq!(count("pages_at_node"), 0, "{explained}");
    assert!(count("bytes_fetched") > 0, "{explained}");
    // Other orders are done, and the one behind is taken back, if there is one.
    let mut divided = 0;
    for (query, answer) in QUERIES.iter().zip(&answers).filter(|(query, _)| is_divided(&shell, query)) {
        assert_eq!(&shell.rows(query), answer, "{query}");
        divided += 1;
    }
    assert!(divided > QUERIES.len() / 2, "{divided} of {}", QUERIES.len());
    // The worker itself never gives up.
    assert!(begun.elapsed() < Duration::from_mins(2), "{:?}", begun.elapsed());
}

/// Pages in memory here are the last ones that are fetched, so an order may have pages from before and behind them.
#[test]
fn whatever_pages_are_in_memory_every_placement_gives_the_same_rows() {
    let (first, _node, answers) = filled();
    let mut shells = vec![first];
    seeded_runs("whatever_pages_are_in_memory_every_placement_gives_the_same_rows", 6, |seed| {
        let mut random = seed.generator();
        let memory = [ByteSize(0), ByteSize::mib(4), ByteSize::mib(256)][random.usize(0..3)];
        let shell = cold(shells.pop().expect("the one of the run before"), memory);
        for _ in 0..4 {
            // Reads some pages, and joins skip others of the same scan.
            shell.run("SET ishigaki.placement = 'fetch'");
            let from = random.u64(0..ROWS);
            let to = from + random.u64(1..ROWS / 4);
            let warms = format!("SELECT count(name), min(rest) FROM t WHERE n BETWEEN {from} AND {to}");
            assert_eq!(shell.rows(&warms).len(), 1);
            shell.run(
                ["SET ishigaki.placement = 'auto'", "SET ishigaki.placement = 'push'"]
                    [usize::from(random.u8(0..4) == 0)],
            );
            for _ in 0..3 {
                let at = random.usize(0..QUERIES.len());
                assert_eq!(
                    shell.rows(QUERIES[at]),
                    answers[at],
                    "{memory} of pages, {from} to {to} warm: {}",
                    QUERIES[at]
                );
            }
        }
        assert_eq!(shell.database.refused_work(), 0, "an order that is refused costs a second way");
        shells.push(shell);
    });
}

#[test]
fn what_a_node_refuses_of_a_scan_is_fetched() {
    let (shell, mut node, answers) = filled();
    node.start_with(None);
    let explained = shell.rows(&format!("EXPLAIN ANALYZE {SUMS}")).join("\n");
    let count = |counter| crate::added(&explained, counter);
    assert_eq!((count("refused"), count("pages_at_node")), (1, 0), "{explained}");
    all_answers_are(&shell, &answers);
}

#[test]
fn a_scan_that_is_done_again_and_again_in_one_query_is_whole_each_time() {
    let (shell, _node, _) = filled();
    let recursive = "WITH RECURSIVE r AS (
            SELECT 1 AS step, 0 AS found
            UNION ALL
            SELECT r.step + 1, CAST(c.found AS BIGINT) FROM r CROSS JOIN (SELECT count(*) AS found FROM t WHERE n % 2 = 0) AS c WHERE r.step < 4
        ) SELECT step, found FROM r ORDER BY step";
    let half = ROWS / 2;
    assert_eq!(
        shell.rows(recursive),
        ["1|0".to_owned(), format!("2|{half}"), format!("3|{half}"), format!("4|{half}")]
    );
}
