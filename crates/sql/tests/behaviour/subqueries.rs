//! Subqueries in conditions.

use std::sync::Arc;

use ishigaki_scan::TallyPages;
use ishigaki_sql::{Database, Settings};

use crate::shell::{Shell, settings};

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
fn any_and_all_of_an_array_that_is_not_written_out_are_refused() {
    let shell = tables();
    for condition in ["a = ANY('{1}')", "a < ALL('{1}')"] {
        shell.refuses(&format!("DELETE FROM t WHERE {condition}"), &["ANY", "EXISTS"]);
        shell.refuses(&format!("SELECT {condition} FROM t"), &["ANY", "EXISTS"]);
    }
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["4"]);
}

/// `t.b` with what an expression gives for each row; `b` is not NULL and sorts.
fn values(shell: &Shell, expression: &str) -> Vec<String> {
    shell.rows(&format!("SELECT {expression} FROM t ORDER BY b"))
}

#[test]
fn comparisons_with_any_and_all_are_those_of_three_values() {
    let shell = tables();
    for (expression, expected) in [
        ("a > ANY(SELECT a FROM t)", ["NULL", "true", "true", "NULL"]),
        ("a > ANY(SELECT a FROM t WHERE b < 30)", ["false", "true", "true", "NULL"]),
        ("a <> ANY(SELECT x FROM h)", ["NULL", "true", "true", "NULL"]),
        ("a = ALL(SELECT x FROM h)", ["NULL", "false", "false", "NULL"]),
        ("a <= ALL(SELECT a FROM t WHERE b < 40)", ["true", "false", "false", "NULL"]),
        ("a < ALL(SELECT x FROM h WHERE x > 7)", ["true", "true", "true", "true"]),
        ("a < SOME(SELECT x FROM h WHERE x > 7)", ["false", "false", "false", "false"]),
        // A row whose column can not be equal is no match, whatever the other one is.
        ("(a, b) = ANY(SELECT a, b FROM t WHERE b < 30)", ["true", "true", "false", "false"]),
        ("(a, b) IN (SELECT x, 10 FROM h)", ["true", "false", "false", "false"]),
        ("(b, a) IN (SELECT 20, x FROM h)", ["false", "NULL", "false", "false"]),
    ] {
        assert_eq!(values(&shell, expression), expected, "{expression}");
    }
}

#[test]
fn in_a_subquery_has_three_values_wherever_it_stands() {
    let shell = tables();
    assert_eq!(values(&shell, "a IN (SELECT x FROM h)"), ["true", "NULL", "NULL", "NULL"]);
    assert_eq!(values(&shell, "a NOT IN (SELECT x FROM h)"), ["false", "NULL", "NULL", "NULL"]);
    assert_eq!(values(&shell, "a IN (SELECT x FROM h WHERE x = 1)"), ["true", "false", "false", "NULL"]);
    assert_eq!(values(&shell, "a IN (SELECT x FROM h WHERE x > 1)"), ["false", "false", "false", "false"]);
    assert_eq!(values(&shell, "a NOT IN (SELECT x FROM h WHERE x * 10 < b)"), ["true", "true", "true", "NULL"]);
    let membership = "(a NOT IN (SELECT x FROM h))";
    for (condition, left) in [
        (format!("{membership} = true"), 4),
        (format!("{membership} IS DISTINCT FROM false"), 1),
        (format!("CASE WHEN {membership} THEN false ELSE true END"), 0),
        (format!("coalesce({membership}, true)"), 1),
        (format!("NOT ({membership} AND b > 0)"), 3),
        (format!("{membership} OR b = 20"), 3),
        (format!("{membership} IS NULL"), 1),
        (format!("(b > 0) = {membership}"), 4),
        ("NOT (a = ANY(SELECT x FROM h) OR b = 0)".to_owned(), 4),
    ] {
        shell.run(&format!("BEGIN; DELETE FROM t WHERE {condition}"));
        assert_eq!(shell.rows("SELECT count(*) FROM t"), [left.to_string()], "{condition}");
        shell.run("ROLLBACK");
        assert_eq!(shell.rows(&format!("SELECT b FROM t WHERE {condition}")).len(), 4 - left, "{condition}");
    }
    assert_eq!(
        shell.rows("SELECT a FROM t GROUP BY a, b HAVING (a IN (SELECT x FROM h)) IS NULL ORDER BY a"),
        ["2", "3", "NULL"]
    );
    assert_eq!(shell.rows("SELECT b FROM t ORDER BY a IN (SELECT x FROM h WHERE x = 1), b"), ["20", "30", "10", "40"]);
    assert_eq!(shell.rows("SELECT t.b, h.x FROM t JOIN h ON a IN (SELECT a FROM t WHERE a = h.x)"), ["10|1"]);
    assert_eq!(shell.run("UPDATE t SET b = CASE WHEN a IN (SELECT x FROM h) THEN 1 ELSE b END"), 4);
    assert_eq!(shell.rows("SELECT b FROM t ORDER BY b"), ["1", "20", "30", "40"]);
    assert_eq!(shell.rows("SELECT b FROM t WHERE a IN (SELECT x FROM h) OR b = 30 ORDER BY b"), ["1", "30"]);
}

