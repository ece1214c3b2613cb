//! What would be passed over in silence is refused, and what has a right form gets it.

use crate::shell::Shell;

fn two() -> Shell {
    Shell::with(
        "CREATE TABLE l (k INT, a INT); INSERT INTO l VALUES (1, 1), (2, 2);
         CREATE TABLE r (k INT, b INT); INSERT INTO r VALUES (2, 2), (3, 3)",
    )
}

#[test]
fn except_all_and_intersect_all_count_rows() {
    let shell = Shell::with(
        "CREATE TABLE l (k INT, a INT); INSERT INTO l VALUES (1, 1), (1, 1), (1, 1), (2, NULL), (2, NULL), (3, 3);
         CREATE TABLE r (k INT, a INT); INSERT INTO r VALUES (1, 1), (2, NULL), (2, NULL), (2, NULL), (3, 4)",
    );
    let rows =
        |operation: &str| shell.rows(&format!("SELECT k, a FROM l {operation} SELECT k, a FROM r ORDER BY 1, 2"));
    assert_eq!(rows("EXCEPT ALL"), ["1|1", "1|1", "3|3"]);
    assert_eq!(rows("INTERSECT ALL"), ["1|1", "2|NULL", "2|NULL"]);
    assert_eq!(rows("EXCEPT"), ["3|3"]);
    assert_eq!(rows("INTERSECT"), ["1|1", "2|NULL"]);
    let counted = "SELECT count(*) FROM (SELECT k FROM l EXCEPT ALL SELECT k FROM r EXCEPT ALL SELECT 1) AS q";
    assert_eq!(shell.rows(counted), ["1"]);
    assert_eq!(
        shell.rows("SELECT k FROM l WHERE k IN (SELECT k FROM l INTERSECT ALL SELECT k FROM r) ORDER BY k").len(),
        6
    );
    let each = "SELECT DISTINCT k, (SELECT count(*) FROM (SELECT a FROM l AS x WHERE x.k <= l.k EXCEPT ALL SELECT a FROM r) AS q)
                FROM l ORDER BY k";
    assert_eq!(shell.rows(each), ["1|2", "2|2", "3|3"]);
    assert_eq!(shell.rows("SELECT count(*) FROM (SELECT k FROM l UNION ALL SELECT k FROM r)"), ["11"]);
}

#[test]
fn similar_to_matches_the_whole_text_by_its_own_pattern() {
    let shell = Shell::new();
    for (condition, expected) in [
        ("'abc' SIMILAR TO 'b'", "false"),
        ("'abc' SIMILAR TO '%b%'", "true"),
        ("'abc' SIMILAR TO 'a_c'", "true"),
        ("'abc' SIMILAR TO 'a.c'", "false"),
        ("'abc' SIMILAR TO '(abc|d)+'", "true"),
        ("'a%' SIMILAR TO 'a\\%'", "true"),
        ("'ab' SIMILAR TO 'a\\%'", "false"),
        ("'a%' SIMILAR TO 'a#%' ESCAPE '#'", "true"),
        ("'abc' NOT SIMILAR TO 'b'", "true"),
        ("NULL SIMILAR TO 'b'", "NULL"),
        ("'a\nb' SIMILAR TO 'a_b'", "true"),
    ] {
        assert_eq!(shell.rows(&format!("SELECT {condition}")), [expected], "{condition}");
    }
    let shell = Shell::with("CREATE TABLE p (x TEXT); INSERT INTO p VALUES ('a')");
    shell.refuses("SELECT 'a' SIMILAR TO x FROM p", &["SIMILAR TO"]);
}

#[test]
fn a_call_of_which_a_part_would_be_ignored_is_refused() {
    let shell = two();
    for (call, word) in [
        ("count(DISTINCT l.*)", "all columns"),
        ("count(l.*)", "all columns"),
        ("abs(k) FILTER (WHERE k > 1)", "FILTER on abs"),
        ("upper('a') FILTER (WHERE k > 1)", "FILTER on upper"),
        ("lower(DISTINCT 'A')", "DISTINCT or ALL in lower"),
        ("row_number() FILTER (WHERE k > 1) OVER (ORDER BY k)", "FILTER on row_number"),
        ("lag(k, NULL) OVER (ORDER BY k)", "whole number"),
        ("lead(k, NULL::INT) OVER (ORDER BY k)", "whole number"),
        ("to_char(DATE '2024-01-01', 'YYYY')", "to_char"),
        ("to_date('01.02.2024', 'DD.MM.YYYY')", "to_date"),
        ("to_timestamp('2024', 'YYYY')", "to_timestamp"),
    ] {
        shell.refuses(&format!("SELECT {call} FROM l"), &[word, "not supported"]);
    }
    assert_eq!(shell.rows("SELECT count(DISTINCT k) FILTER (WHERE k > 1), count(*) FROM l"), ["1|2"]);
    assert_eq!(shell.rows("SELECT lag(k, 1, 0) OVER (ORDER BY k) FROM l"), ["0", "1"]);
    assert_eq!(shell.rows("SELECT lead(k, -1) OVER (ORDER BY k) FROM l"), ["NULL", "1"]);
}
