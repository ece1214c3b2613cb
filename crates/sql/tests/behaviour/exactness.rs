//! Answers that DataFusion's own functions, types and comparisons would give wrongly, and `PostgreSQL` 15 gives so.

use crate::shell::Shell;

fn decimals() -> Shell {
    Shell::with(
        "CREATE TABLE t (k INT PRIMARY KEY, c DECIMAL(10, 2));
         INSERT INTO t VALUES (1, 1.00), (2, 1.25), (3, -0.50), (4, 9.99), (5, NULL)",
    )
}

#[test]
fn a_text_of_fewer_than_no_letters_is_empty() {
    let shell = decimals();
    assert_eq!(shell.rows("SELECT lpad('abc', -1) || '.' || rpad('abc', -7, 'x')"), ["."]);
    assert_eq!(shell.rows("SELECT lpad('abc', k - 3) FROM t WHERE k < 5 ORDER BY k"), ["", "", "", "a"]);
}

#[test]
fn an_aggregate_of_the_query_around_is_refused_also_in_a_subquery_of_its_argument() {
    let shell = decimals();
    shell.refuses("SELECT (SELECT count((SELECT i.k FROM t i WHERE i.k = o.k))) FROM t o", &["aggregate", "around"]);
    let own =
        "SELECT (SELECT count((SELECT i.k FROM t i WHERE i.k = p.k)) FROM t p WHERE p.k < o.k) FROM t o ORDER BY o.k";
    assert_eq!(shell.rows(own), ["0", "1", "2", "3", "4"]);
}

#[test]
fn digits_of_seconds_that_would_be_passed_over_are_refused() {
    let shell = decimals();
    for query in [
        "SELECT '1 day'::INTERVAL(2)",
        "SELECT TIMESTAMP(0) '2024-01-01 00:00:00.5'",
        "SELECT '2024-01-01'::TIMESTAMP(3)",
    ] {
        shell.refuses(query, &["six digits"]);
    }
}

#[test]
fn a_rounded_decimal_is_equal_to_a_column_wherever_it_is_compared() {
    let shell = decimals();
    for (query, expected) in [
        ("SELECT k FROM t WHERE round(c, 1) = c ORDER BY k", &["1", "3"][..]),
        ("SELECT a.k FROM t a JOIN t b ON round(a.c, 0) = b.c ORDER BY 1", &["1", "2"]),
        ("SELECT k FROM t WHERE c IN (SELECT round(c, 0) FROM t) ORDER BY k", &["1"]),
        ("SELECT k FROM t WHERE c NOT IN (SELECT round(c, 0) FROM t WHERE k < 5) ORDER BY k", &["2", "3", "4"]),
        ("SELECT c FROM t EXCEPT SELECT round(c, 0) FROM t ORDER BY 1", &["-0.50", "1.25", "9.99"]),
        ("SELECT k FROM t WHERE c = floor(c) OR c = ceil(c) OR c = trunc(c) ORDER BY k", &["1"]),
        ("SELECT round(c, 0), round(c, 1), round(c, k - 1), trunc(c, 1) FROM t WHERE k = 2", &["1|1.3|1.30|1.2"]),
        ("SELECT round(c, 1 - 1) = round(c, 0), round(c, NULL) IS NULL FROM t WHERE k = 4", &["true|true"]),
        ("SELECT floor(-0.5), ceil(9.99), round(9.99, 1), round(1250.0, -2)", &["-1|10|10.0|1300"]),
    ] {
        assert_eq!(shell.rows(query), expected, "{query}");
    }
    assert_eq!(shell.run("DELETE FROM t WHERE c NOT IN (SELECT round(c, 0) FROM t WHERE k < 5)"), 3);
    assert_eq!(shell.rows("SELECT k FROM t ORDER BY k"), ["1", "5"]);
    shell.refuses("SELECT round(99999999999999999999999999999999999999, -1)", &["38", "overflow"]);
}

#[test]
fn nan_is_larger_than_all_numbers_and_equal_to_itself_however_it_came_to_be() {
    let shell = Shell::with(
        "CREATE TABLE f (k INT PRIMARY KEY, g INT, d DOUBLE, r REAL);
         INSERT INTO f VALUES (1, 1, 'NaN', 'NaN'), (2, 1, 1.5, 1.5), (3, 2, 'NaN', 'NaN'),
                              (4, 3, 'Infinity', 'Infinity'), (5, 3, '-Infinity', '-Infinity'), (6, 4, NULL, NULL)",
    );
    assert_eq!(
        shell.rows("SELECT g, min(d), max(d), min(r), max(r) FROM f GROUP BY g ORDER BY g"),
        ["1|1.5|NaN|1.5|NaN", "2|NaN|NaN|NaN|NaN", "3|-inf|inf|-inf|inf", "4|NULL|NULL|NULL|NULL"]
    );
    for made in ["-d", "d * 0", "d - d", "d * -1", "sqrt(d - d)", "CAST(r AS DOUBLE) - d"] {
        let of_nan = "k IN (1, 3)";
        assert_eq!(shell.rows(&format!("SELECT count(*) FROM f WHERE {made} > 1e300 AND {of_nan}")), ["2"], "{made}");
        let joined = format!("SELECT count(*) FROM (SELECT {made} AS m FROM f WHERE {of_nan}) a JOIN f b ON a.m = b.d");
        assert_eq!(shell.rows(&joined), ["4"], "{joined}");
    }
    assert_eq!(shell.rows("SELECT count(*) FROM f WHERE d - d = 'NaN'::DOUBLE"), ["4"]);
    assert_eq!(shell.rows("SELECT d - d, count(*) FROM f WHERE d > 1e300 OR d < 0 GROUP BY d - d"), ["NaN|4"]);
    assert_eq!(shell.rows("SELECT sum(d) = 'NaN'::DOUBLE, avg(d) > 1 FROM f WHERE g = 3"), ["true|true"]);
    assert_eq!(shell.rows("SELECT sum(d) > 1, stddev(d) > 1 FROM f WHERE g = 3 GROUP BY g"), ["true|true"]);
}

