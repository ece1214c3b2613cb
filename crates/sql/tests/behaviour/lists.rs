//! Several lists of one operand in one expression: a NULL of the operand or of a list is not lost where they meet.

use crate::shell::Shell;

const ROWS: &str = "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1), (2, 2), (3, NULL)";

#[test]
fn lists_of_one_operand_keep_the_logic_of_null() {
    let shell = Shell::with(ROWS);
    for (condition, expected) in [
        ("n IN (1, 2) AND n NOT IN (1, NULL)", &[][..]),
        ("n NOT IN (1, NULL) AND n IN (1, 2)", &[]),
        ("n IN (2) AND n <> ALL (ARRAY[1, NULL])", &[]),
        ("n NOT IN (1) OR n NOT IN (2)", &["1", "2"]),
        ("NOT (n IN (1, 2) AND n IN (3, 4))", &["1", "2"]),
        ("NOT (n IN (1, 2, 5, 6, 7) AND n IN (3, 4, 8, 9, 10))", &["1", "2"]),
        ("(n IN (1, 2) AND n IN (3, 4)) IS NULL", &["3"]),
        ("(n NOT IN (1, 2, 5, 6) OR n NOT IN (3, 4, 7, 8)) IS NULL", &["3"]),
        ("NOT ((n = 1 OR n = 2) AND (n = 3 OR 4 = n))", &["1", "2"]),
        ("(NOT ((n <> 1 AND n <> 2) OR (n <> 3 AND n <> 4))) IS NULL", &["3"]),
        ("((NOT n <> 1 OR NOT NOT n = 2) AND (NOT n <> 3 OR n = 4)) IS NULL", &["3"]),
        ("((n = 1 OR n = 2) AND n IN (3, 4, 5, 6, 7)) IS NULL", &["3"]),
        ("n IN (1, 2, NULL, 5, 6) AND n IN (2, NULL, 7, 8)", &["2"]),
        ("n IN (1, 5, 6, 7) OR n IN (2, 8, 9, 10)", &["1", "2"]),
        ("CASE WHEN n IN (1, 2) AND n NOT IN (1, NULL) THEN false ELSE true END", &["1", "2", "3"]),
    ] {
        assert_eq!(shell.rows(&format!("SELECT id FROM t WHERE {condition} ORDER BY id")), expected, "{condition}");
    }
    let shown = "SELECT n IN (1, 2) AND n IN (3, 4), n NOT IN (1) OR n NOT IN (2) AS b FROM t ORDER BY id";
    assert_eq!(shell.rows(shown), ["false|true", "false|true", "NULL|NULL"]);
    let grouped = "SELECT n IN (1, 2) AND n IN (3, 4), count(*) FROM t GROUP BY n IN (1, 2) AND n IN (3, 4) ORDER BY 2";
    assert_eq!(shell.rows(grouped), ["NULL|1", "false|2"]);
}

#[test]
fn no_row_is_deleted_by_lists_that_are_not_surely_true() {
    let shell = Shell::with(ROWS);
    assert_eq!(shell.run("DELETE FROM t WHERE n IN (1, 2) AND n NOT IN (1, NULL)"), 0);
    assert_eq!(shell.run("UPDATE t SET n = 9 WHERE NOT (n IN (1, 2) AND n IN (3, 4))"), 2);
    assert_eq!(shell.rows("SELECT id, n FROM t ORDER BY id"), ["1|9", "2|9", "3|NULL"]);
}

#[test]
fn what_is_computed_of_the_row_is_no_constant_of_a_list() {
    let shell = Shell::with(
        "CREATE TABLE t (id INT PRIMARY KEY, k INT, n DECIMAL(10, 2), f REAL, b BIGINT);
         INSERT INTO t VALUES (1, 2, 2, 0.5, 1), (2, 4, 4, 1.5, 9)",
    );
    for (condition, expected) in [
        ("k IN (0, CASE WHEN id = 77 THEN 2 END)", "NULL, NULL"),
        ("k IN (0, CASE WHEN id = 77 THEN 2 WHEN id = 2 THEN 4 END)", "NULL, true"),
        ("n IN (nullif(n, 1), 5)", "true, true"),
        ("k NOT IN (0, CASE WHEN id = 77 THEN 2.5 END)", "NULL, NULL"),
        ("f IN (nullif(f, 1), 5)", "true, true"),
        ("id IN (nullif(b, 3), 5)", "true, false"),
        ("k = ANY (ARRAY[0, CASE WHEN id = 1 THEN 2 END])", "true, NULL"),
        ("k <> ALL (ARRAY[0, nullif(k, b)])", "false, false"),
        ("k IN (id, b, 4)", "false, true"),
        ("k IN (1, CASE WHEN id = 1 THEN k ELSE 0 END, b - 5)", "true, true"),
    ] {
        assert_eq!(shell.rows(&format!("SELECT {condition} FROM t ORDER BY id")).join(", "), expected, "{condition}");
    }
    assert_eq!(shell.run("DELETE FROM t WHERE k IN (0, CASE WHEN id = 77 THEN 2 END)"), 0);
}
