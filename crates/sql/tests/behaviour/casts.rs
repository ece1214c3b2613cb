//! Explicit casts convert as `PostgreSQL` does, or fail.

use crate::shell::Shell;

fn values() -> Shell {
    Shell::with(
        "CREATE TABLE c (id INT PRIMARY KEY, n DECIMAL(5, 2), f DOUBLE, r REAL, x TEXT);
         INSERT INTO c VALUES (1, 2.50, 2.5, 2.5, 'hello'), (2, -2.50, -2.5, -2.5, ' 12 '), (3, 3.49, 3.5, 3.5, NULL)",
    )
}

#[test]
fn numbers_with_a_fraction_are_rounded_by_a_cast_to_an_integer() {
    let shell = values();
    for (expression, expected) in [
        ("CAST(n AS INTEGER)", ["3", "-3", "3"]),
        ("n::BIGINT", ["3", "-3", "3"]),
        ("n::SMALLINT + 0", ["3", "-3", "3"]),
        ("CAST(f AS INTEGER)", ["2", "-2", "4"]),
        ("r::BIGINT", ["2", "-2", "4"]),
        ("CAST(2.5 AS INTEGER)", ["3", "3", "3"]),
        ("CAST(-0.5 AS INTEGER)", ["-1", "-1", "-1"]),
        ("CAST(2.5e0 AS INTEGER)", ["3", "3", "3"]),
        ("CAST(2.5e0::FLOAT8 AS INTEGER)", ["2", "2", "2"]),
        ("n::DECIMAL(4, 1)", ["2.5", "-2.5", "3.5"]),
        ("CAST(99.5 AS DECIMAL(3, 0))", ["100", "100", "100"]),
        ("TRY_CAST(n AS INT)", ["3", "-3", "3"]),
    ] {
        assert_eq!(shell.rows(&format!("SELECT {expression} FROM c ORDER BY id")), expected, "{expression}");
    }
    assert_eq!(shell.rows("SELECT id FROM c WHERE CAST(n AS INTEGER) = 3 ORDER BY id"), ["1", "3"]);
    assert_eq!(shell.rows("SELECT max(CAST(f AS INT)), sum(n::INT) FROM c"), ["4|3"]);
}

#[test]
fn a_cast_to_a_text_of_some_length_cuts_off_and_an_assignment_fails() {
    let shell = values();
    assert_eq!(shell.rows("SELECT CAST('hello' AS VARCHAR(3)), 'häuser'::CHAR(2), 'x'::CHAR(5)"), ["hel|hä|x"]);
    assert_eq!(shell.rows("SELECT x::VARCHAR(3) FROM c WHERE id = 1"), ["hel"]);
    assert_eq!(shell.rows("SELECT id FROM c WHERE CAST(x AS VARCHAR(2)) = 'he'"), ["1"]);
    assert_eq!(shell.rows("SELECT v.x FROM (SELECT c.x::VARCHAR(4) FROM c WHERE id = 1) AS v"), ["hell"]);
    assert_eq!(shell.rows("SELECT 12345::VARCHAR(3), TRY_CAST('abc' AS VARCHAR(2))"), ["123|ab"]);
    shell.run("CREATE TABLE v (x VARCHAR(3) DEFAULT 'hello'::VARCHAR(3), k INT)");
    shell.run("INSERT INTO v (k) VALUES (1)");
    shell.refuses("INSERT INTO v VALUES ('hello', 2)", &["column x", "'hello'"]);
    shell.refuses("UPDATE v SET x = 'hello'", &["column x"]);
    assert_eq!(shell.run("UPDATE v SET x = 'world'::VARCHAR(3)"), 1);
    assert_eq!(shell.rows("SELECT * FROM v"), ["wor|1"]);
}

#[test]
fn numbers_are_read_from_texts_with_spaces_around_them() {
    let shell = values();
    assert_eq!(
        shell.rows("SELECT CAST(' 12 ' AS INTEGER), E'\\t-7\\n'::BIGINT, ' 1.5 '::NUMERIC(3, 1), ' 2.5 '::DOUBLE, ' t '::BOOLEAN"),
        ["12|-7|1.5|2.5|true"]
    );
    assert_eq!(shell.rows("SELECT x::INT FROM c WHERE id = 2"), ["12"]);
    for text in ["1 2", "", " ", "x", "2.5", "1e3", "0x10", "1_000", "9999999999"] {
        shell.error(&format!("SELECT '{text}'::INTEGER"));
    }
    for text in ["", "1,5", "x"] {
        shell.error(&format!("SELECT '{text}'::NUMERIC(5, 2)"));
    }
}

#[test]
fn what_a_type_cannot_hold_is_an_error() {
    let shell = values();
    for cast in [
        "'NaN'::DOUBLE::INTEGER",
        "'Infinity'::DOUBLE::BIGINT",
        "'NaN'::DOUBLE::NUMERIC(10, 2)",
        "'-Infinity'::REAL::NUMERIC(10, 2)",
        "9223372036854775808.0::BIGINT",
        "9.3e18::BIGINT",
        "2147483647.5::INTEGER",
        "300000::SMALLINT",
        "123456::NUMERIC(5, 0)",
        "999.995::NUMERIC(5, 2)",
        "'999.995'::NUMERIC(5, 2)",
        "'2024-02-30'::DATE",
        "1e40::REAL",
        "-1e40::REAL",
        "1e-60::REAL",
        "'1e40'::REAL",
        "'1e400'::DOUBLE",
        "'1e-400'::DOUBLE",
        "1e400",
    ] {
        let error = shell.error(&format!("SELECT {cast}")).to_string();
        assert!(!error.contains("Internal"), "{cast}: {error}");
    }
    assert_eq!(
        shell.rows("SELECT 'Infinity'::REAL, '-inf'::DOUBLE::REAL, ' 0e5 '::REAL, 'NaN'::DOUBLE::REAL, 1.5e0::REAL, '2.5'::DOUBLE"),
        ["inf|-inf|0.0|NaN|1.5|2.5"]
    );
    for cast in ["(f * 1e300)::REAL", "(f * 1e300)::INT", "(f * 1e300)::DECIMAL(10, 2)", "(n * 1000000000)::INT"] {
        shell.error(&format!("SELECT {cast} FROM c"));
    }
}

