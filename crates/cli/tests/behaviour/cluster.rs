//! Queries over two storage nodes and a scheduler, each a process of its own.

use std::fs;
use std::path::{Path, PathBuf};

use ishigaki_tpch::{Query, Table};
use serde_json::Value;
use tempfile::TempDir;

use crate::node::served::Served;
use crate::program::{Program, Running, database};

mod loss;
mod options;
mod tpch;

/// A scheduler that runs; killed when dropped.
struct Scheduler {
    running: Option<Running>,
    address: String,
}

impl Scheduler {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(arguments: &[&str]) -> Self {
        let free = if arguments.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] };
        let mut running = Program::new().args(["cluster", "--json"]).args(free).args(arguments).start();
        let line = running.hear();
        let Ok(told) = serde_json::from_str::<Value>(&line) else { panic!("{line}{}", running.ends().stderr) };
        Self { running: Some(running), address: told["cluster"].as_str().expect("an address").to_owned() }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
        }
    }
}

/// Data in a database, and folders of nodes beside it.
struct Data {
    folder: TempDir,
}

impl Data {
    fn load(scale: &str) -> Self {
        let folder = database();
        Program::new()
            .args(["bench", "tpch", "--load", "--scale", scale, "--page-size", "16KiB", "--data"])
            .arg(folder.path().join("tpch"))
            .succeeds();
        Self { folder }
    }

    fn node(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).expect("a folder");
        path
    }

    fn sql(&self) -> Program {
        Program::new().args(["sql", "--format", "csv", "--data"]).arg(self.folder.path().join("tpch/database"))
    }

    fn answer(&self, sql: &str) -> String {
        self.sql().args(["-c", sql]).succeeds().stdout
    }

    /// Puts one half of a table at each of these places, as a table whose name begins with `n_`.
    fn spread(&self, table: Table, key: &str, places: [&str; 2]) {
        let (name, columns, places) = (table.name(), table.columns(), places.join(", "));
        self.answer(&format!(
            "CREATE TABLE n_{name} ({columns}) WITH (storage = 'paged', location = '{places}', page_size = '16KiB')"
        ));
        for half in 0..2 {
            self.answer(&format!("INSERT INTO n_{name} SELECT * FROM {name} WHERE {key} % 2 = {half}"));
        }
    }

    fn spread_all(&self, nodes: [&str; 2]) {
        for (table, key) in
            [(Table::LineItem, "l_orderkey"), (Table::Orders, "o_orderkey"), (Table::Customer, "c_custkey")]
        {
            let places = nodes.map(|node| format!("node://{node}/{}", table.name()));
            self.spread(table, key, [&places[0], &places[1]]);
        }
    }
}

/// Of the data of most tests, in words [`Data::load`] is given.
const SCALE: f64 = 0.01;

fn text(number: u8) -> String {
    Query::new(number).expect("a query").text(SCALE)
}

/// The same over the tables at nodes.
fn at_nodes(sql: &str) -> String {
    ["lineitem", "orders", "customer"].iter().fold(sql.to_owned(), |sql, table| {
        let words = sql.split_inclusive(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
        let words = words.map(|word| {
            if word.trim_end_matches(|letter: char| !letter.is_alphanumeric()) == *table {
                format!("n_{word}")
            } else {
                word.to_owned()
            }
        });
        words.collect()
    })
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    entries
        .map(
            |entry| if entry.path().is_dir() { size(&entry.path()) } else { entry.metadata().expect("its size").len() },
        )
        .sum()
}

fn joins<'a>(scheduler: &'a Scheduler, listen: &'a str) -> [&'a str; 5] {
    ["--executor", "--scheduler", &scheduler.address, "--listen", listen]
}

fn status(address: &str) -> ishigaki_remote::Status {
    let location: ishigaki_remote::Location = format!("node://{address}/").parse().expect("a location");
    location.connect().expect("connected").client().status().expect("its status")
}

/// Two nodes that have [all that is spread](Data::spread_all), and a scheduler that they have joined.
struct Joined {
    scheduler: Scheduler,
    folders: [PathBuf; 2],
    nodes: [Served; 2],
}

impl Joined {
    fn over(data: &Data) -> Self {
        let folders = [data.node("a"), data.node("b")];
        let nodes = folders.each_ref().map(|folder| Served::start(folder, &[]));
        let addresses = nodes.each_ref().map(|node| node.address().to_owned());
        data.spread_all([&addresses[0], &addresses[1]]);
        drop(nodes);
        let scheduler = Scheduler::start();
        let nodes = [0, 1].map(|at| Served::start(&folders[at], &joins(&scheduler, &addresses[at])));
        Self { scheduler, folders, nodes }
    }
}

