//! Statements, clauses and functions of `PostgreSQL` that come down to others: savepoints, TRUNCATE, CREATE TABLE AS,
//! FETCH FIRST, LIKE … ESCAPE.

use crate::shell::Shell;
use ishigaki_sql::Error;

#[test]
fn a_transaction_goes_back_to_its_savepoints() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1); SAVEPOINT a");
    shell.run("INSERT INTO t VALUES (2); SAVEPOINT b; INSERT INTO t VALUES (3); DELETE FROM t WHERE id = 1");
    shell.run("ROLLBACK TO SAVEPOINT b");
    assert_eq!(shell.rows("SELECT id FROM t ORDER BY id"), ["1", "2"]);
    shell.run("INSERT INTO t VALUES (4); ROLLBACK TO b");
    assert_eq!(shell.rows("SELECT id FROM t ORDER BY id"), ["1", "2"]);
    shell.run("ROLLBACK TO a; INSERT INTO t VALUES (5)");
    assert!(matches!(shell.error("ROLLBACK TO b"), Error::NoSuchSavepoint { name } if name == "b"));
    shell.run("COMMIT");
    assert_eq!(shell.reopen().rows("SELECT id FROM t ORDER BY id"), ["1", "5"]);
}

#[test]
fn a_released_savepoint_keeps_what_came_after_it_and_shows_the_one_it_hid() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY); BEGIN; SAVEPOINT s; INSERT INTO t VALUES (1)");
    shell.run("SAVEPOINT s; INSERT INTO t VALUES (2); RELEASE SAVEPOINT s");
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["2"]);
    shell.run("ROLLBACK TO s");
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["0"]);
    shell.run("RELEASE s");
    assert!(matches!(shell.error("RELEASE s"), Error::NoSuchSavepoint { .. }));
    shell.run("COMMIT");
}

#[test]
fn a_savepoint_is_of_one_transaction() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY)");
    for sql in ["SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"] {
        assert!(matches!(shell.error(sql), Error::NoTransaction), "{sql}");
    }
    shell.run("BEGIN; SAVEPOINT s; COMMIT; BEGIN");
    shell.refuses("ROLLBACK TO s", &["no such savepoint", "s"]);
    shell.run("ROLLBACK");
}

#[test]
fn tables_and_page_files_made_after_a_savepoint_go_with_it() {
    let shell = Shell::new();
    let create = format!("CREATE TABLE p (a INT) WITH (storage = 'paged', location = '{}')", shell.file("pages"));
    shell.run(&format!("BEGIN; SAVEPOINT s; {create}; SELECT count(*) FROM p; ROLLBACK TO s"));
    shell.refuses("SELECT * FROM p", &["p"]);
    shell.run(&format!("{create}; COMMIT; INSERT INTO p VALUES (1)"));
    assert_eq!(shell.rows("SELECT count(*) FROM p"), ["1"]);
}

#[test]
fn truncate_empties_tables_with_their_transaction() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE u (name TEXT)");
    shell.run(
        "INSERT INTO t VALUES (1), (2); INSERT INTO u VALUES ('x'); BEGIN; TRUNCATE t, u; INSERT INTO t VALUES (2)",
    );
    assert_eq!(shell.rows("SELECT id FROM t"), ["2"]);
    assert_eq!(shell.rows("SELECT count(*) FROM u"), ["0"]);
    shell.run("TRUNCATE TABLE t");
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["0"]);
    shell.run("ROLLBACK");
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["2"]);
    shell.refuses("TRUNCATE t, missing", &["no such table", "missing"]);
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["2"]);
    shell.run("TRUNCATE t; INSERT INTO t VALUES (7)");
    assert_eq!(shell.reopen().rows("SELECT id FROM t"), ["7"]);
}

#[test]
fn a_table_is_made_of_a_query() {
    let shell =
        Shell::with("CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(10,2)); INSERT INTO t VALUES (1, 2.5), (2, NULL)");
    let made = shell.run("CREATE TABLE u AS SELECT id, d * 2 AS twice FROM t ORDER BY id");
    assert_eq!(made, 2);
    assert_eq!(shell.rows("SELECT * FROM u ORDER BY id"), ["1|5.00", "2|NULL"]);
    shell.refuses("CREATE TABLE w AS SELECT id + 1 FROM t", &["no name", "AS name"]);
    shell.refuses("CREATE TABLE u AS SELECT 1 AS a", &["u", "exists"]);
    shell.refuses("CREATE TABLE w AS SELECT 1 / (id - 1) AS a FROM t", &["zero"]);
    shell.refuses("SELECT * FROM w", &["w"]);
    shell.refuses("CREATE TABLE w (a INT) AS SELECT 1 AS a", &["CREATE TABLE … AS with columns", "not supported"]);
}

