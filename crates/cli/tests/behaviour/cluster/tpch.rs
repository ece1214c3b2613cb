//! All queries of TPC-H over two nodes, joins and all.

use std::fmt::Write;

use ishigaki_tpch::{Query, Table};

use super::{Data, SCALE, Scheduler, joins};
use crate::node::served::Served;
use crate::program::{Program, database};

#[test]
fn every_query_of_tpch_gives_over_two_nodes_what_one_process_gives() {
    let data = Data::load("0.01");
    let folders = [data.node("a"), data.node("b")];
    let nodes = folders.each_ref().map(|folder| Served::start(folder, &[]));
    let addresses = nodes.each_ref().map(|node| node.address().to_owned());
    // The same names in a database that has nothing but nodes' tables, so that the queries stay as they are.
    let (spread, mut tables) = (database(), String::new());
    for table in Table::ALL {
        let (name, columns, key) = (table.name(), table.columns(), key(table));
        let places = addresses.each_ref().map(|address| format!("node://{address}/{name}")).join(", ");
        writeln!(
            tables,
            "CREATE TABLE {name} ({columns}) WITH (storage = 'paged', location = '{places}', page_size = '16KiB');"
        )
        .expect("a string takes it");
        for half in 0..2 {
            let file = spread.path().join(format!("{name}-{half}.parquet"));
            data.answer(&format!("COPY (SELECT * FROM {name} WHERE {key} % 2 = {half}) TO '{}'", file.display()));
            writeln!(tables, "COPY {name} FROM '{}';", file.display()).expect("a string takes it");
        }
    }
    let sql = || Program::new().args(["sql", "--format", "csv", "--data"]).arg(spread.path().join("database"));
    sql().args(["-c", &tables]).succeeds();
    drop(nodes);
    let scheduler = Scheduler::start();
    let nodes = [0, 1].map(|at| Served::start(&folders[at], &joins(&scheduler, &addresses[at])));
    let mut wrong = Vec::new();
    for query in Query::all() {
        let text = query.text(SCALE);
        let together = sql().args(["--cluster", &scheduler.address, "-c", &text]).start().ends();
        let alone = data.answer(&text);
        if (together.code, &together.stdout) != (Some(0), &alone) {
            wrong.push(format!("query {query}: {}{}instead of {alone}", together.stdout, together.stderr));
        }
        let plan = sql().args(["--cluster", &scheduler.address, "-c", &format!("EXPLAIN {text}")]).succeeds().stdout;
        if !plan.contains("IshigakiCluster") {
            wrong.push(format!("query {query} stays in this process: {plan}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for node in nodes {
        let ended = node.ends_by("TERM");
        assert!(ended["fragments_here"].as_u64() > Some(22), "{ended}");
        assert_eq!(ended["fragments_elsewhere"], 0, "{ended}");
    }
}

/// By which rows are dealt out.
fn key(table: Table) -> &'static str {
    match table {
        Table::LineItem => "l_orderkey",
        Table::Orders => "o_orderkey",
        Table::Customer => "c_custkey",
        Table::Part => "p_partkey",
        Table::PartSupp => "ps_partkey",
        Table::Supplier => "s_suppkey",
        Table::Nation => "n_nationkey",
        Table::Region => "r_regionkey",
    }
}