#[test]
fn null_is_not_outside_of_a_list_that_has_a_row() {
    let shell = tables();
    for left in ["NULL::INT", "(a - NULL::INT)", "CASE WHEN b > 0 THEN NULL::INT END"] {
        assert!(shell.rows(&format!("SELECT b FROM t WHERE {left} NOT IN (SELECT 0 FROM h)")).is_empty(), "{left}");
        assert_eq!(shell.run(&format!("DELETE FROM t WHERE NOT {left} IN (SELECT 0 FROM h)")), 0, "{left}");
        assert_eq!(shell.rows(&format!("SELECT b FROM t WHERE {left} NOT IN (SELECT 0 FROM h WHERE x > 7)")).len(), 4);
    }
}

/// A database that plans as for processes that share nothing, and runs the plans itself.
fn in_pieces() -> Shell {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let settings = Settings { distribute: Some(Arc::new(TallyPages)), ..settings() };
    let database = Database::open(directory.path().join("data"), settings).expect("opens");
    let session = database.session();
    Shell { directory, database, session }
}

#[test]
fn a_scalar_subquery_of_two_rows_is_an_error_also_in_pieces() {
    for shell in [Shell::new(), in_pieces()] {
        shell.run("CREATE TABLE k (id INT PRIMARY KEY, a INT); INSERT INTO k VALUES (1, 10), (2, 20)");
        for statement in [
            "SELECT (SELECT a FROM k)",
            "SELECT id, (SELECT a FROM k WHERE id > 0) FROM k",
            "SELECT id FROM k WHERE a = (SELECT a FROM k)",
            "SELECT id FROM k WHERE id = 1 OR a > (SELECT a FROM k)",
            "SELECT max(a) + (SELECT a FROM k) FROM k",
            "SELECT id FROM k GROUP BY id HAVING max(a) = (SELECT a FROM k)",
            "UPDATE k SET a = (SELECT a FROM k)",
            "DELETE FROM k WHERE a = (SELECT a FROM k)",
            "INSERT INTO k SELECT 3, (SELECT a FROM k)",
        ] {
            let error = shell.error(statement).to_string();
            assert!(error.contains("more than one row"), "{statement}: {error}");
        }
        assert_eq!(shell.rows("SELECT * FROM k ORDER BY id"), ["1|10", "2|20"]);
        assert_eq!(shell.rows("SELECT id FROM k WHERE a = (SELECT a FROM k WHERE id = 2)"), ["2"]);
        assert_eq!(shell.rows("SELECT (SELECT a FROM k WHERE id = 3), (SELECT max(a) FROM k)"), ["NULL|20"]);
        assert_eq!(
            shell.rows("SELECT id, (SELECT a FROM k ORDER BY id LIMIT 1) AS f FROM k ORDER BY id"),
            ["1|10", "2|10"]
        );
        assert_eq!(shell.run("UPDATE k SET a = (SELECT a FROM k WHERE id = 1)"), 2);
    }
}