#[test]
fn fetch_first_limits() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)");
    assert_eq!(shell.rows("SELECT id FROM t ORDER BY id FETCH FIRST 2 ROWS ONLY"), ["1", "2"]);
    assert_eq!(shell.rows("SELECT id FROM t ORDER BY id OFFSET 1 FETCH NEXT ROW ONLY"), ["2"]);
    shell.refuses("SELECT id FROM t ORDER BY id FETCH FIRST 2 ROWS WITH TIES", &["FETCH"]);
}

#[test]
fn like_knows_other_escapes() {
    let shell = Shell::new();
    let like = |operation: &str| shell.rows(&format!("SELECT {operation}")).remove(0);
    assert_eq!(like("'50%' LIKE '50!%' ESCAPE '!'"), "true");
    assert_eq!(like("'50x' LIKE '50!%' ESCAPE '!'"), "false");
    assert_eq!(like("'a_b' NOT LIKE 'a#_b' ESCAPE '#'"), "false");
    assert_eq!(like("'a!b' LIKE 'a!!b' ESCAPE '!'"), "true");
    assert_eq!(like(r"'a\b' LIKE 'a\b' ESCAPE ''"), "true");
    assert_eq!(like(r"'a\%' LIKE 'a\!%' ESCAPE '!'"), "true");
    assert_eq!(like(r"'A\X' ILIKE 'a\x' ESCAPE '!'"), "true");
}

#[test]
fn functions_have_their_names_of_postgresql() {
    let shell =
        Shell::with("CREATE TABLE t (a INT, b BOOLEAN); INSERT INTO t VALUES (1, true), (4, false), (NULL, NULL)");
    assert_eq!(shell.rows("SELECT every(b), variance(a) FROM t"), ["false|4.5"]);
    assert_eq!(shell.rows("SELECT mod(7, 2 + 2), mod(-7, 3), sign(-2)"), ["3|-1|-1.0"]);
    assert_eq!(shell.rows("SELECT length(gen_random_uuid())"), ["36"]);
}

#[test]
fn what_follows_is_distinct_from_and_its_operand_is_a_condition_of_its_own() {
    let shell =
        Shell::with("CREATE TABLE b (p BOOLEAN, q BOOLEAN, r BOOLEAN); INSERT INTO b VALUES (true, true, false)");
    assert!(shell.rows("SELECT p FROM b WHERE p IS DISTINCT FROM q AND r").is_empty());
    assert_eq!(shell.rows("SELECT p FROM b WHERE p IS NOT DISTINCT FROM q OR r"), ["true"]);
    assert_eq!(shell.run("DELETE FROM b WHERE p IS DISTINCT FROM q AND r"), 0);
}

#[test]
fn md5_and_width_bucket_answer_as_postgresql_does() {
    let shell = Shell::with(
        "CREATE TABLE n (x DECIMAL(6,3), y DOUBLE PRECISION, z INT, c TEXT);
         INSERT INTO n VALUES (0.024, 0.024, 0, 'Ōya'), (5.350, 5.35, 5, ''), (10.060, 10.06, 10, 'a'), (NULL, NULL, NULL, NULL), (-1.000, -1, -1, 'b')",
    );
    assert_eq!(
        shell.rows(r"SELECT md5('a'), md5('\x00ff'::BYTEA), md5(NULL)"),
        ["0cc175b9c0f1b6a831c399e269772661|d07d34efac6328007ad67c7e0a985e00|NULL"]
    );
    assert_eq!(
        shell.rows("SELECT md5(c) FROM n ORDER BY z NULLS FIRST").join(", "),
        "NULL, 92eb5ffee6ae2fec3ad71c777531578f, 1be0dcb11c19fa6cadcd7502514c7fca, d41d8cd98f00b204e9800998ecf8427e, 0cc175b9c0f1b6a831c399e269772661"
    );
    for (call, expected) in [
        ("width_bucket(x, 0.024, 10.06, 5)", "NULL, 0, 1, 3, 6"),
        ("width_bucket(x, 10.06, 0.024, 5)", "NULL, 6, 6, 3, 1"),
        ("width_bucket(y, 0.024, 10.06, 5)", "NULL, 0, 1, 3, 6"),
        ("width_bucket(y, 10, 0, 4)", "NULL, 5, 4, 2, 0"),
        ("width_bucket(z, 0, 10, 3)", "NULL, 0, 1, 2, 4"),
        ("width_bucket(x, 0, 10, z + 3)", "NULL, 0, 1, 5, 14"),
    ] {
        let rows = shell.rows(&format!("SELECT {call} FROM n ORDER BY z NULLS FIRST"));
        assert_eq!(rows.join(", "), expected, "{call}");
    }
    for call in [
        "width_bucket(x, 1, 1, 5)",
        "width_bucket(x, 1, 2, 0)",
        "width_bucket(y, 'NaN'::DOUBLE PRECISION, 2, 5)",
        "width_bucket(c, 1, 2, 3)",
        "md5(z)",
    ] {
        let error = shell.error(&format!("SELECT {call} FROM n")).to_string();
        assert!(error.contains("width_bucket") || error.contains("md5"), "{call}: {error}");
    }
}

