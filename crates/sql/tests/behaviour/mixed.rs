//! Numbers of several types in one place, and aggregates beside those of distinct values: as `PostgreSQL` 15 answers.

use crate::shell::Shell;

/// A column of each type; row 2 is NULL throughout.
fn one_of_each() -> Shell {
    Shell::with(
        "CREATE TABLE t (id INT PRIMARY KEY, g INT, h INT, s SMALLINT, k INT, b BIGINT, r REAL, d DOUBLE PRECISION,
                         n DECIMAL(7, 2), x TEXT, a DATE, z TIMESTAMP);
         INSERT INTO t VALUES (1, 1, 7, 2, 3, 5000000000, 0.5, 0.25, 1.25, 'a', '2024-01-01', '2024-01-01 10:00:00'),
                              (2, 1, 8, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                              (3, 1, 7, 4, 5, 5000000002, 1.5, 0.75, 2.25, 'b', '2024-01-02', '2024-01-02 10:00:00'),
                              (4, 2, 8, 6, 7, 5000000004, 2.5, 1.25, 3.50, 'c', '2024-01-03', '2024-01-03 10:00:00')",
    )
}

const NUMBERS: [&str; 6] = ["s", "k", "b", "r", "d", "n"];

#[test]
fn aggregates_stand_beside_aggregates_of_distinct_values() {
    let shell = one_of_each();
    let distinct = ["count(DISTINCT h)", "sum(DISTINCT h)", "avg(DISTINCT h)", "count(DISTINCT x)", "max(DISTINCT n)"];
    let mut beside = vec!["count(*)".to_owned(), "count(x)".to_owned()];
    beside.extend(
        NUMBERS.iter().flat_map(|of| ["sum", "avg", "min", "max", "stddev"].map(|name| format!("{name}({of})"))),
    );
    beside.extend(["x", "a", "z"].iter().flat_map(|of| ["min", "max"].map(|name| format!("{name}({of})"))));
    beside.push("sum(k) FILTER (WHERE h = 7)".to_owned());
    beside.push("sum(CASE WHEN h = 7 THEN 1 ELSE k END)".to_owned());
    for rest in
        ["", " GROUP BY g ORDER BY g", " GROUP BY g + 1 ORDER BY g + 1", " GROUP BY g HAVING sum(k) > 1 ORDER BY g"]
    {
        for distinct in distinct {
            for aggregate in &beside {
                // Each alone is computed in another way.
                let one = shell.rows(&format!("SELECT {aggregate} FROM t{rest}"));
                let other = shell.rows(&format!("SELECT {distinct} FROM t{rest}"));
                let expected: Vec<_> = one.iter().zip(&other).map(|(one, other)| format!("{one}|{other}")).collect();
                let sql = format!("SELECT {aggregate}, {distinct} FROM t{rest}");
                assert_eq!(shell.rows(&sql), expected, "{sql}");
            }
        }
    }
}

#[test]
fn a_sum_beside_distinct_values_has_its_own_type() {
    let shell = one_of_each();
    for (sql, expected) in [
        ("SELECT sum(k), count(DISTINCT h) FROM t", "15|2"),
        ("SELECT sum(s), sum(b), sum(n), count(DISTINCT h) FROM t", "12|15000000006|7.00|2"),
        ("SELECT pg_typeof(sum(k)), pg_typeof(sum(b)), count(DISTINCT h) FROM t", "bigint|numeric|2"),
        ("SELECT sum(k) + 9223372036854775792, count(DISTINCT h) FROM t", "9223372036854775807|2"),
        ("SELECT sum(k), sum(DISTINCT k), max(k) FROM t WHERE k IS NULL", "NULL|NULL|NULL"),
        (
            "SELECT alias1, sum(k), count(DISTINCT h) FROM (SELECT 1 AS alias1, k, h FROM t) AS u GROUP BY alias1",
            "1|15|2",
        ),
        ("SELECT q.c + 1 FROM (SELECT sum(k) AS c, count(DISTINCT h) AS e FROM t) AS q", "16"),
    ] {
        assert_eq!(shell.rows(sql), [expected], "{sql}");
    }
}

