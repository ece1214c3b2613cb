//! Recursive queries, and the types of their terms.

use crate::shell::Shell;

#[test]
fn rows_of_a_recursive_term_keep_their_values() {
    let shell = Shell::with(
        "CREATE TABLE t (k INT, b BIGINT, n DECIMAL(6, 2), s TEXT); INSERT INTO t VALUES (1, 2, 1.25, 'a')",
    );
    for (terms, rows) in [
        ("SELECT 1 UNION ALL SELECT x + 1 FROM r WHERE x < 3", &["1", "2", "3"][..]),
        ("SELECT k FROM t UNION ALL SELECT x + 1 FROM r WHERE x < 3", &["1", "2", "3"]),
        ("SELECT k FROM t UNION ALL SELECT x + b FROM r, t WHERE x < 4", &["1", "3", "5"]),
        ("SELECT 1.5 UNION ALL SELECT x::INT + 0.5 FROM r WHERE x < 2", &["1.5", "2.5"]),
        ("SELECT 1 UNION ALL SELECT CAST(x + 0.5 AS INT) FROM r WHERE x < 3", &["1", "2", "3"]),
        ("SELECT 1 UNION ALL SELECT (x * 1.5)::INT FROM r WHERE x < 3", &["1", "2", "3"]),
        ("SELECT 1e0::FLOAT8 UNION ALL SELECT x + 0.5 FROM r WHERE x < 2", &["1.0", "1.5", "2.0"]),
        ("SELECT 'a' UNION ALL SELECT x || s FROM r, t WHERE length(x) < 3", &["a", "aa", "aaa"]),
        ("SELECT NULL::INT UNION ALL SELECT k FROM r, t WHERE x IS NULL", &["NULL", "1"]),
    ] {
        assert_eq!(shell.rows(&format!("WITH RECURSIVE r (x) AS ({terms}) SELECT x FROM r")), rows, "{terms}");
    }
}

#[test]
fn a_recursive_term_that_would_lose_digits_is_refused() {
    let shell = Shell::with(
        "CREATE TABLE t (k INT, f REAL, d DOUBLE PRECISION, n DECIMAL(6, 2)); INSERT INTO t VALUES (1, 1, 1, 1)",
    );
    for terms in [
        "SELECT 1 UNION ALL SELECT x + 0.5 FROM r WHERE x < 3",
        "SELECT k FROM t UNION ALL SELECT x + n FROM r, t WHERE x < 3",
        "SELECT k FROM t UNION SELECT x + 1e0 FROM r WHERE x < 3",
        "SELECT f FROM t UNION ALL SELECT x + d FROM r, t WHERE x < 3",
        "SELECT n FROM t UNION ALL SELECT x + 0.125 FROM r WHERE x < 3",
        "SELECT n FROM t UNION ALL SELECT d FROM r, t WHERE x < 1",
        "SELECT 1 UNION ALL SELECT '2' || '3' FROM r WHERE x < 3",
        "SELECT DATE '2020-01-01' UNION ALL SELECT x + INTERVAL '1 hour' FROM r WHERE x < DATE '2020-01-02'",
    ] {
        let sql = format!("SELECT * FROM (WITH RECURSIVE r (x) AS ({terms}) SELECT x FROM r) AS s");
        shell.refuses(&sql, &["WITH RECURSIVE whose column 1", "cast the column"]);
    }
}

#[test]
fn a_recursive_term_that_aggregates_its_rows_is_refused() {
    let shell = Shell::with("CREATE TABLE t (k INT); INSERT INTO t VALUES (1), (2)");
    for term in [
        "SELECT sum(x) FROM r WHERE x < 9",
        "SELECT count(*) FROM r",
        "SELECT m FROM (SELECT max(x) + 1 AS m FROM r GROUP BY x) AS a WHERE m < 9",
    ] {
        let sql = format!("WITH RECURSIVE r (x) AS (SELECT 1 UNION ALL {term}) SELECT * FROM r");
        shell.refuses(&sql, &["an aggregate over the rows of a recursive term"]);
    }
    let others = "SELECT x + m FROM r, (SELECT max(k) AS m FROM t) AS a WHERE x < 4 GROUP BY x + m";
    let sql = format!("WITH RECURSIVE r (x) AS (SELECT 1 UNION ALL {others}) SELECT * FROM r");
    assert_eq!(shell.rows(&sql), ["1", "3", "5"]);
}
