//! Answers that once were others than those of `PostgreSQL` 15, which these are.

use crate::shell::{Shell, without_zeros};

/// Queries and their rows.
const ANSWERS: &[(&str, &str)] = &[
    ("SELECT t.id, x.k FROM t JOIN (SELECT 0 AS k) x ON k IS NOT DISTINCT FROM w", "2|0"),
    ("SELECT t.id, x.k FROM t JOIN (SELECT NULL::int AS k) x ON k IS NOT DISTINCT FROM w", "1|NULL"),
    ("SELECT id,(SELECT 'hit' FROM (SELECT 0 AS k) x WHERE k IS NOT DISTINCT FROM w) FROM t", "1|NULL, 2|hit, 3|NULL"),
    ("SELECT id,(SELECT 'hit' FROM (VALUES (0)) x(k) WHERE k IS NOT DISTINCT FROM w) FROM t", "1|NULL, 2|hit, 3|NULL"),
    ("SELECT t.id FROM t, LATERAL (SELECT 1 FROM (SELECT 5 AS k) x WHERE k IS NOT DISTINCT FROM w) q", "3"),
    (
        "SELECT c, count(*) FROM (SELECT count(*) OVER (ORDER BY v RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) c FROM n) q GROUP BY c",
        "20000|20000",
    ),
    (
        "SELECT c, count(*) FROM (SELECT count(*) OVER (PARTITION BY p ORDER BY v RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING) c FROM n) q GROUP BY c",
        "2001|2001, 2999|2999, 3000|15000",
    ),
    (
        "SELECT sum(c), count(*) FROM (SELECT count(*) OVER (PARTITION BY id % 2 ORDER BY id / 5000 RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING) c, sum(id) OVER (PARTITION BY p ORDER BY id) FROM n) q",
        "62500000|20000",
    ),
    ("SELECT id FROM t GROUP BY GROUPING SETS ((id),(id)) ORDER BY id LIMIT 3", "1, 1, 2"),
    ("SELECT id, count(*) FROM t GROUP BY id, ROLLUP(id) ORDER BY id LIMIT 3", "1|1, 1|1, 2|1"),
    (
        "SELECT x.id, y.id, count(*) FROM t x JOIN t y ON x.id=y.id GROUP BY ROLLUP(x.id,y.id) ORDER BY 1,2",
        "1|1|1, 1|NULL|1, 2|2|1, 2|NULL|1, 3|3|1, 3|NULL|1, NULL|NULL|3",
    ),
    (
        "SELECT x.id, y.id, count(*) FROM t x JOIN t y ON x.id=y.id GROUP BY ROLLUP(x.id,y.id) ORDER BY 1,2 LIMIT 3",
        "1|1|1, 1|NULL|1, 2|2|1",
    ),
    (
        "SELECT x::text, y FROM (SELECT d, 1 FROM t UNION ALL VALUES (DATE '2024-01-01',1),(TIMESTAMP '2023-12-31 00:00:01',2)) q(x,y)",
        "2023-12-31 00:00:01|2, 2024-01-01 00:00:00|1, 2024-02-27 00:00:00|1, 2024-02-28 00:00:00|1, NULL|1",
    ),
    (
        "SELECT x::text, y FROM (SELECT d, id FROM t UNION ALL SELECT nullif(ts,'2024-01-01 10:00:00'), 1.5 FROM t) q(x,y)",
        "2024-02-27 00:00:00|1, 2024-02-27 05:06:07|1.5, 2024-02-28 00:00:00|2, 2024-02-28 01:00:00|1.5, NULL|1.5, NULL|3",
    ),
    (
        "SELECT x::text, y FROM (SELECT d, id FROM t UNION ALL SELECT greatest(ts,'2024-01-01 10:00:00'), 1.5 FROM t) q(x,y)",
        "2024-01-01 10:00:00|1.5, 2024-02-27 00:00:00|1, 2024-02-27 05:06:07|1.5, 2024-02-28 00:00:00|2, 2024-02-28 01:00:00|1.5, NULL|3",
    ),
    (
        "SELECT x::text, y FROM (SELECT d, id FROM t UNION ALL SELECT CASE WHEN id = 1 THEN '2024-01-01 10:00:00' ELSE ts END, 1.5 FROM t) q(x,y)",
        "2024-01-01 10:00:00|1.5, 2024-02-27 00:00:00|1, 2024-02-28 00:00:00|2, 2024-02-28 01:00:00|1.5, NULL|1.5, NULL|3",
    ),
    (
        "SELECT x::text, y FROM (SELECT d, id FROM t EXCEPT SELECT nullif(ts,d), 1.5 FROM t) q(x,y)",
        "2024-02-27 00:00:00|1, 2024-02-28 00:00:00|2, NULL|3",
    ),
    (
        "SELECT x::text, y FROM (SELECT d, id FROM t UNION SELECT (SELECT least(max(ts), '2025-01-01') FROM t), 1.5) q(x,y)",
        "2024-02-27 00:00:00|1, 2024-02-28 00:00:00|2, 2024-02-28 01:00:00|1.5, NULL|3",
    ),
    (
        "SELECT (x - DATE '2024-01-01')::text FROM (SELECT d FROM a2 UNION ALL SELECT ts FROM a2) q(x)",
        "-19722 days -23:50:00, -19723 days, 2 days, 4 days 10:00:00",
    ),
    ("SELECT (CASE WHEN id = 2 THEN d ELSE ts END - d)::text FROM a2", "00:00:00, 2 days 10:00:00"),
    ("SELECT (max(x)-min(x))::text FROM (SELECT d FROM a2 UNION ALL SELECT ts FROM a2) q(x)", "19727 days 10:00:00"),
    (
        "SELECT d - d, d + 1, 1 + d, d - 1, (d + INTERVAL '1 day')::text FROM a2",
        "0|1970-01-02|1970-01-02|1969-12-31|1970-01-02 00:00:00, 0|2024-01-04|2024-01-04|2024-01-02|2024-01-04 00:00:00",
    ),
    ("SELECT max(CASE WHEN id=5 THEN '4' ELSE v END) FROM (VALUES (1,9),(2,10)) q(id,v)", "10"),
    ("SELECT id, rank() OVER (ORDER BY CASE WHEN id=1 THEN '4' ELSE id * 10 END) FROM t", "1|1, 2|2, 3|3"),
    ("SELECT r/2, k/2 FROM c", "0|0, 1|0, 1|1"),
    (
        "SELECT coalesce(w, rank() OVER (ORDER BY id))/2, -rank() OVER (ORDER BY id), row_number() OVER (ORDER BY id) / 2, ntile(2) OVER (ORDER BY id) / 2, dense_rank() OVER (ORDER BY g) - 5 FROM t",
        "0|-1|0|0|-4, 0|-2|1|0|-3, 2|-3|1|1|-4",
    ),
    ("SELECT -r FROM (SELECT rank() OVER (ORDER BY id) AS r FROM t) q", "-1, -2, -3"),
    ("SELECT id FROM t ORDER BY rank() OVER (ORDER BY id DESC)", "1, 2, 3"),
    ("SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) AS r FROM t) q WHERE r = 1", "1|1, 2|1"),
    ("SELECT x FROM (VALUES ('2.25'),(0),(1.5) UNION SELECT 1.5) q(x)", "0, 1.5, 2.25"),
    (
        "SELECT x::text FROM (VALUES (DATE '2024-01-02'),(TIMESTAMP '2024-02-29 23:59:59.5') UNION ALL SELECT ts FROM t) v(x)",
        "2024-01-02 00:00:00, 2024-02-27 05:06:07, 2024-02-28 01:00:00, 2024-02-29 23:59:59.5, NULL",
    ),
    (
        "SELECT x::text FROM (VALUES (DATE '9999-12-31'),(TIMESTAMP '2024-02-29 23:59:59.5') UNION ALL SELECT ts FROM t) v(x)",
        "2024-02-27 05:06:07, 2024-02-28 01:00:00, 2024-02-29 23:59:59.5, 9999-12-31 00:00:00, NULL",
    ),
    ("SELECT d FROM far WHERE d IN (SELECT ts FROM far)", "9999-12-31"),
    ("SELECT d FROM far WHERE d NOT IN (SELECT ts FROM far)", "2024-01-01"),
    ("SELECT ts::text FROM far WHERE ts = ANY (SELECT d FROM far)", "9999-12-31 00:00:00"),
    ("SELECT x/2 FROM (SELECT NULL EXCEPT SELECT 1.5 UNION ALL SELECT 3) q(x)", "1.5, NULL"),
    (
        "SELECT x::text FROM (SELECT NULL INTERSECT SELECT ts FROM t UNION ALL SELECT d FROM t) q(x)",
        "2024-02-27 00:00:00, 2024-02-28 00:00:00, NULL, NULL",
    ),
    ("SELECT count(*) FROM t WHERE false GROUP BY GROUPING SETS ((), coalesce(1.5,w))", "0"),
    ("SELECT count(*) FROM t WHERE id > 5 GROUP BY GROUPING SETS ((), coalesce(1.5,w))", "0"),
    ("SELECT count(CAST(4 AS DECIMAL(3))) WHERE 0=5 GROUP BY ROLLUP(CAST('2024-01-01 00:00:00.25' AS TIMESTAMP))", "0"),
    (
        "SELECT EXTRACT(CENTURY FROM ts)/4, EXTRACT(DECADE FROM d)/4, EXTRACT(MILLENNIUM FROM ts)/4 FROM t",
        "5.25|50.5|0.75, 5.25|50.5|0.75, NULL|NULL|NULL",
    ),
    (
        "SELECT EXTRACT(CENTURY FROM INTERVAL '250 years'), EXTRACT(MILLENNIUM FROM INTERVAL '2500 years'), EXTRACT(DECADE FROM INTERVAL '25 years'), date_part('century', TIMESTAMP '2000-12-31 00:00:00')",
        "2|2|2|20",
    ),
    (
        "SELECT round(5,0)/2, round(sum(id),0)/2, round(count(*),0)/2, round(12345,-2), round(5,1)/2 FROM t",
        "2.5|3|1.5|12300|2.5",
    ),
    ("SELECT id+1, count(*) FROM t GROUP BY id ORDER BY 1", "2|1, 3|1, 4|1"),
    ("SELECT upper(g), count(*) FROM t GROUP BY g ORDER BY 1 DESC", "B|1, A|2"),
    ("SELECT g, count(*)*2 FROM t GROUP BY g ORDER BY 2, 1", "b|2, a|4"),
    ("SELECT coalesce(g,'all'), count(*) FROM t GROUP BY ROLLUP(g) ORDER BY 1", "a|2, all|3, b|1"),
    ("SELECT extract(year from d), count(*) FROM t GROUP BY 1 ORDER BY 1", "2024|2, NULL|1"),
    ("SELECT id + 1, id + 1, count(*) FROM t GROUP BY id ORDER BY 2", "2|2|1, 3|3|1, 4|4|1"),
    ("SELECT d::text, count(*) FROM t GROUP BY ROLLUP(d::text)", "2024-02-27|1, 2024-02-28|1, NULL|1, NULL|3"),
    (
        "SELECT upper(d::text), count(*) FROM t GROUP BY ROLLUP(upper(d::text))",
        "2024-02-27|1, 2024-02-28|1, NULL|1, NULL|3",
    ),
    (
        "SELECT '1'||d, grouping('1'||d), count(*) FROM t GROUP BY CUBE('1'||d)",
        "12024-02-27|0|1, 12024-02-28|0|1, NULL|0|1, NULL|1|3",
    ),
    (
        "SELECT g, id % 2, count(*), sum(id) FROM t GROUP BY CUBE(g, id % 2) HAVING count(*) > 0 ORDER BY 1, 2",
        "a|1|2|4, a|NULL|2|4, b|0|1|2, b|NULL|1|2, NULL|0|1|2, NULL|1|2|4, NULL|NULL|3|6",
    ),
    ("SELECT x.k, count(*) FROM t x0 JOIN (SELECT 1 AS k, id FROM t) x USING (id) GROUP BY x.k", "1|3"),
    (
        "SELECT g, grouping(g || 'x'), count(*) FROM t GROUP BY g, ROLLUP(g || 'x') ORDER BY 1, 2",
        "a|0|2, a|1|2, b|0|1, b|1|1",
    ),
    (
        "SELECT x::text FROM (SELECT d FROM t UNION ALL SELECT CASE WHEN id = 1 THEN '2024-01-01 10:00:00' ELSE ts END FROM t) q(x)",
        "2024-01-01 10:00:00, 2024-02-27 00:00:00, 2024-02-28 00:00:00, 2024-02-28 01:00:00, NULL, NULL",
    ),
    (
        "SELECT k, count(*) FROM (SELECT id AS k FROM t) AS x JOIN (SELECT id AS k FROM t) AS y USING (k) GROUP BY x.k ORDER BY 1",
        "1|1, 2|1, 3|1",
    ),
    (
        "SELECT k / 2, x.k FROM (SELECT id AS k FROM t) AS x JOIN (SELECT id + 0.0 AS k FROM t) AS y USING (k) ORDER BY 2",
        "0.5|1, 1|2, 1.5|3",
    ),
    (
        "SELECT percent_rank() OVER (PARTITION BY g ORDER BY id), max(w) OVER (PARTITION BY g ORDER BY id RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING), id FROM t ORDER BY id",
        "0|NULL|1, 0|0|2, 1|5|3",
    ),
    (
        "SELECT sum(id) OVER (ORDER BY d), count(*) OVER (ORDER BY d RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND CURRENT ROW), rank() OVER (ORDER BY d), id FROM t ORDER BY id",
        "1|1|1|1, 3|1|2|2, 6|1|3|3",
    ),
    (
        "SELECT x FROM (VALUES (DATE '2024-01-01'), ('2024-01-02'), (NULL)) q(x) ORDER BY 1",
        "2024-01-01, 2024-01-02, NULL",
    ),
    (
        "SELECT x::text FROM (VALUES ('2024-01-01'), (TIMESTAMP '2024-01-02 10:00:00')) q(x) ORDER BY 1",
        "2024-01-01 00:00:00, 2024-01-02 10:00:00",
    ),
    ("SELECT x FROM (VALUES (true), ('false')) q(x) ORDER BY 1", "false, true"),
    (
        "SELECT c1::TEXT FROM (SELECT coalesce('2024-02-29 23:59:59.5', ts) AS c1 FROM t) q",
        "2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5",
    ),
    (
        "SELECT c1::TEXT FROM (SELECT coalesce('2024-02-29 23:59:59.5', ts) AS c1 FROM t EXCEPT SELECT nullif(ts, ts) FROM t) q",
        "2024-02-29 23:59:59.5",
    ),
    (
        "SELECT c1::TEXT, (c1 - DATE '2024-01-01')::TEXT FROM (SELECT coalesce('2024-02-29 23:59:59.5', CASE WHEN id > 1 THEN ts ELSE ts END) AS c1 FROM t) q",
        "2024-02-29 23:59:59.5|59 days 23:59:59.5, 2024-02-29 23:59:59.5|59 days 23:59:59.5, 2024-02-29 23:59:59.5|59 days 23:59:59.5",
    ),
    (
        "SELECT c1::TEXT FROM (SELECT coalesce('2024-02-29 23:59:59.5', ts) AS c1 FROM t UNION ALL SELECT d FROM t) q",
        "2024-02-27 00:00:00, 2024-02-28 00:00:00, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, NULL",
    ),
    (
        "SELECT c1::TEXT FROM (SELECT coalesce('2024-02-29 23:59:59.5', ts) AS c1, id FROM t UNION ALL SELECT d, 1.5 FROM t) q(c1, c2)",
        "2024-02-27 00:00:00, 2024-02-28 00:00:00, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, NULL",
    ),
    (
        "SELECT c1::TEXT FROM ((SELECT coalesce('2024-02-29 23:59:59.5', ts) AS c1, id FROM t EXCEPT SELECT nullif(ts, ts), 5 FROM t) UNION ALL (SELECT d, 1.5 FROM t INTERSECT ALL SELECT min(x), 3 FROM (VALUES (TIMESTAMP '2023-12-31 00:00:01'), (DATE '2024-01-01')) v(x))) q(c1, c2)",
        "2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5",
    ),
    (
        "SELECT c1::TEXT FROM ((SELECT ts AS c1, id FROM t EXCEPT SELECT nullif(ts, ts), 5 FROM t) UNION ALL (SELECT d, 1 FROM t INTERSECT ALL SELECT max(ts), count(*) FROM t)) q(c1, c2)",
        "2024-02-27 05:06:07, 2024-02-28 01:00:00, NULL",
    ),
    (
        "SELECT c1::TEXT FROM ((SELECT ts AS c1, id FROM t EXCEPT SELECT ts, 5 FROM t) UNION ALL (SELECT d, 1 FROM t INTERSECT ALL SELECT ts, count(*) OVER (PARTITION BY id) FROM t)) q(c1, c2)",
        "2024-02-27 05:06:07, 2024-02-28 01:00:00, NULL, NULL",
    ),
    (
        "SELECT c1::TEXT FROM ((SELECT CASE WHEN id = 1 THEN ts ELSE d END AS c1, id FROM t EXCEPT SELECT ts, 5 FROM t) UNION ALL (SELECT d, 1 FROM t)) q(c1, c2)",
        "2024-02-27 00:00:00, 2024-02-27 05:06:07, 2024-02-28 00:00:00, 2024-02-28 00:00:00, NULL, NULL",
    ),
    (
        "SELECT c1::TEXT FROM ((SELECT coalesce('2024-02-29 23:59:59.5', d) AS c1, id FROM t) UNION ALL (SELECT ts, 1 FROM t)) q(c1, c2)",
        "2024-02-27 05:06:07, 2024-02-28 01:00:00, 2024-02-29 00:00:00, 2024-02-29 00:00:00, 2024-02-29 00:00:00, NULL",
    ),
    (
        "SELECT coalesce('2024-02-29 23:59:59.5', CASE WHEN id = 1 THEN ts END, ts)::text FROM t",
        "2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5",
    ),
    (
        "SELECT coalesce('2024-02-29 23:59:59.5', CASE g WHEN g THEN ts WHEN 'x' THEN TIMESTAMP '2024-02-29 23:59:59.5' END)::text FROM t",
        "2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5",
    ),
    (
        "SELECT coalesce('2024-02-29 23:59:59.5', CASE WHEN id = 1 THEN d ELSE ts END)::text FROM t",
        "2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5",
    ),
    (
        "SELECT coalesce('2024-02-29 23:59:59.5', CASE WHEN id = 1 THEN d ELSE ts END, ts)::text FROM t",
        "2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5",
    ),
    (
        "SELECT greatest('2024-02-29 23:59:59.5', CASE WHEN id = 1 THEN d ELSE ts END)::text FROM t",
        "2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5",
    ),
    (
        "SELECT coalesce('2024-02-29 23:59:59.5', x)::text FROM (SELECT d FROM t UNION SELECT ts FROM t) q(x)",
        "2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5",
    ),
    (
        "SELECT CASE WHEN y = 1 THEN '2024-02-29 23:59:59.5' ELSE x END::text FROM (SELECT d, id FROM t UNION SELECT ts, 7 FROM t) q(x, y)",
        "2024-02-27 05:06:07, 2024-02-28 00:00:00, 2024-02-28 01:00:00, 2024-02-29 23:59:59.5, NULL, NULL",
    ),
];

