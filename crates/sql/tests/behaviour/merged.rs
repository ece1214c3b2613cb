//! The columns that joins merge, columns of one name, and the names that an alias gives.

use crate::shell::Shell;

fn tables() -> Shell {
    Shell::with(
        "CREATE TABLE l (a INT, b INT); INSERT INTO l VALUES (1, 10), (2, 20), (NULL, 30);
         CREATE TABLE r (a INT, c TEXT); INSERT INTO r VALUES (2, 'x'), (3, 'y'), (NULL, 'z');
         CREATE TABLE s (a BIGINT, b INT, d INT); INSERT INTO s VALUES (3, 20, 7), (2, 20, 8), (5, 50, 9)",
    )
}

/// Queries, and what `PostgreSQL` 15 answers.
fn check(answers: &[(&str, &str)]) {
    let shell = tables();
    for (query, expected) in answers {
        assert_eq!(shell.rows(query).join(", "), *expected, "{query}");
    }
}

#[test]
fn the_merged_column_of_a_join_is_that_of_the_side_that_has_a_row() {
    check(&[
        ("SELECT * FROM l RIGHT JOIN r USING (a) ORDER BY c", "2|20|x, 3|NULL|y, NULL|NULL|z"),
        ("SELECT a FROM l FULL JOIN r USING (a) ORDER BY a", "1, 2, 3, NULL, NULL"),
        ("SELECT a + 1 FROM l FULL JOIN r USING (a) ORDER BY a + 1", "2, 3, 4, NULL, NULL"),
        ("SELECT a + 1 FROM l FULL JOIN r USING (a) ORDER BY a", "2, 3, 4, NULL, NULL"),
        ("SELECT DISTINCT a FROM l FULL JOIN r USING (a) ORDER BY a DESC", "NULL, 3, 2, 1"),
        (
            "SELECT * FROM l NATURAL FULL JOIN r ORDER BY a, b, c",
            "1|10|NULL, 2|20|x, 3|NULL|y, NULL|30|NULL, NULL|NULL|z",
        ),
        ("SELECT l.a, r.a, a FROM l NATURAL JOIN r", "2|2|2"),
        ("SELECT a, count(*) FROM l FULL JOIN r USING (a) GROUP BY a HAVING a IS NOT NULL ORDER BY 1", "1|1, 2|1, 3|1"),
        ("SELECT a, sum(b) OVER (ORDER BY a) FROM l FULL JOIN r USING (a) WHERE a > 1 ORDER BY a", "2|20, 3|20"),
        (
            "SELECT * FROM l FULL JOIN r USING (a) FULL JOIN s USING (a) ORDER BY a, l.b, c, d",
            "1|10|NULL|NULL|NULL, 2|20|x|20|8, 3|NULL|y|20|7, 5|NULL|NULL|50|9, NULL|30|NULL|NULL|NULL, NULL|NULL|z|NULL|NULL",
        ),
        ("SELECT * FROM l NATURAL FULL JOIN s ORDER BY a, b, d", "1|10|NULL, 2|20|8, 3|20|7, 5|50|9, NULL|30|NULL"),
        (
            "SELECT a, b FROM (l FULL JOIN r USING (a)) LEFT JOIN s USING (a, b) ORDER BY a, b",
            "1|10, 2|20, 3|NULL, NULL|30, NULL|NULL",
        ),
        (
            "SELECT * FROM (SELECT * FROM l FULL JOIN r USING (a)) AS x (k) ORDER BY k, b, c",
            "1|10|NULL, 2|20|x, 3|NULL|y, NULL|30|NULL, NULL|NULL|z",
        ),
        (
            "SELECT (SELECT count(*) FROM s WHERE s.a = k.a) FROM (SELECT a FROM l FULL JOIN r USING (a)) AS k ORDER BY 1",
            "0, 0, 0, 1, 1",
        ),
        (
            "SELECT a, (SELECT count(*) FROM s AS q WHERE q.d > a) FROM l FULL JOIN r USING (a) ORDER BY a",
            "1|3, 2|3, 3|3, NULL|3, NULL|3",
        ),
        (
            "SELECT c FROM l FULL JOIN r USING (a) WHERE EXISTS (SELECT 1 FROM (VALUES (2), (3)) AS v (n) WHERE n = a) ORDER BY c",
            "x, y",
        ),
        (
            "WITH w AS (SELECT a, b AS e FROM l) SELECT * FROM w NATURAL FULL JOIN r ORDER BY a, e, c",
            "1|10|NULL, 2|20|x, 3|NULL|y, NULL|30|NULL, NULL|NULL|z",
        ),
        ("SELECT b FROM l AS x NATURAL JOIN l AS y WHERE (1, x.a) <> (2, b) ORDER BY b", "10, 20"),
        ("SELECT b FROM l AS x NATURAL JOIN l AS y WHERE b > 5 ORDER BY b", "10, 20"),
        ("SELECT x.b FROM l AS x JOIN l AS y USING (a) WHERE a = 2", "20"),
        ("SELECT d FROM l JOIN s ON d = 8 AND l.a = 2 FULL JOIN (SELECT 8 AS d) AS q USING (d)", "8"),
        ("SELECT a FROM l UNION SELECT a FROM l FULL JOIN r USING (a) ORDER BY a", "1, 2, 3, NULL"),
        (
            "SELECT t.a FROM r FULL JOIN (SELECT a, a AS a2 FROM s) AS t USING (a) WHERE a IN (SELECT a FROM l) ORDER BY a",
            "2",
        ),
        ("SELECT a FROM r LEFT JOIN l USING (a) WHERE a = (SELECT max(a) FROM l NATURAL FULL JOIN s)", ""),
        ("SELECT string_agg(c, ',' ORDER BY a) FROM l FULL JOIN r USING (a)", "x,y,z"),
    ]);
}

