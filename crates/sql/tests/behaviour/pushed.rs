//! Conditions that are pushed down to where they are cheap, in plans in which several columns have one name.

use crate::shell::Shell;

fn tables() -> Shell {
    Shell::with(
        "CREATE TABLE a (k INT, v INT); INSERT INTO a VALUES (1, 10), (2, 20), (3, NULL), (5, 50);
         CREATE TABLE b (k INT, v INT, w INT); INSERT INTO b VALUES (1, 20, 5), (2, 15, 6), (3, 1, 7), (4, 40, -1), (4, 41, 1);
         CREATE TABLE c (j INT, k INT); INSERT INTO c SELECT k, 1000 - k FROM a;
         CREATE VIEW outer_rows AS SELECT a.k AS ak, a.v AS av, b.k, b.v, b.w FROM a RIGHT JOIN b ON a.k = b.k",
    )
}

/// Queries, and what `PostgreSQL` 15 answers.
fn check(answers: &[(&str, &str)]) {
    let shell = tables();
    for (query, expected) in answers {
        assert_eq!(shell.rows(query).join(", "), *expected, "{query}");
    }
}

#[test]
fn a_condition_on_both_sides_of_an_outer_join_is_checked_on_the_columns_that_it_names() {
    check(&[
        (
            "SELECT a.k, a.v, b.v FROM a RIGHT JOIN b ON a.k = b.k WHERE b.v > coalesce(a.v, 0) AND b.w > 0 ORDER BY b.v",
            "3|NULL|1, 1|10|20, NULL|NULL|41",
        ),
        ("SELECT a.k, a.v, b.v FROM a RIGHT JOIN b ON a.k = b.k WHERE b.v <= coalesce(a.v, 0) AND b.w > 0", "2|20|15"),
        ("SELECT count(*) FROM a RIGHT JOIN b ON a.k = b.k WHERE b.v IS DISTINCT FROM a.v AND b.w > 0", "4"),
        (
            "SELECT b.v, a.v FROM b FULL JOIN a ON a.k = b.k WHERE (b.v > a.v OR a.v IS NULL) AND b.w > 0 ORDER BY 1",
            "1|NULL, 20|10, 41|NULL",
        ),
        (
            "SELECT x.v, y.v FROM b AS x RIGHT JOIN b AS y ON x.k = y.k - 1 WHERE y.v > coalesce(x.v, 0) AND y.w > 0 ORDER BY 2",
            "NULL|20, 1|41",
        ),
        ("SELECT av, v FROM outer_rows WHERE v > coalesce(av, 0) AND w > 0 ORDER BY v", "NULL|1, 10|20, NULL|41"),
        (
            "SELECT d.v, b.v FROM a RIGHT JOIN (SELECT * FROM b WHERE w > 0) AS b ON a.k = b.k \
             RIGHT JOIN b AS d ON d.k = b.k WHERE d.v >= coalesce(b.v, 0) AND d.w > 0 ORDER BY 1, 2",
            "1|1, 15|15, 20|20, 41|41",
        ),
        (
            "SELECT v FROM b WHERE k NOT IN \
             (SELECT b.k FROM a RIGHT JOIN b ON a.k = b.k WHERE b.w > 0 AND b.v > coalesce(a.v, 0))",
            "15",
        ),
    ]);
}

#[test]
fn rows_that_a_delete_must_keep_are_kept_under_an_outer_join() {
    let shell = tables();
    shell.run(
        "DELETE FROM b WHERE k NOT IN (SELECT b.k FROM a RIGHT JOIN b ON a.k = b.k WHERE b.w > 0 AND b.v > coalesce(a.v, 0))",
    );
    assert_eq!(shell.rows("SELECT k, v FROM b ORDER BY k, v").join(", "), "1|20, 3|1, 4|40, 4|41");
}

#[test]
fn filters_that_are_found_while_a_query_runs_hold_for_the_columns_that_they_are_on() {
    check(&[
        (
            "SELECT a.k, b.k, b.v FROM a RIGHT JOIN b ON a.k = b.k ORDER BY b.k DESC, b.v LIMIT 2",
            "NULL|4|40, NULL|4|41",
        ),
        (
            "SELECT a.v, b.v FROM a JOIN b ON a.k = b.k JOIN (VALUES (15), (1)) AS t (v) ON b.v = t.v ORDER BY 2",
            "NULL|1, 20|15",
        ),
        (
            "SELECT x.v FROM (SELECT a.v, b.v AS u, b.k FROM a RIGHT JOIN b USING (k)) AS x ORDER BY u LIMIT 2",
            "NULL, 20",
        ),
        (
            "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.j = a.k AND c.k > coalesce(a.v, 0)) ORDER BY a.k LIMIT 2",
            "1, 2",
        ),
        (
            "SELECT * FROM (SELECT k, v FROM b UNION ALL SELECT v, k FROM b) AS u WHERE k + v > 40 ORDER BY k, v LIMIT 3",
            "4|40, 4|41, 40|4",
        ),
        (
            "SELECT v, n FROM (SELECT v + 0 AS v, count(*) AS n FROM (SELECT b.v FROM a RIGHT JOIN b ON a.k = b.k) AS x \
             GROUP BY v + 0) AS y WHERE v > 15 ORDER BY v LIMIT 2",
            "20|1, 40|1",
        ),
    ]);
}