#[test]
fn the_difference_of_two_times_has_days() {
    let shell = Shell::with("CREATE TABLE m (a TIMESTAMP); INSERT INTO m VALUES ('2024-03-31 05:06:07')");
    let difference = "a - TIMESTAMP '2024-03-01'";
    assert_eq!(
        shell.rows(&format!(
            "SELECT EXTRACT(DAY FROM {difference}), EXTRACT(HOUR FROM {difference}), EXTRACT(MINUTE FROM {difference}),
                    date_part('hour', {difference}), ({difference})::TEXT, a - ({difference}) FROM m"
        )),
        ["30|5|6|5.0|30 days 05:06:07|2024-03-01T00:00:00"]
    );
    assert_eq!(shell.rows("SELECT (- INTERVAL '1 month 2 days')::TEXT"), ["-1 mons -2 days"]);
}

#[test]
fn a_real_beside_another_number_is_compared_as_a_double() {
    let shell = Shell::with(
        "CREATE TABLE n (k INT PRIMARY KEY, r REAL);
         INSERT INTO n VALUES (1, 0.1), (16777217, 16777216), (3, 3)",
    );
    for (query, expected) in [
        ("SELECT k FROM n WHERE k = r ORDER BY k", &["3"][..]),
        ("SELECT k FROM n WHERE k IN (SELECT r FROM n) ORDER BY k", &["3"]),
        ("SELECT a.k FROM n a JOIN n b ON a.k = b.r ORDER BY 1", &["3"]),
        ("SELECT k FROM n WHERE r = 0.1 OR r IN (0.1) OR r BETWEEN 16777217 AND 16777218", &[]),
        // Several numbers are REALs as what is looked for is.
        ("SELECT k FROM n WHERE r IN (0.1, 0.2)", &["1"]),
        ("SELECT k FROM n WHERE r NOT IN (0.1, 16777217, k) ORDER BY k", &[]),
        ("SELECT CASE r WHEN 0.1 THEN 'a' WHEN 3 THEN 'b' ELSE 'c' END FROM n ORDER BY k", &["c", "b", "c"]),
        ("SELECT 16777217::INTEGER = 16777216::REAL, 3 = 3::REAL", &["false|true"]),
    ] {
        assert_eq!(shell.rows(query), expected, "{query}");
    }
}

#[test]
fn nulls_of_no_type_are_the_same_in_set_operations_and_joins() {
    let shell = decimals();
    for (query, expected) in [
        ("SELECT NULL INTERSECT SELECT NULL", &["NULL"][..]),
        ("SELECT NULL EXCEPT SELECT NULL", &[]),
        ("SELECT k, NULL FROM t INTERSECT SELECT k, NULL FROM t WHERE k < 3 ORDER BY k", &["1|NULL", "2|NULL"]),
        ("SELECT k, NULL FROM t EXCEPT SELECT k, NULL FROM t WHERE k < 5", &["5|NULL"]),
        (
            "SELECT count(*) FROM (SELECT NULL AS n FROM t) a JOIN (SELECT NULL AS n) b ON a.n IS NOT DISTINCT FROM b.n",
            &["5"],
        ),
    ] {
        assert_eq!(shell.rows(query), expected, "{query}");
    }
}

#[test]
fn a_range_frame_ends_where_its_bound_is_and_not_where_the_type_ends() {
    let shell = Shell::with(
        "CREATE TABLE w (k INT PRIMARY KEY, s SMALLINT, b BIGINT);
         INSERT INTO w VALUES (1, 32767, 9223372036854775807), (2, 32765, 9223372036854775805),
                              (3, -32768, -9223372036854775808), (4, NULL, NULL)",
    );
    for column in ["s", "b"] {
        for (order, frame, expected) in [
            ("", "1 PRECEDING AND 1 FOLLOWING", ["1", "1", "1", "1"]),
            ("", "1 FOLLOWING AND 2 FOLLOWING", ["0", "1", "0", "1"]),
            ("", "2 PRECEDING AND 1 PRECEDING", ["1", "0", "0", "1"]),
            ("DESC", "2 PRECEDING AND 1 PRECEDING", ["0", "1", "0", "1"]),
            ("DESC NULLS LAST", "1 PRECEDING AND 100000 FOLLOWING", ["2", "1", "1", "1"]),
        ] {
            let query =
                format!("SELECT count(*) OVER (ORDER BY {column} {order} RANGE BETWEEN {frame}) FROM w ORDER BY k");
            let expected = if column == "s" && frame.contains("100000") { ["3", "2", "1", "1"] } else { expected };
            assert_eq!(shell.rows(&query), expected, "{query}");
        }
    }
}
