//! Values as texts, and what is done with texts.

use crate::shell::Shell;

#[test]
fn floating_point_numbers_are_written_as_in_postgresql() {
    let shell = Shell::with(
        "CREATE TABLE v (id INT PRIMARY KEY, x DOUBLE PRECISION, r REAL);
         INSERT INTO v VALUES (1, 100000, 100000), (2, 1e20, 1e20), (3, 1e-5, 1e-5), (4, '-Infinity', 'NaN'), (5, '-0', 1e6), (6, 1e15, 123456.7), (7, NULL, NULL)",
    );
    assert_eq!(
        shell.rows("SELECT x::TEXT, r::VARCHAR FROM v ORDER BY id"),
        ["100000|100000", "1e+20|1e+20", "1e-05|1e-05", "-Infinity|NaN", "-0|1e+06", "1e+15|123456.7", "NULL|NULL"]
    );
    assert_eq!(
        shell.rows("SELECT 'x' || x || '/' || r, concat(x, r), concat_ws('-', x, r, id) FROM v WHERE id IN (1, 2, 4) ORDER BY id"),
        ["x100000/100000|100000100000|100000-100000-1", "x1e+20/1e+20|1e+201e+20|1e+20-1e+20-2", "x-Infinity/NaN|-InfinityNaN|-Infinity-NaN-4"]
    );
    assert_eq!(
        shell.rows("SELECT string_agg(x::TEXT, ' ' ORDER BY id) FROM v"),
        ["100000 1e+20 1e-05 -Infinity -0 1e+15"]
    );
    assert_eq!(shell.rows("SELECT id FROM v WHERE x::TEXT IN ('100000', '-0', '1e+20') ORDER BY id"), ["1", "2", "5"]);
    assert_eq!(
        shell.rows("SELECT 100000.0::DOUBLE PRECISION::TEXT, 'Infinity'::REAL::TEXT, length(1e20::TEXT)"),
        ["100000|Infinity|21"]
    );
}

#[test]
fn truths_are_letters_to_functions_of_any_values_and_words_as_texts() {
    let shell = Shell::with(
        "CREATE TABLE b (id INT PRIMARY KEY, b BOOLEAN); INSERT INTO b VALUES (1, true), (2, false), (3, NULL)",
    );
    assert_eq!(
        shell.rows("SELECT concat(b), concat_ws('-', id > 1, b), b::TEXT, 'x' || b FROM b ORDER BY id"),
        ["t|f-t|true|xtrue", "f|t-f|false|xfalse", "|t|NULL|NULL"]
    );
    assert_eq!(shell.rows("SELECT concat(true), true::TEXT = 'true', concat(NULL::BOOLEAN, 'x')"), ["t|true|x"]);
}

#[test]
fn a_pattern_of_similar_to_may_repeat_a_part_a_number_of_times() {
    let shell = Shell::with("CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('a'), ('aa'), ('aaa'), ('aaaa'), ('a{2}')");
    for (pattern, expected) in [
        ("a{2,3}", "aa aaa"),
        ("a{3}", "aaa"),
        ("a{3,}", "aaa aaaa"),
        ("(aa){1,2}", "aa aaaa"),
        ("_{4}", "aaaa a{2}"),
        (r"a\{2\}", "a{2}"),
    ] {
        let mut found = shell.rows(&format!("SELECT a FROM t WHERE a SIMILAR TO '{pattern}'"));
        found.sort();
        assert_eq!(found.join(" "), expected, "{pattern}");
    }
    for pattern in ["a{3,2}", "a{300}", "a{x}", "a{2"] {
        let error = shell.error(&format!("SELECT a FROM t WHERE a SIMILAR TO '{pattern}'")).to_string();
        assert!(error.contains("not a valid one"), "{error}");
    }
}

#[test]
fn a_trim_may_have_each_of_its_parts_or_none() {
    let shell = Shell::with("CREATE TABLE t (a TEXT); INSERT INTO t VALUES (' x ')");
    assert_eq!(
        shell.rows("SELECT '<' || trim(leading from a) || '>', '<' || trim(trailing a) || '>', '<' || trim(from a) || '>', trim(both from a) FROM t"),
        ["<x >|< x>|<x>|x"]
    );
    assert_eq!(
        shell.rows("SELECT trim(leading 'ab' from 'abcab'), trim('abcab', 'ab'), trim(trailing 'abcab', 'ab'), trim('a' from 'aba')"),
        ["cab|c|abc|b"]
    );
}

