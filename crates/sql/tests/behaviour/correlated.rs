//! Subqueries that refer to the rows around them, in every way.

use crate::shell::Shell;

fn tables() -> Shell {
    Shell::with(
        "CREATE TABLE t (a INT, b INT);
         INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (NULL, 40), (2, NULL), (NULL, NULL), (2, 20);
         CREATE TABLE h (x INT); INSERT INTO h VALUES (1), (NULL);
         CREATE TABLE s (k INT, v INT);
         INSERT INTO s VALUES (1, 5), (1, 15), (2, 25), (NULL, 35), (3, NULL), (2, 20)",
    )
}

/// What a subquery gives for each row of `t`, which is written before it. As `PostgreSQL` 15 answers.
fn check(shell: &Shell, subquery: &str, expected: [&str; 7]) {
    let rows = shell.rows(&format!("SELECT a, b, {subquery} AS q FROM t ORDER BY a, b, q"));
    let rows: Vec<&str> = rows.iter().filter_map(|row| row.rsplit('|').next()).collect();
    assert_eq!(rows, expected, "{subquery}");
}

// In order: (1, 10), (2, 20), (2, 20), (2, NULL), (3, 30), (NULL, 40), (NULL, NULL).

#[test]
fn a_scalar_subquery_may_compare_in_any_way() {
    let shell = tables();
    check(&shell, "(SELECT count(*) FROM t AS x WHERE x.b < t.b)", ["0", "1", "1", "0", "3", "4", "0"]);
    check(&shell, "(SELECT sum(v) FROM s WHERE s.v < t.b OR s.k = t.a)", ["20", "65", "65", "45", "65", "100", "NULL"]);
    check(
        &shell,
        "(SELECT v FROM s WHERE s.k < t.a ORDER BY v DESC LIMIT 1)",
        ["NULL", "15", "15", "15", "25", "NULL", "NULL"],
    );
    check(
        &shell,
        "(SELECT v FROM s WHERE s.k >= t.a ORDER BY v DESC NULLS LAST OFFSET 1 LIMIT 1)",
        ["20", "20", "20", "20", "NULL", "NULL", "NULL"],
    );
    check(&shell, "(SELECT t.b)", ["10", "20", "20", "NULL", "30", "40", "NULL"]);
    check(&shell, "(SELECT t.a + max(x) FROM h)", ["2", "3", "3", "3", "4", "NULL", "NULL"]);
}

#[test]
fn a_scalar_subquery_may_refer_to_the_outside_anywhere() {
    let shell = tables();
    check(
        &shell,
        "(SELECT count(*) FROM (SELECT DISTINCT v / 10 FROM s WHERE s.k = t.a) AS d)",
        ["2", "1", "1", "1", "1", "0", "0"],
    );
    check(
        &shell,
        "(SELECT max(v) FROM (SELECT v FROM s WHERE s.k = t.a UNION ALL SELECT b FROM t AS y WHERE y.a = t.a) AS d)",
        ["15", "25", "25", "25", "30", "NULL", "NULL"],
    );
    check(
        &shell,
        "(SELECT max(v) FROM (SELECT v FROM s WHERE s.k = t.a EXCEPT SELECT 15) AS d)",
        ["5", "25", "25", "25", "NULL", "NULL", "NULL"],
    );
    check(
        &shell,
        "(SELECT count(y.v) FROM s AS x LEFT JOIN s AS y ON x.v = y.v AND y.k < t.a)",
        ["0", "2", "2", "2", "4", "0", "0"],
    );
    check(
        &shell,
        "(SELECT count(*) FROM s AS x FULL JOIN (SELECT * FROM s WHERE s.k = t.a) AS y ON x.v = y.v + 1)",
        ["8", "8", "8", "8", "7", "6", "6"],
    );
    check(
        &shell,
        "(SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY v) AS n FROM s WHERE s.v < t.b) AS d)",
        ["1", "2", "2", "NULL", "4", "5", "NULL"],
    );
    check(&shell, "(SELECT k FROM s WHERE s.k = t.a GROUP BY k)", ["1", "2", "2", "2", "3", "NULL", "NULL"]);
}

