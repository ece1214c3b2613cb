//! Functions that `PostgreSQL` has and DataFusion has not: `age`, `mode` and `pg_typeof`.

use crate::shell::Shell;

#[test]
fn an_age_is_counted_by_the_calendar() {
    let shell = Shell::new();
    let parts = |of: &str| {
        let part = |part: &str| format!("EXTRACT({part} FROM {of})::INTEGER");
        let parts = ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE"].map(part).join(", ");
        shell.rows(&format!("SELECT {parts}, EXTRACT(SECOND FROM {of})"))
    };
    // As PostgreSQL 15 gives them.
    for (later, earlier, expected) in [
        ("2001-04-10", "1957-06-13", "43|9|27|0|0|0.000000"),
        ("1957-06-13", "2001-04-10", "-43|-9|-27|0|0|0.000000"),
        ("2023-03-01", "2023-01-31", "0|1|1|0|0|0.000000"),
        ("2024-03-01 00:00:00", "2024-02-29 23:59:59.999999", "0|0|0|0|0|0.000001"),
        ("2023-03-01 01:00:00", "2023-01-31 02:30:04.5", "0|1|0|22|29|55.500000"),
        ("3000-01-01", "0001-01-01", "2999|0|0|0|0|0.000000"),
    ] {
        assert_eq!(parts(&format!("age(TIMESTAMP '{later}', TIMESTAMP '{earlier}')")), [expected], "{later} {earlier}");
        assert_eq!(parts(&format!("age('{later}', '{earlier}')")), [expected], "{later} {earlier}");
    }
    assert_eq!(parts("age(current_date)"), ["0|0|0|0|0|0.000000"]);
    assert_eq!(parts("age(DATE '2000-01-01')"), parts("age(current_date, DATE '2000-01-01')"));
    assert_eq!(shell.rows("SELECT age(NULL, TIMESTAMP '2000-01-01') IS NULL, age(NULL::DATE) IS NULL"), ["true|true"]);
    let error = shell.error("SELECT age(1, 2)").to_string();
    assert!(error.contains("age takes"), "{error}");
}

#[test]
fn the_mode_is_the_first_of_the_most_frequent_values() {
    let shell = Shell::with(
        "CREATE TABLE m (id INT PRIMARY KEY, x INT, s TEXT, f DOUBLE, g INT);
         INSERT INTO m VALUES (1, 2, 'b', 0, 1), (2, 2, 'b', 'NaN', 1), (3, 1, 'a', 'NaN', 1), (4, 1, 'a', '-0', 2),
                              (5, NULL, NULL, NULL, 2), (6, NULL, NULL, NULL, 2), (7, NULL, NULL, NULL, 3)",
    );
    let mode = |of: &str| shell.rows(&format!("SELECT mode() WITHIN GROUP (ORDER BY {of}) FROM m"));
    assert_eq!(mode("x"), ["1"]);
    assert_eq!(mode("x DESC"), ["2"]);
    assert_eq!(mode("s DESC NULLS FIRST"), ["b"]);
    assert_eq!(mode("f"), ["0.0"]);
    assert_eq!(mode("f DESC"), ["NaN"]);
    assert_eq!(mode("NULL::INT"), ["NULL"]);
    assert_eq!(
        shell.rows(
            "SELECT g, mode() WITHIN GROUP (ORDER BY x) FILTER (WHERE id < 7), count(x) FROM m GROUP BY g ORDER BY g"
        ),
        ["1|2|3", "2|1|1", "3|NULL|0"]
    );
    shell.refuses("SELECT mode(x) FROM m", &["mode", "not supported"]);
    shell.refuses("SELECT mode() WITHIN GROUP (ORDER BY x, g) FROM m", &["mode", "not supported"]);
    let error = shell.error("SELECT mode() WITHIN GROUP (ORDER BY x) OVER () FROM m").to_string();
    assert!(error.contains("WITHIN GROUP"), "{error}");
}

#[test]
fn a_type_is_named_as_postgresql_does_or_refused() {
    let shell = Shell::with(
        "CREATE TABLE y (a SMALLINT, b INT, c BIGINT, d REAL, e DOUBLE, f DECIMAL(5, 2), g BOOLEAN, h DATE, i TIMESTAMP,
                         j BYTEA, k TEXT, l VARCHAR(3));
         INSERT INTO y (a) VALUES (1)",
    );
    for (of, expected) in [
        ("a", "smallint"),
        ("b", "integer"),
        ("c", "bigint"),
        ("d", "real"),
        ("e", "double precision"),
        ("f", "numeric"),
        ("g", "boolean"),
        ("h", "date"),
        ("i", "timestamp without time zone"),
        ("j", "bytea"),
        ("a + a", "smallint"),
        ("a + b", "integer"),
        ("b * c", "bigint"),
        ("c + f", "numeric"),
        ("d + b", "double precision"),
        ("f / 2", "numeric"),
        ("i - h", "interval"),
        ("a + 1", "integer"),
        ("c + 1", "bigint"),
        ("1 + 1", "integer"),
        ("-1", "integer"),
        ("h - h", "integer"),
        ("h + 1", "date"),
        ("a = 1 AND g", "boolean"),
        ("1", "integer"),
        ("3000000000", "bigint"),
        ("1.5", "numeric"),
        ("1e5", "numeric"),
        ("1e5 + 1", "numeric"),
        ("'x'", "unknown"),
        ("NULL", "unknown"),
        ("k::TEXT", "text"),
        ("'x'::VARCHAR(2)", "character varying"),
        ("b::CHAR(4)", "character"),
        ("INTERVAL '1 day'", "interval"),
        ("DATE '2024-01-01'", "date"),
        ("age(i, h)", "interval"),
    ] {
        assert_eq!(shell.rows(&format!("SELECT pg_typeof({of}) FROM y")), [expected], "{of}");
    }
    for (of, expected) in [("sum(a)", "bigint"), ("sum(c)", "numeric"), ("avg(b)", "numeric"), ("count(*)", "bigint")] {
        assert_eq!(shell.rows(&format!("SELECT pg_typeof({of}) FROM y")), [expected], "{of}");
    }
    for of in ["k", "l", "k || l", "sign(f)", "1e50 + 1", "CASE WHEN g THEN 1 END"] {
        shell.refuses(&format!("SELECT pg_typeof({of}) FROM y"), &["pg_typeof", "not supported"]);
    }
}
