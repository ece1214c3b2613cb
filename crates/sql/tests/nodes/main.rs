//! Paged tables whose pages lie at storage nodes, over real connections on this host.

use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_base::ErrorKind;
use ishigaki_fabric::Security;
use ishigaki_remote::{Access, Export, Folder, NodeSettings, Results, StorageNode, WorkError, Worker};
use ishigaki_scan::{FragmentWorker, WorkerSettings};
use ishigaki_sql::{Database, Error, Settings};
use tempfile::TempDir;

#[path = "../behaviour/shell.rs"]
#[expect(dead_code, reason = "the other tests use the rest of it")]
mod shell;

mod divided;
mod orders;

use shell::{Shell, rows, run};

/// A node over a folder of its own.
struct Node {
    folder: TempDir,
    running: Option<StorageNode>,
    address: String,
}

impl Node {
    fn start() -> Self {
        Self::of(Access::ReadWrite)
    }

    fn of(access: Access) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let running = serve(&folder, "127.0.0.1:0", access);
        let address = running.address().to_string();
        Self { folder, running: Some(running), address }
    }

    /// As if its power had gone off.
    fn stop(&mut self) {
        self.running = None;
    }

    fn start_again(&mut self) {
        self.running = Some(serve(&self.folder, &self.address, Access::ReadWrite));
    }

    /// With nobody who does work.
    fn start_idle(&mut self) {
        self.running = Some(serve_with(&self.folder, &self.address, Access::ReadWrite, None));
    }

    fn start_broken(&mut self, broken: Broken) {
        self.running = Some(serve_with(&self.folder, &self.address, Access::ReadWrite, Some(Arc::new(broken))));
    }

    fn place(&self, directory: &str) -> String {
        format!("node://{}/{directory}", self.address)
    }

    fn files(&self, directory: &str) -> usize {
        let entries = std::fs::read_dir(self.folder.path().join(directory));
        entries.map_or(0, |entries| entries.filter(|entry| !is_lock(entry)).count())
    }

    fn bytes_read(&self) -> u64 {
        self.running.as_ref().map_or(0, |node| node.status().bytes_read)
    }
}

/// Does no work, in one of many ways.
#[derive(Clone, Copy, Debug)]
enum Broken {
    /// Says that there are no results, not even their schema.
    EndsAtOnce,
    /// Fails at the order.
    FailsToBegin,
    /// Fails at the work.
    Fails,
    /// Is not heard of again.
    Vanishes,
}

impl Worker for Broken {
    fn take(&self, _: &[u8], _: Folder, results: Results) -> Result<(), WorkError> {
        let reason = "it is broken".to_owned();
        let error = ishigaki_device::Error::Invalid { name: String::new(), reason };
        match self {
            Self::EndsAtOnce => results.finish(Ok(())),
            Self::FailsToBegin => return Err(error.into()),
            Self::Fails => results.finish(Err(error.into())),
            Self::Vanishes => drop(results),
        }
        Ok(())
    }
}

/// What is there for locks alone.
fn is_lock(entry: &std::io::Result<std::fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| entry.file_name() == "LOCK")
}

fn serve(folder: &TempDir, listen: &str, access: Access) -> StorageNode {
    let worker = FragmentWorker::new(WorkerSettings::default()).expect("a worker");
    serve_with(folder, listen, access, Some(Arc::new(worker)))
}

fn serve_with(folder: &TempDir, listen: &str, access: Access, worker: Option<Arc<dyn Worker>>) -> StorageNode {
    let settings = NodeSettings { listen: listen.to_owned(), access, ..NodeSettings::default() };
    let export = Export::Folder(folder.path().to_owned());
    StorageNode::start_with(&export, settings, Security::Open, worker).expect("a node")
}

fn create(table: &str, place: &str) -> String {
    format!(
        "CREATE TABLE {table} (n BIGINT NOT NULL, name TEXT, rest INT)
         WITH (storage = 'paged', location = '{place}', page_size = '4KiB')"
    )
}

/// A paged table `t` of 10,000 rows at a node.
fn filled() -> (Shell, Node) {
    let (shell, node) = (Shell::new(), Node::start());
    shell.run(&create("t", &node.place("tables")));
    shell.run("INSERT INTO t SELECT value, 'name ' || value, value % 7 FROM generate_series(1, 10000) ORDER BY value");
    (shell, node)
}