#[test]
fn alternatives_of_several_types_have_one_type_for_what_is_computed_of_them() {
    let shell = one_of_each();
    for (expression, expected) in [
        ("CASE WHEN g = 1 THEN 1 ELSE b END + 3", "4"),
        ("CASE WHEN g = 2 THEN 1 ELSE b END + 3", "5000000003"),
        ("CASE WHEN g = 2 THEN 1 ELSE 1.5 END + k", "4.5"),
        ("CASE WHEN g = 2 THEN k ELSE n END + b", "5000000001.25"),
        ("CASE WHEN g = 2 THEN k ELSE b END + 0.5", "5000000000.5"),
        ("CASE WHEN g = 2 THEN s ELSE 1.5 END * 2", "3.0"),
        ("CASE WHEN g = 2 THEN k ELSE d END + 1", "1.25"),
        ("CASE WHEN g = 2 THEN NULL ELSE k END + 1", "4"),
        ("CASE WHEN g = 2 THEN NULL WHEN g = 1 THEN s ELSE b END - 1", "1"),
        ("-CASE WHEN g = 2 THEN 1 ELSE n END", "-1.25"),
        ("CAST(CASE WHEN g = 2 THEN 1 ELSE 2.5 END AS INT)", "3"),
        ("CASE WHEN g = 2 THEN k ELSE 2.5 END > 2", "true"),
        ("CASE WHEN g = 2 THEN 1 WHEN g = 3 THEN CASE WHEN h = 7 THEN k ELSE n END ELSE b END % 7", "2.00"),
        ("coalesce(NULL, k, 1.5) + b", "5000000003.0"),
        ("coalesce(s, b) * 2", "4"),
        ("coalesce(CASE WHEN g = 2 THEN 1 ELSE 1.5 END, k) + 1", "2.5"),
        ("greatest(s, n, 1) + k", "5.00"),
        ("least(b, 1.5) / 2", "0.75000000000000000000"),
        ("nullif(k, 1.5) + b", "5000000003"),
        ("(SELECT CASE WHEN g = 2 THEN 1 ELSE 2.5 END) + b", "5000000002.5"),
    ] {
        let sql = format!("SELECT {expression} FROM t WHERE id = 1");
        assert_eq!(number(&shell.rows(&sql)), number(&[expected.to_owned()]), "{sql}");
    }
    for (sql, expected) in [
        (
            "SELECT y + b FROM (SELECT CASE WHEN g = 2 THEN 1 ELSE 1.5 END AS y, b FROM t WHERE id = 1) AS q",
            "5000000001.5",
        ),
        (
            "SELECT y + 1.5 FROM (SELECT CASE WHEN g = 2 THEN k ELSE b END AS y FROM t WHERE id = 1) AS q",
            "5000000001.5",
        ),
        (
            "WITH q AS (SELECT CASE WHEN g = 2 THEN 1 ELSE 1.5 END AS y, k FROM t WHERE id = 1) SELECT y * k FROM q",
            "4.5",
        ),
        ("SELECT sum(y) + 1 FROM (SELECT 1 AS y UNION ALL SELECT 2.5) AS q", "4.5"),
        ("SELECT max(y + b) FROM (SELECT 1 AS y UNION SELECT 2.5) AS q, t", "5000000006.5"),
        ("SELECT sum(column1 + 5000000000) FROM (VALUES (1), (2.5)) AS q", "10000000003.5"),
        ("SELECT sum(CASE WHEN g = 1 THEN 1 ELSE b END) FROM t", "5000000007"),
        ("SELECT sum(CASE WHEN g = 1 THEN 1 ELSE 2.5 END) + 1 FROM t", "6.5"),
        ("SELECT avg(CASE WHEN g = 1 THEN k ELSE n END) * 2 FROM t WHERE id IN (1, 4)", "6.5"),
        ("SELECT count(*) FROM t WHERE k IN (3, 5.0, 5000000000)", "2"),
    ] {
        assert_eq!(number(&shell.rows(sql)), number(&[expected.to_owned()]), "{sql}");
    }
}

/// Without the zeros at the end of a fraction, of which a DECIMAL here has as many as its type.
fn number(rows: &[String]) -> Vec<String> {
    let plain = |row: &String| {
        if row.contains('.') { row.trim_end_matches('0').trim_end_matches('.').to_owned() } else { row.clone() }
    };
    rows.iter().map(plain).collect()
}

