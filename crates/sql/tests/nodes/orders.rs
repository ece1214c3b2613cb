//! Pushed scans that travel as orders: made of every pushed scan of a plan, and done in this process.

use std::fs;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use ishigaki_base::ErrorKind;
use ishigaki_scan::{Nodes, OrdersExec};
use ishigaki_sql::{Database, Session, Settings};

use super::shell::{self, error, rows, run};
use super::{Node, create};

/// Makes orders of pushed scans.
#[derive(Debug)]
struct Order(Arc<Nodes>);

impl PhysicalOptimizerRule for Order {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let made = plan.transform_up(|plan| {
            Ok(match OrdersExec::of(plan.as_ref(), &self.0) {
                Some(orders) => Transformed::yes(Arc::new(orders?) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(plan),
            })
        })?;
        Ok(made.data)
    }

    fn name(&self) -> &'static str {
        "order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A session that has orders done by `nodes`, and its folder.
fn ordering(nodes: &Arc<Nodes>) -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings { distribute: Some(Arc::new(Order(Arc::clone(nodes)))), ..shell::settings() };
    let session = Database::open(folder.path().join("data"), settings).expect("opens").session();
    (folder, session)
}

fn fill(session: &Session) {
    for half in 0..2 {
        let odd = format!(
            "INSERT INTO t SELECT value, 'name ' || value, value % 7 FROM generate_series(1, 10000) WHERE value % 2 = {half}"
        );
        run(session, &odd);
    }
}

#[test]
fn orders_give_the_rows_of_the_scans_that_they_were_made_of() {
    let (first, second) = (Node::start(), Node::start());
    let nodes = Arc::new(Nodes::new(Some(first.address.clone())));
    let (_folder, session) = ordering(&nodes);
    run(&session, &create("t", &format!("{}, {}", first.place("a"), second.place("b"))));
    fill(&session);
    let plan = rows(&session, "EXPLAIN SELECT sum(n) FROM t WHERE rest > 2").join("\n");
    assert!(plan.contains("IshigakiOrders") && plan.contains(&second.address), "{plan}");
    for (sql, expected) in [
        ("SELECT count(*), sum(n), min(name), max(rest) FROM t WHERE n > 0", "10000|50005000|name 1|6"),
        ("SELECT rest, count(*) FROM t WHERE n <= 14 GROUP BY rest ORDER BY rest LIMIT 1", "0|2"),
        ("SELECT n, name FROM t WHERE rest < 4 ORDER BY n DESC LIMIT 1", "9999|name 9999"),
        ("SELECT a.n FROM t a JOIN t b ON a.n = b.n + 9999", "10000"),
        ("SELECT count(*) FROM t WHERE n > 20000", "0"),
        ("SELECT sum(n) FROM t WHERE n > (SELECT avg(n) FROM t)", "37502500"),
    ] {
        assert_eq!(rows(&session, sql), [expected], "{sql}");
    }
    let (beside, elsewhere) = nodes.done();
    assert!(beside > 4 && elsewhere > 4, "{beside} beside, {elsewhere} elsewhere");
}

#[test]
fn an_order_is_done_by_a_replica_when_its_node_is_gone_and_only_if_that_is_the_same_file() {
    let (first, mut second) = (Node::start(), Node::start());
    let nodes = Arc::new(Nodes::new(None));
    let (_folder, session) = ordering(&nodes);
    let replicated = format!("{}?replica={}/copy", second.place("b"), first.address);
    run(&session, &create("t", &format!("{}, {replicated}", first.place("a"))));
    fill(&session);
    let copy = first.folder.path().join("copy");
    fs::create_dir(&copy).expect("a folder");
    for entry in fs::read_dir(second.folder.path().join("b")).expect("the page file") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), copy.join(entry.file_name())).expect("copied");
    }
    // A transaction keeps what it has seen, so that the node can go after that.
    let sums = "SELECT count(*), sum(n) FROM t WHERE rest >= 0";
    run(&session, "BEGIN");
    assert_eq!(rows(&session, sums), ["10000|50005000"]);
    second.stop();
    assert_eq!(rows(&session, sums), ["10000|50005000"], "by the replica");
    run(&session, "ROLLBACK");
    second.start_again();
    // To the emptiest file: both have as many, so to the first, and then to the second.
    run(&session, "INSERT INTO t VALUES (0, 'x', 0)");
    run(&session, "INSERT INTO t VALUES (0, 'y', 0)");
    run(&session, "BEGIN");
    assert_eq!(rows(&session, sums), ["10002|50005000"]);
    second.stop();
    let missing = error(&session, sums);
    assert_eq!(missing.kind(), ErrorKind::Unavailable, "{missing}");
    assert!(missing.to_string().contains(&second.address), "{missing}");
}