#[test]
fn what_was_answered_in_another_way_once_is_answered_as_postgresql_does() {
    let shell = Shell::with(
        "CREATE TABLE t(id int primary key, w int, g text, d date, ts timestamp);
         INSERT INTO t VALUES (1,null,'a','2024-02-27','2024-02-27 05:06:07'),(2,0,'b','2024-02-28','2024-02-28 01:00:00'),(3,5,'a',null,null);
         CREATE TABLE a2(id int primary key, d date, ts timestamp); INSERT INTO a2 VALUES (2,'1970-01-01','1970-01-01 00:10:00'), (3, '2024-01-03', '2024-01-05 10:00:00');
         CREATE TABLE n AS WITH RECURSIVE r(id) AS (SELECT 1 UNION ALL SELECT id+1 FROM r WHERE id<20000) SELECT id, nullif(id,id) AS v, id / 3000 AS p FROM r;
         CREATE TABLE c AS SELECT rank() OVER (ORDER BY id) r, ntile(2) OVER (ORDER BY id) AS k FROM t;
         CREATE TABLE far (d date, ts timestamp); INSERT INTO far VALUES ('9999-12-31', '9999-12-31 00:00:00'), ('2024-01-01', '2024-01-02 00:00:00');",
    );
    for (query, expected) in ANSWERS {
        let mut rows: Vec<String> = shell.rows(query).iter().map(|row| without_zeros(row)).collect();
        // Without an order at its end, rows come in any.
        if query.rfind(" ORDER BY ").is_none_or(|at| query[at..].contains(')')) {
            rows.sort();
        }
        assert_eq!(rows.join(", "), *expected, "{query}");
    }
    shell
        .refuses("SELECT x + 1 FROM (SELECT d FROM a2 UNION ALL SELECT ts FROM a2) AS q (x)", &["timestamp + integer"]);
}

