//! Arithmetic is right or an error, wherever in a statement it stands.

use std::time::{Duration, Instant};

use crate::shell::Shell;

/// The largest and the smallest number of each integer type.
fn extremes() -> Shell {
    Shell::with(
        "CREATE TABLE o (id INT PRIMARY KEY, s SMALLINT, i INT, b BIGINT);
         INSERT INTO o VALUES (1, 32767, 2147483647, 9223372036854775807),
                              (2, -32768, -2147483648, -9223372036854775808)",
    )
}

/// Expressions over `o` that leave the range of their type in one of its rows.
const LEAVING: [&str; 16] = [
    "b + 1",
    "b - 1",
    "b * 2",
    "b + b",
    "-b",
    "b / -1",
    "b * -1",
    "i + 1",
    "i - 1",
    "i * i",
    "-i",
    "i / -1",
    "s + s",
    "-s",
    "CAST(b AS INT)",
    "CAST(i AS SMALLINT)",
];

#[test]
fn an_integer_that_leaves_its_range_is_an_error_wherever_it_stands() {
    let shell = extremes();
    shell.run("CREATE TABLE sink (id INT PRIMARY KEY, b BIGINT)");
    for leaving in LEAVING {
        for statement in [
            format!("SELECT {leaving} FROM o"),
            format!("SELECT id FROM o WHERE {leaving} < 0"),
            format!("SELECT id FROM o ORDER BY {leaving}"),
            format!("SELECT count(*) FROM o GROUP BY {leaving}"),
            format!("SELECT max({leaving}) FROM o"),
            format!("SELECT sum({leaving}) FROM o"),
            format!("SELECT id FROM o GROUP BY id HAVING max({leaving}) > 0"),
            format!("SELECT count(*) FROM o JOIN (SELECT 1 AS one) AS l ON {leaving} > one"),
            format!("SELECT rank() OVER (ORDER BY {leaving}) FROM o"),
            format!("SELECT max({leaving}) OVER (PARTITION BY id) FROM o"),
            format!("SELECT CASE WHEN id > 0 THEN {leaving} END FROM o"),
            format!("SELECT (SELECT max({leaving}) FROM o)"),
            format!("SELECT id FROM o WHERE {leaving} IN (1, 2, 3, 4, 5)"),
            format!("SELECT DISTINCT {leaving} FROM o"),
            format!("SELECT {leaving} FROM o UNION ALL SELECT 1"),
            format!("INSERT INTO sink SELECT id, {leaving} FROM o"),
            format!("UPDATE o SET b = {leaving}"),
            format!("DELETE FROM o WHERE {leaving} < 0"),
        ] {
            let error = shell.error(&statement).to_string();
            let said =
                error.contains("out of range") || error.contains("verflow") || error.contains("Can't cast value");
            assert!(said, "{statement}: {error}");
        }
    }
    assert_eq!(shell.rows("SELECT count(*) FROM sink"), ["0"]);
    assert_eq!(shell.rows("SELECT count(*), sum(b) FROM o"), ["2|-1"]);
}

#[test]
fn constants_are_not_folded_with_a_wrap() {
    let shell = Shell::with("CREATE TABLE c (b BIGINT, k BIGINT)");
    for statement in [
        "SELECT 9223372036854775807 + 1",
        "SELECT 2147483647 + 1",
        "SELECT 1 WHERE 9223372036854775807 + 1 < 0",
        "SELECT * FROM (VALUES (9223372036854775807 + 1)) AS v(x)",
        "INSERT INTO c (k) VALUES (9223372036854775807 + 1)",
        "CREATE TABLE e (b BIGINT DEFAULT 9223372036854775807 + 1)",
        "SELECT -(-9223372036854775807 - 1)",
    ] {
        let error = shell.error(statement).to_string();
        assert!(error.contains("out of range") || error.contains("verflow"), "{statement}: {error}");
    }
    shell.error("SELECT value FROM generate_series(1, 9223372036854775807 + 1)");
    shell.error("SELECT 1 LIMIT 9223372036854775807 + 1");
    assert_eq!(shell.rows("SELECT count(*) FROM generate_series(1, 5 * 2 - 1)"), ["9"]);
}

