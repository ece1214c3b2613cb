//! All queries over loaded data give what another database gives over the same data.
//!
//! Where the expected answers come from stands in `src/answer/expected.rs`.

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_bench::{Metric, Origin, Silent};
use ishigaki_scan::{Placement, Wish};
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
