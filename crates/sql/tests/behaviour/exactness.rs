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