#[test]
fn results_that_fit_are_those_of_postgresql() {
    let shell = extremes();
    for (expression, expected) in [
        ("b - id", "9223372036854775806"),
        ("b % -1", "0"),
        ("b / 10", "922337203685477580"),
        ("-7 / 2", "-3"),
        ("-7 % 2", "-1"),
        ("s + 1", "32768"),
        ("i + 0.5", "2147483647.5"),
        ("i + b * 0", "2147483647"),
        ("1 + 2.5 * 4", "11.0"),
        ("7.5 % 2", "1.5"),
        ("NULL + 1", "NULL"),
        ("0.1 + 0.2", "0.3"),
    ] {
        assert_eq!(shell.rows(&format!("SELECT {expression} FROM o WHERE id = 1")), [expected], "{expression}");
    }
    for zero in ["b / 0", "b % 0", "1.5 / 0", "1.5 % 0", "1e0 / 0"] {
        let error = shell.error(&format!("SELECT {zero} FROM o")).to_string();
        assert!(error.to_lowercase().contains("divide by zero"), "{zero}: {error}");
    }
    for lost in ["1e308 * 10", "-1e308 - 1e308", "1e-300 * 1e-300", "1e-300 / 1e300"] {
        let error = shell.error(&format!("SELECT {lost}")).to_string();
        assert!(error.contains("value out of range"), "{lost}: {error}");
    }
}

#[test]
fn sums_of_integers_are_exact_however_large() {
    let shell = extremes();
    shell.run("INSERT INTO o VALUES (3, 32767, 2147483647, 9223372036854775807)");
    let two = "18446744073709551614";
    assert_eq!(shell.rows("SELECT sum(b) FROM o WHERE id <> 2"), [two]);
    assert_eq!(shell.rows("SELECT sum(i), sum(s) FROM o WHERE id <> 2"), ["4294967294|65534"]);
    assert_eq!(
        shell.rows("SELECT id % 2, sum(b) FROM o GROUP BY id % 2 ORDER BY 1"),
        ["0|-9223372036854775808".to_owned(), format!("1|{two}")]
    );
    assert_eq!(shell.rows("SELECT sum(b) OVER () FROM o WHERE id <> 2"), [two, two]);
    assert_eq!(
        shell.rows("SELECT sum(b) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM o"),
        ["9223372036854775807", "-1", "-1"]
    );
    assert_eq!(shell.rows("SELECT sum(DISTINCT b), avg(DISTINCT i) FROM o"), ["-1|-0.50000000000000000000"]);
    assert_eq!(shell.rows("SELECT sum(b) FILTER (WHERE id = 1), sum(b) FROM o WHERE id > 5"), ["NULL|NULL"]);
    // A sum of BIGINT is NUMERIC, that of INTEGER is BIGINT.
    assert_eq!(
        shell.rows("SELECT sum(id) / 4, sum(CASE WHEN id > 0 THEN 1 ELSE 0 END) / 2, count(*) / 2 FROM o"),
        ["1|1|1"]
    );
    assert_eq!(shell.rows("SELECT sum(b) / 2 FROM o WHERE id = 1"), ["4611686018427387903.5000000000000000"]);
}