#[test]
fn a_condition_that_names_no_column_stays_above_an_aggregate_that_gives_a_row_of_none() {
    check(&[
        ("SELECT count(*) FROM a WHERE 7 IN (SELECT 5 FROM (SELECT count(*) AS n FROM b) AS x)", "0"),
        ("SELECT count(*) FROM a WHERE 5 IN (SELECT 5 FROM (SELECT count(*) AS n FROM b) AS x)", "4"),
        ("SELECT count(*) FROM a WHERE NULL::INT IN (SELECT 5 FROM (SELECT max(v) AS n FROM b WHERE v < 0) AS x)", "0"),
        ("SELECT count(*) FROM a WHERE NOT (7 <> ALL (SELECT 5 FROM (SELECT count(*) AS n FROM b) AS x))", "0"),
        ("SELECT n FROM (SELECT count(*) AS n FROM b) AS x WHERE 1 = 2", ""),
        ("SELECT w, n FROM (SELECT w, count(*) AS n FROM b GROUP BY ROLLUP (w)) AS x WHERE w IS NULL", "NULL|5"),
    ]);
}

#[test]
fn a_key_of_one_side_of_a_join_is_no_key_of_its_groups() {
    let shell = Shell::with(
        "CREATE TABLE a (x INT PRIMARY KEY, y INT); INSERT INTO a VALUES (1, 1), (2, 2);
         CREATE TABLE b (z INT NOT NULL); INSERT INTO b VALUES (7), (8)",
    );
    for (query, expected) in [
        ("SELECT DISTINCT x FROM (SELECT DISTINCT x, z FROM a CROSS JOIN b) AS q ORDER BY x", "1, 2"),
        (
            "SELECT DISTINCT x FROM (SELECT x, z, count(*) AS n FROM a CROSS JOIN b GROUP BY x, z) AS q ORDER BY x",
            "1, 2",
        ),
        (
            "SELECT DISTINCT x FROM (SELECT DISTINCT q.x, z FROM (SELECT DISTINCT x FROM a) AS q CROSS JOIN b) AS r ORDER BY x",
            "1, 2",
        ),
        ("SELECT x, z FROM (SELECT DISTINCT x, z FROM a CROSS JOIN b) AS q ORDER BY x, z DESC", "1|8, 1|7, 2|8, 2|7"),
        (
            "SELECT x, z FROM (SELECT x, z, count(*) AS n FROM a, b GROUP BY x, z) AS q ORDER BY x, z DESC",
            "1|8, 1|7, 2|8, 2|7",
        ),
        (
            "SELECT x, sum(n) FROM (SELECT x, z, count(*) AS n FROM a, b GROUP BY x, z) AS q GROUP BY x ORDER BY x",
            "1|2, 2|2",
        ),
        (
            "SELECT a.x, q.z FROM a JOIN (SELECT x, z FROM a, b GROUP BY x, z) AS q ON a.x = q.x ORDER BY 1, 2",
            "1|7, 1|8, 2|7, 2|8",
        ),
        ("SELECT count(*) FROM a LEFT JOIN (SELECT x, z FROM a, b GROUP BY x, z) AS q ON a.x = q.x", "4"),
        (
            "SELECT DISTINCT ON (x, z) x, z FROM (SELECT DISTINCT x, z FROM a CROSS JOIN b) AS q ORDER BY x, z DESC",
            "1|8, 1|7, 2|8, 2|7",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn a_constant_of_a_side_of_an_outer_join_is_none_above_it() {
    check(&[
        (
            "SELECT x.c, count(*) OVER (ORDER BY x.c DESC) FROM (SELECT 1 AS c, k FROM a) AS x RIGHT JOIN b USING (k) ORDER BY 2, 1",
            "NULL|2, NULL|2, 1|5, 1|5, 1|5",
        ),
        (
            "SELECT x.c FROM (SELECT 1 AS c, k FROM a) AS x RIGHT JOIN b USING (k) ORDER BY x.c DESC LIMIT 3",
            "NULL, NULL, 1",
        ),
        (
            "SELECT x.c FROM a LEFT JOIN (SELECT 1 AS c, k FROM b WHERE k < 3) AS x USING (k) ORDER BY c",
            "1, 1, NULL, NULL",
        ),
        (
            "SELECT x.w, y.k FROM (SELECT * FROM b WHERE w = 7) AS x FULL JOIN (SELECT 7 AS k) AS y ON x.k = y.k ORDER BY x.w",
            "7|NULL, NULL|7",
        ),
    ]);
}
