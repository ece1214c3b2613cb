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
