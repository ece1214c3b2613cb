//! Subqueries in conditions.

use crate::shell::Shell;

fn tables() -> Shell {
    Shell::with(
        "CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (NULL, 40);
         CREATE TABLE h (x INT); INSERT INTO h VALUES (1), (NULL)",
    )
}

#[test]
fn equal_to_any_is_in_and_unequal_to_all_is_not_in() {
    let shell = tables();
    assert_eq!(shell.rows("SELECT b FROM t WHERE a = ANY(SELECT a FROM t WHERE b = 10)"), ["10"]);
    assert_eq!(shell.rows("SELECT b FROM t WHERE a = SOME(SELECT a FROM t WHERE b = 10)"), ["10"]);
    assert_eq!(shell.rows("SELECT b FROM t WHERE a <> ALL(SELECT a FROM t WHERE b < 30) ORDER BY b"), ["30"]);
    assert_eq!(shell.rows("SELECT b FROM t WHERE NOT a = ANY(SELECT a FROM t WHERE b < 30) ORDER BY b"), ["30"]);
    assert!(shell.rows("SELECT b FROM t WHERE a <> ALL(SELECT x FROM h)").is_empty());
    assert_eq!(shell.rows("SELECT b FROM t WHERE a = ANY(ARRAY[2, 3]) ORDER BY b"), ["20", "30"]);
    assert_eq!(shell.run("UPDATE t SET b = 0 WHERE a = ANY(SELECT a FROM t WHERE b = 20)"), 1);
    assert_eq!(shell.run("DELETE FROM t WHERE a = ANY(SELECT a FROM t WHERE b = 10)"), 1);
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["3"]);
}

#[test]
fn other_comparisons_with_any_and_all_are_refused() {
    let shell = tables();
    for condition in [
        "a <> ANY(SELECT a FROM t)",
        "a = ALL(SELECT a FROM t)",
        "a > ANY(SELECT a FROM t)",
        "a <= ALL(SELECT a FROM t)",
        "a < SOME(SELECT x FROM h)",
        "a = ANY('{1}')",
    ] {
        shell.refuses(&format!("DELETE FROM t WHERE {condition}"), &["ANY", "EXISTS"]);
        shell.refuses(&format!("SELECT {condition} FROM t"), &["ANY", "EXISTS"]);
    }
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["4"]);
}

#[test]
fn in_a_subquery_is_refused_wherever_its_null_would_be_taken_for_false() {
    let shell = tables();
    let membership = "(a NOT IN (SELECT x FROM h))";
    for condition in [
        format!("{membership} = true"),
        format!("{membership} IS DISTINCT FROM false"),
        format!("CASE WHEN {membership} THEN false ELSE true END"),
        format!("coalesce({membership}, true)"),
        format!("NOT ({membership} AND b > 0)"),
        format!("{membership} OR b = 0"),
        format!("{membership} IS NULL"),
        format!("(b > 0) = {membership}"),
        "NOT (a = ANY(SELECT x FROM h) OR b = 0)".to_owned(),
    ] {
        shell.refuses(&format!("DELETE FROM t WHERE {condition}"), &["IN (subquery)", "EXISTS"]);
        shell.refuses(&format!("SELECT * FROM t WHERE {condition}"), &["IN (subquery)", "EXISTS"]);
        shell.refuses(&format!("SELECT a FROM t GROUP BY a, b HAVING {condition}"), &["IN (subquery)"]);
    }
    shell.refuses("SELECT a IN (SELECT x FROM h) FROM t", &["IN (subquery)"]);
    shell.refuses("SELECT * FROM t ORDER BY a IN (SELECT x FROM h)", &["IN (subquery)"]);
    shell.refuses("UPDATE t SET b = CASE WHEN a IN (SELECT x FROM h) THEN 1 END", &["IN (subquery)"]);
    shell.refuses("SELECT * FROM t JOIN h ON a IN (SELECT x FROM h)", &["IN (subquery)"]);
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["4"]);
    assert_eq!(shell.rows("SELECT b FROM t WHERE a IN (SELECT x FROM h) OR b = 30 ORDER BY b"), ["10", "30"]);
}

#[test]
fn a_condition_without_columns_takes_the_row_of_an_aggregate_away_and_not_the_rows_below_it() {
    let shell = tables();
    for nothing in [
        "SELECT c FROM (SELECT count(*) FROM t) AS d (c) WHERE (SELECT max(x) FROM h) = 7",
        "SELECT k FROM (SELECT 1 AS k, count(*) FROM t) AS d WHERE k = (SELECT max(x) + 1 FROM h)",
        "SELECT k FROM (SELECT 1 AS k, count(*) FROM t) AS d WHERE k = 2",
        "SELECT count(*) FROM t HAVING (SELECT max(x) FROM h) = 7",
        "SELECT c FROM (SELECT count(*) FROM t) AS d (c), h WHERE (SELECT max(x) FROM h) = 7",
        "SELECT c FROM (SELECT count(*) FROM t GROUP BY ROLLUP (a)) AS d (c) WHERE (SELECT max(x) FROM h) = 7",
    ] {
        assert!(shell.rows(nothing).is_empty(), "{nothing}");
    }
    assert_eq!(shell.rows("SELECT c FROM (SELECT count(*) FROM t) AS d (c) WHERE (SELECT max(x) FROM h) = 1"), ["4"]);
    let outer =
        "SELECT x, c FROM h LEFT JOIN (SELECT count(*) FROM t) AS d (c) ON (SELECT max(x) FROM h) = 7 WHERE x = 1";
    assert_eq!(shell.rows(outer), ["1|NULL"]);
    let kept =
        "DELETE FROM t WHERE a IN (SELECT 1 FROM (SELECT count(*) FROM t) AS d (c) WHERE (SELECT max(x) FROM h) = 7)";
    assert_eq!(shell.run(kept), 0);
    assert_eq!(
        shell.rows("SELECT (SELECT count(*) FROM h WHERE h.x = t.a HAVING count(*) < 9) FROM t WHERE b = 10"),
        ["1"]
    );
}