#[test]
fn subqueries_may_be_nested_and_refer_across() {
    let shell = tables();
    check(
        &shell,
        "(SELECT count(*) FROM s WHERE s.v < t.b AND EXISTS (SELECT 1 FROM h WHERE h.x = s.k AND h.x <= t.a))",
        ["1", "2", "2", "0", "2", "0", "0"],
    );
    check(
        &shell,
        "(SELECT (SELECT count(*) FROM h WHERE h.x < t.a + s.k) FROM s WHERE s.v = t.b)",
        ["NULL", "1", "1", "NULL", "NULL", "NULL", "NULL"],
    );
}

#[test]
fn exists_and_in_refer_to_the_outside_anywhere() {
    let shell = tables();
    let [yes, no, null] = ["true", "false", "NULL"];
    check(&shell, "EXISTS (SELECT 1 FROM s WHERE s.k = t.a)", [yes, yes, yes, yes, yes, no, no]);
    check(&shell, "EXISTS (SELECT 1 FROM s WHERE s.v < t.b)", [yes, yes, yes, no, yes, yes, no]);
    check(&shell, "NOT EXISTS (SELECT 1 FROM s WHERE s.v < t.b LIMIT 1)", [no, no, no, yes, no, no, yes]);
    check(&shell, "a IN (SELECT k FROM s WHERE s.v < t.b)", [yes, no, no, no, no, null, no]);
    check(&shell, "a NOT IN (SELECT k FROM s WHERE s.v > t.b)", [no, no, no, yes, null, yes, yes]);
    assert_eq!(
        shell.rows("SELECT a, b FROM t WHERE a NOT IN (SELECT k FROM s WHERE s.v > t.b) ORDER BY a, b"),
        ["2|NULL", "NULL|40", "NULL|NULL"]
    );
    // NULL is in no list, and not outside of one that has anything in it.
    assert!(
        shell
            .rows("SELECT a FROM t WHERE NULL::INT NOT IN (SELECT 0 FROM s WHERE s.k IS NULL OR s.k <> t.a)")
            .is_empty()
    );
}

#[test]
fn a_scalar_subquery_of_two_rows_fails() {
    let shell = tables();
    let error = shell.error("SELECT (SELECT v FROM s WHERE s.k = t.a) FROM t");
    assert!(error.to_string().contains("more than one row"), "{error}");
    let error = shell.error("UPDATE t SET b = (SELECT v FROM s WHERE s.k < t.a)");
    assert!(error.to_string().contains("more than one row"), "{error}");
    assert_eq!(shell.rows("SELECT count(b) FROM t"), ["5"]);
    assert_eq!(shell.rows("SELECT (SELECT v FROM s WHERE s.k = t.a AND v < 9) FROM t WHERE a = 1"), ["5"]);
}

#[test]
fn a_subquery_may_stand_in_every_clause() {
    let shell = tables();
    let count = "(SELECT count(*) FROM s WHERE s.v < t.b)";
    assert_eq!(
        shell.rows(&format!("SELECT a, sum({count}) FROM t GROUP BY a ORDER BY a")),
        ["1|1", "2|4", "3|4", "NULL|5"]
    );
    assert_eq!(
        shell.rows("SELECT a FROM t GROUP BY a HAVING count(*) > (SELECT count(*) FROM s WHERE s.k < t.a) ORDER BY a"),
        ["1", "2", "NULL"]
    );
    assert_eq!(shell.rows(&format!("SELECT b FROM t ORDER BY {count} DESC, b LIMIT 2")), ["40", "30"]);
    assert_eq!(
        shell.rows(&format!("SELECT b, count(*) OVER (ORDER BY {count}) FROM t WHERE b < 40 ORDER BY b")),
        ["10|1", "20|3", "20|3", "30|4"]
    );
    assert_eq!(
        shell.rows("SELECT t.b, q.c FROM t, LATERAL (SELECT count(*) AS c FROM s WHERE s.v < t.b) AS q WHERE t.a = 2 ORDER BY b"),
        ["20|2", "20|2", "NULL|0"]
    );
    assert_eq!(
        shell.rows("SELECT t.b, q.v FROM t LEFT JOIN LATERAL (SELECT v FROM s WHERE s.k <= t.a ORDER BY v LIMIT 2) AS q ON true WHERE t.b < 15 OR t.b > 30 ORDER BY 1, 2"),
        ["10|5", "10|15", "40|NULL"]
    );
    shell.run("INSERT INTO h VALUES ((SELECT max(a) FROM t) + 10), (77), ((SELECT min(a) FROM t))");
    assert_eq!(shell.rows("VALUES ((SELECT max(x) FROM h)), (3) ORDER BY 1"), ["3", "77"]);
    assert_eq!(shell.rows("SELECT count(*), sum(x) FROM h"), ["5|92"]);
    shell.refuses(
        "SELECT (SELECT count(*) FROM s WHERE s.v < q.r) FROM (SELECT random() AS r FROM t) AS q",
        &["random()"],
    );
}