#[test]
fn a_table_at_a_node_is_read_appended_to_and_dropped_as_one_here() {
    let (shell, node) = filled();
    assert!(node.files("tables") > 1, "nothing lies at the node");
    let sums = "SELECT count(*), sum(n), min(name), max(rest) FROM t WHERE n > 0";
    assert_eq!(shell.rows(sums), ["10000|50005000|name 1|6"]);
    assert_eq!(shell.run("INSERT INTO t VALUES (0, 'zero', 0)"), 1);
    let shell = shell.reopen();
    assert_eq!(shell.rows("SELECT count(*) FROM t WHERE rest = 0"), ["1429"]);
    shell.run("SET ishigaki.placement = 'fetch'");
    let plan = shell.plan("SELECT name FROM t WHERE n BETWEEN 5000 AND 5010");
    assert!(plan.contains("placement=fetch") && !plan.contains("FilterExec"), "{plan}");
    assert!(shell.rows("SHOW TABLES")[0].contains(&node.place("tables")));
    shell.run("DROP TABLE t");
    assert_eq!(node.files("tables"), 0);
}

#[test]
fn pages_that_were_fetched_are_kept_and_skipped_ones_never_travel() {
    let (shell, node) = filled();
    let shell = shell.reopen();
    shell.run("SET ishigaki.placement = 'fetch'");
    let before = node.bytes_read();
    let query = "SELECT sum(n), max(name) FROM t WHERE n BETWEEN 5000 AND 5010";
    assert_eq!(shell.rows(query), ["55055|name 5010"]);
    let first = node.bytes_read() - before;
    let before = node.bytes_read();
    assert_eq!(shell.rows(query), ["55055|name 5010"]);
    let second = node.bytes_read() - before;
    // The manifest is looked at each time; pages and their bounds are not.
    assert!(first < 100_000 && second < first, "{first} bytes, then {second}");
}

#[test]
fn a_nodes_table_joins_with_tables_of_rows_and_with_parts_that_are_here() {
    let (shell, node) = filled();
    shell.run("SET ishigaki.placement = 'fetch'");
    shell.run("CREATE TABLE few (n BIGINT PRIMARY KEY, word TEXT); INSERT INTO few VALUES (9999, 'a'), (10000, 'b')");
    let join = "SELECT few.word, t.name FROM few JOIN t ON t.n = few.n ORDER BY 1";
    assert_eq!(shell.rows(join), ["a|name 9999", "b|name 10000"]);
    assert_eq!(shell.run("UPDATE few SET word = (SELECT max(name) FROM t WHERE t.n = few.n)"), 2);
    assert_eq!(shell.rows("SELECT word FROM few"), ["name 9999", "name 10000"]);
    // One table, half of it here.
    let (here, there) = (shell.file("here"), node.place("there"));
    shell.run(&create("both", &format!("{here}, {there}")));
    shell.run("INSERT INTO both SELECT * FROM t WHERE n <= 4000; INSERT INTO both SELECT * FROM t WHERE n > 4000");
    assert!(node.files("there") > 1);
    assert_eq!(shell.rows("SELECT count(*), sum(n) FROM both WHERE rest >= 0"), ["10000|50005000"]);
    assert!(shell.plan("SELECT name FROM both").contains("placement=local+fetch"));
    shell.refuses(&create("twice", &format!("{there}, {there}?connections=2")), &["named twice"]);
}

