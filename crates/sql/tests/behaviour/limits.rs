//! Statements that are deep, large or long to plan.

use std::time::{Duration, Instant};

use ishigaki_base::ErrorKind;

use crate::shell::Shell;

fn table() -> Shell {
    Shell::with("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 10), (NULL, 20)")
}

#[test]
fn a_statement_may_be_thousands_of_levels_deep() {
    let shell = table();
    let nested = |left: &str, middle: &str, right: &str, depth: usize| {
        format!("SELECT {}{middle}{} FROM t ORDER BY b", left.repeat(depth), right.repeat(depth))
    };
    assert_eq!(shell.rows(&nested("(", "a", ")", 50)), ["1", "NULL"]);
    assert_eq!(shell.rows(&nested("(", "a", ")", 3000)), ["1", "NULL"]);
    assert_eq!(shell.rows(&nested("CASE WHEN a = 2 THEN 5 ELSE ", "a", " END", 200)), ["1", "NULL"]);
    assert_eq!(shell.rows(&nested("(1 + ", "a", ")", 200)), ["201", "NULL"]);
    assert_eq!(shell.rows(&format!("SELECT {}1{}", "(SELECT ".repeat(8), ")".repeat(8))), ["1"]);
    // DataFusion checks what is nested twice at every level.
    shell.refuses(&format!("SELECT {}1{}", "(SELECT ".repeat(30), ")".repeat(30)), &["subqueries within one another"]);
    assert_eq!(shell.rows(&nested("abs(", "a", ")", 300)), ["1", "NULL"]);
    shell.refuses(&nested("(", "a", ")", 5000), &["nested too deeply"]);
}

#[test]
fn coalesce_in_coalesce_is_planned_in_no_time() {
    let shell = table();
    let mut nested = "a".to_owned();
    for default in 0..40 {
        nested = format!("coalesce({nested}, {default})");
    }
    let began = Instant::now();
    assert_eq!(shell.rows(&format!("SELECT {nested} FROM t ORDER BY b")), ["1", "0"]);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn an_expression_that_would_grow_without_bounds_is_refused() {
    let shell = table();
    let mut nested = "a".to_owned();
    for summand in 0..40 {
        nested = format!("coalesce({summand} + {nested}, b)");
    }
    let began = Instant::now();
    shell.refuses(&format!("SELECT {nested} FROM t"), &["grows", "coalesce"]);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn planning_ends_when_the_statement_is_cancelled() {
    let shell = table();
    // A plan of many nodes, each of which many rules look at.
    let tables: Vec<String> = (0..400).map(|n| format!("SELECT a + {n} AS a FROM t WHERE b > {n}")).collect();
    let query = tables.join(" UNION ");
    let cancel = shell.session.cancel_handle();
    let error = std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            cancel.cancel();
            Instant::now()
        });
        let error = shell.error(&format!("EXPLAIN {query}"));
        let (ended, asked) = (Instant::now(), thread.join().expect("the thread"));
        assert!(ended - asked < Duration::from_secs(5), "{:?}", ended - asked);
        error
    });
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
}

#[test]
fn a_window_over_many_rows_ends_when_the_statement_is_cancelled() {
    let shell =
        Shell::with("CREATE TABLE m (id BIGINT PRIMARY KEY); INSERT INTO m SELECT value FROM generate_series(1, 2500)");
    let window = "SELECT max(w) FROM (SELECT lag(a.id, 3) OVER (ORDER BY b.id, a.id) + sum(b.id) OVER () AS w FROM m a, m b) AS t";
    for after in [50, 400, 1500] {
        let cancel = shell.session.cancel_handle();
        let error = std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(after));
                cancel.cancel();
                Instant::now()
            });
            let outcome = shell.session.execute_blocking(window).map(drop);
            let (ended, asked) = (Instant::now(), thread.join().expect("the thread"));
            assert!(ended < asked + Duration::from_secs(5), "{:?} after it was cancelled", ended - asked);
            outcome
        });
        // On a fast machine it may be complete before.
        assert!(error.is_ok() || error.is_err_and(|error| error.kind() == ErrorKind::Cancelled));
    }
}

#[test]
fn what_the_planner_can_not_do_is_refused_by_name() {
    let shell = Shell::with("CREATE TABLE t (a TEXT, c BYTEA); INSERT INTO t VALUES ('x', NULL)");
    shell.refuses("SELECT avg(a) FROM t", &["avg", "not supported"]);
    let range = "count(a) OVER (ORDER BY c DESC RANGE BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING)";
    let error = shell.error(&format!("SELECT {range} FROM t")).to_string();
    assert!(!error.contains("bug") && !error.contains("nternal error"), "{error}");
}