#[test]
fn decimals_that_outgrow_their_digits_are_an_error() {
    let shell = Shell::with(
        "CREATE TABLE d (id INT PRIMARY KEY, w DECIMAL(38), p DECIMAL(38, 10), m DECIMAL(15, 2));
         INSERT INTO d VALUES (1, 99999999999999999999999999999999999999, 9999999999999999999999999999.9999999999, 1.05),
                              (2, 99999999999999999999999999999999999999, 9999999999999999999999999999.9999999999, 2.05)",
    );
    for statement in [
        "SELECT w + 1 FROM d",
        "SELECT w + w FROM d",
        "SELECT -w - 1 FROM d",
        "SELECT w * w FROM d",
        "SELECT w * 2 FROM d",
        "SELECT p * p FROM d",
        "SELECT p + p FROM d",
        "SELECT p / 0.0000000001 FROM d",
        "SELECT sum(w) FROM d",
        "SELECT sum(w) OVER () FROM d",
        "SELECT sum(p) FROM d GROUP BY id < 5",
        "SELECT id FROM d WHERE w + 1 > 0",
        "SELECT max(w + 1) FROM d",
        "INSERT INTO d SELECT id + 5, w + 1, 0, 0 FROM d",
        "UPDATE d SET w = w + 1",
    ] {
        let error = shell.error(statement).to_string();
        assert!(error.contains("numeric field overflow"), "{statement}: {error}");
    }
    assert_eq!(shell.rows("SELECT sum(m), avg(m) FROM d"), ["3.10|1.55000000000000000000"]);
    assert_eq!(shell.rows("SELECT w - 1 FROM d WHERE id = 1"), ["99999999999999999999999999999999999998"]);
    assert_eq!(
        shell.rows("SELECT sum(m), sum(m * m), m * m FROM d GROUP BY m ORDER BY m"),
        ["1.05|1.1025|1.1025", "2.05|4.2025|4.2025"]
    );
}

#[test]
fn quotients_and_averages_have_the_digits_of_postgresql_at_least() {
    let shell = Shell::with(
        "CREATE TABLE q (id INT PRIMARY KEY, s SMALLINT, b BIGINT, d DECIMAL(15, 2), f DOUBLE);
         INSERT INTO q VALUES (1, 1, 1, 1.00, 1), (2, 2, 2, 2.00, 2), (3, 2, 2, 2.00, 2)",
    );
    for (expression, expected) in [
        ("10 / 3.0", "3.33333333333333333333"),
        ("2 / 3.0", "0.66666666666666666667"),
        ("-2 / 3.0", "-0.66666666666666666667"),
        ("sum(d) / 3", "1.6666666666666667"),
        ("avg(d)", "1.66666666666666666667"),
        ("avg(id)", "2.00000000000000000000"),
        ("avg(s)", "1.66666666666666666667"),
        ("avg(b)", "1.6666666666666666667"),
        ("avg(-b)", "-1.6666666666666666667"),
        ("avg(f)", "1.6666666666666667"),
        ("avg(id) FILTER (WHERE id > 9)", "NULL"),
    ] {
        assert_eq!(shell.rows(&format!("SELECT {expression} FROM q"))[0], expected, "{expression}");
    }
    assert_eq!(
        shell.rows("SELECT s, avg(id) FROM q GROUP BY s ORDER BY s"),
        ["1|1.00000000000000000000", "2|2.50000000000000000000"]
    );
}

/// Operators in a row, each with a value of its own before it.
fn chain(terms: usize, term: impl Fn(usize) -> String) -> String {
    (0..terms).map(term).collect::<Vec<_>>().join(" + ")
}

#[test]
fn a_chain_of_operators_is_planned_in_less_than_the_third_power_of_its_length() {
    let shell = extremes();
    for term in ["i", "CAST(i AS BIGINT)", "0.5 * s", "-i", "1"] {
        let time = |terms: usize| {
            let statement = format!("EXPLAIN SELECT {} FROM o WHERE id > 0", chain(terms, |_| term.to_owned()));
            let once = || {
                let start = Instant::now();
                shell.rows(&statement);
                start.elapsed()
            };
            once().min(once())
        };
        let (short, long) = (time(50), time(200));
        // The third power would be 64 times as long.
        assert!(long < short * 30 + Duration::from_secs(1), "{term}: {short:?} for 50, {long:?} for 200");
    }
}