#[test]
fn a_lost_node_is_a_clear_error_and_one_that_comes_back_is_used_again() {
    let (shell, mut node) = filled();
    assert_eq!(shell.rows("SELECT sum(n) FROM t WHERE rest >= 0"), ["50005000"]);
    node.stop();
    let begun = Instant::now();
    for sql in ["SELECT sum(n) FROM t WHERE rest >= 0", "INSERT INTO t VALUES (1, 'x', 1)"] {
        let error = shell.error(sql);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let text = error.to_string();
        assert!(text.contains(&node.place("tables")) && text.contains("see that the node runs"), "{text}");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    // Others are not in its way.
    shell.run("CREATE TABLE rows (n INT); INSERT INTO rows VALUES (1)");
    node.start_again();
    assert_eq!(shell.rows("SELECT sum(n) FROM t WHERE rest >= 0"), ["50005000"]);
    assert_eq!(shell.run("INSERT INTO t VALUES (1, 'x', 1)"), 1);
    assert_eq!(shell.rows("SELECT sum(n) FROM t WHERE rest >= 0"), ["50005001"]);
}

#[test]
fn a_table_that_is_first_read_after_its_node_was_started_again_is_there_at_once() {
    let (shell, mut node) = filled();
    shell.run(&create("u", &node.place("tables")));
    assert_eq!(shell.rows("SELECT sum(n) FROM t WHERE rest >= 0"), ["50005000"]);
    node.stop();
    node.start_again();
    // By the connection that `t` was read by, which nobody knows to be lost.
    assert_eq!(shell.rows("SELECT count(*) FROM u WHERE rest >= 0"), ["0"]);
    assert_eq!(shell.rows("SELECT sum(n) FROM t WHERE rest >= 0"), ["50005000"]);
}

#[test]
fn one_who_answers_nothing_is_given_up_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("listens");
    let place = format!("node://{}/t", silent.local_addr().expect("an address"));
    let shell = Shell::new();
    let begun = Instant::now();
    let error = shell.error(&create("t", &place));
    assert!(matches!(&error, Error::Node { table, .. } if table == "t"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(shell.rows("SHOW TABLES").len(), 0);
}

#[test]
fn two_databases_use_one_nodes_table_and_append_in_turns() {
    let (shell, node) = filled();
    let other = Shell::new();
    let existing = create("t", &node.place("tables")).replace("page_size", "existing = true, page_size");
    other.refuses(&create("t", &node.place("tables")), &["there already", "existing = true"]);
    other.run(&existing);
    assert_eq!(other.rows("SELECT count(*) FROM t"), ["10000"]);
    // Nobody has to close his database for the other one's append.
    for at in 0..3 {
        run(&other.session, &format!("INSERT INTO t VALUES ({at}, 'other', 1)"));
        shell.run(&format!("INSERT INTO t VALUES ({at}, 'first', 1)"));
    }
    assert_eq!(other.rows("SELECT count(*) FROM t"), ["10006"]);
    other.run("DROP TABLE t");
    assert_eq!(shell.rows("SELECT count(*) FROM t WHERE name IN ('first', 'other')"), ["6"]);
}

#[test]
fn a_node_that_only_reads_says_so() {
    let (shell, node) = (Shell::new(), Node::of(Access::ReadOnly));
    shell.refuses(&create("t", &node.place("")), &[&node.place(""), "reading only"]);
}

/// Counters of `EXPLAIN ANALYZE`, added up.
fn counted(shell: &Shell, sql: &str, counter: &str) -> u64 {
    added(&shell.rows(&format!("EXPLAIN ANALYZE {sql}")).join("\n"), counter)
}

/// The same of what it said.
fn added(explained: &str, counter: &str) -> u64 {
    let begin = format!("{counter}=");
    let counts = explained.split(&begin).skip(1);
    let digits = counts.map(|rest| rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>());
    digits.map(|digits| digits.parse::<f64>().expect("a number") as u64).sum()
}

const QUERIES: [&str; 15] = [
    "SELECT count(*), sum(n), avg(n), min(name), max(name) FROM t WHERE rest < 5",
    "SELECT rest, count(*), sum(n), avg(n), min(name) FROM t WHERE n > 100 GROUP BY rest ORDER BY rest",
    "SELECT rest, sum(n * 2 + 1) FILTER (WHERE n % 2 = 0) FROM t GROUP BY rest ORDER BY rest",
    "SELECT sum(n) FROM t WHERE n < 0",
    "SELECT rest, count(*) FROM t WHERE n < 0 GROUP BY rest",
    "SELECT name FROM t WHERE name LIKE 'name 99%' AND NOT (rest IN (1, 2) OR rest IS NULL) ORDER BY n",
    "SELECT n, name FROM t ORDER BY rest DESC, n LIMIT 7",
    "SELECT n + rest, name FROM t WHERE n BETWEEN 50 AND 60 ORDER BY n",
    "SELECT CASE WHEN rest = 1 THEN 'one' ELSE 'other' END AS word, sum(n) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT count(DISTINCT rest), max(n) FROM t WHERE name > 'name 5'",
    "SELECT length(name), count(*) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT substr(name, 2, 3), count(*), max(substring(name FROM 6)) FROM t WHERE substr(name, 6, 2) IN ('99', '12') GROUP BY 1 ORDER BY 1",
    "SELECT few.word, t.name FROM few JOIN t ON t.n = few.n ORDER BY 1",
    "SELECT n FROM t WHERE n > (SELECT avg(n) + 4995 FROM t) ORDER BY n",
    "SELECT a.rest, count(*) FROM t AS a JOIN t AS b ON a.n = b.n + 1 GROUP BY 1 ORDER BY 1",
];

#[test]
fn every_placement_gives_the_same_answers() {
    let (shell, node) = filled();
    shell.run("INSERT INTO t VALUES (20000, NULL, NULL), (20001, 'ä', 3)");
    shell.run("CREATE TABLE few (n BIGINT PRIMARY KEY, word TEXT); INSERT INTO few VALUES (9999, 'a'), (10000, 'b')");
    // One half here, one there, and another one at the node.
    let (here, there, beside) = (shell.file("here"), node.place("there"), node.place("beside"));
    shell.run(&create("mixed", &format!("{here}, {there}, {beside}")));
    for part in 0..6 {
        let part = format!("INSERT INTO mixed SELECT * FROM t WHERE n % 6 = {part}");
        shell.run(&part);
    }
    for query in QUERIES {
        for query in [query.to_owned(), query.replace("FROM t", "FROM mixed AS t").replace("JOIN t", "JOIN mixed AS t")]
        {
            let query = query.replace("AS t AS", "AS");
            shell.run("SET ishigaki.placement = 'fetch'");
            let fetched = shell.rows(&query);
            assert!(!shell.plan(&query).contains("placement=push"), "{query}");
            for placement in ["push", "auto", "local"] {
                shell.run(&format!("SET ishigaki.placement = {placement}"));
                assert_eq!(shell.rows(&query), fetched, "{placement}: {query}");
                // A node that does nothing would give the same answers.
                if placement == "push" {
                    assert_eq!(counted(&shell, &query, "refused"), 0, "{query}");
                }
            }
        }
    }
}

#[test]
fn what_is_pushed_sends_results_alone() {
    let (shell, _node) = filled();
    let sums = "SELECT rest, sum(n), count(name) FROM t WHERE n > 10 GROUP BY rest";
    shell.run("SET ishigaki.placement = 'fetch'");
    let fetched = counted(&shell, sums, "bytes_fetched");
    shell.run("SET ishigaki.placement = 'push'");
    let plan = shell.plan(sums);
    assert!(plan.contains("IshigakiPushScan: table=t, placement=push"), "{plan}");
    assert!(plan.contains("then partial aggregates") && plan.contains("estimated=[push"), "{plan}");
    let pushed = counted(&shell, sums, "bytes_received");
    assert!(pushed > 0 && pushed * 10 < fetched, "{pushed} bytes instead of {fetched}");
    let top = "SELECT name FROM t ORDER BY n DESC LIMIT 3";
    assert_eq!(shell.rows(top), ["name 10000", "name 9999", "name 9998"]);
    assert!(shell.plan(top).contains("then first 3"), "{}", shell.plan(top));
    // A function that no node knows of is done here, and the scan is pushed all the same.
    let plan = shell.plan("SELECT max(length(name)) FROM t WHERE n < 100");
    assert!(plan.contains("placement=push") && !plan.contains("then partial"), "{plan}");
    // A condition that can not travel keeps its pages company.
    let plan = shell.plan("SELECT n FROM t WHERE length(name) = 6");
    assert!(plan.contains("placement=fetch"), "{plan}");
}

#[test]
fn one_thread_has_as_much_pushed_as_several() {
    let directory = tempfile::tempdir().expect("a folder");
    let settings = Settings { threads: NonZeroUsize::new(1), ..Settings::default() };
    let database = Database::open(directory.path().join("data"), settings).expect("opens");
    let session = database.session();
    let (shell, node) = (Shell { directory, database, session }, Node::start());
    shell.run(&create("t", &node.place("tables")));
    shell.run("INSERT INTO t SELECT value, 'name ' || value, value % 7 FROM generate_series(1, 10000) ORDER BY value");
    shell.run("SET ishigaki.placement = 'push'");
    let sums = "SELECT rest, sum(n) FROM t GROUP BY rest ORDER BY rest LIMIT 1";
    assert!(shell.plan(sums).contains("then partial aggregates"), "{}", shell.plan(sums));
    assert_eq!(shell.rows(sums), ["0|7142142"]);
}

#[test]
fn what_a_join_finds_out_travels_with_the_work() {
    let (shell, _node) = filled();
    shell.run("SET ishigaki.placement = 'push'");
    let join = "SELECT t.name FROM (VALUES (9999), (10000)) AS few (n) JOIN t ON t.n = few.n";
    assert_eq!(shell.rows(&format!("{join} ORDER BY 1")), ["name 10000", "name 9999"]);
    let received = counted(&shell, join, "bytes_received");
    assert!(received < 20_000 && counted(&shell, join, "pages_skipped") > 0, "{received} bytes");
}

#[test]
fn the_wish_is_the_sessions_and_other_settings_are_refused() {
    let shell = Shell::new();
    assert_eq!(shell.rows("SHOW ishigaki.placement"), ["fetch"]);
    shell.run("SET ishigaki.placement TO push");
    assert_eq!(shell.rows("SHOW ishigaki.placement"), ["push"]);
    shell.run("BEGIN; SET SESSION ishigaki.placement = 'Auto'; ROLLBACK");
    assert_eq!(shell.rows("SHOW ishigaki.placement"), ["auto"]);
    assert_eq!(rows(&shell.other(), "SHOW ishigaki.placement"), ["fetch"]);
    shell.refuses("SET ishigaki.placement = 'remote'", &["`remote`", "auto, local, fetch or push"]);
    shell.refuses("SET search_path = 'x'", &["SET search_path", "ishigaki.placement"]);
    shell.refuses("SHOW search_path", &["SHOW TABLES"]);
}

#[test]
fn a_node_that_is_lost_is_an_error_that_names_it() {
    let (shell, mut node) = filled();
    shell.run("SET ishigaki.placement = 'push'");
    assert_eq!(shell.rows("SELECT sum(n) FROM t WHERE rest >= 0"), ["50005000"]);
    node.stop();
    let error = shell.error("SELECT sum(n) FROM t WHERE rest >= 0");
    assert!(matches!(&error, Error::Node { table, .. } if table == "t"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[test]
fn results_without_their_end_are_an_error_and_no_refusal() {
    let (shell, mut node) = filled();
    shell.run("SET ishigaki.placement = 'push'");
    node.stop();
    node.start_broken(Broken::EndsAtOnce);
    for sql in ["SELECT sum(n), count(*) FROM t WHERE rest >= 0", "SELECT n FROM t WHERE rest = 3"] {
        let error = shell.error(sql).to_string();
        assert!(error.contains("rows may be missing"), "{error}");
    }
}

#[test]
fn work_that_a_node_answers_it_can_not_do_is_done_here_whatever_the_reason() {
    let (shell, mut node) = filled();
    shell.run("SET ishigaki.placement = 'push'");
    let queries =
        ["SELECT sum(n), count(*) FROM t WHERE rest >= 0", "SELECT n FROM t WHERE rest = 3 ORDER BY n LIMIT 3"];
    let answers = queries.map(|sql| shell.rows(sql));
    for broken in [Broken::FailsToBegin, Broken::Fails, Broken::Vanishes] {
        node.stop();
        node.start_broken(broken);
        assert_eq!(queries.map(|sql| shell.rows(sql)), answers, "{broken:?}");
        assert_eq!(counted(&shell, queries[0], "refused"), 1, "{broken:?}");
    }
}

#[test]
fn work_that_a_node_refuses_is_done_here_over_pages_that_are_fetched() {
    let (shell, mut node) = filled();
    let queries = [
        "SELECT sum(n), count(*) FROM t WHERE rest >= 0",
        "SELECT rest, sum(n), avg(n) FROM t GROUP BY rest ORDER BY rest",
        "SELECT n, name FROM t WHERE rest = 3 ORDER BY n DESC LIMIT 5",
        "SELECT count(*) FROM t WHERE name LIKE 'name 12%'",
    ];
    let fetched = queries.map(|sql| shell.rows(sql));
    shell.run("SET ishigaki.placement = 'push'");
    assert_eq!(queries.map(|sql| shell.rows(sql)), fetched);
    assert_eq!(counted(&shell, queries[1], "refused"), 0);
    node.stop();
    node.start_idle();
    assert_eq!(queries.map(|sql| shell.rows(sql)), fetched);
    assert_eq!(counted(&shell, queries[1], "refused"), 1);
    // Also where one part's node refuses and the other part is here.
    let here = tempfile::tempdir().expect("a folder");
    shell.run(&create("both", &format!("{}, {}", here.path().display(), node.place("more"))));
    for sql in ["INSERT INTO both SELECT * FROM t WHERE n <= 100", "INSERT INTO both SELECT * FROM t WHERE n > 100"] {
        shell.run(sql);
    }
    let both = queries.map(|sql| shell.rows(&sql.replace("FROM t", "FROM both")));
    assert_eq!(both, fetched);
}
