//! Every type: its extremes, NULL, and the way to disk and back.

use crate::shell::Shell;

/// A table with a column of each type, and rows at the edges.
fn all_types() -> Shell {
    Shell::with(
        r"CREATE TABLE t (
              id INT PRIMARY KEY, s SMALLINT, i INTEGER, b BIGINT, r REAL, d DOUBLE PRECISION, n DECIMAL(38, 4),
              m NUMERIC(9, 2), f BOOLEAN, x TEXT, v VARCHAR(5), y BYTEA, e DATE, w TIMESTAMP
          );
          INSERT INTO t VALUES
              (1, 32767, 2147483647, 9223372036854775807, 3.4028235e38, 1.7976931348623157e308,
               9999999999999999999999999999999999.9999, 1234567.89, true, 'häuser 石垣', 'abcde', X'00ff10',
               '9999-12-31', '9999-12-31 23:59:59.999999'),
              (2, -32768, -2147483648, -9223372036854775808, -1.1754944e-38, 5e-324,
               -9999999999999999999999999999999999.9999, -0.01, false, '', '', X'',
               '0001-01-01', '0001-01-01 00:00:00'),
              (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
              (4, 0, 0, 0, 0, -0.0, 0, 0, true, 'a''b', 'x', X'00', DATE '1970-01-01', TIMESTAMP '1970-01-01 00:00:00.000001');",
    )
}

const EXPECTED: [&str; 4] = [
    "1|32767|2147483647|9223372036854775807|3.4028235e38|1.7976931348623157e308|9999999999999999999999999999999999.9999|\
     1234567.89|true|häuser 石垣|abcde|00ff10|9999-12-31|9999-12-31T23:59:59.999999",
    "2|-32768|-2147483648|-9223372036854775808|-1.1754944e-38|5e-324|-9999999999999999999999999999999999.9999|-0.01|false|||\
     |0001-01-01|0001-01-01T00:00:00",
    "3|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
    "4|0|0|0|0.0|0.0|0.0000|0.00|true|a'b|x|00|1970-01-01|1970-01-01T00:00:00.000001",
];

#[test]
fn every_type_keeps_its_extremes_and_null_over_a_reopen() {
    let shell = all_types();
    let before = shell.rows("SELECT * FROM t ORDER BY id");
    let shell = shell.reopen();
    let after = shell.rows("SELECT * FROM t ORDER BY id");
    assert_eq!(before, after);
    for (row, expected) in after.iter().zip(EXPECTED) {
        // Minus zero is zero or not, by the way it took.
        assert_eq!(row.replace("|-0.0|", "|0.0|"), expected);
    }
}

#[test]
fn decimals_are_exact_from_the_literal_on() {
    let shell = Shell::with("CREATE TABLE t (d DECIMAL(20, 2)); INSERT INTO t VALUES (123456789012345678.91), (0.07)");
    assert_eq!(shell.rows("SELECT sum(d) FROM t"), ["123456789012345678.98"]);
    assert_eq!(shell.run("UPDATE t SET d = d * 1.1 WHERE d < 1"), 1);
    assert_eq!(shell.rows("SELECT d FROM t WHERE d = 0.08"), ["0.08"]);
}

#[test]
fn every_type_can_be_a_key_and_keys_sort_as_values() {
    for (sql_type, values) in [
        ("SMALLINT", "-32768 -1 0 1 32767"),
        ("BIGINT", "-9223372036854775808 -5 0 5 9223372036854775807"),
        ("DOUBLE", "-1e300 -1.5 0.0 1e-300 2.5"),
        ("REAL", "-100.5 -1.5 0.0 0.25 2.5"),
        ("DECIMAL(10, 2)", "-1000.00 -0.01 0.00 0.01 99.99"),
        ("BOOLEAN", "false true"),
        ("TEXT", "A B Bb a ä 石"),
        ("DATE", "0001-01-01 1969-12-31 1970-01-01 9999-12-31"),
        ("TIMESTAMP", "0001-01-01T00:00:00 1969-12-31T23:59:59.999999 1970-01-01T00:00:00 2024-01-01T00:00:00"),
    ] {
        let shell = Shell::with(&format!("CREATE TABLE t (k {sql_type} PRIMARY KEY, n INT)"));
        let expected: Vec<&str> = values.split(' ').collect();
        for (n, value) in expected.iter().enumerate().rev() {
            shell.run(&format!("INSERT INTO t VALUES ('{value}', {n})"));
        }
        let numbers: Vec<String> = (0..expected.len()).map(|n| n.to_string()).collect();
        assert_eq!(shell.rows("SELECT n FROM t ORDER BY k"), numbers, "{sql_type}");
        assert_eq!(shell.rows("SELECT n FROM t ORDER BY k DESC").len(), expected.len());
        for (n, value) in expected.iter().enumerate() {
            let point = shell.rows(&format!("SELECT n FROM t WHERE k = CAST('{value}' AS {sql_type})"));
            assert_eq!(point, [n.to_string()], "{sql_type} {value}");
            let above = shell.rows(&format!("SELECT n FROM t WHERE k > CAST('{value}' AS {sql_type}) ORDER BY n"));
            assert_eq!(above, numbers[n + 1..], "{sql_type} above {value}");
            shell.refuses(&format!("INSERT INTO t VALUES ('{value}', 0)"), &["duplicate key (k)"]);
        }
    }
}

