//! Groups over subqueries of grouped joins, whose rows DataFusion takes for those of a key.

use crate::shell::Shell;

/// `q` has each `x` several times, and each `z`.
const Q: &str = "(SELECT a.id AS x, b.n AS z, count(*) AS c FROM a, b GROUP BY a.id, b.n) AS q";

fn shell() -> Shell {
    Shell::with(
        "CREATE TABLE a (id INT PRIMARY KEY, v INT); INSERT INTO a VALUES (1, 1), (2, 1);
         CREATE TABLE b (n INT, w INT); INSERT INTO b VALUES (1, 1), (2, 1), (3, 2), (3, 2);
         CREATE VIEW q AS SELECT a.id AS x, b.n AS z, count(*) AS c FROM a, b GROUP BY a.id, b.n",
    )
}

#[test]
fn a_group_that_is_not_selected_is_one() {
    let shell = shell();
    let distinct = "(SELECT DISTINCT a.id AS x, b.n AS z FROM a, b) AS q";
    for q in [Q, distinct, "q"] {
        for (query, expected) in [
            ("SELECT x, count(*) FROM {q} GROUP BY x, z ORDER BY x", "1|1, 1|1, 1|1, 2|1, 2|1, 2|1"),
            ("SELECT x FROM {q} GROUP BY z, x HAVING count(*) > 0 ORDER BY x", "1, 1, 1, 2, 2, 2"),
            ("SELECT max(x) FROM {q} GROUP BY 1 + 0, x, z ORDER BY 1", "1, 1, 1, 2, 2, 2"),
            ("SELECT count(*) FROM (SELECT x FROM {q} GROUP BY x, z) AS g", "6"),
            (
                "SELECT x, (SELECT count(*) FROM {q} WHERE q.x = a.id GROUP BY q.x) FROM (SELECT 1 AS x) AS o, a ORDER BY id",
                "1|3, 1|3",
            ),
            (
                "SELECT x, count(*) FROM {q} JOIN b ON b.n <> q.z GROUP BY x, z ORDER BY 1, 2",
                "1|2, 1|3, 1|3, 2|2, 2|3, 2|3",
            ),
            ("SELECT x, sum(z) FROM {q} GROUP BY x ORDER BY x", "1|6, 2|6"),
            ("SELECT id, v, count(*) FROM a JOIN {q} ON id <= x GROUP BY id ORDER BY id", "1|1|6, 2|1|3"),
            ("SELECT DISTINCT ON (x) x, z FROM {q} ORDER BY x, z DESC", "1|3, 2|3"),
            ("SELECT count(*) FROM {q}", "6"),
        ] {
            assert_eq!(shell.rows(&query.replace("{q}", q)).join(", "), expected, "{query} over {q}");
        }
    }
    assert_eq!(shell.rows(&format!("SELECT sum(c) FROM {Q} GROUP BY x, z ORDER BY 1")).join(", "), "1, 1, 1, 1, 2, 2");
}

#[test]
fn a_column_that_is_no_group_is_refused() {
    let shell = shell();
    for query in [
        "SELECT x, z FROM {q} GROUP BY x",
        "SELECT x, sum(z) FROM {q} GROUP BY x HAVING z > 1",
        "SELECT x, sum(z) FROM {q} GROUP BY x ORDER BY z",
        "SELECT x, sum(z) OVER (ORDER BY z) FROM {q} GROUP BY x",
        "SELECT DISTINCT ON (x) x FROM {q} GROUP BY x ORDER BY x, z",
        "SELECT id, z FROM a JOIN {q} ON id = x GROUP BY id, x",
        "SELECT b.w FROM b GROUP BY b.n",
    ] {
        for q in [Q, "q"] {
            let error = shell.error(&query.replace("{q}", q)).to_string();
            assert!(error.contains("must appear in the GROUP BY clause"), "{query}: {error}");
            assert!(!error.contains("end_of_groups"), "{query}: {error}");
        }
    }
}