#[test]
fn truths_of_frames_that_move_are_those_of_their_rows() {
    let shell = Shell::with(
        "CREATE TABLE b (id INT PRIMARY KEY, b BOOLEAN); INSERT INTO b VALUES (1, true), (2, false), (3, NULL), (4, NULL), (5, true)",
    );
    let frame = "(ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)";
    assert_eq!(
        shell.rows(&format!(
            "SELECT id, bool_and(b) OVER {frame}, bool_or(b) OVER {frame}, every(b) OVER {frame} FROM b ORDER BY id"
        )),
        ["1|true|true|true", "2|false|true|false", "3|false|false|false", "4|NULL|NULL|NULL", "5|true|true|true"]
    );
    assert_eq!(
        shell.rows("SELECT bool_or(b) OVER (ORDER BY id), bool_and(b) OVER (ORDER BY id DESC) FROM b ORDER BY id"),
        ["true|false", "true|false", "true|true", "true|true", "true|true"]
    );
}

#[test]
fn a_point_in_a_regular_expression_matches_a_line_break() {
    let shell = Shell::with(
        "CREATE TABLE x (k INT, t TEXT, p TEXT); INSERT INTO x VALUES (1, E'a\nb', 'a.b'), (2, 'A-B', 'a.b'), (3, NULL, NULL)",
    );
    for (condition, rows) in [
        ("t ~ 'a.b'", &["1"][..]),
        ("t ~ p", &["1"]),
        ("t ~* p", &["1", "2"]),
        ("t !~ p", &["2"]),
        ("regexp_like(t, 'a.b', 'i')", &["1", "2"]),
        ("regexp_like(t, p)", &["1"]),
        ("t ~ '^b'", &[]),
    ] {
        assert_eq!(shell.rows(&format!("SELECT k FROM x WHERE {condition} ORDER BY k")), rows, "{condition}");
    }
    assert_eq!(
        shell.rows(r"SELECT regexp_replace('a-b', '(\w)-(\w)', '$1 \2\1 \& $'), regexp_replace('xyx', 'x', r.r, 'g') FROM (VALUES ('$&')) AS r (r)"),
        ["$1 ba a-b $|$&y$&"]
    );
}

#[test]
fn a_sign_is_of_its_number_before_a_power_is_taken() {
    let shell = Shell::with("CREATE TABLE t (a INT); INSERT INTO t VALUES (2), (-3)");
    for (power, expected) in [
        ("-2 ^ 2", "4.0"),
        ("1 + -2 ^ 2", "5.0"),
        ("-(2 ^ 2)", "-4.0"),
        ("-(2) ^ 2", "4.0"),
        ("-2 ^ -2", "0.25"),
        ("2 ^ -1 ^ 2", "0.25"),
        ("2 ^ 3 ^ 2", "64.0"),
        ("2 ^ (3 ^ 2)", "512.0"),
        ("3 * -2 ^ 3 ^ 2", "192.0"),
    ] {
        assert_eq!(shell.rows(&format!("SELECT CAST({power} AS DOUBLE PRECISION)")), [expected], "{power}");
    }
    assert_eq!(shell.rows("SELECT a FROM t WHERE -a ^ 3 > 0"), ["-3"]);
}

#[test]
fn a_sign_may_stand_behind_any_operator() {
    let shell = Shell::with("CREATE TABLE t (a INT); INSERT INTO t VALUES (2), (-3)");
    for (condition, expected) in
        [("a>-3", &["2"][..]), ("a>=-3", &["-3", "2"]), ("a<>-3", &["2"]), ("a<=+2 AND 5-+2=3", &["-3", "2"])]
    {
        assert_eq!(shell.rows(&format!("SELECT a FROM t WHERE {condition} ORDER BY a")), expected, "{condition}");
    }
}

#[test]
fn what_would_be_read_as_a_name_by_mistake_is_refused() {
    let shell = Shell::new();
    shell.refuses("SELECT 1 ISNULL", &["ISNULL", "IS NULL"]);
    shell.refuses("SELECT 'a'\n'b'", &["single quotes", "||"]);
    shell.refuses("SELECT 1 AS 'b'", &["single quotes"]);
    assert_eq!(shell.rows("SELECT 1 AS \"isnull\""), ["1"]);
}
