//! All queries over loaded data give what another database gives over the same data.
//!
//! Where the expected answers come from stands in `src/answer/expected.rs`.

use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_bench::{Metric, Origin, Silent};
use ishigaki_remote::{Access, Credentials, Export, Location, NodeSettings, StorageNode, Worker};
use ishigaki_scan::{FragmentWorker, Placement, Wish, WorkerSettings};
use ishigaki_tpch::answer::expected;
use ishigaki_tpch::{Bench, Error, Host, LoadSettings, Query, Settings, load, run};

fn loaded(page_size: ByteSize) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = LoadSettings { data: directory.path().join("tpch"), scale: 0.01, page_size, threads: Some(2) };
    let loaded = load(&settings, &mut Silent).expect("loads");
    assert_eq!(loaded.rows, 60_175 + 15_000 + 8_000 + 2_000 + 1_500 + 100 + 25 + 5);
    let again = load(&settings, &mut Silent).expect_err("there are data already");
    assert!(matches!(again, Error::Loaded { ref scale, .. } if scale == "0.01"), "{again}");
    directory
}

#[test]
fn every_query_gives_the_answer_that_another_database_gives() {
    for page_size in [ByteSize::kib(4), ByteSize::kib(128)] {
        let directory = loaded(page_size);
        let bench = Bench::open(&directory.path().join("tpch"), None).expect("opens");
        let mut wrong = Vec::new();
        for query in Query::all() {
            let should = expected("0.01", query.number()).expect("all are known at this scale");
            match bench.answer(query) {
                Err(error) => wrong.push(error.to_string()),
                Ok(answer) => {
                    wrong.extend(answer.difference(&should).map(|reason| format!("query {query}: {reason}")));
                }
            }
        }
        assert!(wrong.is_empty(), "pages of {page_size}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn a_run_gives_a_line_for_each_query_and_says_that_it_was_checked() {
    let directory = loaded(ByteSize::kib(128));
    let settings = Settings {
        data: directory.path().join("tpch"),
        queries: [1, 6].into_iter().filter_map(Query::new).collect(),
        rounds: 3,
        placements: vec![Wish::Fixed(Placement::Local)],
        host: Host::Own { program: "nobody".into() },
        threads: None,
        page_memory: Some(ByteSize(0)),
    };
    let origin = Origin::here("test", Seed(1));
    let lines = run(&settings, &origin, &mut Silent).expect("runs");
    let times: Vec<_> = lines.iter().filter(|line| line.metric == Metric::LatencyP50).collect();
    assert_eq!(times.len(), 2);
    for (line, query) in times.into_iter().zip([1, 6]) {
        assert_eq!((line.case["query"].as_u64(), line.runs.len()), (Some(query), 3));
        assert_eq!(line.case["checked"], "expected answer");
        assert!(line.median > 0.0);
    }
    let elsewhere = Settings { data: directory.path().join("nothing"), ..settings };
    let error = run(&elsewhere, &origin, &mut Silent).expect_err("no data");
    assert!(error.to_string().contains("--load"), "{error}");
}

#[test]
fn work_that_a_node_refuses_gives_no_figure_of_push() {
    let directory = loaded(ByteSize::kib(16));
    let data = directory.path().join("tpch");
    let origin = Origin::here("test", Seed(1));
    let run_at = |worker: Option<Arc<dyn Worker>>, placement| {
        let export = Export::Folder(data.join("pages"));
        let settings =
            NodeSettings { listen: "127.0.0.1:0".to_owned(), access: Access::ReadOnly, ..NodeSettings::default() };
        let security = Credentials::None.security().expect("none");
        let node = StorageNode::start_with(&export, settings, security, worker).expect("a node");
        let location: Location = format!("node://{}/", node.address()).parse().expect("a location");
        let settings = Settings {
            data: data.clone(),
            queries: [6].into_iter().filter_map(Query::new).collect(),
            rounds: 1,
            placements: vec![Wish::Fixed(placement)],
            host: Host::Named(Box::new(location)),
            threads: None,
            page_memory: Some(ByteSize(0)),
        };
        run(&settings, &origin, &mut Silent).map_err(Box::new)
    };
    let worker = Arc::new(FragmentWorker::new(WorkerSettings::default()).expect("a worker"));
    let lines = run_at(Some(worker), Placement::Push).expect("the node works");
    assert!(lines.iter().all(|line| line.case["chosen"] == "push"), "{lines:?}");
    let error = run_at(None, Placement::Push).expect_err("nobody works there");
    assert!(matches!(*error, Error::Refused { query: 6, count: 1.., .. }), "{error}");
    assert!(error.to_string().contains("--no-work"), "{error}");
    assert!(run_at(None, Placement::Fetch).is_ok(), "pages travel all the same");
}

#[test]
fn every_query_is_compared_with_its_first_time_by_what_it_orders_by() {
    let directory = loaded(ByteSize::kib(128));
    let settings = Settings {
        data: directory.path().join("tpch"),
        queries: Query::all().collect(),
        rounds: 1,
        placements: vec![Wish::Fixed(Placement::Local)],
        host: Host::Own { program: "nobody".into() },
        threads: None,
        page_memory: None,
    };
    // A column of the order that an answer does not have would be a difference.
    let lines = run(&settings, &Origin::here("test", Seed(1)), &mut Silent).expect("all of them are the same");
    assert_eq!(lines.iter().filter(|line| line.metric == Metric::LatencyP50).count(), 22);
}
