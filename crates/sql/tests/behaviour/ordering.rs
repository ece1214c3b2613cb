//! What ORDER BY orders by, and which order is kept.

use crate::shell::Shell;

fn numbers() -> Shell {
    Shell::with("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 30), (2, 20), (3, 10), (4, 5)")
}

#[test]
fn the_rows_of_an_ordered_subquery_come_in_its_order() {
    let shell = numbers();
    for (query, expected) in [
        ("SELECT * FROM (SELECT a FROM t ORDER BY b) AS s LIMIT 2", "4, 3"),
        ("SELECT * FROM (SELECT a FROM t ORDER BY b) AS s", "4, 3, 2, 1"),
        ("SELECT a + 1 FROM (SELECT a, b FROM t ORDER BY b) AS s WHERE b > 5 LIMIT 2", "4, 3"),
        ("SELECT * FROM (SELECT * FROM (SELECT a FROM t ORDER BY b) AS s) AS q LIMIT 1 OFFSET 1", "3"),
        ("WITH w AS (SELECT a FROM t ORDER BY b) SELECT * FROM w LIMIT 2", "4, 3"),
        ("SELECT count(*) FROM (SELECT a FROM t ORDER BY b) AS s", "4"),
        ("SELECT * FROM (SELECT a FROM t ORDER BY b) AS s ORDER BY a LIMIT 2", "1, 2"),
        ("SELECT * FROM (SELECT a FROM t ORDER BY b LIMIT 2) AS s ORDER BY a", "3, 4"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn an_expression_orders_by_columns_of_tables_and_a_name_alone_by_that_of_the_result() {
    let shell = numbers();
    for (query, expected) in [
        ("SELECT -a AS a FROM t ORDER BY -a", "-4, -3, -2, -1"),
        ("SELECT -a AS a FROM t ORDER BY a", "-4, -3, -2, -1"),
        ("SELECT -a AS a FROM t ORDER BY (a)", "-4, -3, -2, -1"),
        ("SELECT b AS a FROM t ORDER BY a", "5, 10, 20, 30"),
        ("SELECT b AS a FROM t ORDER BY a + 0", "30, 20, 10, 5"),
        ("SELECT b AS a FROM t ORDER BY -a, a", "5, 10, 20, 30"),
        ("SELECT x.b AS a FROM t AS x ORDER BY a + 0 LIMIT 2", "30, 20"),
        ("(SELECT b AS a FROM t) ORDER BY a + 0 LIMIT 1", "30"),
        ("SELECT DISTINCT -a AS a FROM t ORDER BY -a", "-4, -3, -2, -1"),
        ("SELECT b AS a, count(*) FROM t GROUP BY b HAVING max(a) > 1 ORDER BY max(a)", "20|1, 10|1, 5|1"),
        ("SELECT * FROM (SELECT -a AS a FROM t ORDER BY -a LIMIT 2) AS s", "-4, -3"),
        ("SELECT b AS a, a AS b FROM t ORDER BY a + b, a LIMIT 1", "5|4"),
        ("SELECT (SELECT x.b AS a FROM t AS x ORDER BY a + 0 LIMIT 1) FROM t LIMIT 1", "30"),
        ("WITH w AS (SELECT b AS a, a AS c FROM t) SELECT c AS a FROM w ORDER BY -a", "1, 2, 3, 4"),
        ("SELECT a, b AS x FROM t ORDER BY a * 10 - b, x LIMIT 1", "1|30"),
        ("SELECT a FROM t UNION SELECT b FROM t ORDER BY a LIMIT 2", "1, 2"),
        ("SELECT b AS a FROM t ORDER BY t.a", "30, 20, 10, 5"),
        ("SELECT b AS a, a AS c FROM t ORDER BY 1, t.a LIMIT 2", "5|4, 10|3"),
        ("SELECT b AS a FROM t AS x ORDER BY x.a DESC LIMIT 1", "5"),
        ("SELECT b AS a, count(*) FROM t GROUP BY b, t.a ORDER BY t.a", "30|1, 20|1, 10|1, 5|1"),
        ("SELECT (SELECT x.b AS a FROM t AS x ORDER BY x.a LIMIT 1) FROM t LIMIT 1", "30"),
        ("SELECT * FROM (SELECT b AS a FROM t ORDER BY a + 0 LIMIT 2) AS s ORDER BY a", "20, 30"),
        ("SELECT s.a, s.c FROM (SELECT b AS a, a AS c FROM t ORDER BY t.a LIMIT 2) AS s ORDER BY c", "30|1, 20|2"),
        ("WITH w AS (SELECT b AS a FROM t ORDER BY t.a DESC LIMIT 1) SELECT a + 1 FROM w", "6"),
        (
            "SELECT y.v, s.a FROM (SELECT 1 AS v) AS y, LATERAL (SELECT y.v AS a FROM t ORDER BY t.a LIMIT 1) AS s",
            "1|1",
        ),
        ("SELECT max(a), max(a), max(a) FROM t GROUP BY b ORDER BY 2", "1|1|1, 2|2|2, 3|3|3, 4|4|4"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn an_expression_over_a_name_that_may_mean_something_else_is_refused() {
    let shell = numbers();
    shell.refuses("SELECT x.a FROM t AS x, t AS y ORDER BY -a", &["ORDER BY an expression over a", "several tables"]);
    shell.refuses(
        "SELECT (SELECT x.b AS c FROM t AS x ORDER BY -c LIMIT 1) FROM (SELECT a AS c FROM t) AS q",
        &["ORDER BY an expression over c", "around this one"],
    );
    shell.refuses(
        "SELECT * FROM (SELECT b AS a, count(*) FROM t GROUP BY b, t.a ORDER BY a + 0 LIMIT 2) AS s",
        &["ORDER BY an expression over a", "in a subquery of FROM"],
    );
    let of_function = "SELECT -value AS value FROM generate_series(1, 3) ORDER BY -value";
    assert_eq!(shell.rows(of_function), ["-3", "-2", "-1"], "the function's column");
    for set in ["UNION", "UNION ALL", "INTERSECT", "EXCEPT"] {
        let query = format!("SELECT a FROM t {set} SELECT b FROM t ORDER BY -a");
        shell.refuses(&query, &["ORDER BY an expression behind UNION"]);
    }
}

#[test]
fn a_constant_of_a_side_that_an_outer_join_fills_up_is_none_behind_it() {
    let directory = tempfile::tempdir().expect("a folder");
    let shell = Shell::with(&format!(
        "CREATE TABLE t (id INT, c TEXT) WITH (storage = 'paged', location = '{}');
         INSERT INTO t VALUES (1, NULL), (2, 'abc'), (3, 'a_b'), (4, NULL), (5, NULL), (6, ' a'), (7, NULL), (8, '');
         CREATE TABLE s (id INT)",
        directory.path().join("pages").display()
    ));
    // The sides of the cross join are exchanged, and only then is the constant seen.
    let sql =
        "SELECT d.k FROM t AS x CROSS JOIN (SELECT min(id), 5 FROM s) AS d (m, k) FULL JOIN t USING (c) ORDER BY 1";
    assert_eq!(shell.rows(sql), ["5", "5", "5", "5", "5", "5", "5", "5", "NULL", "NULL", "NULL", "NULL"]);
}

#[test]
fn the_first_rows_of_a_union_come_by_all_that_they_are_ordered_by() {
    let shell =
        Shell::with("CREATE TABLE r (id INT PRIMARY KEY); INSERT INTO r SELECT x FROM generate_series(1, 40) AS g(x)");
    // A column that is the same in all rows of a query orders the queries. They run at the same time, and which one is ahead is chance.
    for (query, expected) in [
        (
            "SELECT 2 AS a, id AS b FROM r UNION ALL SELECT 1, id + 1000 FROM r ORDER BY 1 DESC, 2 DESC LIMIT 2",
            "2|40, 2|39",
        ),
        (
            "SELECT 2 AS a, max(id) AS b FROM r UNION ALL SELECT 1, id + 1000 FROM r ORDER BY 1 DESC, 2 DESC LIMIT 2",
            "2|40, 1|1040",
        ),
        (
            "SELECT * FROM (SELECT 'a' AS a, id AS b FROM r UNION ALL SELECT 'b', id - 1000 FROM r) AS u ORDER BY a, b LIMIT 2",
            "a|1, a|2",
        ),
        (
            "SELECT b FROM (SELECT 'a' AS a, id AS b FROM r UNION ALL SELECT 'b', id - 1000 FROM r) AS u ORDER BY a, b LIMIT 2",
            "1, 2",
        ),
        (
            "SELECT id, a FROM (SELECT id, NULL::INT AS a FROM r UNION ALL SELECT id - 1000, 1 FROM r) AS u ORDER BY a DESC, id LIMIT 1",
            "1|NULL",
        ),
    ] {
        for _ in 0..100 {
            assert_eq!(shell.rows(query).join(", "), expected, "{query}");
        }
    }
}

#[test]
fn an_order_that_the_plan_has_lost_is_made_again() {
    let shell = Shell::with(
        "CREATE TABLE ta (id INTEGER PRIMARY KEY, k INTEGER, g INTEGER); INSERT INTO ta VALUES (1, 1, 1), (2, 1, 2), (3, NULL, NULL);
         CREATE VIEW va AS SELECT k, count(*) AS c, max(g) AS g, 'v' AS s FROM ta GROUP BY k",
    );
    for (query, expected) in [
        ("SELECT a1.c, string_agg(a2.s, ',' ORDER BY a2.s) FROM va AS a1 JOIN va AS a2 ON a1.k = a2.c GROUP BY a1.c", "2|v"),
        (
            "SELECT id FROM (SELECT id, g, dense_rank() OVER (ORDER BY g, id) AS w, sum(k) OVER (PARTITION BY g ORDER BY k DESC) AS v, k
             FROM ta WHERE id > 0 ORDER BY k DESC NULLS LAST, g NULLS FIRST, id DESC OFFSET 1) AS q ORDER BY g NULLS FIRST, id DESC LIMIT 24",
            "3, 2",
        ),
        ("SELECT id, x FROM (SELECT id, g AS x FROM ta ORDER BY g DESC, id OFFSET 1) AS q ORDER BY x, id", "1|1, 2|2"),
        (
            "(SELECT id, k, g, NULL::INTEGER FROM ta) UNION ALL (SELECT g, NULL::INTEGER, 7, id FROM ta) ORDER BY 1 DESC NULLS LAST, 2 NULLS LAST, 3 NULLS FIRST, 4 NULLS LAST",
            "3|NULL|NULL|NULL, 2|1|2|NULL, 2|NULL|7|2, 1|1|1|NULL, 1|NULL|7|1, NULL|NULL|7|3",
        ),
        (
            "SELECT id, row_number() OVER (ORDER BY (SELECT max(b.id) FROM ta AS b WHERE b.id < 0) DESC, g DESC) FROM ta ORDER BY 2",
            "3|1, 2|2, 1|3",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}
