//! Windows that have a name.

use crate::shell::Shell;

fn sales() -> Shell {
    Shell::with(
        "CREATE TABLE s (k INT PRIMARY KEY, g TEXT, v INT);
         INSERT INTO s VALUES (1, 'a', 10), (2, 'b', 20), (3, 'a', 30), (4, 'b', 40), (5, 'a', 50)",
    )
}

#[test]
fn a_named_window_is_the_window_that_it_names() {
    let shell = sales();
    for (over, window) in [
        ("w", "w AS (PARTITION BY g ORDER BY k)"),
        ("(w)", "w AS (PARTITION BY g ORDER BY k)"),
        ("(w ORDER BY k)", "w AS (PARTITION BY g)"),
        ("w2", "w AS (PARTITION BY g), w2 AS (w ORDER BY k)"),
        ("W2", "w AS (PARTITION BY g), w2 AS (w ORDER BY k)"),
        ("(w ROWS UNBOUNDED PRECEDING)", "w AS (PARTITION BY g ORDER BY k)"),
    ] {
        let query = format!("SELECT k, sum(v) OVER {over} FROM s WINDOW {window} ORDER BY k");
        assert_eq!(shell.rows(&query), ["1|10", "2|20", "3|40", "4|60", "5|90"], "{query}");
    }
    assert_eq!(
        shell.rows("SELECT k FROM s WINDOW w AS (ORDER BY v DESC) ORDER BY row_number() OVER w LIMIT 2"),
        ["5", "4"]
    );
}

#[test]
fn each_select_has_windows_of_its_own() {
    let shell = sales();
    assert_eq!(
        shell.rows(
            "SELECT max(n) FROM (SELECT count(*) OVER w AS n FROM s WINDOW w AS (PARTITION BY g)) AS q
             WINDOW w AS (ORDER BY n)"
        ),
        ["3"]
    );
    let inner = "SELECT (SELECT max(r) FROM (SELECT count(*) OVER w AS r FROM s) AS q) FROM s WINDOW w AS (ORDER BY k)";
    shell.refuses(inner, &["window named w"]);
}

#[test]
fn a_window_that_is_not_defined_or_can_not_be_extended_so_is_refused() {
    let shell = sales();
    for (over, window) in [
        ("w", "other AS (ORDER BY k)"),
        ("(w)", "other AS (ORDER BY k)"),
        ("w", "w AS (w2 ORDER BY k), w2 AS (PARTITION BY g)"),
        ("(w ORDER BY v)", "w AS (ORDER BY k)"),
        ("(w PARTITION BY g)", "w AS (ORDER BY k)"),
        ("(w)", "w AS (ORDER BY k ROWS UNBOUNDED PRECEDING)"),
        ("w2", "w AS (ORDER BY k), w2 AS (w ORDER BY v)"),
    ] {
        shell.refuses(&format!("SELECT sum(v) OVER {over} FROM s WINDOW {window}"), &["window named", "not supported"]);
    }
    shell.refuses("SELECT sum(v) OVER w FROM s", &["window named w"]);
}

#[test]
fn a_frame_forgets_what_has_left_it() {
    let shell = Shell::new();
    let sums = |values: &str| {
        shell.rows(&format!(
            "SELECT sum(d) OVER w, avg(d) OVER w FROM (VALUES {values}) AS v (i, d)
             WINDOW w AS (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) ORDER BY i"
        ))
    };
    assert_eq!(sums("(1, 'NaN'::DOUBLE PRECISION), (2, 1), (3, 2)"), ["NaN|NaN", "NaN|NaN", "3.0|1.5"]);
    assert_eq!(sums("(1, 1e20::DOUBLE PRECISION), (2, 1), (3, 2)")[2], "3.0|1.5");
    assert_eq!(sums("(1, 1.0::DOUBLE PRECISION), (2, NULL), (3, NULL)"), ["1.0|1.0", "1.0|1.0", "NULL|NULL"]);
    shell.refuses("SELECT nth_value(i, 0) OVER () FROM (VALUES (1)) AS v (i)", &["nth_value"]);
}