#[test]
fn an_order_by_a_name_of_several_columns_is_an_error() {
    let shell = Shell::with(
        "CREATE TABLE o (id INT PRIMARY KEY, x INT); INSERT INTO o VALUES (1, 2), (2, 1);
         CREATE TABLE p (id INT PRIMARY KEY, x INT); INSERT INTO p VALUES (1, 2)",
    );
    for query in [
        "SELECT id AS a, x AS a FROM o ORDER BY a",
        "SELECT id AS \"A\", x + 1 AS \"A\" FROM o ORDER BY \"A\" DESC",
        "SELECT o.x, p.x FROM o CROSS JOIN p ORDER BY x",
        "SELECT id AS x, o.x FROM o ORDER BY 1, x",
        "SELECT id AS a, id AS a FROM o UNION ALL SELECT 1, 2 ORDER BY a",
        "SELECT * FROM (SELECT id AS a, x AS a FROM o ORDER BY a LIMIT 1) AS q",
    ] {
        let error = shell.error(query).to_string();
        assert!(error.contains("is ambiguous"), "{query}: {error}");
    }
    for (query, expected) in [
        ("SELECT x AS a, x AS a FROM o ORDER BY a", ["1|1", "2|2"]),
        ("SELECT x, o.x FROM o ORDER BY x", ["1|1", "2|2"]),
        ("SELECT id AS a, x AS a FROM o ORDER BY 2", ["2|1", "1|2"]),
        ("SELECT id AS a, x AS a FROM o ORDER BY x", ["2|1", "1|2"]),
        ("SELECT id AS x, x + 0 AS y FROM o ORDER BY x", ["1|2", "2|1"]),
    ] {
        assert_eq!(shell.rows(query), expected, "{query}");
    }
}

#[test]
fn no_text_shows_what_tells_columns_of_one_name_apart() {
    let shell = Shell::with("CREATE TABLE o (id INT PRIMARY KEY, x INT); INSERT INTO o VALUES (1, 2)");
    let error = shell.error("SELECT q.b FROM (SELECT id AS a, x AS a FROM o) AS q").to_string();
    assert!(error.contains("q.\"a\"") && !error.contains('\u{2063}'), "{error}");
    let plan = shell.rows("EXPLAIN SELECT id AS a, x AS a FROM o").join("\n");
    assert!(plan.contains("AS a") && !plan.contains('\u{2063}'), "{plan}");
    let plan = shell.rows("EXPLAIN ANALYZE SELECT id AS a, x AS a FROM o").join("\n");
    assert!(plan.contains("as a") && !plan.contains('\u{2063}'), "{plan}");
}