#[test]
fn a_scalar_subquery_without_a_row_is_null_whatever_its_column_is() {
    let shell = Shell::with(
        "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2); CREATE TABLE e (a INTEGER); \
         CREATE VIEW five AS SELECT 5 AS x FROM e LIMIT 1",
    );
    for query in [
        "SELECT 5 FROM e LIMIT 1",
        "SELECT 5 FROM t LIMIT 0",
        "SELECT 5 FROM t LIMIT 1 OFFSET 2",
        "SELECT 5 FROM t ORDER BY 1 LIMIT 1 OFFSET 2",
        "SELECT 1 WHERE false",
        "SELECT count(*) FROM t HAVING false",
        "SELECT 1 FROM e UNION ALL SELECT 2 FROM e LIMIT 1",
        "SELECT row_number() OVER () FROM e LIMIT 1",
        "SELECT x FROM five",
        "SELECT x FROM (SELECT 5 AS x FROM e LIMIT 1) AS d",
        "WITH c AS (SELECT 5 AS x FROM e LIMIT 1) SELECT x FROM c",
        "SELECT 5 FROM e FETCH FIRST ROW ONLY",
    ] {
        assert_eq!(shell.rows(&format!("SELECT ({query}) IS NULL, ({query}) IS NOT NULL")), ["true|false"], "{query}");
        assert_eq!(shell.rows(&format!("SELECT coalesce(({query}), 7)")), ["7"], "{query}");
        assert_eq!(shell.rows(&format!("SELECT ({query})")), ["NULL"], "{query}");
        let kept = format!("SELECT a FROM t WHERE CASE WHEN ({query}) = 5 THEN false ELSE true END ORDER BY a");
        assert_eq!(shell.rows(&kept), ["1", "2"], "{query}");
        assert_eq!(shell.rows(&format!("SELECT a FROM t WHERE NOT (({query}) = 5)")), [""; 0], "{query}");
        shell.run(&format!("DELETE FROM t WHERE ({query}) IS NOT NULL"));
        shell.run(&format!("UPDATE t SET a = 9 WHERE ({query}) IS NOT NULL"));
        assert_eq!(shell.rows("SELECT a FROM t ORDER BY a"), ["1", "2"], "{query}");
    }
    // One that has a row is what it was.
    for (query, value) in [("SELECT count(*) FROM e", "0"), ("SELECT 5 FROM t LIMIT 1", "5"), ("SELECT 5", "5")] {
        assert_eq!(shell.rows(&format!("SELECT ({query}), ({query}) IS NULL")), [format!("{value}|false")], "{query}");
    }
}

#[test]
fn rows_without_columns_exist_and_are_no_values() {
    let shell = Shell::with("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2); CREATE TABLE e (a INTEGER)");
    assert_eq!(
        shell.rows("SELECT EXISTS (SELECT FROM t), EXISTS (SELECT FROM e), NOT EXISTS (SELECT FROM t)"),
        ["true|false|false"]
    );
    assert_eq!(shell.rows("SELECT a FROM t WHERE EXISTS (SELECT FROM t AS o WHERE o.a > t.a)"), ["1"]);
    assert_eq!(shell.rows("SELECT EXISTS (SELECT FROM t LIMIT 0)"), ["false"]);
    for query in [
        "SELECT (SELECT FROM t)",
        "SELECT a FROM t WHERE a IN (SELECT FROM t)",
        "SELECT a FROM t WHERE a = (SELECT FROM e)",
    ] {
        shell.refuses(query, &["without columns", "EXISTS"]);
    }
}

#[test]
fn a_case_of_truths_computes_what_it_needs_alone() {
    let shell = Shell::with(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, b INTEGER, s TEXT); INSERT INTO t VALUES (1, 1, '7'), (2, 0, 'x'), (3, 20, NULL)",
    );
    for (case, expected) in [
        ("CASE WHEN b <> 0 THEN 10 / b > 5 ELSE false END", "true, false, false"),
        ("CASE WHEN b <> 0 THEN 10 / b > 5 END", "true, NULL, false"),
        ("CASE WHEN b = 0 THEN true ELSE 10 / b > 5 END", "true, true, false"),
        ("CASE WHEN b = 0 THEN NULL WHEN b = 1 THEN true ELSE 10 / b > 5 END", "true, NULL, false"),
        ("CASE WHEN s <> 'x' THEN s::INTEGER = 7 ELSE false END", "true, false, false"),
        ("NOT CASE WHEN b <> 0 THEN 10 % b = 0 ELSE true END", "false, false, true"),
        ("CASE WHEN b = 0 THEN false WHEN 10 / b > 5 THEN true ELSE false END", "true, false, false"),
    ] {
        assert_eq!(shell.rows(&format!("SELECT {case} FROM t ORDER BY id")).join(", "), expected, "{case}");
        let count = expected.split(", ").filter(|value| *value == "true").count().to_string();
        assert_eq!(shell.rows(&format!("SELECT count(*) FROM t WHERE {case}")), [count], "{case}");
    }
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

#[test]
fn an_aggregate_of_the_query_around_a_subquery_is_refused() {
    let shell = Shell::with("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2), (NULL)");
    for sql in ["SELECT (SELECT count(t.a)) FROM t", "SELECT (SELECT sum(t.a) FROM t AS u LIMIT 1) FROM t"] {
        shell.refuses(sql, &["an aggregate in a subquery"]);
    }
    assert_eq!(shell.rows("SELECT (SELECT sum(t.a + u.a) FROM t AS u) FROM t ORDER BY 1"), ["5", "7", "NULL"]);
    shell.refuses("SELECT generate_series(1, 3)", &["generate_series", "FROM"]);
}

