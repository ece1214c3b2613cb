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
