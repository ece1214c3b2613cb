//! Values of two types that meet in a column: as `PostgreSQL` 15 answers.

use crate::shell::{Shell, without_zeros};

#[test]
fn columns_of_set_operations_of_joins_and_of_values_have_the_type_of_both_sides() {
    let shell = Shell::with(
        "CREATE TABLE t (id INT PRIMARY KEY, i INT, b BIGINT, a DATE, z TIMESTAMP, n DECIMAL(5, 2), r REAL, s SMALLINT, x TEXT);
         INSERT INTO t VALUES (1, 5, 7, '2020-01-02', '2020-01-02 03:00:00', 2.50, 1.5, 3, 'a'),
                              (2, 6, -7, '3020-01-02', '2020-01-03 00:00:00', 0.25, 2.5, 5, 'b'),
                              (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
         CREATE TABLE u (i DECIMAL(6, 2), b DOUBLE PRECISION, a TIMESTAMP);
         INSERT INTO u VALUES (5, 7, '2020-01-02'), (6.5, 8, '2020-01-02 10:00:00')",
    );
    for (query, expected) in [
        ("SELECT x / 2 + 0.0::DOUBLE PRECISION FROM (SELECT i AS x FROM t INTERSECT SELECT i FROM u) AS q", "2.5"),
        (
            "SELECT x / 2 + 0.0::DOUBLE PRECISION FROM (SELECT i AS x FROM t EXCEPT SELECT i FROM u) AS q ORDER BY 1",
            "3, NULL",
        ),
        (
            "SELECT x / 2 + 0.0::DOUBLE PRECISION FROM (SELECT i AS x FROM t EXCEPT ALL SELECT i FROM u) AS q ORDER BY 1",
            "3, NULL",
        ),
        ("SELECT x / 2 FROM (SELECT b AS x FROM t INTERSECT ALL SELECT b FROM u) AS q", "3.5"),
        ("SELECT x::TEXT FROM (SELECT a AS x FROM t INTERSECT SELECT a FROM u) AS q", "2020-01-02 00:00:00"),
        (
            "SELECT x::TEXT FROM (SELECT a AS x FROM t EXCEPT SELECT a FROM u) AS q ORDER BY 1",
            "3020-01-02 00:00:00, NULL",
        ),
        (
            "SELECT x::TEXT FROM (SELECT a FROM t UNION SELECT z FROM t) AS q (x) ORDER BY 1",
            "2020-01-02 00:00:00, 2020-01-02 03:00:00, 2020-01-03 00:00:00, 3020-01-02 00:00:00, NULL",
        ),
        (
            "SELECT coalesce(z, a)::TEXT, greatest(a, z)::TEXT, (CASE WHEN id = 1 THEN a ELSE z END)::TEXT FROM t ORDER BY id",
            "2020-01-02 03:00:00|2020-01-02 03:00:00|2020-01-02 00:00:00, 2020-01-03 00:00:00|3020-01-02 00:00:00|2020-01-03 00:00:00, NULL|NULL|NULL",
        ),
        ("SELECT i / 2 + 0.0::DOUBLE PRECISION FROM t JOIN u USING (i)", "2.5"),
        ("SELECT i / 2 + 0.0::DOUBLE PRECISION FROM t LEFT JOIN u USING (i) ORDER BY 1", "2.5, 3, NULL"),
        ("SELECT i / 2 + 0.0::DOUBLE PRECISION FROM u RIGHT JOIN t USING (i) ORDER BY 1", "2.5, 3, NULL"),
        ("SELECT i / 2 + 0.0::DOUBLE PRECISION, count(*) FROM t JOIN u USING (i) GROUP BY i", "2.5|1"),
        (
            "SELECT t.i / 2, i / 2 + 0.0::DOUBLE PRECISION FROM t JOIN u USING (i) JOIN (SELECT i FROM t) AS v USING (i)",
            "2|2.5",
        ),
        ("SELECT a::TEXT FROM t LEFT JOIN u USING (a) ORDER BY 1", "2020-01-02 00:00:00, 3020-01-02 00:00:00, NULL"),
        ("SELECT b / 2 FROM t NATURAL JOIN (SELECT b FROM u) AS v", "3.5"),
        (
            "SELECT id, x, count(*) FROM t JOIN (SELECT 1 AS id) AS v USING (id) JOIN t AS o USING (id, x) GROUP BY id, x",
            "1|a|1",
        ),
        ("SELECT id, t.x, count(*) FROM t JOIN t AS o USING (id) GROUP BY id ORDER BY id", "1|a|1, 2|b|1, 3|NULL|1"),
        (
            "SELECT p FROM (VALUES (1.5), (1e-20::DOUBLE PRECISION), (-3), (NULL)) AS v (p) ORDER BY p",
            "-3, 1e-20, 1.5, NULL",
        ),
        ("SELECT p / 2 FROM (VALUES (1), (3::SMALLINT)) AS v (p) ORDER BY p", "0, 1"),
        ("SELECT p / 2 FROM (VALUES (1), (2.5::REAL)) AS v (p) ORDER BY p", "0.5, 1.25"),
        ("SELECT sum(p) / 2 FROM (VALUES (1), (2)) AS v (p)", "1"),
        (
            "SELECT p::TEXT FROM (VALUES (DATE '2020-01-02'), (TIMESTAMP '2020-01-01 00:00:00')) AS v (p) ORDER BY p",
            "2020-01-01 00:00:00, 2020-01-02 00:00:00",
        ),
        (
            "SELECT round(i) / 2, round(s) / 2, round(b) / 2, round(5) / 2 FROM t ORDER BY id",
            "2.5|1.5|3.5|2.5, 3|2.5|-3.5|2.5, NULL|NULL|NULL|2.5",
        ),
        (
            "SELECT nullif(b, r) / 2, nullif(i, b) / 2, nullif(s, 2.5::DOUBLE PRECISION) / 2, nullif(a, z)::TEXT FROM t ORDER BY id",
            "3.5|2|1.5|2020-01-02, -3.5|3|2.5|3020-01-02, NULL|NULL|NULL|NULL",
        ),
        (
            "SELECT nullif(i, n) / 2 + 0.0::DOUBLE PRECISION, nullif(r, b) / 4, nullif(5, 2.5) / 2 + 0.0::DOUBLE PRECISION FROM t ORDER BY id",
            "2.5|0.375|2.5, 3|0.625|2.5, NULL|NULL|2.5",
        ),
    ] {
        let rows: Vec<String> = shell.rows(query).iter().map(|row| without_zeros(row)).collect();
        assert_eq!(rows.join(", "), expected, "{query}");
    }
    shell.refuses("SELECT i FROM t JOIN (SELECT 'x' AS i) AS v USING (i)", &["Cannot cast string 'x'"]);
}

#[test]
fn texts_among_moments_intervals_by_numbers_and_lateral_values_are_answered() {
    let shell = Shell::with(
        "CREATE TABLE t (id INT PRIMARY KEY, i INT, b BIGINT, a DATE, z TIMESTAMP, n DECIMAL(5, 2), r REAL, s SMALLINT);
         INSERT INTO t VALUES (1, 5, 7, '2020-01-02', '2020-01-02 03:00:00', 2.50, 1.5, 3),
                              (2, 6, -7, '3020-01-02', '2020-01-03 00:00:00', 0.25, 2.5, 5),
                              (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    );
    for (query, expected) in [
        (
            "SELECT coalesce(a, '2020-05-05'), coalesce(z, '2020-05-05 01:02:03')::TEXT FROM t ORDER BY id",
            "2020-01-02|2020-01-02 03:00:00, 3020-01-02|2020-01-03 00:00:00, 2020-05-05|2020-05-05 01:02:03",
        ),
        (
            "SELECT coalesce(a, '2020-05-05', z)::TEXT, least(a, '2019-01-01'), nullif(a, '2020-01-02') FROM t ORDER BY id",
            "2020-01-02 00:00:00|2019-01-01|NULL, 3020-01-02 00:00:00|2019-01-01|3020-01-02, 2020-05-05 00:00:00|2019-01-01|NULL",
        ),
        (
            "SELECT coalesce(i, '7') / 2, greatest(i, '9'), nullif(i, '5'), coalesce(r, '2.5') FROM t ORDER BY id",
            "2|9|NULL|1.5, 3|9|6|2.5, 3|9|NULL|2.5",
        ),
        ("SELECT id, (SELECT o.id FROM t AS o WHERE o.i > t.i) FROM t ORDER BY 1", "1|2, 2|NULL, 3|NULL"),
        (
            "SELECT t.id, v.p FROM t, LATERAL (VALUES (t.i), (t.b)) AS v (p) ORDER BY 1, 2",
            "1|5, 1|7, 2|-7, 2|6, 3|NULL, 3|NULL",
        ),
        ("SELECT id, (SELECT max(p) FROM (VALUES (i), (b), (s)) AS v (p)) FROM t ORDER BY id", "1|7, 2|6, 3|NULL"),
        ("SELECT id FROM t WHERE i IN (VALUES (s + 2), (b), (6)) ORDER BY id", "1, 2"),
        (
            "SELECT (INTERVAL '1 day' * i)::TEXT, (1.5 * INTERVAL '1 day')::TEXT, (INTERVAL '3 days' / 2)::TEXT FROM t ORDER BY id",
            "5 days|1 day 12:00:00|1 day 12:00:00, 6 days|1 day 12:00:00|1 day 12:00:00, NULL|1 day 12:00:00|1 day 12:00:00",
        ),
        (
            "SELECT (a + id * INTERVAL '1 day')::TEXT, (z - INTERVAL '1 month' * n)::TEXT FROM t ORDER BY id",
            "2020-01-03 00:00:00|2019-10-18 03:00:00, 3020-01-04 00:00:00|2019-12-26 12:00:00, NULL|NULL",
        ),
        (
            "SELECT ((z - TIMESTAMP '2020-01-01 00:00:00') / 2)::TEXT, (INTERVAL '1 month' / 7)::TEXT FROM t ORDER BY id",
            "13:30:00|4 days 06:51:25.6896, 1 day|4 days 06:51:25.6896, NULL|4 days 06:51:25.6896",
        ),
        (
            "SELECT extract(century FROM a), extract(decade FROM a), extract(millennium FROM z), date_part('century', z) FROM t ORDER BY id",
            "21|202|3|21, 31|302|3|21, NULL|NULL|NULL|NULL",
        ),
    ] {
        let rows: Vec<String> = shell.rows(query).iter().map(|row| without_zeros(row)).collect();
        assert_eq!(rows.join(", "), expected, "{query}");
    }
    shell.refuses("SELECT INTERVAL '1 day' / 0", &["division by zero"]);
    shell.refuses("SELECT INTERVAL '1 month' * 1e10", &["out of range"]);
}