#[test]
fn the_default_of_lag_and_lead_has_a_type_in_common_with_the_values() {
    let shell = sales();
    for (query, expected) in [
        ("SELECT k, lead(k, 1, -1.4) OVER (ORDER BY k) FROM s", "1|2.0, 2|3.0, 3|4.0, 4|5.0, 5|-1.4"),
        ("SELECT lag(k, 1, 0) OVER (ORDER BY k) / 2 FROM s", "0, 0, 1, 1, 2"),
        ("SELECT lag(k, 1, 3000000000) OVER (ORDER BY k) FROM s", "3000000000, 1, 2, 3, 4"),
        ("SELECT lag(k, 2, CAST(1.5 AS REAL)) OVER (ORDER BY k) FROM s", "1.5, 1.5, 1.0, 2.0, 3.0"),
        ("SELECT lag(g, 1, 'none') OVER (ORDER BY k) FROM s", "none, a, b, a, b"),
        ("SELECT lag(v, 1, NULL) OVER (ORDER BY k) FROM s", "NULL, 10, 20, 30, 40"),
        ("SELECT lag(k, 1, '7') OVER (ORDER BY k) FROM s", "7, 1, 2, 3, 4"),
        (
            "SELECT lag(DATE '2024-01-01', 1, TIMESTAMP '2024-01-01 10:00:00') OVER (ORDER BY k) FROM s LIMIT 1",
            "2024-01-01T10:00:00",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
    shell.error("SELECT lag(k, 1, 'x') OVER (ORDER BY k) FROM s");
    shell.refuses("SELECT lag(k, 1, CAST('x' AS TEXT)) OVER (ORDER BY k) FROM s", &["have no type in common"]);
}

#[test]
fn a_window_over_groups_may_order_by_an_aggregate() {
    let shell = sales();
    for (query, expected) in [
        ("SELECT g, rank() OVER (ORDER BY count(*)) FROM s GROUP BY g ORDER BY g", "a|2, b|1"),
        (
            "SELECT g, rank() OVER (ORDER BY sum(v) DESC), sum(count(*)) OVER () FROM s GROUP BY g ORDER BY g",
            "a|1|5, b|2|5",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn a_frame_with_an_infinite_offset_is_refused() {
    let shell = Shell::with("CREATE TABLE n (d DOUBLE PRECISION); INSERT INTO n VALUES (1), ('-Infinity')");
    for frame in
        ["'Infinity' PRECEDING AND CURRENT ROW", "CURRENT ROW AND 'inf' FOLLOWING", "'NaN' PRECEDING AND '1' FOLLOWING"]
    {
        let sql = format!("SELECT count(*) OVER (ORDER BY d RANGE BETWEEN {frame}) FROM n");
        shell.refuses(&sql, &["a RANGE frame with an infinite offset"]);
    }
    assert_eq!(shell.rows("SELECT count(*) OVER (ORDER BY d RANGE '1.5' PRECEDING) FROM n ORDER BY d"), ["1", "1"]);
}

#[test]
fn an_offset_of_a_range_is_not_rounded_to_the_type_of_the_order() {
    let shell = Shell::with(
        "CREATE TABLE f (id INT, d DATE, n DECIMAL(4, 2), i INT, z TIMESTAMP);
         INSERT INTO f VALUES (1, '2020-01-01', 0.01, 1, '2020-01-01 10:00:00'), (2, '2020-01-02', 0.02, 2, '2020-01-01 11:00:00'),
                              (3, '2020-01-03', 0.03, 3, '2020-01-02 10:00:00'), (4, '2020-02-02', 99.99, 4, NULL),
                              (5, NULL, NULL, NULL, NULL)",
    );
    for (query, expected) in [
        (
            "SELECT id, count(*) OVER (ORDER BY d RANGE BETWEEN INTERVAL '12 hours' PRECEDING AND INTERVAL '12 hours' FOLLOWING) FROM f ORDER BY id",
            "1|1, 2|1, 3|1, 4|1, 5|1",
        ),
        (
            "SELECT id, count(*) OVER (ORDER BY d RANGE BETWEEN INTERVAL '1 day' PRECEDING AND INTERVAL '1 month' FOLLOWING) FROM f ORDER BY id",
            "1|3, 2|4, 3|3, 4|1, 5|1",
        ),
        (
            "SELECT id, count(*) OVER (ORDER BY d DESC RANGE BETWEEN INTERVAL '1 day' PRECEDING AND INTERVAL '25 hours' FOLLOWING) FROM f ORDER BY id",
            "1|2, 2|3, 3|2, 4|1, 5|1",
        ),
        (
            "SELECT id, count(*) OVER (ORDER BY n RANGE BETWEEN 0.004 PRECEDING AND 0.006 FOLLOWING) FROM f ORDER BY id",
            "1|1, 2|1, 3|1, 4|1, 5|1",
        ),
        (
            "SELECT id, count(*) OVER (ORDER BY n DESC RANGE BETWEEN 0.005 PRECEDING AND 0.0149 FOLLOWING) FROM f ORDER BY id",
            "1|1, 2|2, 3|2, 4|1, 5|1",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
    for (order, frame) in [("i", "0.5 PRECEDING"), ("d", "1 PRECEDING"), ("z", "1.5 PRECEDING")] {
        let sql = format!("SELECT count(*) OVER (ORDER BY {order} RANGE {frame}) FROM f");
        shell.refuses(&sql, &["as an offset", "a RANGE frame over"]);
    }
}

#[test]
fn a_limit_and_an_order_above_windows_stay_whatever_order_the_windows_take() {
    let shell = Shell::with(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, c INT);
         INSERT INTO t VALUES (1, 5, 0), (2, 5, NULL), (3, 5, 0), (10, 5, NULL), (11, NULL, 0)",
    );
    let counts = "count(*) OVER (ORDER BY id DESC RANGE BETWEEN 1 FOLLOWING AND 3 FOLLOWING)";
    for (query, expected) in [
        (format!("SELECT {counts}, id FROM t ORDER BY 1, 2"), "0|1, 0|10, 1|2, 1|11, 2|3"),
        (format!("SELECT {counts}, id FROM t WHERE a IS DISTINCT FROM c ORDER BY 1, 2 LIMIT 3"), "0|1, 0|10, 1|2"),
        (format!("SELECT true, {counts}, id FROM t ORDER BY 1 DESC, 2 DESC, 3 LIMIT 2"), "true|2|3, true|1|2"),
        (format!("SELECT {counts}, id FROM t ORDER BY 2 LIMIT 2 OFFSET 1"), "1|2, 2|3"),
        (
            "SELECT sum(a) OVER (ORDER BY id RANGE BETWEEN 1 FOLLOWING AND 3 FOLLOWING), id FROM t
             WHERE a IS DISTINCT FROM c ORDER BY 2 LIMIT 2"
                .to_owned(),
            "10|1, 5|2",
        ),
        (
            "SELECT max(a) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING), id FROM t ORDER BY 1 DESC, 2"
                .to_owned(),
            "NULL|11, 5|1, 5|2, 5|3, 5|10",
        ),
        (
            "SELECT count(c) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), id FROM t ORDER BY 1, 2".to_owned(),
            "1|1, 1|2, 1|3, 1|10, 1|11",
        ),
        (
            "SELECT count(*) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW), id FROM t ORDER BY 1 DESC, 2 LIMIT 4"
                .to_owned(),
            "2|2, 2|3, 2|11, 1|1",
        ),
        (
            "SELECT n, id FROM (SELECT id, min(a) OVER (ORDER BY id DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM t
             WHERE a IS DISTINCT FROM c LIMIT 5) AS x ORDER BY n NULLS FIRST, id LIMIT 2"
                .to_owned(),
            "NULL|11, 5|1",
        ),
    ] {
        assert_eq!(shell.rows(&query).join(", "), expected, "{query}");
    }
}