#[test]
fn expressions_that_are_planned_alike_have_columns_of_their_own() {
    let shell = Shell::with(
        "CREATE TABLE t (a INT, b INT, c TEXT); INSERT INTO t VALUES (1, 2, 'xa'), (2, 3, 'b'), (3, 1, NULL);
         CREATE TABLE u (a INT); INSERT INTO u VALUES (1), (2)",
    );
    for (query, expected) in [
        ("SELECT every(b > 1), bool_and(b > 1) FROM t", "false|false"),
        ("SELECT strpos(c, 'a'), position('a' IN c) FROM t ORDER BY a", "2|2, 0|0, NULL|NULL"),
        ("SELECT a IN (SELECT a FROM u), a IN (SELECT b FROM t) FROM t ORDER BY a", "true|true, true|true, false|true"),
        (
            "SELECT EXISTS (SELECT 1 FROM u), EXISTS (SELECT 1 FROM u WHERE a > 2), a FROM t ORDER BY a LIMIT 1",
            "true|false|1",
        ),
        (
            "SELECT x FROM (SELECT strpos(c, 'a') AS x, strpos(c, 'a'), position('a' IN c) FROM t) AS s ORDER BY x LIMIT 1",
            "0",
        ),
        ("SELECT mod(a, 2), a % 2 FROM t ORDER BY a LIMIT 1", "1|1"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn having_alone_makes_one_group_of_all_rows() {
    let shell = Shell::with("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)");
    for (query, expected) in [
        ("SELECT 1 FROM t HAVING 1 = 1", "1"),
        ("SELECT 1 FROM t WHERE false HAVING 1 = 1", "1"),
        ("SELECT 1 FROM t HAVING 1 = 2", ""),
        ("SELECT 1 FROM t HAVING NULL", ""),
        ("SELECT 'x' FROM t HAVING max(a) > 1", "x"),
        ("SELECT a FROM t GROUP BY a HAVING 1 = 1 ORDER BY a", "1, 2"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
    shell.error("SELECT a FROM t HAVING 1 = 1");
}

#[test]
fn a_with_may_have_the_name_of_one_around_it() {
    let shell = Shell::with("CREATE TABLE t (x INT); INSERT INTO t VALUES (7)");
    for (query, expected) in [
        ("WITH w AS (SELECT 1 AS x) SELECT * FROM (WITH w AS (SELECT 2 AS x) SELECT w.x FROM w) AS s, w", "2|1"),
        ("WITH w AS (SELECT 1 AS x) SELECT * FROM (WITH w AS (SELECT x + 1 AS x FROM w) SELECT x FROM w) AS s, w", "2|1"),
        ("WITH w AS (WITH w AS (SELECT 3 AS x) SELECT x + 1 AS x FROM w) SELECT x FROM w", "4"),
        ("WITH t AS (SELECT x + 1 AS x FROM t) SELECT x, (WITH t AS (SELECT 5 AS y) SELECT y FROM t) FROM t", "8|5"),
        (
            "WITH RECURSIVE w AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM w WHERE x < 3)
             SELECT max(x), (WITH RECURSIVE w (y) AS (SELECT 10 UNION ALL SELECT y + 1 FROM w WHERE y < 12) SELECT max(y) FROM w) FROM w",
            "3|12",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn a_volatile_query_of_with_is_named_once() {
    let shell = Shell::new();
    assert_eq!(shell.rows("WITH w AS (SELECT random() AS r) SELECT r >= 0 AND r < 1 FROM w"), ["true"]);
    assert_eq!(shell.rows("WITH w AS (SELECT 1 AS r) SELECT count(*) FROM w AS a, w AS b"), ["1"]);
    for query in [
        "WITH w AS (SELECT random() AS r) SELECT a.r = b.r FROM w AS a, w AS b",
        "WITH w AS (SELECT gen_random_uuid() AS r) SELECT (SELECT r FROM w) FROM w",
        "WITH w AS (SELECT random() AS r), v AS (SELECT r FROM w) SELECT a.r = b.r FROM v AS a, v AS b",
        "WITH w AS (SELECT random() AS r), v AS (SELECT r FROM w) SELECT v.r = w.r FROM v, w",
    ] {
        shell.refuses(query, &["WITH ", "named more than once"]);
    }
}

#[test]
fn bounds_of_between_symmetric_may_be_in_either_order() {
    let shell = Shell::with("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2), (3), (4)");
    assert_eq!(
        shell.rows("SELECT a BETWEEN SYMMETRIC 3 AND 2, a NOT BETWEEN SYMMETRIC 3 AND 2 FROM t ORDER BY a"),
        ["false|true", "true|false", "true|false", "false|true"]
    );
    assert_eq!(
        shell.rows("SELECT a FROM t WHERE a BETWEEN SYMMETRIC 4 AND 3 AND a > 3 OR a BETWEEN SYMMETRIC 1 AND NULL"),
        ["4"]
    );
    assert_eq!(shell.rows("SELECT NULL BETWEEN SYMMETRIC 1 AND 2"), ["NULL"]);
}

#[test]
fn times_need_no_seconds_and_intervals_may_have_a_time() {
    let shell =
        Shell::with("CREATE TABLE t (at TIMESTAMP); INSERT INTO t VALUES ('2024-01-01 10:00'), ('2024-01-01T10:01')");
    for (query, expected) in [
        ("SELECT TIMESTAMP '2024-01-01 10:00' = '2024-01-01 10:00:00'::TIMESTAMP", "true"),
        ("SELECT EXTRACT(MINUTE FROM at) FROM t WHERE at >= '2024-01-01 10:00' ORDER BY at", "0, 1"),
        ("SELECT count(*) FROM t WHERE at IN ('2024-01-01 10:01', '2024-01-01 10:02')", "1"),
        ("SELECT TIMESTAMP '2024-01-01 00:00' + INTERVAL '1 day 02:03:04'", "2024-01-02T02:03:04"),
        ("SELECT TIMESTAMP '2024-01-01 00:00' + CAST('1 02:03' AS INTERVAL)", "2024-01-02T02:03:00"),
        ("SELECT TIMESTAMP '2024-03-01 00:00' - INTERVAL '1-2'", "2023-01-01T00:00:00"),
        ("SELECT TIMESTAMP '2024-03-01 00:00' + INTERVAL '-00:00:01.5'", "2024-02-29T23:59:58.500"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn in_takes_rows_of_values_and_a_table_by_itself_is_a_query() {
    let shell = Shell::with("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 30), (2, 20), (3, 10)");
    assert_eq!(shell.rows("SELECT a FROM t WHERE a IN (VALUES (1), (2)) ORDER BY a"), ["1", "2"]);
    assert_eq!(shell.rows("SELECT a FROM t WHERE a NOT IN (VALUES (1), (2)) ORDER BY a"), ["3"]);
    assert_eq!(shell.rows("SELECT a FROM t WHERE (a, b) IN (VALUES (1, 30), (2, 21))"), ["1"]);
    assert_eq!(shell.rows("SELECT (SELECT sum(column1) FROM (VALUES (1), (2)) AS v)"), ["3"]);
    assert_eq!(shell.rows("TABLE t ORDER BY b LIMIT 2"), ["3|10", "2|20"]);
    assert_eq!(shell.rows("SELECT 1, 30 UNION TABLE t ORDER BY 1"), ["1|30", "2|20", "3|10"]);
    shell.run("CREATE TABLE u AS TABLE t");
    assert_eq!(shell.rows("SELECT count(*) FROM (TABLE u) AS s"), ["3"]);
    shell.error("INSERT INTO t TABLE u");
}

#[test]
fn an_insert_without_columns_may_give_the_first_ones_alone() {
    let shell =
        Shell::with("CREATE TABLE t (a INT, b INT DEFAULT 7, c TEXT); CREATE TABLE u (a INT NOT NULL, b INT NOT NULL)");
    shell.run(
        "INSERT INTO t VALUES (1), (2); INSERT INTO t VALUES (3, 4); INSERT INTO t SELECT a + 10 FROM t WHERE a < 3",
    );
    assert_eq!(
        shell.rows("SELECT * FROM t ORDER BY a"),
        ["1|7|NULL", "2|7|NULL", "3|4|NULL", "11|7|NULL", "12|7|NULL"]
    );
    shell.refuses("INSERT INTO t VALUES (1), (2, 3)", &["2 values for 1 columns"]);
    shell.refuses("INSERT INTO t VALUES (1, 2, 'x', 4)", &["4 values for 3 columns"]);
    shell.refuses("INSERT INTO t (a, b) VALUES (1)", &["1 values for 2 columns"]);
    shell.refuses("INSERT INTO t (a, b) SELECT 1", &["1 values for 2 columns"]);
    shell.error("INSERT INTO u VALUES (1)");
}

#[test]
fn hundreds_of_queries_are_united_in_reasonable_time() {
    let shell = Shell::with("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    let parts: Vec<String> = (0..300).map(|part| format!("SELECT a + {part} AS n FROM t")).collect();
    let query = format!("SELECT count(*), sum(n) FROM ({}) AS s", parts.join(" UNION ALL "));
    let began = std::time::Instant::now();
    assert_eq!(shell.rows(&query), ["300|45150"]);
    eprintln!("{:?}", began.elapsed());
}