#[test]
fn the_condition_of_an_outer_join_may_ask_about_either_side() {
    let shell = tables();
    let both = "EXISTS (SELECT 1 FROM s WHERE s.k = h.x AND s.v = t.b)";
    shell.refuses(&format!("SELECT 1 FROM t LEFT JOIN h ON {both}"), &["ON of an outer join", "both sides"]);
    // As PostgreSQL 15 answers.
    for (query, expected) in [
        (
            "h LEFT JOIN t ON EXISTS (SELECT 1 FROM s WHERE s.k = h.x AND v > 10) AND a = 2",
            "1|20, 1|20, 1|NULL, NULL|NULL",
        ),
        (
            "h RIGHT JOIN t ON x = a AND b IN (SELECT v - 5 FROM s WHERE s.k = t.a)",
            "1|10, NULL|20, NULL|20, NULL|30, NULL|40, NULL|NULL, NULL|NULL",
        ),
        (
            "h FULL JOIN t ON x = a AND x <> ALL (SELECT v FROM s WHERE v < h.x) AND b < (SELECT max(v) FROM s)",
            "1|10, NULL|20, NULL|20, NULL|30, NULL|40, NULL|NULL, NULL|NULL, NULL|NULL",
        ),
        (
            "h LEFT JOIN t ON (SELECT max(v) FROM s WHERE k = h.x) = 15 AND b > (SELECT sum(v) / 4 FROM s WHERE k = 1) + 10",
            "1|20, 1|20, 1|30, 1|40, NULL|NULL",
        ),
    ] {
        assert_eq!(shell.rows(&format!("SELECT x, b FROM {query} ORDER BY 1, 2")).join(", "), expected, "{query}");
    }
    let two = shell.error("SELECT x, b FROM h LEFT JOIN t ON x = a AND (SELECT v FROM s WHERE k = h.x) > 1");
    assert!(two.to_string().contains("more than one row"), "{two}");
}

#[test]
fn rows_that_a_limit_picks_keep_their_subquery() {
    let shell = tables();
    for _ in 0..5 {
        assert_eq!(
            shell.rows("SELECT (SELECT count(*) FROM s WHERE s.v < q.c) FROM (SELECT 100 AS c, b FROM t LIMIT 3) AS q"),
            ["5", "5", "5"]
        );
    }
}

#[test]
fn a_join_on_columns_whose_nulls_are_equal_keeps_other_nulls_apart() {
    let shell = Shell::with(
        "CREATE TABLE l (a INT, b INT); INSERT INTO l VALUES (1, 10), (NULL, 30), (NULL, NULL);
         CREATE TABLE r (a INT, b INT); INSERT INTO r VALUES (1, 10), (NULL, 30), (NULL, NULL)",
    );
    for query in [
        "SELECT l.a, r.b FROM l JOIN r ON l.a IS NOT DISTINCT FROM r.a WHERE l.b = r.b ORDER BY r.b",
        "SELECT l.a, r.b FROM l JOIN r ON l.a IS NOT DISTINCT FROM r.a AND l.b = r.b ORDER BY r.b",
    ] {
        assert_eq!(shell.rows(query), ["1|10", "NULL|30"], "{query}");
    }
}