#[test]
fn a_decimal_of_a_floating_point_number_has_the_digits_that_are_certain() {
    let shell = Shell::with(
        "CREATE TABLE f (id INT PRIMARY KEY, d DOUBLE PRECISION, r REAL, n NUMERIC(38, 20), t TEXT);
         INSERT INTO f VALUES (1, 1e14, 0.1, 0, '1e3'), (2, 123456789.123456789, 16777217, 0, '-25E-1 '), (3, -0.1, 1e-7, 0, '.5')",
    );
    assert_eq!(
        shell.rows("SELECT d::NUMERIC(38, 10), r::NUMERIC(30, 10), t::NUMERIC(30, 2) FROM f ORDER BY id"),
        [
            "100000000000000.0000000000|0.1000000000|1000.00",
            "123456789.1234570000|16777200.0000000000|-2.50",
            "-0.1000000000|0.0000001000|0.50"
        ]
    );
    assert_eq!(shell.rows("SELECT id FROM f WHERE d::NUMERIC(20, 2) = 1e14 OR r::NUMERIC(10, 2) = 0.1"), ["1"]);
    // What is stored has the same digits.
    shell.run("UPDATE f SET n = d WHERE id < 3");
    shell.run("UPDATE f SET n = r WHERE id = 3");
    assert_eq!(
        shell.rows("SELECT n FROM f ORDER BY id"),
        ["100000000000000.00000000000000000000", "123456789.12345700000000000000", "0.00000010000000000000"]
    );
    shell.run("UPDATE f SET n = t");
    assert_eq!(shell.rows("SELECT n FROM f WHERE id = 2"), ["-2.50000000000000000000"]);
    for value in ["1e40", "'Infinity'", "'NaN'"] {
        shell.error(&format!("SELECT {value}::DOUBLE PRECISION::NUMERIC(38, 2)"));
        shell.error(&format!("UPDATE f SET n = {value}::DOUBLE PRECISION"));
    }
    for text in
        ["1e40", "1e", "x", "", "1.2.3", "1234567890123456789012345678901234567890123456789012345678901234567890"]
    {
        shell.error(&format!("SELECT '{text}'::NUMERIC(38, 2)"));
        shell.error(&format!("INSERT INTO f (id, n) VALUES (9, '{text}')"));
    }
}

#[test]
fn a_floating_point_number_of_a_decimal_is_the_nearest_one() {
    let shell = Shell::with(
        "CREATE TABLE n (id INT PRIMARY KEY, n NUMERIC(38, 20), d DOUBLE PRECISION);
         INSERT INTO n VALUES (1, 123456789012345678.12345678901234567890, 0), (2, 0.1, 0), (3, 9007199254740993, 0)",
    );
    shell.run("UPDATE n SET d = n");
    for expression in ["n::DOUBLE PRECISION", "d", "n + 0::DOUBLE PRECISION", "coalesce(n, d)"] {
        assert_eq!(
            shell.rows(&format!("SELECT ({expression})::TEXT FROM n ORDER BY id")),
            ["1.2345678901234568e+17", "0.1", "9.007199254740992e+15"],
            "{expression}"
        );
    }
    assert_eq!(
        shell.rows("SELECT 0.30000000000000000000000000000000001::FLOAT8 = 0.3::FLOAT8, 0.1 + 0.2::FLOAT8"),
        ["true|0.30000000000000004"]
    );
    assert_eq!(shell.rows("SELECT n::REAL::TEXT FROM n ORDER BY id"), ["1.2345679e+17", "0.1", "9.007199e+15"]);
}

#[test]
fn a_number_with_an_exponent_is_a_decimal() {
    let shell = Shell::with(
        "CREATE TABLE e (i INT, n NUMERIC(10, 3), d DOUBLE PRECISION); INSERT INTO e VALUES (1e3, 1e-3, 1e300)",
    );
    assert_eq!(shell.rows("SELECT * FROM e"), ["1000|0.001|1e300"]);
    assert_eq!(
        shell.rows("SELECT 1e20::TEXT, 2.50e1, 1e1 / 4e0 > 2.4, -1e2, i = 1e3, n = 1e-3 FROM e"),
        ["100000000000000000000|25.0|true|-100|true|true"]
    );
}

#[test]
fn functions_of_a_real_are_computed_as_of_a_double() {
    let shell = Shell::with("CREATE TABLE r (x REAL, d DOUBLE PRECISION); INSERT INTO r VALUES (0.75, 0)");
    shell.run("UPDATE r SET d = sqrt(abs(x))");
    assert_eq!(
        shell.rows("SELECT d, sqrt(x) = sqrt(0.75::FLOAT8), power(x, 2), round(x), floor(x) + 0.25::FLOAT8 FROM r"),
        ["0.8660254037844386|true|0.5625|1.0|0.25"]
    );
}