#[test]
fn two_nodes_and_a_scheduler_answer_like_one_process_and_the_work_is_done_beside_the_pages() {
    let data = Data::load("0.01");
    let Joined { scheduler, folders, nodes } = Joined::over(&data);
    let addresses = nodes.each_ref().map(|node| node.address().to_owned());
    let compare = |number| {
        let alone = data.answer(&text(number));
        let sql = at_nodes(&text(number));
        let together = data.sql().args(["--cluster", &scheduler.address, "-c", &sql]).succeeds().stdout;
        assert!(alone.lines().count() > 1, "{alone}");
        assert_eq!(together, alone, "query {number}");
    };
    let pages = folders.each_ref().map(|folder| size(folder));
    // Partial aggregates are all that leaves a node, and not one page.
    [1, 6].into_iter().for_each(compare);
    for (address, pages) in addresses.iter().zip(pages) {
        let results = status(address).bytes_of_results;
        assert!(results > 0 && results < pages / 100, "{results} bytes of results over {pages} bytes of pages");
    }
    compare(3);
    for (node, pages) in nodes.into_iter().zip(pages) {
        let ended = node.ends_by("TERM");
        let count = |what: &str| ended[what].as_u64().unwrap_or_else(|| panic!("{what} in {ended}"));
        assert_eq!(count("fragments_here"), 5, "a fragment for each scan of the three queries: {ended}");
        assert_eq!(count("fragments_elsewhere"), 0, "{ended}");
        assert!(
            count("bytes_read") < pages / 20,
            "manifests and zone maps travel, and no pages: {pages} bytes: {ended}"
        );
    }
}

/// Queries whose plans have operators that are not DataFusion's.
const OWN_OPERATORS: [&str; 4] = [
    "SELECT c_custkey FROM n_customer ORDER BY c_custkey OFFSET 1490",
    "SELECT 2 AS a, c_custkey AS b FROM n_customer UNION ALL SELECT 1, c_custkey + 10000 FROM n_customer ORDER BY 1 DESC, 2 DESC LIMIT 4",
    "SELECT c_nationkey, o_orderkey FROM (SELECT * FROM n_customer WHERE c_nationkey = 3) c \
     FULL JOIN (SELECT * FROM n_orders WHERE o_orderkey < 100) o ON c_custkey = o_custkey \
     ORDER BY c_nationkey NULLS FIRST, o_orderkey LIMIT 30",
    "SELECT c_nationkey, c_mktsegment, count(*) FROM n_customer WHERE c_nationkey < 3 \
     GROUP BY ROLLUP (c_nationkey, c_mktsegment) ORDER BY 1, 2",
];

#[test]
fn what_datafusion_has_no_operator_for_is_done_by_the_cluster_too() {
    let data = Data::load("0.01");
    let Joined { scheduler, folders: _, nodes: _nodes } = Joined::over(&data);
    let cluster = |sql: &str| data.sql().args(["--cluster", &scheduler.address, "-c", sql]).succeeds().stdout;
    for sql in OWN_OPERATORS {
        let plan = cluster(&format!("EXPLAIN {sql}"));
        assert!(plan.contains("IshigakiCluster"), "{sql} stays in this process: {plan}");
        let alone = data.answer(&sql.replace("n_", ""));
        assert!(alone.lines().count() > 4, "{alone}");
        assert_eq!(cluster(sql), alone, "{sql}");
    }
}

#[test]
fn without_a_scheduler_or_without_nodes_a_query_fails_at_once_and_says_what_to_start() {
    let data = Data::load("0.01");
    let folders = [data.node("a"), data.node("b")];
    let nodes = folders.each_ref().map(|folder| Served::start(folder, &[]));
    let places = nodes.each_ref().map(|node| format!("node://{}/customer", node.address()));
    data.spread(Table::Customer, "c_custkey", [&places[0], &places[1]]);
    let count = |cluster: &str| {
        data.sql().args(["--cluster", cluster, "-c", "SELECT sum(c_acctbal) FROM n_customer"]).start().ends()
    };
    let answer = count("127.0.0.1:1");
    assert!(answer.code != Some(0) && answer.stderr.contains("ishigaki cluster --listen"), "{}", answer.stderr);
    let scheduler = Scheduler::start();
    let answer = count(&scheduler.address);
    assert!(answer.code != Some(0) && answer.stderr.contains("ishigaki node --executor"), "{}", answer.stderr);
    // What is not at nodes needs no cluster.
    let sql = "SELECT count(*) FROM customer";
    assert_eq!(data.sql().args(["--cluster", "127.0.0.1:1", "-c", sql]).succeeds().stdout, data.answer(sql));
}