#[test]
fn not_exists_binds_as_every_not() {
    let shell = Shell::with("CREATE TABLE t (k INT); INSERT INTO t VALUES (1); CREATE TABLE none (k INT)");
    for (condition, rows) in [
        ("NOT EXISTS (SELECT 1 FROM none) BETWEEN SYMMETRIC false AND true", &[][..]),
        ("NOT EXISTS (SELECT 1 FROM none) = true", &["1"]),
        ("NOT EXISTS (SELECT 1 FROM t) IN (false)", &["1"]),
        ("NOT EXISTS (SELECT 1 FROM none) IS NULL", &["1"]),
        ("NOT EXISTS (SELECT 1 FROM none)", &["1"]),
        ("NOT EXISTS (SELECT 1 FROM t) OR k = 1", &["1"]),
    ] {
        assert_eq!(shell.rows(&format!("SELECT k FROM t WHERE {condition}")), rows, "{condition}");
    }
}

#[test]
fn comparisons_with_the_elements_of_an_array_are_made_one_by_one() {
    let shell = Shell::with("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (-15), (0), (7)");
    for (condition, expected) in [
        ("a > ALL (ARRAY[-10, -20])", "false, true, true"),
        ("a < ANY (ARRAY[-10, 5])", "true, true, false"),
        ("a <> ANY (ARRAY[0])", "true, false, true"),
        ("a = ALL (ARRAY[0, a])", "false, true, false"),
        ("a >= ANY (ARRAY[NULL, 3])", "NULL, NULL, true"),
        ("a <= ALL (ARRAY[NULL, 3])", "NULL, NULL, false"),
        ("NOT a + 1 > SOME (ARRAY[a + 2, 7.5])", "true, true, false"),
    ] {
        assert_eq!(shell.rows(&format!("SELECT {condition} FROM t ORDER BY a")).join(", "), expected, "{condition}");
    }
}

#[test]
fn a_subquery_of_no_row_is_null_whatever_its_constants_come_to() {
    let shell = Shell::with("CREATE TABLE e (a INT)");
    for value in [
        "greatest(12.34, -2.25)",
        "greatest(1.5, 2)",
        "coalesce(NULL, 5)",
        "12.34",
        "CAST(1.5 AS DECIMAL(5, 3))",
        "abs(-3)",
        "a",
    ] {
        for (rest, expected) in
            [("FROM e LIMIT 1", true), ("FROM e", true), ("FROM (VALUES (1)) AS v (a) LIMIT 1", false)]
        {
            let query = format!("SELECT (SELECT {value} {rest}) IS NULL");
            assert_eq!(shell.rows(&query), [expected.to_string()], "{query}");
            let query = format!("SELECT (SELECT {value} {rest})");
            assert_eq!(shell.rows(&query)[0] == "NULL", expected, "{query}");
        }
    }
}

#[test]
fn numbers_of_another_type_are_found_in_a_subquery_that_needs_them_as_they_are() {
    let shell = Shell::with(
        "CREATE TABLE t (a BIGINT, s SMALLINT, f REAL); CREATE TABLE u (k INT);
         INSERT INTO t VALUES (1, 1, 1), (3, 3, 3), (NULL, NULL, NULL); INSERT INTO u VALUES (1), (2)",
    );
    for column in ["a", "s", "f"] {
        for (condition, expected) in [
            (format!("{column} IN (SELECT k FROM u WHERE NOT k > {column})"), "true, false, false"),
            (
                format!("{column} IN (SELECT u.k FROM u WHERE u.k IS NOT DISTINCT FROM t.{column})"),
                "true, false, false",
            ),
            (format!("{column} NOT IN (SELECT k FROM u WHERE k <= {column})"), "false, true, true"),
            (format!("{column} IN (SELECT k FROM u)"), "true, false, NULL"),
        ] {
            let query = format!("SELECT {condition} FROM t ORDER BY a");
            assert_eq!(shell.rows(&query).join(", "), expected, "{query}");
            let query = format!("SELECT count(*) FROM t WHERE {condition}");
            let count = expected.split(", ").filter(|truth| *truth == "true").count();
            assert_eq!(shell.rows(&query), [count.to_string()], "{query}");
        }
    }
}