#[test]
fn long_chains_of_operators_compute_what_short_ones_do() {
    let shell = extremes();
    shell.run("CREATE TABLE n (id INT PRIMARY KEY, s SMALLINT, i INT, b BIGINT, d DECIMAL(10, 2), f DOUBLE, x INT)");
    shell.run("INSERT INTO n VALUES (1, 1, 2, 3, 4.25, 0.5, NULL), (2, -1, -2, -3, -4.25, -0.5, 7)");
    for (chain, expected) in [
        (chain(300, |_| "i".to_owned()), ["600", "-600"]),
        (chain(300, |at| format!("i * {at}")), ["89700", "-89700"]),
        (
            chain(20, |at| format!("{at} + b - s * 2 + d / 2 - CAST(f * 3 AS INT)")),
            ["212.50000000000000000000", "167.50000000000000000000"],
        ),
        (chain(30, |at| if at == 15 { "x".to_owned() } else { "i".to_owned() }), ["NULL", "-51"]),
        (format!("s{}", " + i - (i - -i) / 2 * 2 + -(-i)".repeat(10)), ["1", "-1"]),
        (format!("{}i{}", "-(1 - ".repeat(15), ")".repeat(15)), ["-13", "-17"]),
        (format!("{}i{}", "CAST(1.4 + ".repeat(15), " AS INT)".repeat(15)), ["17", "13"]),
        (format!("DATE '2024-01-01'{}", " + i".repeat(40)), ["2024-03-21", "2023-10-13"]),
    ] {
        assert_eq!(shell.rows(&format!("SELECT {chain} FROM n ORDER BY id")), expected, "{chain}");
        let first = expected[0];
        if first != "NULL" && !first.contains("-0") {
            let by =
                format!("SELECT id FROM n WHERE {chain} = {first} GROUP BY id, {chain} HAVING max({chain}) = {first}");
            assert_eq!(shell.rows(&by), ["1"], "{by}");
        }
    }
    for (leaving, text) in [
        (format!("i{}", " + 1".repeat(30)), "out of range"),
        (format!("1 + (2{}) + (-b)", " + 1".repeat(30)), "out of range"),
        (format!("id{} + b / (id - id)", " + 1".repeat(30)), "ivide by zero"),
        (format!("CAST({}b AS INT)", "1 + ".repeat(30)), "out of range"),
    ] {
        for statement in [
            format!("SELECT {leaving} FROM o"),
            format!("SELECT id FROM o WHERE {leaving} < 0"),
            format!("SELECT sum({leaving}) FROM o"),
        ] {
            let error = shell.error(&statement).to_string();
            assert!(error.contains(text), "{statement}: {error}");
        }
    }
    // Parts of a chain that are grouped by are found in it.
    let part = chain(12, |_| "i".to_owned());
    let mut found = shell.rows(&format!("SELECT {part}{} FROM n GROUP BY {part}", " + 1".repeat(12)));
    found.sort();
    assert_eq!(found, ["-12", "36"]);
}

#[test]
fn halves_of_doubles_are_rounded_to_even_and_both_zeros_are_equal_to_nullif() {
    let shell = Shell::with("CREATE TABLE t (d DOUBLE); INSERT INTO t VALUES (2.5), (-3.5), (0.5)");
    assert_eq!(shell.rows("SELECT round(d) FROM t ORDER BY d"), ["-4.0", "0.0", "2.0"]);
    assert_eq!(shell.rows("SELECT round(2.5::DOUBLE PRECISION), round(2.5), round(2.45, 1)"), ["2.0|3|2.5"]);
    assert_eq!(
        shell.rows("SELECT nullif('-0'::DOUBLE PRECISION, 0), nullif('NaN'::REAL, 'NaN'), nullif(1, 1.0::DOUBLE PRECISION), nullif('-0'::DOUBLE PRECISION, 1)"),
        ["NULL|NULL|NULL|-0.0"]
    );
}