#[test]
fn what_does_not_fit_a_type_is_refused() {
    let shell = Shell::with("CREATE TABLE t (id INT, e DATE, w TIMESTAMP, f BOOLEAN, r REAL)");
    for (column, value) in [
        ("id", "'12x'"),
        ("id", "2147483648"),
        ("e", "'2023-02-29'"),
        ("e", "17"),
        ("w", "'yesterday'"),
        ("f", "'maybe'"),
        ("f", "1"),
        ("r", "1e39"),
        ("r", "'1e39'"),
    ] {
        shell.refuses(&format!("INSERT INTO t ({column}) VALUES ({value})"), &["table t", &format!("column {column}")]);
    }
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn numbers_are_rounded_and_texts_are_read_where_a_column_takes_them() {
    let shell = Shell::with(
        "CREATE TABLE t (id INT, d DECIMAL(5, 1), x TEXT, e DATE);
         INSERT INTO t VALUES (1.6, 1.25, 7, '2024-01-31'), ('2', '3.1', true, TIMESTAMP '2024-02-01 12:00:00');",
    );
    assert_eq!(shell.rows("SELECT * FROM t ORDER BY e"), ["2|1.3|7|2024-01-31", "2|3.1|true|2024-02-01"]);
}

#[test]
fn bytes_can_be_written_as_text_of_hexadecimal_digits() {
    let shell = Shell::with(
        r"CREATE TABLE t (id INT, y BYTEA); INSERT INTO t VALUES (1, '\x00fF'), (2, '\x00fF'::BYTEA), (3, X'00ff'), (4, 'ab')",
    );
    assert_eq!(shell.rows("SELECT y FROM t ORDER BY id"), ["00ff", "00ff", "00ff", "6162"]);
    shell.refuses(r"INSERT INTO t VALUES (5, '\x0')", &["table t", "column y", r"'\x0'"]);
}

#[test]
fn types_that_there_are_not_are_refused_with_what_to_use() {
    let shell = Shell::new();
    shell.refuses("CREATE TABLE t (x TINYINT)", &["TINYINT", "SMALLINT"]);
    shell.refuses("CREATE TABLE t (x UUID)", &["UUID", "TEXT"]);
    shell.refuses("CREATE TABLE t (x TIMESTAMP WITH TIME ZONE)", &["TIMESTAMP"]);
    shell.refuses("CREATE TABLE t (x INT[])", &["INT[]"]);
}

#[test]
fn a_double_is_compared_with_a_literal_as_a_double() {
    let shell = Shell::with("CREATE TABLE f (k DOUBLE PRIMARY KEY, r REAL)");
    shell.run("INSERT INTO f VALUES (1e-20, 1e-20), (1e16, 1e30)");
    assert_eq!(shell.rows("SELECT count(*) FROM f WHERE k > 0.0"), ["2"]);
    assert_eq!(shell.rows("SELECT count(*) FROM f WHERE k > 0.5 AND r > 0.5"), ["1"]);
    assert_eq!(shell.rows("SELECT count(*) FROM f WHERE k BETWEEN -0.5 AND 0.5"), ["1"]);
    assert_eq!(shell.rows("SELECT count(*) FROM f WHERE k IN (0.0, 1.5)"), ["0"]);
    assert_eq!(shell.run("DELETE FROM f WHERE k <= 0.0"), 0);
}

#[test]
fn an_integer_that_overflows_is_refused_and_not_wrapped_around() {
    let shell = Shell::with("CREATE TABLE o (id INT PRIMARY KEY, b BIGINT)");
    shell.run("INSERT INTO o VALUES (2147483647, 9223372036854775807)");
    shell.refuses("UPDATE o SET b = b + 1", &["verflow"]);
    shell.refuses("SELECT b + b FROM o", &["verflow"]);
    assert_eq!(shell.rows("SELECT b - 1 FROM o"), ["9223372036854775806"]);
}

#[test]
fn the_information_schema_knows_what_may_be_null() {
    let shell = Shell::with("CREATE TABLE i (id INT PRIMARY KEY, a INT NOT NULL, b INT)");
    assert_eq!(
        shell.rows("SELECT column_name, is_nullable FROM information_schema.columns WHERE table_name = 'i' ORDER BY 1"),
        ["a|NO", "b|YES", "id|NO"]
    );
    // A subquery over a NOT NULL column is NULL all the same where it finds nothing.
    assert_eq!(shell.rows("SELECT (SELECT id FROM i) IS NULL"), ["true"]);
}

#[test]
fn the_information_schema_calls_types_as_the_standard_does() {
    let shell = Shell::with(
        "CREATE TABLE a (s SMALLINT, i INT, b BIGINT PRIMARY KEY, r REAL, d DOUBLE PRECISION, n DECIMAL(9, 2) DEFAULT 1.5, o BOOLEAN,
         t TEXT, v VARCHAR(7), y BYTEA, e DATE, z TIMESTAMP); CREATE VIEW w AS SELECT b + 1 AS more, v FROM a",
    );
    let columns = "column_name, data_type, character_maximum_length, character_octet_length, numeric_precision, \
                   numeric_precision_radix, numeric_scale, datetime_precision";
    assert_eq!(
        shell.rows(&format!(
            "SELECT {columns} FROM information_schema.columns WHERE table_name = 'a' ORDER BY ordinal_position"
        )),
        [
            "s|smallint|NULL|NULL|16|2|0|NULL",
            "i|integer|NULL|NULL|32|2|0|NULL",
            "b|bigint|NULL|NULL|64|2|0|NULL",
            "r|real|NULL|NULL|24|2|NULL|NULL",
            "d|double precision|NULL|NULL|53|2|NULL|NULL",
            "n|numeric|NULL|NULL|9|10|2|NULL",
            "o|boolean|NULL|NULL|NULL|NULL|NULL|NULL",
            "t|text|NULL|1073741824|NULL|NULL|NULL|NULL",
            "v|character varying|7|28|NULL|NULL|NULL|NULL",
            "y|bytea|NULL|NULL|NULL|NULL|NULL|NULL",
            "e|date|NULL|NULL|NULL|NULL|NULL|0",
            "z|timestamp without time zone|NULL|NULL|NULL|NULL|NULL|6",
        ]
    );
    assert_eq!(
        shell.rows("SELECT table_name, ordinal_position, column_default FROM information_schema.columns WHERE column_name IN ('n', 'more')"),
        ["a|6|1.5", "w|1|NULL"]
    );
}

