//! What a statement may take.

use crate::shell::Shell;

#[test]
fn a_function_that_would_make_far_too_much_is_refused_by_name() {
    let shell = Shell::with(
        "CREATE TABLE t (id INT PRIMARY KEY, x TEXT, n BIGINT);
         INSERT INTO t SELECT value, 'xxxxxxxxxx', 2000000000 FROM generate_series(1, 4000)",
    );
    for (expression, name) in [
        ("repeat('x', 2000000000)", "repeat"),
        ("repeat(x, n)", "repeat"),
        ("repeat(x, 1000000)", "repeat"),
        ("repeat(repeat('x', 100000), 100000)", "repeat"),
        ("length(repeat('x', 200000))", "repeat"),
        ("lpad(x, n, 'ab')", "lpad"),
        ("rpad('x', 1000000000)", "rpad"),
        ("replace(x, 'x', repeat('y', 8000))", "replace"),
        ("regexp_replace(x, 'x', repeat('y', 8000), 'g')", "regexp_replace"),
        ("concat(x, repeat('y', 100000))", "repeat"),
        ("repeat(x, 800) || repeat(x, 800) || repeat(x, 800) || repeat(x, 800) || repeat(x, 6400)", "||"),
        ("repeat('x', 8000) || repeat('x', 8000) || repeat('x', 8000) || repeat('x', 50000)", "||"),
    ] {
        shell.refuses(&format!("SELECT {expression} FROM t"), &[&format!("a result of {name} "), "not supported"]);
        shell.refuses(&format!("SELECT id FROM t WHERE {expression} IS NULL"), &["not supported"]);
    }
    assert_eq!(shell.rows("SELECT length(repeat('x', 1000000))"), ["1000000"]);
    assert_eq!(shell.rows("SELECT max(length(repeat(x, 1000))) FROM t"), ["10000"]);
    assert_eq!(shell.rows("SELECT lpad('7', 3, '0'), replace('aXbX', 'X', '--'), repeat('ab', -1)"), ["007|a--b--|"]);
    assert_eq!(shell.rows("SELECT id FROM t WHERE x = repeat('x', 10) AND id < 3 ORDER BY id"), ["1", "2"]);
    assert_eq!(shell.rows("SELECT concat('a', NULL, 'b'), concat_ws('-', 'a', 'b')"), ["ab|a-b"]);
    assert_eq!(
        shell.rows("SELECT x || NULL || 'b', 'a' || id || '-' || x FROM t WHERE id = 1"),
        ["NULL|a1-xxxxxxxxxx"]
    );
    assert_eq!(
        shell.rows("SELECT 'a' || 'b', NULL || 'b', 'n' || 1.50, length(repeat('x', 9000) || 'y')"),
        ["ab|NULL|n1.50|9001"]
    );
    let many = vec!["x"; 400].join(" || ");
    assert_eq!(shell.rows(&format!("SELECT length({many}) FROM t WHERE id = 1 GROUP BY {many}")), ["4000"]);
}