#[test]
fn a_whole_number_is_compared_with_each_number_in_the_way_of_that_one() {
    let shell = Shell::with("CREATE TABLE t (b BIGINT PRIMARY KEY); INSERT INTO t VALUES (9007199254740993), (3)");
    for (query, expected) in [
        ("SELECT b BETWEEN 9007199254740994 AND 1e17::DOUBLE PRECISION FROM t WHERE b > 3", "false"),
        ("SELECT b NOT BETWEEN 9007199254740994 AND 1e17::DOUBLE PRECISION FROM t WHERE b > 3", "true"),
        ("SELECT b BETWEEN 1::REAL AND 9007199254740992 FROM t WHERE b > 3", "false"),
        ("SELECT b BETWEEN SYMMETRIC 1e17::DOUBLE PRECISION AND 9007199254740994 FROM t WHERE b > 3", "false"),
        ("SELECT b BETWEEN NULL AND 1e17::DOUBLE PRECISION FROM t WHERE b > 3", "NULL"),
        (
            "SELECT CASE b WHEN 9007199254740992 THEN 'a' WHEN 0.5::DOUBLE PRECISION THEN 'b' ELSE 'c' END FROM t WHERE b > 3",
            "c",
        ),
        ("SELECT CASE b WHEN 9007199254740992::DOUBLE PRECISION THEN 'a' WHEN 1 THEN 'b' END FROM t WHERE b > 3", "a"),
        ("SELECT CASE b WHEN NULL THEN 'n' WHEN 3.0::REAL THEN 'a' WHEN 4 THEN 'b' END FROM t WHERE b = 3", "a"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn variances_are_exact_for_whole_numbers_and_nan_for_what_is_not_finite() {
    let shell = Shell::with(
        "CREATE TABLE t (k INT PRIMARY KEY, a BIGINT, d DECIMAL(12, 2), f DOUBLE);
         INSERT INTO t VALUES (1, 9007199254740993, 1.5, 1), (2, 9007199254740992, 2.25, 'NaN'), (3, 9007199254740994, 4, 'Infinity')",
    );
    let third = 2.0_f64 / 3.0;
    for (query, expected) in [
        ("SELECT var_samp(a), variance(a), stddev(a), stddev_samp(a) FROM t", "1.0|1.0|1.0|1.0".to_owned()),
        ("SELECT var_pop(a), stddev_pop(a) FROM t", format!("{third}|{}", third.sqrt())),
        ("SELECT var_pop(f), stddev(f) FROM t", "NaN|NaN".to_owned()),
        ("SELECT var_pop(f), stddev_pop(f), var_samp(f), stddev(f) FROM t WHERE k = 2", "NaN|NaN|NULL|NULL".to_owned()),
        ("SELECT var_pop(f), stddev_pop(f) FROM t WHERE k <> 2", "NaN|NaN".to_owned()),
        ("SELECT var_pop(a), stddev_pop(d), var_samp(d) FROM t WHERE k = 1", "0.0|0.0|NULL".to_owned()),
        ("SELECT var_pop(a) FROM t WHERE false", "NULL".to_owned()),
        (
            "SELECT var_pop(DISTINCT k % 2), var_pop(DISTINCT d), stddev(DISTINCT f) FROM t",
            "0.25|1.097222222222222|NaN".to_owned(),
        ),
        (
            "SELECT var_samp(a) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
            "NULL, 0.5, 2.0".to_owned(),
        ),
        (
            "SELECT var_pop(f) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND CURRENT ROW) FROM t",
            "0.0, NaN, NaN".to_owned(),
        ),
        (
            "SELECT var_pop(f) OVER (ORDER BY k DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t ORDER BY k LIMIT 1",
            "NaN".to_owned(),
        ),
        ("SELECT k % 2, var_pop(a) FROM t GROUP BY k % 2 ORDER BY 1", "0|0.0, 1|0.25".to_owned()),
        ("SELECT var_pop(1e9 + x::DOUBLE) FROM (VALUES (3), (4), (6), (7)) AS v (x)", "2.5".to_owned()),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn a_number_that_is_too_small_for_its_column_is_an_error_as_one_that_is_too_large() {
    let shell = Shell::with("CREATE TABLE f (r REAL, d DOUBLE PRECISION); INSERT INTO f VALUES (1, 1e-300)");
    for statement in [
        "INSERT INTO f (r) VALUES ('1e-60')",
        "INSERT INTO f (r) VALUES (CAST(1e-60 AS DOUBLE PRECISION))",
        "INSERT INTO f (d) VALUES ('1e-400')",
        "UPDATE f SET r = d",
        "UPDATE f SET r = d * 2",
    ] {
        shell.refuses(statement, &["column"]);
    }
    shell.run("UPDATE f SET r = -0.0, d = '0e-999'");
    assert_eq!(shell.rows("SELECT r, d FROM f"), ["0.0|0.0"]);
}

#[test]
fn whole_numbers_beyond_bigint_are_decimals_wherever_they_stand() {
    let shell = Shell::with(
        "CREATE TABLE t (b BIGINT, d DECIMAL(20, 0)); INSERT INTO t VALUES (-9223372036854775808, 18446744073709551615)",
    );
    for (query, expected) in [
        ("SELECT 12345678901234567890 * 12345678901234567", "152415787532388356514250977776253630"),
        (
            "SELECT 18446744073709551615 + 1, 9223372036854775808 - 1, -9223372036854775808 + 1",
            "18446744073709551616|9223372036854775807|-9223372036854775807",
        ),
        (
            "SELECT coalesce(NULL, 10000000000000000000, -1), greatest(b, 10000000000000000000) FROM t",
            "10000000000000000000|10000000000000000000",
        ),
        ("SELECT CASE WHEN b > 0 THEN 1 ELSE 10000000000000000000 END + 0.5 FROM t", "10000000000000000000.5"),
        (
            "SELECT mod(10000000000000000001, 10), round(10000000000000000000), abs(-10000000000000000000)",
            "1|10000000000000000000|10000000000000000000",
        ),
        (
            "SELECT count(*) FROM t WHERE d = 18446744073709551615 AND d > 9223372036854775808 AND b = -9223372036854775808 AND b < 10000000000000000000",
            "1",
        ),
        ("SELECT sum(x) FROM (VALUES (1), (10000000000000000000)) AS v (x)", "10000000000000000001"),
        ("SELECT 1 UNION SELECT 10000000000000000000 ORDER BY 1 LIMIT 1", "1"),
        (
            "SELECT pg_typeof(-9223372036854775808), pg_typeof(9223372036854775808), -9223372036854775808",
            "bigint|numeric|-9223372036854775808",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn what_is_shifted_keeps_its_type() {
    let shell = Shell::with("CREATE TABLE t (s SMALLINT, i INT, b BIGINT); INSERT INTO t VALUES (3, -1, 1)");
    assert_eq!(
        shell.rows("SELECT s << 4, i << 1, i << 31, i >> 1, i << 33, b << 33, pg_typeof(i << 1) FROM t"),
        ["48|-2|-2147483648|-1|-2|8589934592|integer"]
    );
}

#[test]
fn nullif_has_its_own_type_among_values() {
    let shell = Shell::with("CREATE TABLE t (k INT); INSERT INTO t VALUES (NULL), (3)");
    for (query, expected) in [
        ("SELECT x FROM (VALUES (0.1), (nullif(10000000000000000000, 0.1))) AS q (x)", "0.1, 10000000000000000000.0"),
        ("SELECT y FROM (VALUES (1), (nullif(0.1, 1.5::DOUBLE PRECISION))) AS q (y)", "1.0, 0.1"),
        ("SELECT x FROM (VALUES (nullif(12345, 0.1)), (0.1)) AS q (x)", "12345.0, 0.1"),
        ("SELECT x FROM (VALUES (32768), (0.1), (nullif(-5, 0.1))) AS q (x)", "32768.0, 0.1, -5.0"),
        ("SELECT x FROM (VALUES (nullif(5, 0.5))) AS q (x)", "5"),
        ("SELECT k # k FROM t ORDER BY k", "0, NULL"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
    shell.run("CREATE TABLE d (id INT PRIMARY KEY, n DECIMAL(12, 3), i INT)");
    shell.run("INSERT INTO d VALUES (1, nullif(2.5, 0.12345), nullif(7, 0.5)), (2, nullif(100, 0.5), nullif(3, 3.0)), (3, 0.125, 9)");
    assert_eq!(shell.rows("SELECT * FROM d ORDER BY id"), ["1|2.500|7", "2|100.000|NULL", "3|0.125|9"]);
    shell.run("INSERT INTO d VALUES (4, nullif(2.5, 1), nullif(8, 0::BIGINT))");
    assert_eq!(shell.rows("SELECT * FROM d WHERE id = 4"), ["4|2.500|8"]);
}