#[test]
fn a_text_beside_bytes_is_read_as_bytes_or_refused() {
    let shell = Shell::with(
        r"CREATE TABLE b (x BYTEA, i INT, s TEXT); INSERT INTO b VALUES ('\xdead', 1, '\xdead'), ('\x00', 2, 'a')",
    );
    assert_eq!(shell.rows(r"SELECT i FROM b WHERE x = '\xdead'"), ["1"]);
    assert_eq!(shell.rows(r"SELECT i FROM b WHERE x IN ('\xbeef', '\x00')"), ["2"]);
    assert_eq!(shell.run(r"UPDATE b SET i = 3 WHERE x = '\xDE AD'"), 1);
    assert_eq!(shell.rows(r"SELECT encode('\xdead', 'hex'), encode('a\000b'::BYTEA, 'hex')"), ["dead|610062"]);
    for sql in ["SELECT s::BYTEA FROM b", r"SELECT x || '\x00' FROM b", "SELECT i FROM b WHERE x = s"] {
        shell.refuses(sql, &["BYTEA"]);
    }
    shell.refuses(r"SELECT i FROM b WHERE x = '\xd'", &["BYTEA"]);
}

#[test]
fn letters_right_behind_a_number_are_no_name() {
    let shell = Shell::new();
    for sql in ["SELECT 0b101", "SELECT 123abc", "SELECT 100__000", "SELECT 0o17"] {
        shell.refuses(sql, &["trailing junk"]);
    }
    assert_eq!(shell.rows("SELECT 1 a, 2.5e1::INT, 3\"b\""), ["1|25|3"]);
}