#[test]
fn several_columns_may_have_one_name() {
    check(&[
        ("SELECT l.*, l.* FROM l ORDER BY l.a", "1|10|1|10, 2|20|2|20, NULL|30|NULL|30"),
        ("SELECT *, a FROM l ORDER BY b", "1|10|1, 2|20|2, NULL|30|NULL"),
        ("SELECT a AS x, b AS x FROM l ORDER BY 1", "1|10, 2|20, NULL|30"),
        ("SELECT * FROM (SELECT a AS x, b AS x FROM l) AS d ORDER BY 1", "1|10, 2|20, NULL|30"),
        ("SELECT * FROM (SELECT * FROM l JOIN r ON l.a = r.a) AS d", "2|20|2|x"),
        ("SELECT * FROM (SELECT l.*, l.* FROM l) AS d ORDER BY 1", "1|10|1|10, 2|20|2|20, NULL|30|NULL|30"),
        ("SELECT count(*) FROM (SELECT 1, 1, a, a FROM l) AS d", "3"),
        ("SELECT l.a, r.a FROM l JOIN r ON l.a = r.a ORDER BY r.a", "2|2"),
        (
            "SELECT DISTINCT l.a, r.a FROM l, r ORDER BY r.a, l.a",
            "1|2, 2|2, NULL|2, 1|3, 2|3, NULL|3, 1|NULL, 2|NULL, NULL|NULL",
        ),
        ("SELECT 5, min(a) FROM l GROUP BY b ORDER BY 1, 2", "5|1, 5|2, 5|NULL"),
        ("SELECT DISTINCT 5, b FROM l ORDER BY 1, 2", "5|10, 5|20, 5|30"),
        ("SELECT DISTINCT c3, d7.c3 FROM (SELECT a FROM l) AS d7 (c3) ORDER BY 1", "1|1, 2|2, NULL|NULL"),
        ("(SELECT 1, -6) UNION (SELECT 2, a FROM l) ORDER BY 1, 2", "1|-6, 2|1, 2|2, 2|NULL"),
        ("SELECT * FROM l ORDER BY a, b", "1|10, 2|20, NULL|30"),
    ]);
}

#[test]
fn an_alias_names_the_first_columns() {
    check(&[
        ("SELECT v.n FROM (VALUES (1, 'a'), (2, 'b')) AS v (n) ORDER BY column2 DESC", "2, 1"),
        ("SELECT k, b FROM l AS x (k) ORDER BY b", "1|10, 2|20, NULL|30"),
    ]);
}

#[test]
fn a_name_that_means_several_columns_is_an_error() {
    let shell = tables();
    for query in [
        "SELECT x FROM (SELECT a AS x, b AS x FROM l) AS d",
        "WITH d AS (SELECT a AS x, b AS x FROM l) SELECT x FROM d",
        "SELECT b FROM l AS x JOIN l AS y USING (a)",
        "SELECT a FROM l JOIN r USING (a), s",
        "SELECT a FROM l JOIN r USING (a) JOIN s ON a = s.a",
        "SELECT 1 FROM l JOIN r USING (c)",
        "SELECT 1 FROM (l JOIN s ON l.a = s.a) FULL JOIN r USING (a)",
    ] {
        shell.refuses(query, &[]);
    }
    shell.refuses("CREATE TABLE two AS SELECT a, b AS a FROM l", &["a"]);
}