#[test]
fn groups_are_named() {
    shell().refuses("SELECT x, count(*) FROM q GROUP BY ALL", &["GROUP BY ALL", "name the columns"]);
}

#[test]
fn what_a_key_determines_needs_no_group() {
    let shell = shell();
    assert_eq!(shell.rows("SELECT id, v, count(*) FROM a, b GROUP BY id ORDER BY id"), ["1|1|4", "2|1|4"]);
    assert_eq!(
        shell.rows("SELECT id, v + 1 FROM a, b GROUP BY id, w HAVING v = 1 ORDER BY v, id, w"),
        ["1|2", "1|2", "2|2", "2|2"]
    );
    assert_eq!(shell.rows("SELECT v, count(*) FROM a GROUP BY id, v ORDER BY id"), ["1|1", "1|1"]);
}

#[test]
fn rows_that_an_order_does_not_tell_apart_are_in_one_frame() {
    let shell = shell();
    for q in [Q, "q"] {
        let windows = format!(
            "SELECT x, sum(z) OVER (ORDER BY x), sum(z) OVER w, count(*) OVER (w), count(*) OVER (w ROWS UNBOUNDED PRECEDING) > 0 \
             FROM {q} WINDOW w AS (PARTITION BY x ORDER BY x) ORDER BY x, z"
        );
        let expected =
            ["1|6|6|3|true", "1|6|6|3|true", "1|6|6|3|true", "2|12|6|3|true", "2|12|6|3|true", "2|12|6|3|true"];
        assert_eq!(shell.rows(&windows), expected, "{q}");
    }
    assert_eq!(shell.rows("SELECT id, sum(v) OVER (ORDER BY id) FROM a ORDER BY id"), ["1|1", "2|2"]);
}