#[test]
fn a_column_of_nulls_in_a_paged_table_has_no_distinct_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let shell = Shell::with(&format!(
        "CREATE TABLE p (id INT) WITH (storage = 'paged', location = '{}'); INSERT INTO p VALUES (1), (2)",
        folder.path().join("pages").display()
    ));
    let sql = "SELECT count(*), count(DISTINCT x), count(DISTINCT id) FROM (SELECT NULL::INT AS x, id FROM p) AS q";
    assert_eq!(shell.rows(sql), ["2|0|2"]);
    assert_eq!(shell.rows("SELECT count(DISTINCT x) FROM (SELECT NULL::INT AS x FROM p) AS q"), ["0"]);
}

#[test]
fn a_row_that_is_not_distinct_from_a_constant_alone_is_deleted() {
    let shell = Shell::with("CREATE TABLE t (id INT, w INT); INSERT INTO t VALUES (1, NULL), (2, 0), (3, 5)");
    shell.run("DELETE FROM t WHERE 1 = (SELECT 1 FROM (SELECT 0 AS k) x WHERE k IS NOT DISTINCT FROM w)");
    assert_eq!(shell.rows("SELECT id FROM t ORDER BY id"), ["1", "3"]);
}

#[test]
fn rows_are_skipped_in_their_order_wherever_that_is_not_looked_at_again() {
    let shell = Shell::with("CREATE TABLE c (id INT, y INT); INSERT INTO c VALUES (1, 5), (2, 3), (3, 1), (4, 9)");
    for (query, expected) in [
        ("SELECT sum(y) FROM (SELECT y, id FROM c ORDER BY id DESC OFFSET 1) q", "9"),
        ("SELECT (SELECT y FROM c ORDER BY id DESC OFFSET 3)", "5"),
        ("SELECT 9 IN (SELECT y FROM c ORDER BY id DESC OFFSET 1)", "false"),
        ("SELECT sum(x) FROM ((SELECT y FROM c ORDER BY id DESC OFFSET 3) UNION ALL SELECT 1) u (x)", "6"),
        ("SELECT sum(a.y) FROM (SELECT a.y FROM c a JOIN c b ON a.id = b.id ORDER BY b.id DESC OFFSET 1) a", "9"),
        ("SELECT max(y) FROM (SELECT y FROM (SELECT y, id FROM c ORDER BY id DESC) a OFFSET 2) b", "5"),
        ("SELECT sum(y + 1) FROM (SELECT y + 1 AS y FROM c ORDER BY id DESC, y LIMIT ALL OFFSET 2) b", "12"),
        ("SELECT count(*) FROM (SELECT y FROM c ORDER BY id OFFSET 9) b", "0"),
        ("SELECT string_agg(y::TEXT, ',' ORDER BY y) FROM (SELECT y FROM c ORDER BY id DESC OFFSET 1) q", "1,3,5"),
    ] {
        assert_eq!(shell.rows(query), [expected], "{query}");
    }
    shell.run("CREATE VIEW v AS SELECT y FROM c ORDER BY id DESC OFFSET 3");
    assert_eq!(shell.rows("SELECT * FROM v"), ["5"]);
    shell.run("UPDATE c SET y = 100 WHERE y = (SELECT y FROM c ORDER BY id DESC OFFSET 3)");
    assert_eq!(shell.rows("SELECT id FROM c WHERE y = 100"), ["1"]);
}

#[test]
fn weeks_with_a_fraction_are_days_and_what_would_be_passed_over_is_refused() {
    let shell = Shell::with("CREATE TABLE s (x TEXT); INSERT INTO s VALUES ('a'), ('b')");
    assert_eq!(
        shell.rows("SELECT (INTERVAL '1.5 weeks')::TEXT, EXTRACT(DAY FROM INTERVAL '1.5 weeks')"),
        ["10 days 12:00:00|10"]
    );
    assert_eq!(shell.rows("SELECT EXTRACT(HOUR FROM INTERVAL '0.5 weeks')"), ["12"]);
    shell.refuses("SELECT INTERVAL(0) '1 day 01:23:45.6789'", &["six digits"]);
    shell.refuses(
        "SELECT string_agg(x, ',' ORDER BY x DESC), string_agg(DISTINCT x, ',' ORDER BY x) FROM s",
        &["beside an aggregate of another order"],
    );
    assert_eq!(shell.rows("SELECT string_agg(DISTINCT x, ',' ORDER BY x), count(*) FROM s"), ["a,b|2"]);
}
