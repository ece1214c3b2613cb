//! Comparisons of rows.

use crate::shell::Shell;

#[test]
fn rows_compare_column_by_column_with_the_logic_of_null() {
    let shell = Shell::new();
    for (comparison, expected) in [
        ("(1, 2) = (1, 2)", "true"),
        ("(1, NULL) = (1, 2)", "NULL"),
        ("(1, NULL) = (2, 2)", "false"),
        ("(1, NULL) <> (2, 2)", "true"),
        ("(1, NULL) <> (1, 2)", "NULL"),
        ("(1, 2) < (1, 3)", "true"),
        ("(1, 2) < (1, 2)", "false"),
        ("(1, 2) <= (1, 2)", "true"),
        ("(2, 1) > (1, 5)", "true"),
        ("(1, 5, 7) >= (1, 5, 8)", "false"),
        ("(NULL, 1) < (2, 2)", "NULL"),
        ("(1, NULL) < (2, 2)", "true"),
        ("(1, NULL) < (1, 2)", "NULL"),
        ("ROW(1, 2) = ROW(1, 2)", "true"),
        ("(1, 2) IN ((3, 4), (1, 2))", "true"),
        ("(1, 2) IN ((3, 4), (1, NULL))", "NULL"),
        ("(1, 2) IN ((3, 4), (2, NULL))", "false"),
        ("(1, 2) NOT IN ((3, 4), (1, NULL))", "NULL"),
        ("(1, 2) NOT IN ((3, 4), (2, NULL))", "true"),
        ("((1, 2)) = ((1, 2)) AND 3 = 3", "true"),
    ] {
        assert_eq!(shell.rows(&format!("SELECT {comparison}")), [expected], "{comparison}");
    }
}

#[test]
fn delete_by_rows_with_null_removes_only_what_is_surely_equal() {
    let shell = Shell::with("CREATE TABLE r (a INT, b INT); INSERT INTO r VALUES (1, 1), (1, NULL), (2, 2), (NULL, 3)");
    assert_eq!(shell.run("DELETE FROM r WHERE (a, b) NOT IN ((1, 1), (7, 7))"), 2);
    assert_eq!(shell.rows("SELECT count(*) FROM r"), ["2"]);
    assert_eq!(shell.run("UPDATE r SET (a, b) = (5, 6) WHERE (a, b) = (1, 1)"), 1);
    assert_eq!(shell.rows("SELECT a, b FROM r WHERE (a, b) = (5, 6)"), ["5|6"]);
}

#[test]
fn a_row_elsewhere_is_refused() {
    let shell = Shell::with("CREATE TABLE r (a INT, b INT)");
    for query in [
        "SELECT (1, 2)",
        "SELECT (1, 2) = (1, 2, 3)",
        "SELECT (1, 2) = 1",
        "SELECT (a, b) IS NULL FROM r",
        "SELECT (a, b) IS DISTINCT FROM (1, 2) FROM r",
        "SELECT * FROM r WHERE (a, b) IN ((1, 2), 3)",
        "SELECT * FROM r ORDER BY (a, b)",
        "SELECT ROW(1, 2)",
    ] {
        shell.refuses(query, &["row value", "not supported"]);
    }
    shell.run("INSERT INTO r VALUES (1, 2), (1, 2), (1, 3)");
    assert_eq!(shell.rows("SELECT count(*) FROM r GROUP BY (a, b) ORDER BY 1"), ["1", "2"]);
}