#[test]
fn an_expression_may_be_named_twice() {
    let shell = shell();
    for (query, expected) in [
        ("SELECT DISTINCT n FROM b GROUP BY n, n ORDER BY n", "1, 2, 3"),
        ("SELECT count(*) FROM b GROUP BY n, b.n, 1 + 1 ORDER BY n", "1, 1, 2"),
        ("SELECT DISTINCT ON (n) n FROM b ORDER BY n, 1, n DESC", "1, 2, 3"),
        ("SELECT DISTINCT ON (w, w) w, n FROM b ORDER BY w, w, n DESC, n", "1|2, 2|3"),
        ("SELECT string_agg(n::TEXT, ',' ORDER BY n, n DESC) FROM b", "1,2,3,3"),
        // One expression in two words.
        (
            "SELECT DISTINCT ON (n) n, t FROM (SELECT n, n > 1 AS t FROM b) AS q ORDER BY n, t = true, t",
            "1|false, 2|true, 3|true",
        ),
        (
            "SELECT n > 1, string_agg(n::TEXT, ',' ORDER BY n + 0, n, (n > 1) = true, n > 1) FROM b GROUP BY 1 ORDER BY 1",
            "false|1, true|2,3,3",
        ),
        ("SELECT x FROM (SELECT DISTINCT ON (w) w AS x, n FROM b ORDER BY w, n, w) AS d ORDER BY x", "1, 2"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn distinct_on_is_read_as_an_order_is() {
    let shell = shell();
    for (query, expected) in [
        ("SELECT DISTINCT ON (1) w, n FROM b ORDER BY 1, 2 DESC", "1|2, 2|3"),
        ("SELECT DISTINCT ON (2) w, n FROM b ORDER BY 2, 1", "1|1, 1|2, 2|3"),
        ("SELECT DISTINCT ON ((1), 2) n, w FROM b ORDER BY n, w", "1|1, 2|1, 3|2"),
        ("SELECT count(*) FROM (SELECT DISTINCT ON (1) w, n FROM b) AS d", "2"),
        // A name of the result stands before one of FROM.
        ("SELECT count(*) FROM (SELECT DISTINCT ON (n) w AS n FROM b) AS d", "2"),
        ("SELECT DISTINCT ON (half) n / 2 AS half, n FROM b ORDER BY half, n", "0|1, 1|2"),
        ("SELECT DISTINCT ON (n + 0) w AS n FROM b ORDER BY b.n + 0", "1, 1, 2"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
    for query in
        ["SELECT DISTINCT ON (1) * FROM b", "SELECT DISTINCT ON (3) w, n FROM b", "SELECT DISTINCT ON (0) w FROM b"]
    {
        shell.refuses(query, &["DISTINCT ON of a column by its place", "name the column"]);
    }
}

#[test]
fn aggregates_of_casts_of_one_column_are_told_apart() {
    let shell = Shell::with(
        "CREATE TABLE q (n DECIMAL(10,2), f DOUBLE PRECISION); INSERT INTO q VALUES (1.5, 1.25), (2.75, 2.5)",
    );
    for (query, expected) in [
        ("SELECT sum(n), sum(n::INT) FROM q", "4.25|5"),
        ("SELECT count(*), sum(x.n), sum(x.n::INT) FROM q AS x JOIN q AS y ON x.n = y.n", "2|4.25|5"),
        ("SELECT sum(n) FROM q HAVING sum(n::INT) > 1", "4.25"),
        ("SELECT sum(f) FROM q ORDER BY sum(f::INT)", "3.75"),
        ("SELECT sum(f) OVER (ORDER BY n), sum(f::INT) OVER (ORDER BY n) FROM q ORDER BY n", "1.25|1, 3.75|3"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn tests_of_truth_are_grouped_and_aggregated() {
    let shell = Shell::with(
        "CREATE TABLE q (id INT PRIMARY KEY, o BOOLEAN, p BOOLEAN); INSERT INTO q VALUES (1, true, NULL), (2, false, true), (3, NULL, false)",
    );
    for (query, expected) in [
        ("SELECT count(x), count(*) FROM (SELECT o IS TRUE AS x FROM q) AS s", "3|3"),
        ("SELECT o IS NOT TRUE, count(*) FROM q GROUP BY o IS NOT TRUE ORDER BY 1", "false|1, true|2"),
        ("SELECT count(DISTINCT o IS NOT FALSE) FROM q", "2"),
        ("SELECT bool_and(x), bool_or(x) FROM (SELECT NOT (o IS FALSE) AS x FROM q GROUP BY 1) AS s", "false|true"),
        ("SELECT count(CASE WHEN o IS NOT TRUE THEN o = true ELSE o < true END) FROM q", "2"),
        ("SELECT count(CASE WHEN o IS NOT TRUE THEN o ELSE NOT o END) FROM q", "2"),
        (
            "SELECT x, count(x) FROM (SELECT o IS TRUE AS x FROM q UNION ALL SELECT p FROM q UNION ALL SELECT p IS FALSE FROM q) AS s GROUP BY x ORDER BY x",
            "false|5, true|3, NULL|0",
        ),
        (
            "SELECT x, max(y) FROM (SELECT o IS TRUE AS x, p IS NOT FALSE AS y FROM q UNION SELECT p IS TRUE, o FROM q) AS s GROUP BY x ORDER BY x",
            "false|true, true|true",
        ),
        ("SELECT max(x) FROM (SELECT DISTINCT ON (id) o IS TRUE AS x FROM q ORDER BY id) AS s", "true"),
        (
            "SELECT sum(n) FROM (SELECT o IS TRUE AS x, count(*) OVER (PARTITION BY o IS TRUE) AS n FROM q) AS s GROUP BY x ORDER BY 1",
            "1, 4",
        ),
        (
            "SELECT count(a.x) FROM (SELECT id, o IS TRUE AS x FROM q WHERE id < 3) AS a RIGHT JOIN q ON q.id = a.id",
            "2",
        ),
        (
            "SELECT count(*) FROM q WHERE (SELECT max(CASE WHEN r.o IS TRUE THEN 1 ELSE 0 END) FROM q AS r WHERE r.id = q.id) = 1",
            "1",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn what_a_grouping_set_leaves_out_is_null_although_a_key_determines_it() {
    let shell = Shell::with(
        "CREATE TABLE e (id INT PRIMARY KEY, dept TEXT, name TEXT); INSERT INTO e VALUES (1, 'a', 'x'), (2, 'b', 'y')",
    );
    for (query, expected) in [
        (
            "SELECT dept, id, grouping(dept), count(*) FROM e GROUP BY id, ROLLUP (dept) ORDER BY 3, 2",
            "a|1|0|1, b|2|0|1, NULL|1|1|1, NULL|2|1|1",
        ),
        ("SELECT id, name, dept FROM e GROUP BY id, CUBE (dept) ORDER BY dept, id", "1|x|a, 2|y|b, 1|x|NULL, 2|y|NULL"),
        ("SELECT count(*) FROM (SELECT dept FROM e GROUP BY id, ROLLUP (dept)) g WHERE dept IS NULL", "2"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn grouping_sets_know_positions_and_lists_and_constants() {
    let shell =
        Shell::with("CREATE TABLE g (a INT, b INT, c INT); INSERT INTO g VALUES (1, 1, 1), (1, 2, 1), (2, 1, NULL)");
    for (query, expected) in [
        (
            "SELECT a, b, c, count(*) FROM g GROUP BY ROLLUP (a, (b, c)) ORDER BY a, b, c, 4",
            "1|1|1|1, 1|2|1|1, 1|NULL|NULL|2, 2|1|NULL|1, 2|NULL|NULL|1, NULL|NULL|NULL|3",
        ),
        ("SELECT a, count(*) FROM g GROUP BY ROLLUP (a, a) ORDER BY a", "1|2, 1|2, 2|1, 2|1, NULL|3"),
        (
            "SELECT a, b, count(*) FROM g GROUP BY CUBE ((a, b), c) ORDER BY a, b, 3",
            "1|1|1, 1|1|1, 1|2|1, 1|2|1, 2|1|1, 2|1|1, NULL|NULL|1, NULL|NULL|2, NULL|NULL|3",
        ),
        (
            "SELECT * FROM (SELECT 5 AS k, a, count(*), grouping(a) FROM g GROUP BY CUBE (1, 2)) AS q ORDER BY k, a",
            "5|1|2|0, 5|2|1|0, 5|NULL|3|1, NULL|1|2|0, NULL|2|1|0, NULL|NULL|3|1",
        ),
        ("SELECT a + 1 AS s, count(*) FROM g WHERE a > 100 GROUP BY ROLLUP (1)", "NULL|0"),
        ("SELECT a + 1 AS s, count(*) FROM g WHERE a > 100 GROUP BY ROLLUP (a + 1)", "NULL|0"),
        (
            "SELECT k, a, count(*) FROM (SELECT 5 AS k, a FROM g) AS q GROUP BY ROLLUP (k, a) ORDER BY k, a",
            "5|1|2, 5|2|1, 5|NULL|3, NULL|NULL|3",
        ),
        (
            "SELECT k, rank() OVER (ORDER BY k) FROM (SELECT k FROM (SELECT 5 AS k, a FROM g) AS q GROUP BY ROLLUP (k, a)) AS p ORDER BY 2",
            "5|1, 5|1, 5|1, NULL|4",
        ),
        (
            "SELECT k, rank() OVER (ORDER BY k) FROM (SELECT 5 AS k, count(*) FROM g GROUP BY ROLLUP (1, a)) AS p ORDER BY 2",
            "5|1, 5|1, 5|1, NULL|4",
        ),
        (
            "SELECT k, a, n FROM (SELECT k, a, count(*) AS n FROM (SELECT 5 AS k, a FROM g) AS q GROUP BY ROLLUP (a, k)) AS p WHERE n > 0 ORDER BY k DESC, a DESC",
            "NULL|NULL|3, NULL|2|1, NULL|1|2, 5|2|1, 5|1|2",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}