#[test]
fn a_limit_beside_a_correlated_subquery_takes_the_same_rows_for_both() {
    let shell =
        Shell::with("CREATE TABLE u (id INT PRIMARY KEY, x INT); INSERT INTO u VALUES (1, 1), (2, 2), (3, 3), (4, 4)");
    let beside = "FROM u a LEFT JOIN (SELECT x AS y FROM u ORDER BY x LIMIT 1) q ON a.x = q.y WHERE q.y IS NULL";
    for (query, expected) in [
        (format!("SELECT a.id, (SELECT count(*) FROM u b WHERE b.x < a.x) {beside}"), &["2|1", "3|2", "4|3"][..]),
        (format!("SELECT a.id, EXISTS (SELECT 1 FROM u b WHERE b.x < a.x) {beside}"), &["2|true", "3|true", "4|true"]),
        (
            "SELECT (SELECT count(*) FROM u b WHERE b.x < a.m)
             FROM (SELECT min(x) AS m FROM (SELECT * FROM u ORDER BY x DESC LIMIT 2) z) a"
                .to_owned(),
            &["2"],
        ),
        (
            "SELECT q.x, (SELECT count(*) FROM u b WHERE b.x < q.x) FROM (SELECT x FROM u ORDER BY id DESC LIMIT 2) q"
                .to_owned(),
            &["3|2", "4|3"],
        ),
        (
            "SELECT q.y, l.n FROM (SELECT max(y) AS y FROM (SELECT x AS y FROM u ORDER BY x LIMIT 2) z) q,
             LATERAL (SELECT count(*) AS n FROM u b WHERE b.x < q.y) l"
                .to_owned(),
            &["2|1"],
        ),
    ] {
        let mut rows = shell.rows(&query);
        rows.sort();
        assert_eq!(rows, expected, "{query}");
    }
    shell.run(
        "DELETE FROM u WHERE x NOT IN (SELECT z.y FROM (SELECT max(y) AS y FROM (SELECT x AS y FROM u ORDER BY x LIMIT 1) q) z
         WHERE (SELECT count(*) FROM u b WHERE b.x < z.y) = 0)",
    );
    assert_eq!(shell.rows("SELECT id FROM u"), ["1"]);
}