/// In row 1 the second of two alternatives is taken, in row 4 the first one.
#[test]
fn every_pair_of_numbers_is_computed_of_as_of_the_wider_type() {
    let shell = one_of_each();
    let operands = ["s", "k", "b", "r", "d", "n", "1", "2.5", "3000000000", "NULL"];
    let values = |select: &[String], row: u8| -> Vec<Option<f64>> {
        let sql = format!("SELECT {} FROM t WHERE id = {row}", select.join(", "));
        let rows = shell.rows(&sql);
        rows.iter().flat_map(|row| row.split('|')).map(|value| value.parse().ok()).collect()
    };
    for one in operands {
        for other in operands.into_iter().filter(|other| [one, other] != ["NULL"; 2]) {
            let chosen = format!("CASE WHEN g = 2 THEN {one} ELSE {other} END");
            let coalesced = format!("coalesce(CASE WHEN g = 2 THEN {one} END, {other})");
            let (mut mixed, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
            for third in ["s", "k", "b", "r", "d", "n", "3"] {
                for operator in ["+", "-", "*"] {
                    // Two of these do not fit a BIGINT once they are multiplied.
                    if operator == "*" && third == "b" {
                        continue;
                    }
                    for alternatives in [&chosen, &coalesced] {
                        let name = mixed.len();
                        mixed.push(format!("{alternatives} {operator} {third} AS c{name}"));
                        for (plain, of) in [(&mut first, one), (&mut second, other)] {
                            plain.push(format!(
                                "CAST({of} AS DOUBLE PRECISION) {operator} CAST({third} AS DOUBLE PRECISION) AS c{name}"
                            ));
                        }
                    }
                }
            }
            for (row, plain, of) in [(4, &first, one), (1, &second, other)] {
                if of == "NULL" {
                    continue;
                }
                for ((sql, found), expected) in mixed.iter().zip(values(&mixed, row)).zip(values(plain, row)) {
                    let (Some(found), Some(expected)) = (found, expected) else { panic!("{sql}: a number is missing") };
                    // As precise as a REAL is, of a large BIGINT beside it, too.
                    let loses =
                        [one, other].contains(&"r") && ["b", "3000000000"].iter().any(|of| [one, other].contains(of));
                    let room: f64 = if loses { 512.0 } else { 0.0 };
                    let room = room.max(expected.abs().max(1.0) * 1e-6);
                    assert!((found - expected).abs() <= room, "{sql}: {found} for {expected}");
                }
            }
        }
    }
}

/// A table of alternatives had the type of the first one, and lost what did not fit.
#[test]
fn a_table_made_of_alternatives_has_their_common_type() {
    let shell = Shell::with(
        "CREATE TABLE q (i INT, n DECIMAL(10,2), t TIMESTAMP, d DATE);
         INSERT INTO q VALUES (1, 5, '2020-01-01 10:30', '2020-01-01'), (2, 0.25, '2020-01-02 11:00', '2020-01-02');
         CREATE VIEW v AS SELECT i AS x FROM q UNION ALL SELECT n FROM q",
    );
    for (query, expected) in [
        ("SELECT CASE WHEN i = 1 THEN i ELSE n END AS x FROM q", "0.25, 1.00"),
        ("SELECT i AS x FROM q UNION ALL SELECT n FROM q", "0.25, 1.00, 2.00, 5.00"),
        (
            "SELECT d AS x FROM q UNION ALL SELECT t FROM q",
            "2020-01-01 00:00:00, 2020-01-01 10:30:00, 2020-01-02 00:00:00, 2020-01-02 11:00:00",
        ),
        ("(SELECT 1 AS x UNION ALL SELECT 0.5)", "0.5, 1.0"),
        ("SELECT 1::SMALLINT AS x UNION ALL SELECT 40000", "1, 40000"),
        ("SELECT sum(CASE WHEN i = 1 THEN i ELSE n END) AS x FROM q", "1.25"),
        ("SELECT NULL AS x UNION ALL SELECT 2.5", "2.5, NULL"),
        ("SELECT * FROM v", "0.25, 1.00, 2.00, 5.00"),
        ("WITH w AS (SELECT i AS x FROM q UNION SELECT 1.5::DOUBLE PRECISION) SELECT * FROM w", "1, 1.5, 2"),
    ] {
        shell.run(&format!("CREATE TABLE made AS {query}"));
        let rows = shell.rows("SELECT x::TEXT FROM made ORDER BY made.x").join(", ");
        assert_eq!(rows, expected, "{query}");
        shell.run("DROP TABLE made");
    }
}

#[test]
fn what_is_looked_for_in_a_list_of_reals_keeps_its_own_value() {
    let shell = Shell::with(
        "CREATE TABLE q (i INT PRIMARY KEY, n DECIMAL(10,2), r REAL); INSERT INTO q VALUES (1, 0.15, 0.1), (2, 0.25, 0.25)",
    );
    for (query, expected) in [
        (
            "SELECT 0.1 IN (0.1::REAL, 0.2::REAL), 0.1 IN (0.1::REAL), 16777217 IN (16777216::REAL, 1::REAL)",
            "false|false|false",
        ),
        (
            "SELECT 16777217::BIGINT IN (16777216::REAL, 3), 16777216::BIGINT NOT IN (16777216::REAL, NULL)",
            "false|false",
        ),
        ("SELECT i FROM q WHERE n IN (0.15::REAL, 0.25::REAL)", "2"),
        ("SELECT i FROM q WHERE n NOT IN (0.15::REAL, 0.25::REAL)", "1"),
        ("SELECT i FROM q WHERE i IN (1::REAL, 1.5::REAL)", "1"),
        ("SELECT i FROM q WHERE r IN (0.1, 0.25) ORDER BY i", "1, 2"),
        ("SELECT i FROM q WHERE r IN (0.1::DOUBLE PRECISION, 0.25::DOUBLE PRECISION) ORDER BY i", "2"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn what_a_text_column_takes_is_written_as_a_cast_would_write_it() {
    let shell = Shell::with(
        "CREATE TABLE s (t TEXT, v VARCHAR(5)); CREATE TABLE q (f DOUBLE PRECISION, m TIMESTAMP, d DATE);
         INSERT INTO q VALUES (100000, '2020-01-01 10:30', '2020-01-01'), (1e20, NULL, NULL)",
    );
    shell.run("INSERT INTO s SELECT f FROM q; INSERT INTO s SELECT m FROM q; INSERT INTO s SELECT d FROM q WHERE d IS NOT NULL");
    shell.run(
        "INSERT INTO s VALUES ('inf'::REAL, 0.00001::REAL); UPDATE s SET v = 2::DOUBLE PRECISION WHERE t = '100000'",
    );
    assert_eq!(
        shell.rows("SELECT t, v FROM s ORDER BY t"),
        ["100000|2", "1e+20|NULL", "2020-01-01|NULL", "2020-01-01 10:30:00|NULL", "Infinity|1e-05", "NULL|NULL"]
    );
}

#[test]
fn a_text_of_no_type_is_what_stands_beside_it() {
    let shell = Shell::with(
        "CREATE TABLE t (k INT PRIMARY KEY, b BOOLEAN, f DOUBLE, n DECIMAL(10, 2), d DATE, z TIMESTAMP);
         INSERT INTO t VALUES (1, true, 1.5, 1.25, '2020-01-01', '2020-01-01 10:00'), (2, false, NULL, 2.5, '1999-12-31', NULL), (3, NULL, 'NaN', NULL, NULL, NULL)",
    );
    for (query, expected) in [
        ("SELECT k + '1', ' 7 ' - k, k * '-2', k / '2', k % '2' FROM t WHERE k = 2", "3|5|-4|1|0"),
        (
            "SELECT f * '-10', f / '0.5', n * '2', n + '1.125', '2.50' - n FROM t WHERE k = 1",
            "-15.0|3.0|2.50|2.375|1.25",
        ),
        (
            "SELECT d - '1999-12-31', '2020-01-03' - d, z + '1 day', (z - '2020-01-01 09:00')::TEXT FROM t WHERE k = 1",
            "7306|2|2020-01-02T10:00:00|01:00:00",
        ),
        ("SELECT n * '1e2', n + ' -.5 ' FROM t WHERE k = 1", "125.00|0.75"),
        ("SELECT k FROM t WHERE b = 't'", "1"),
        ("SELECT k FROM t WHERE 'OFF' = b", "2"),
        ("SELECT k FROM t WHERE b IN ('f', ' yes ') ORDER BY k", "1, 2"),
        ("SELECT k FROM t WHERE b BETWEEN 'n' AND 'f'", "2"),
        ("SELECT CASE b WHEN 't' THEN 1 WHEN 'n' THEN 2 ELSE 3 END FROM t ORDER BY k", "1, 2, 3"),
        ("SELECT sum(k + '1') FROM t HAVING sum(k) + '1' > 3", "9"),
        (
            "SELECT nullif(d, z), nullif(n, k), nullif(k, '2') FROM t ORDER BY k",
            "2020-01-01|1.25|1, 1999-12-31|2.50|NULL, NULL|NULL|3",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
    for wrong in ["SELECT k + '1.5' FROM t", "SELECT k FROM t WHERE b = 'maybe'", "SELECT k + 'x' FROM t"] {
        shell.refuses(wrong, &["Cannot cast"]);
    }
    // A text that has its type stays one.
    shell.refuses("SELECT k + '1'::TEXT FROM t", &["Cannot coerce"]);
}

#[test]
fn a_decimal_that_is_written_as_a_text_keeps_its_digits() {
    let shell = Shell::with(
        "CREATE TABLE n (id INT, c DECIMAL(10, 2)); INSERT INTO n VALUES (1, 1.5), (2, '2.505'), (3, NULL)",
    );
    for (query, expected) in [
        ("SELECT c FROM n WHERE c > '1.499' ORDER BY c", "1.50, 2.51"),
        ("SELECT c FROM n WHERE c = '1.504'", ""),
        ("SELECT c FROM n WHERE '1.504' >= c", "1.50"),
        ("SELECT c FROM n WHERE c IS DISTINCT FROM '1.504' ORDER BY id", "1.50, 2.51, NULL"),
        ("SELECT c FROM n WHERE c < '1e30' ORDER BY id", "1.50, 2.51"),
        ("SELECT c FROM n WHERE c IN ('1.504', '2.51')", "2.51"),
        ("SELECT 2.5 IN ('2.49'), '2.5' IN (2.49, 2.5)", "false|true"),
        ("SELECT c FROM n WHERE c BETWEEN '1.501' AND '2.6'", "2.51"),
        ("SELECT CASE c WHEN '1.501' THEN 1 WHEN '1.5' THEN 2 END FROM n ORDER BY id", "2, NULL, NULL"),
        ("SELECT CASE WHEN id = 1 THEN '0.125' ELSE c END FROM n ORDER BY id", "0.125, 2.510, NULL"),
        (
            "SELECT greatest(1.5, '1.509'), least(1.5, '1.44', 2), coalesce(NULL, '1.255', 2.5), nullif(1.5, '1.51')",
            "1.509|1.44|1.255|1.5",
        ),
        ("SELECT id FROM n WHERE (c, id) IN (('1.501', 1), ('2.51', 2))", "2"),
        ("SELECT sum(c) FROM n HAVING sum(c) = '4.014'", ""),
        ("SELECT a.id FROM n a JOIN n b ON a.id = b.id AND a.c > '2.509'", "2"),
        ("SELECT 1 UNION ALL SELECT 1.5 UNION ALL SELECT '2.25' ORDER BY 1", "1.00, 1.50, 2.25"),
        ("SELECT '3.125' AS v UNION SELECT c FROM n WHERE id = 1 ORDER BY v", "1.500, 3.125"),
        (
            "SELECT v FROM (SELECT 1 AS v UNION ALL SELECT 2.75 UNION ALL SELECT '7') z WHERE v > 2.5 ORDER BY v",
            "2.75, 7.00",
        ),
        ("SELECT 1.5 INTERSECT SELECT '1.54'", ""),
        ("SELECT 1.5 EXCEPT SELECT '1.54'", "1.5"),
        ("SELECT p FROM (VALUES (1), (2.5), ('3.75')) v (p) WHERE p > '2.49' ORDER BY p", "2.50, 3.75"),
        ("SELECT p FROM (VALUES (1, 1.5), (2, ' -2.7555 ')) v (k, p)", "1.5000, -2.7555"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
    shell.run("CREATE TABLE m (s TEXT, c DECIMAL(12, 4)); INSERT INTO m VALUES ('007', 1.5), (1.50, '2.7555')");
    shell.run("INSERT INTO m SELECT 'u', 1.5 UNION ALL SELECT 'v', '2.7555'");
    assert_eq!(shell.rows("SELECT s, c FROM m ORDER BY s"), ["007|1.5000", "1.50|2.7555", "u|1.5000", "v|2.7555"]);
    assert_eq!(shell.rows("SELECT count(*) FROM m WHERE c = '2.7555'"), ["2"]);
    shell.run("DELETE FROM m WHERE c = '2.75549'");
    assert_eq!(shell.rows("SELECT count(*) FROM m"), ["4"]);
}

#[test]
fn bytes_are_written_as_hexadecimal_digits() {
    let shell = Shell::with(r"CREATE TABLE b (k INT, y BYTEA); INSERT INTO b VALUES (1, 'ab'), (2, '\x00ff'), (3, '')");
    for (query, expected) in [
        ("SELECT y::TEXT FROM b ORDER BY k", r"\x6162, \x00ff, \x"),
        ("SELECT concat(y, '!') FROM b ORDER BY k", r"\x6162!, \x00ff!, \x!"),
        ("SELECT length(y) FROM b ORDER BY k", "2, 2, 0"),
        ("SELECT k FROM b WHERE y = '\\x00ff'", "2"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
    shell.refuses("SELECT upper(y) FROM b", &["upper", "CAST"]);
}
