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
        ("CAST(2.5e0 AS INTEGER)", ["2", "2", "2"]),
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