#[test]
fn the_columns_of_a_result_are_shown_under_the_names_that_the_query_gives() {
    let shell = tables();
    for (query, expected) in [
        ("SELECT a, a FROM l", "a a"),
        ("SELECT * FROM (SELECT a, b AS a FROM l) AS d", "a a"),
        ("SELECT * FROM l NATURAL FULL JOIN r", "a b c"),
        ("SELECT a FROM l FULL JOIN r USING (a)", "a"),
        ("SELECT l.a, r.a, a FROM l RIGHT JOIN r USING (a)", "a a a"),
    ] {
        let batches = shell.session.query_blocking(query).expect("answers");
        let names: Vec<_> = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names.join(" "), expected, "{query}");
    }
    let file = shell.file("out.csv");
    shell.run(&format!("COPY (SELECT a, a FROM l WHERE b = 10) TO '{file}' (FORMAT csv, HEADER)"));
    assert_eq!(std::fs::read_to_string(file).expect("reads"), "a,a\n1,1\n");
}

#[test]
fn what_changes_rows_knows_merged_columns_and_columns_of_one_name() {
    let shell = tables();
    assert_eq!(shell.run("UPDATE l SET b = 0 FROM r FULL JOIN s USING (a) WHERE l.a = s.a AND d = 8 AND c = 'x'"), 1);
    assert_eq!(shell.run("DELETE FROM l USING r FULL JOIN s USING (a) WHERE l.a = 2 AND d = 8"), 1);
    assert_eq!(shell.run("INSERT INTO l (a, b) SELECT l.a, a FROM l WHERE a = 1"), 1);
    assert_eq!(
        shell.run("INSERT INTO l (SELECT count(a), count(*) FROM l) EXCEPT (SELECT count(*), min(a) FROM r)"),
        1
    );
    assert_eq!(shell.rows("SELECT a, b FROM l ORDER BY a, b"), ["1|1", "1|10", "2|3", "NULL|30"]);
}

#[test]
fn a_constant_at_a_position_of_order_by_orders_nothing() {
    let shell = tables();
    assert_eq!(shell.rows("SELECT 5, min(a) FROM l GROUP BY b ORDER BY 1, 2"), ["5|1", "5|2", "5|NULL"]);
    assert_eq!(
        shell.rows(r"SELECT '\x61'::BYTEA, min(a) FROM l GROUP BY b ORDER BY 1, 2"),
        ["61|1", "61|2", "61|NULL"]
    );
}

#[test]
fn an_alias_of_a_join_hides_its_tables_and_has_their_columns() {
    check(&[
        (
            "SELECT * FROM ((SELECT a, b FROM l) AS p FULL JOIN (SELECT a, c FROM r) AS q USING (a)) AS j ORDER BY 1, 2, 3",
            "1|10|NULL, 2|20|x, 3|NULL|y, NULL|30|NULL, NULL|NULL|z",
        ),
        ("SELECT j.a, a FROM (l FULL JOIN r USING (a)) AS j ORDER BY 1", "1|1, 2|2, 3|3, NULL|NULL, NULL|NULL"),
        ("SELECT j.* FROM (l JOIN r USING (a)) AS j", "2|20|x"),
        ("SELECT * FROM (l JOIN r ON l.a = r.a) AS j", "2|20|2|x"),
        ("SELECT b, c FROM (l JOIN r ON l.a = r.a) j WHERE j.b > 1", "20|x"),
        ("SELECT x, y, c FROM (l JOIN r USING (a)) j (x, y)", "2|20|x"),
        ("SELECT j.a, s.d FROM s, (l JOIN r USING (a)) j WHERE j.a = s.a", "2|8"),
        ("SELECT j.c, k.d FROM (l JOIN r USING (a)) j JOIN (s JOIN l USING (b)) k ON k.b = j.b ORDER BY 2", "x|7, x|8"),
        ("SELECT count(*) FROM (l CROSS JOIN r) j", "9"),
        ("SELECT x, count(*) FROM (l FULL JOIN s USING (a)) j (x) GROUP BY x ORDER BY x", "1|1, 2|1, 3|1, 5|1, NULL|1"),
        ("SELECT x, d FROM (l JOIN s USING (a)) j (x)", "2|8"),
        ("SELECT * FROM (l JOIN s USING (a)) j (x)", "2|20|20|8"),
    ]);
    let shell = tables();
    for query in [
        "SELECT a FROM (l JOIN r ON l.a = r.a) j",
        "SELECT j.a FROM (l JOIN r ON l.a = r.a) j",
        "SELECT l.a FROM (l JOIN r USING (a)) j",
        "SELECT l.b FROM (l JOIN r USING (a)) j",
        "SELECT b FROM (l JOIN s USING (a)) j (x)",
    ] {
        shell.error(query);
    }
}