#[test]
fn a_membership_in_a_subquery_may_be_of_a_column_further_outside() {
    let shell = Shell::with(
        "CREATE TABLE p (id INT, i INT, x TEXT); INSERT INTO p VALUES (1, 5, 'a'), (2, 6, 'b'), (3, NULL, 'a'), (4, 7, NULL);
         CREATE TABLE q (i INT, s TEXT); INSERT INTO q VALUES (5, 'a'), (7, 'c'), (6, NULL)",
    );
    for (query, expected) in [
        ("SELECT id FROM p WHERE i IN (SELECT i FROM q WHERE p.x IN (SELECT s FROM q)) ORDER BY id", "1"),
        ("SELECT id FROM p WHERE i IN (SELECT i FROM q WHERE p.x IN (SELECT s FROM q WHERE i > 5)) ORDER BY id", ""),
        ("SELECT id FROM p WHERE i IN (SELECT 5 FROM q WHERE p.x IN (SELECT s FROM q WHERE false))", ""),
        ("SELECT id FROM p WHERE i IN (SELECT i FROM q WHERE p.x = ANY (SELECT 'a') AND q.s = p.x) ORDER BY id", "1"),
        ("SELECT id FROM p WHERE EXISTS (SELECT 1 FROM q WHERE p.x IN (SELECT s FROM q)) ORDER BY id", "1, 3"),
        ("SELECT id FROM p WHERE NOT EXISTS (SELECT 1 FROM q WHERE p.x IN (SELECT s FROM q)) ORDER BY id", "2, 4"),
        (
            "SELECT id FROM p WHERE i IN (SELECT i FROM q WHERE EXISTS (SELECT 1 FROM q r WHERE r.s = p.x)) ORDER BY id",
            "1",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn a_column_of_the_name_of_an_outer_table_is_told_as_such() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE u (k INT PRIMARY KEY, t INT)");
    let words = ["whose first one is a table", "another alias"];
    shell.refuses("SELECT id, (SELECT max(k) FROM u WHERE u.t = t.id) FROM t", &words);
    shell.refuses(
        "SELECT (SELECT (SELECT max(v.k) FROM u AS v WHERE v.t = z.id) FROM (SELECT t AS z FROM u) AS w) FROM t AS z",
        &words,
    );
    assert_eq!(shell.rows("SELECT id, (SELECT max(k) FROM u WHERE u.t = o.id) FROM t AS o"), [""; 0]);
}

#[test]
fn columns_from_outside_have_the_type_that_they_have_there() {
    let shell = Shell::with(
        "CREATE TABLE t (id INT PRIMARY KEY, n DECIMAL(10, 2), m DECIMAL(18, 5), i SMALLINT, k INT, r REAL, f DOUBLE PRECISION, d DATE, s TIMESTAMP);
         CREATE TABLE z (a INT);
         INSERT INTO t VALUES (1, 1.5, 0.0015, 1, 150, 0.5, 0.25, '2024-01-01', '2024-01-01 10:00:00'),
                              (2, 2, 7, 3, 2, 2, 2, '2024-01-02', '2024-01-02 00:00:00');
         INSERT INTO z VALUES (1)",
    );
    let of = |one: &str, other: &str, condition: &str, of_t: &str| {
        [
            format!(
                "SELECT t.id, w.x FROM t, (SELECT {one} AS x FROM t UNION ALL SELECT {other} FROM t) AS w WHERE EXISTS (SELECT 1 FROM z WHERE {condition})"
            ),
            format!(
                "SELECT t.id, w.x FROM t, (SELECT {one} AS x FROM t UNION SELECT {other} FROM t) AS w WHERE (SELECT max(a) FROM z WHERE {condition}) = 1"
            ),
            format!(
                "WITH w AS (SELECT CASE WHEN p = 1 THEN {one} ELSE {other} END AS x FROM t, (VALUES (1), (2)) AS v (p)) SELECT t.id, w.x FROM t, w WHERE (SELECT count(*) FROM z WHERE {condition}) > 0"
            ),
            format!(
                "SELECT t.id, w.x FROM t, (SELECT {one} AS x FROM t UNION ALL SELECT {other} FROM t) AS w, LATERAL (SELECT a FROM z WHERE {condition}) AS l"
            ),
            format!(
                "SELECT t.id, w.x FROM t, (SELECT {one} AS x FROM t UNION ALL SELECT {other} FROM t) AS w WHERE {of_t} IN (SELECT w.x FROM z) AND {condition}"
            ),
            format!(
                "SELECT t.id, w.x FROM t, (SELECT {one} AS x FROM t UNION ALL SELECT {other} FROM t) AS w WHERE {condition}"
            ),
        ]
    };
    for (one, other, of_t) in [
        ("n", "m", "t.n"),
        ("i", "n", "t.i"),
        ("i", "f", "t.i"),
        ("k", "m", "t.k"),
        ("r", "f", "t.r"),
        ("d", "s", "t.d"),
        ("k", "i", "t.n"),
    ] {
        let mut answers = of(one, other, &format!("w.x = {of_t}"), of_t).map(|query| {
            let mut rows = shell.rows(&format!("{query} ORDER BY 1, 2"));
            rows.dedup();
            (rows, query)
        });
        let (plain, _) = answers[5].clone();
        assert!(!plain.is_empty(), "{one} {other}");
        for (rows, query) in &mut answers {
            assert_eq!(*rows, plain, "{query}");
        }
    }
    for operator in ["<", "<>", ">=", "IS DISTINCT FROM"] {
        for (one, other, of_t) in [("n", "m", "t.n"), ("i", "n", "t.i"), ("i", "f", "t.i"), ("d", "s", "t.d")] {
            let [exists, .., plain] = of(one, other, &format!("w.x {operator} {of_t}"), of_t);
            let rows = shell.rows(&format!("{exists} ORDER BY 1, 2"));
            assert_eq!(rows, shell.rows(&format!("{plain} ORDER BY 1, 2")), "{exists}");
        }
    }
    let removed = "DELETE FROM t WHERE id IN (SELECT t.id FROM (SELECT n AS x FROM t UNION ALL SELECT m FROM t) AS w WHERE EXISTS (SELECT 1 FROM z WHERE w.x = t.n))";
    assert_eq!(shell.run(removed), 2);
}

#[test]
fn a_plus_before_a_column_stands_beside_an_alias_of_its_name() {
    let shell = Shell::with("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2)");
    assert_eq!(shell.rows("SELECT -a AS b, +b FROM t"), ["-1|2"]);
    assert_eq!(shell.rows("SELECT count(*) a, +a FROM t GROUP BY a"), ["1|1"]);
}

#[test]
fn what_is_computed_of_columns_from_outside_is_of_the_type_that_they_have_there() {
    let shell = Shell::with(
        "CREATE TABLE t (id INT PRIMARY KEY, i SMALLINT, f DOUBLE PRECISION, n DECIMAL(10, 2), m DECIMAL(18, 5), b BIGINT);
         INSERT INTO t VALUES (1, 1, 0.125, 3, 7.12345, 5000000000), (2, NULL, 7.5, 1, 1.5, 1)",
    );
    for (pair, computed, expected) in [
        ("i AS x FROM t UNION ALL SELECT f", "coalesce(u.x, 0)", "0.0, 0.125, 1.0, 7.5"),
        ("i AS x FROM t UNION SELECT f", "u.x + 1", "1.125, 2.0, 8.5, NULL"),
        ("i AS x FROM t UNION ALL SELECT f", "CASE WHEN u.x > 0 THEN u.x ELSE 0 END", "0.0, 0.125, 1.0, 7.5"),
        ("n AS x FROM t UNION ALL SELECT m", "greatest(u.x, 0)", "1.00000, 1.50000, 3.00000, 7.12345"),
        ("i AS x FROM t UNION ALL SELECT b", "u.x * 2", "2, 2, 10000000000, NULL"),
    ] {
        let query = format!(
            "WITH u AS (SELECT {pair} FROM t) SELECT w.x FROM u CROSS JOIN LATERAL (SELECT {computed} AS x) AS w ORDER BY 1"
        );
        assert_eq!(shell.rows(&query).join(", "), expected, "{query}");
    }
    for (query, expected) in [
        (
            "WITH u AS (SELECT i AS x FROM t UNION ALL SELECT f FROM t) SELECT u.x FROM u WHERE EXISTS (SELECT 1 FROM t WHERE coalesce(u.x, 0) = t.f) ORDER BY 1",
            "0.125, 7.5",
        ),
        (
            "WITH u AS (SELECT i AS x FROM t UNION ALL SELECT f FROM t) SELECT u.x FROM u WHERE 8.5 IN (SELECT u.x + 1 FROM t)",
            "7.5",
        ),
        (
            "SELECT u.x FROM (SELECT nullif(n, 0) AS x FROM t) AS u WHERE EXISTS (SELECT 1 FROM t WHERE u.x = t.n) ORDER BY 1",
            "1.00, 3.00",
        ),
        (
            "SELECT u.x FROM (SELECT nullif(id, 0::BIGINT) AS x FROM t) AS u WHERE EXISTS (SELECT 1 FROM t WHERE u.x = t.n) ORDER BY 1",
            "1",
        ),
        (
            "SELECT u.x FROM (SELECT nullif(id, 0.5) AS x FROM t) AS u WHERE (SELECT max(m) FROM t WHERE u.x <= t.i) > 1",
            "1",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn a_column_that_can_not_be_null_is_compared_beside_columns_of_one_name() {
    let shell = Shell::with(
        "CREATE TABLE ta (id INTEGER, k INTEGER NOT NULL, g INTEGER); INSERT INTO ta VALUES (0, 4, 2), (1, 3, 1), (2, 3, 1);
         CREATE TABLE tb (id INTEGER PRIMARY KEY, k INTEGER); INSERT INTO tb VALUES (1, 2), (2, 2);
         CREATE VIEW va AS SELECT k, count(*) AS c, max(g) AS g, 'v' AS s FROM ta GROUP BY k",
    );
    let query = "SELECT a.s, b.s, (SELECT count(*) FROM tb z WHERE z.k = b.c) FROM va a FULL JOIN va b ON a.k = b.k WHERE b.k IN (1, 2, a.k) ORDER BY 3";
    assert_eq!(shell.rows(query), ["v|v|0", "v|v|2"]);
}
